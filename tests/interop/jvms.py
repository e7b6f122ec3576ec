"""JVMs that start quickly and leave the processors to others: what a short test wants of a broker or a tool."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Final

from tests.interop.kafka_jars import cache_dir, java

QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")
"""A short life never gets back what the second compiler and a parallel collector cost."""


class ClassArchive:
    """The loaded classes of a program, which halve the processor time of its next starts.

    The first JVM that ends by itself leaves it, from one test run to the next. Java ignores an archive that does not
    fit to the class path.

    Args:
        classpath: of jars alone; Java makes no archive of directories.
        program: a name: programs that load other classes have other archives.
    """

    def __init__(self, classpath: str, program: str) -> None:
        runtime = java().resolve()
        text = f"{program} {runtime} {runtime.stat().st_mtime_ns} {classpath}"
        self._path = cache_dir() / f"classes-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"
        self._own = self._path.with_suffix(f".{os.getpid()}-{id(self)}")

    def use(self) -> list[str]:
        """Options of a JVM that reads it, if it is there."""
        return [f"-XX:SharedArchiveFile={self._path}"] if self._path.exists() else []

    def use_or_leave(self) -> list[str]:
        """Options of a JVM that reads it, or leaves it when it ends: then ``keep`` or ``drop`` must follow."""
        return self.use() or [f"-XX:ArchiveClassesAtExit={self._own}"]

    def keep(self) -> None:
        """Keep what a JVM has left that ended as it should."""
        with suppress(FileNotFoundError):
            self._own.rename(self._path)

    def drop(self) -> None:
        """Remove what another one has left."""
        self._own.unlink(missing_ok=True)
