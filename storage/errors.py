"""One error root, and below it what a caller can act on.

Facts go into ``args``, so that an error survives pickling on its way back from a Spark worker; the sentence is made in
``__str__``: what is wrong, where, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar, Final

_SECRET: Final = re.compile(r"password|passphrase|secret|credential|jaas|token|private|keystore\.key", re.IGNORECASE)
"""Keys of server.properties whose values nobody is to see."""
BE_THE_OWNER: Final = "run as that user or as root; a service by the drop-in kafka-user.conf"


class ErrorKind(Enum):
    """The kinds of errors, by what a caller can do about them; the command line has an exit status for each."""

    FAILED = auto()
    USAGE = auto()
    """What was asked for, or configured, is wrong."""
    LOCKED = auto()
    """Another process is at work there."""
    REFUSED = auto()
    """Somebody has to say that it is meant."""
    NOT_YET = auto()
    """A later try may work."""


class LogCleanerError(Exception):
    """Root of every error this program raises on purpose."""

    kind: ClassVar[ErrorKind] = ErrorKind.FAILED


class NotALogDir(LogCleanerError):
    """A directory that is missing, or holds nothing of a Kafka log directory."""

    kind = ErrorKind.USAGE

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; name the directory that log.dirs of the broker names"


class UnreadableFile(LogCleanerError):
    """The operating system refused a read (permission, I/O error, vanished)."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: cannot be read: {self.cause}"

    @property
    def has_vanished(self) -> bool:
        """Return whether the file was gone before it was read, as happens beside a live broker."""
        return isinstance(self.__cause__, FileNotFoundError)


@contextmanager
def as_unreadable(path: Path) -> Iterator[None]:
    """Raise UnreadableFile for what the operating system refuses within the ``with``."""
    try:
        yield
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error


class UnsafeFile(LogCleanerError):
    """A file that is to be changed in place, and is no plain file, or has a second name outside our sight."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; it is not written to: move it away"


class Corrupt(LogCleanerError):
    """Bytes on disk that cannot be: reading them again is of no use until the file changes."""


class CorruptBatch(Corrupt):
    """Bytes of a ``.log`` that are no valid record batch."""

    def __init__(self, path: Path, position: int, cause: str) -> None:
        super().__init__(path, position, cause)
        self.path, self.position, self.cause = path, position, cause

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.cause}"


class InvalidRecord(LogCleanerError):
    """Bytes of one record that cannot be. The batch that holds it turns this into a ``CorruptBatch``."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return self.cause


class CorruptCompressedData(LogCleanerError):
    """Compressed bytes that do not decompress, or to too much. The batch makes it a ``CorruptBatch``."""

    def __init__(self, codec: str, cause: str) -> None:
        super().__init__(codec, cause)
        self.codec, self.cause = codec, cause

    def __str__(self) -> str:
        return f"{self.codec}: {self.cause}"


class CorruptIndex(Corrupt):
    """An ``.index``, ``.timeindex`` or ``.txnindex`` whose entries cannot be."""

    def __init__(self, path: Path, position: int, cause: str) -> None:
        super().__init__(path, position, cause)
        self.path, self.position, self.cause = path, position, cause

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.cause}"


class PlanOutOfDate(LogCleanerError):
    """A file is not as it was when the plan was made."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return f"{self.path}: changed since the plan was made ({self.cause}); left as it is, run again"


class InvalidConfig(LogCleanerError):
    """One configuration value that cannot be. ``where`` names the layer, file and line it was said in."""

    kind = ErrorKind.USAGE

    def __init__(self, key: str, value: object, reason: str, where: str = "") -> None:
        super().__init__(key, value, reason, where)
        self.key, self.value, self.reason, self.where = key, value, reason, where

    def __str__(self) -> str:
        at = f"{self.where}: " if self.where else ""
        shown = "[hidden]" if _SECRET.search(self.key) else repr(self.value)
        said = "" if self.value is None else f" = {shown}"
        return f"{at}{self.key}{said}: {self.reason}"


class InvalidConfigs(LogCleanerError):
    """Everything that is wrong with a configuration, found in one reading."""

    kind = ErrorKind.USAGE

    def __init__(self, problems: tuple[InvalidConfig, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
