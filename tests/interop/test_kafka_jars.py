"""Fetching Kafka: what is wrong is named, nothing runs that is not on the list. No network is used here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.interop import kafka_jars
from tests.interop.kafka_jars import (
    CHOSEN,
    NEWEST,
    WITH_TOOLS,
    Jar,
    KafkaUnavailable,
    WrongJar,
    java,
    judging_version,
    kafka_classpath,
    listed_versions,
    pinned_jars,
    tools_classpath,
)

CONTENT = b"a jar"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which both jars of a short list lie complete."""
    jars = tuple(Jar(hashlib.sha256(CONTENT).hexdigest(), "org", name, "1", f"{name}-1.jar") for name in "ab")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kafka_jars, "pinned_jars", lambda version: jars)
    monkeypatch.setattr(kafka_jars, "java", lambda: Path("java"))
    directory = kafka_jars.cache_dir() / "jars"
    directory.mkdir()
    for jar in jars:
        (directory / jar.file_name).write_bytes(CONTENT)
    return directory


@pytest.fixture
def java_looked_up_again() -> Iterator[None]:
    java.cache_clear()
    yield
    java.cache_clear()


@pytest.mark.parametrize("version", listed_versions())
def test_each_list_names_kafka_and_no_jar_twice(version: str) -> None:
    jars = pinned_jars(version)
    assert ("org.apache.kafka", "kafka_2.13", version) in {(jar.organisation, jar.module, jar.revision) for jar in jars}
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars)


def test_lists_that_share_a_file_name_mean_the_same_jar() -> None:
    named = {(jar.file_name, jar) for version in listed_versions() for jar in pinned_jars(version)}
    assert len({name for name, _ in named}) == len(named)


def test_the_newest_release_judges_unless_another_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    assert judging_version() == NEWEST
    monkeypatch.setenv(CHOSEN, "4.3.1")
    assert judging_version() == "4.3.1"
    monkeypatch.setenv(CHOSEN, "4.3.9")
    with pytest.raises(
        ValueError, match=r"LOGCLEANER_KAFKA=4\.3\.9: no list of its jars; there are lists of 2\.8\.2, "
    ):
        judging_version()


def test_tools_that_a_release_lacks_are_those_of_another_one_which_show_its_messages(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = kafka_jars.pinned_jars(NEWEST)
    lists = {NEWEST: (a,), WITH_TOOLS: (b,)}
    monkeypatch.setattr(kafka_jars, "pinned_jars", lists.__getitem__)
    assert tools_classpath(NEWEST) == f"{cached}/b-1.jar:{cached}/a-1.jar"
    monkeypatch.setattr(kafka_jars, "MESSAGES", {"a"})
    assert tools_classpath(NEWEST) == f"{cached}/a-1.jar:{cached}/b-1.jar:{cached}/a-1.jar"


def test_the_list_with_tools_has_them() -> None:
    assert ("kafka-tools", WITH_TOOLS) in {(jar.module, jar.revision) for jar in pinned_jars(WITH_TOOLS)}


def test_a_complete_cache_is_used_in_the_order_of_the_list(cached: Path) -> None:
    assert kafka_classpath(NEWEST) == f"{cached}/a-1.jar:{cached}/b-1.jar"


def test_a_changed_jar_is_named(cached: Path) -> None:
    (cached / "b-1.jar").write_bytes(b"another jar")
    with pytest.raises(WrongJar, match=r"b-1\.jar: sha256 .* remove "):
        kafka_classpath(NEWEST)


def test_only_missing_jars_are_fetched(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(jars: Sequence[Jar], directory: Path) -> None:
        wanted.extend(jar.file_name for jar in jars)
        (directory / "a-1.jar").write_bytes(CONTENT)

    wanted: list[str] = []
    monkeypatch.setattr(kafka_jars, "fetch", fetched)
    (cached / "a-1.jar").unlink()
    assert kafka_classpath(NEWEST) == f"{cached}/a-1.jar:{cached}/b-1.jar"
    assert wanted == ["a-1.jar"]


def test_a_failed_download_leaves_no_cache(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for jar in cached.iterdir():
        jar.unlink()
    monkeypatch.setattr(kafka_jars, "java", lambda: Path("/bin/false"))
    monkeypatch.setattr(kafka_jars, "PAUSE_SECONDS", 0)
    with pytest.raises(KafkaUnavailable, match=r"2 jars, a-1\.jar first"):
        kafka_classpath(NEWEST)
    assert sorted(path.name for path in cached.parent.iterdir()) == ["jars", "jars.lock"]
    assert list(cached.iterdir()) == []


def test_a_download_that_fails_is_tried_again(cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that pauses fails no test."""
    for jar in cached.iterdir():
        jar.unlink()
    content, tries = tmp_path / "content", tmp_path / "tries"
    content.write_bytes(CONTENT)
    ivy = tmp_path / "ivy"
    ivy.write_text(f"""#!/bin/sh
echo >> {tries}
for word; do pattern=$word; done
directory=${{pattern%/*}}
mkdir -p $directory
cp {content} $directory/$([ $(wc -l < {tries}) -lt 3 ] && echo a-1.jar || echo b-1.jar)
""")
    ivy.chmod(0o755)
    monkeypatch.setattr(kafka_jars, "java", lambda: ivy)
    monkeypatch.setattr(kafka_jars, "PAUSE_SECONDS", 0)
    assert kafka_classpath(NEWEST) == f"{cached}/a-1.jar:{cached}/b-1.jar"
    assert tries.read_text() == "\n\n\n"


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
