"""Kafka's own command line tools, asked from Python: one JVM for many commands of a tool."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.interop.kafka_jars import java
from tests.interop.referee import OLD_JVM_OPTIONS, compiled
from tests.interop.tally import TALLY

DUMP_LOG: Final = "org.apache.kafka.tools.DumpLogSegments"
"""``kafka-dump-log``."""
CONFIGS: Final = "kafka.admin.ConfigCommand"
"""``kafka-configs``."""
_MAIN: Final = "Tool"


class Told(NamedTuple):
    """What a tool printed, and what it threw, if it did."""

    out: bytes
    err: str
    error: str
    seconds: float


class Tool:
    """A JVM with one of Kafka's tools; it ends with the ``with``.

    Args:
        classpath: from ``kafka_jars.tools_classpath``.
        tool: its class.
        jvm_options: heap and collector; for small files by default.
    """

    def __init__(self, classpath: str, tool: str, jvm_options: Sequence[str] = OLD_JVM_OPTIONS) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        command = [str(java()), *jvm_options, "-cp", f"{compiled(_MAIN, classpath)}:{classpath}", _MAIN, tool]
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        TALLY.jvm_starts += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._jvm.communicate()
        self._scratch.cleanup()

    def run(self, *arguments: str) -> Told:
        """Run one command of the tool."""
        out, err = Path(self._scratch.name, "out"), Path(self._scratch.name, "err")
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(json.dumps([str(out), str(err), *arguments]) + "\n")
        self._jvm.stdin.flush()
        answer = json.loads(self._jvm.stdout.readline())
        assert not answer["misfit"], f"the tool does not fit to the classes of Kafka: {answer['error']}"
        return Told(out.read_bytes(), err.read_text("utf-8"), answer["error"], answer["seconds"])

    def dump(self, path: Path, *options: str) -> Told:
        """Have ``DUMP_LOG`` show one file."""
        return self.run(*options, "--files", str(path))
