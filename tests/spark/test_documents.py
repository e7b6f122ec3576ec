"""The commands and examples in the README and in docs/ that need Spark are run, on a small log dir."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from tests.docs.blocks import blocks, needs_spark
from tests.docs.test_commands import CANNOT_RUN


class OpenSession:
    """The session of the tests, which a command may use and must not stop."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


@pytest.fixture
def session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> OpenSession:
    session = OpenSession(spark)
    for opener in ("cleaner.spark.open_session", "cleaner.spark.session.start_session"):
        monkeypatch.setattr(opener, lambda *_, **__: session)
    monkeypatch.setattr("cleaner.spark.open_context", lambda *_: nullcontext(spark.sparkContext))
    return session


def commands() -> list[str]:
    found = [command for block in blocks("sh") for command in block.commands if needs_spark(command)]
    return sorted(set(found) - set(CANNOT_RUN))


def here(text: str, log_dir: Path, scratch: Path) -> str:
    """Return a text with what stands for its paths here."""
    for named, stand_in in (
        ("/var/lib/kafka/data", str(log_dir)),
        ("/mnt/kafka-1", str(log_dir)),
        ("/mnt/kafka", str(log_dir)),
        ("--config /etc/logcleaner.toml", f"--log-dir {log_dir}"),
        ("/restore/data", str(scratch)),
    ):
        text = text.replace(named, stand_in)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_every_command_that_needs_spark_does_what_it_says(
    command: str, session: OpenSession, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(here(command, log_dir, tmp_path))
    assert program == "logcleaner"
    assert main([*arguments, "--set", "cleanup.policy=compact"]) == 0


def examples() -> list[str]:
    """Return the examples, those of a page in one: a later one uses what an earlier one made."""
    pages: dict[str, list[str]] = {}
    for block in blocks("python"):
        if needs_spark(block.page + block.text):
            pages.setdefault(block.page, []).append(block.text)
    return ["\n".join(texts) for texts in pages.values()]


@pytest.mark.slow
@pytest.mark.parametrize("text", examples())
def test_every_python_example_that_needs_spark_runs(
    text: str, session: OpenSession, log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = session.createDataFrame([("orders", "k", "v")], "topic string, key string, value string")
    exec(here(text, log_dir, tmp_path), {"frame": frame, "key": "an access key", "secret": "its secret"})
    assert "count" in capsys.readouterr().out
    assert (tmp_path / "orders-0").is_dir() == ("/restore/data" in text)
