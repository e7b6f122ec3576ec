"""Kafka's own consumer and Kafka Streams, asked from Python: ``JavaClients.java`` in one JVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.interop.referee import OLD_JVM_OPTIONS, Referee
from tests.interop.verdicts import Line, Record

MAIN: Final = "JavaClients"


class JavaClients(Referee):
    """A JVM with clients of Kafka.

    Args:
        classpath: from ``kafka_jars.streams_classpath``.
    """

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, OLD_JVM_OPTIONS, MAIN)

    def consumed(self, bootstrap: str, topic: str, isolation: str) -> list[Record]:
        """Read a topic of one partition from its start until the position is the end of the partition."""
        return _records(self._ask("consume", [], *_words(bootstrap, topic, isolation)))

    def resumed(self, bootstrap: str, topic: str, isolation: str, group: str) -> list[Record]:
        """Read on as a group, from where it stands to the end, and commit."""
        return _records(self._ask("resume", [], *_words(bootstrap, topic, isolation), "--group", group))

    def follow(self, bootstrap: str, topic: str, isolation: str) -> None:
        """Begin to read a topic from its start, for as long as brokers come and go."""
        self._ask("follow", [], *_words(bootstrap, topic, isolation))

    def followed(self, bootstrap: str, topic: str, isolation: str) -> list[Record]:
        """Wait until a follower is at the end, and return all that it read."""
        return _records(self._ask("followed", [], *_words(bootstrap, topic, isolation)))

    def start_streams(self, bootstrap: str, topic: str, table: str, output: str, state_dir: Path) -> None:
        """Begin to count the records of each key of a topic, exactly once, beside a global table; stores are empty."""
        words = ("--bootstrap", bootstrap, "--topic", topic, "--table", table, "--output", output)
        self._ask("start-streams", [], *words, "--state", str(state_dir))

    def await_streams(self, bootstrap: str, topic: str) -> None:
        """Wait until the application has committed that it is at the end."""
        self._ask("await-streams", [], "--bootstrap", bootstrap, "--topic", topic)

    def stop_streams(self, bootstrap: str, topic: str) -> tuple[dict[str, int], set[str]]:
        """Wait until the application is at the end. Return its counts by key, and the keys of its table."""
        lines = self._ask("stop-streams", [], "--bootstrap", bootstrap, "--topic", topic)
        counts = {line["key"]: int(line["count"]) for kind, line in lines if kind == "count"}
        return counts, {line["key"] for kind, line in lines if kind == "row"}


def _words(bootstrap: str, topic: str, isolation: str) -> tuple[str, ...]:
    return "--bootstrap", bootstrap, "--topic", topic, "--isolation", isolation


def _records(lines: Sequence[Line]) -> list[Record]:
    return [_record(line) for kind, line in lines if kind == "record"]


def _record(line: dict[str, Any]) -> Record:
    headers = tuple((name, content) for name, content in line.pop("headers"))
    return Record(**line, headers=headers)
