"""Fetching Kafka: what is wrong is named, nothing runs that is not on the list. No network is used here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import kafka_jars
from tests.interop.kafka_jars import Jar, KafkaUnavailable, WrongJar, java, kafka_classpath, pinned_jars

VERSION = "4.3.1"
CONTENT = b"a jar"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which both jars of a short list lie complete."""
    jars = tuple(Jar(hashlib.sha256(CONTENT).hexdigest(), "org", name, "1", f"{name}-1.jar") for name in "ab")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kafka_jars, "pinned_jars", lambda version: jars)
    monkeypatch.setattr(kafka_jars, "java", lambda: Path("java"))
    directory = kafka_jars.cache_dir() / f"kafka-{VERSION}"
    directory.mkdir()
    for jar in jars:
        (directory / jar.file_name).write_bytes(CONTENT)
    return directory


@pytest.fixture
def java_looked_up_again() -> Iterator[None]:
    java.cache_clear()
    yield
    java.cache_clear()


@pytest.mark.parametrize("version", ["4.3.1", "2.8.2"])
def test_each_list_names_kafka_and_no_jar_twice(version: str) -> None:
    jars = pinned_jars(version)
    assert ("org.apache.kafka", "kafka_2.13", version) in {(jar.organisation, jar.module, jar.revision) for jar in jars}
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars)


def test_a_complete_cache_is_used_in_the_order_of_the_list(cached: Path) -> None:
    assert kafka_classpath(VERSION) == f"{cached}/a-1.jar:{cached}/b-1.jar"


def test_a_changed_jar_is_named(cached: Path) -> None:
    (cached / "b-1.jar").write_bytes(b"another jar")
    with pytest.raises(WrongJar, match=r"b-1\.jar: sha256 .* remove "):
        kafka_classpath(VERSION)


def test_a_missing_jar_is_named(cached: Path) -> None:
    (cached / "a-1.jar").unlink()
    with pytest.raises(WrongJar, match=r"a-1\.jar"):
        kafka_classpath(VERSION)


def test_a_failed_download_leaves_no_cache(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for jar in cached.iterdir():
        jar.unlink()
    cached.rmdir()
    monkeypatch.setattr(kafka_jars, "java", lambda: Path("/bin/false"))
    with pytest.raises(KafkaUnavailable, match=r"2 jars, a-1\.jar first"):
        kafka_classpath(VERSION)
    assert [path.name for path in cached.parent.iterdir()] == [f"kafka-{VERSION}.lock"]


@pytest.mark.parametrize(
    ("version_line", "complaint"),
    [('openjdk version "11.0.2"', "is Java 11"), ('java version "1.8.0"', "Java 8")],
)
def test_an_old_java_is_refused(
    version_line: str,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    java_looked_up_again: None,
) -> None:
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    executable.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KafkaUnavailable, match=complaint):
        java()


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java_looked_up_again: None) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KafkaUnavailable, match="no java in"):
        java()
