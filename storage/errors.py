"""One error root, and below it what a caller can act on.

The facts of an error are its fields. The root puts them into ``args``, so that an error survives pickling on its way
back from a Spark worker. The sentence is made in ``__str__``: what is wrong, where, and what to do.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar, Final, dataclass_transform

_SECRET: Final = re.compile(r"password|passphrase|secret|credential|jaas|token|private|keystore\.key", re.IGNORECASE)
"""Keys of server.properties whose values nobody may see."""
_FORBIDDEN: Final = os.strerror(errno.EACCES)
BE_THE_OWNER: Final = (
    "run as that user or as root; a service by the drop-in kafka-user.conf, a pod by runAsUser and runAsGroup"
)
INSTALL_AGAIN: Final = "install logcleaner again"


class ErrorKind(Enum):
    """The kinds of errors, by what a caller can do about them; the command line has an exit status for each."""

    FAILED = auto()
    USAGE = auto()
    """The request or the configuration is wrong."""
    LOCKED = auto()
    """Another process is at work there."""
    REFUSED = auto()
    """A person has to confirm it."""
    NOT_YET = auto()
    """A later try may work."""


@dataclass_transform(eq_default=False)
class LogCleanerError(Exception):
    """Root of every error this program raises on purpose. A class below it states its facts as a dataclass does.

    The classes are no dataclasses: a hundred dataclasses take 10 ms of each start.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.FAILED
    _facts: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = (name for name, kind in cls.__annotations__.items() if not kind.startswith("ClassVar"))
        cls._facts = (*cls._facts, *own)

    def __init__(self, *facts: object, **named: object) -> None:
        """Take the facts, in the order of the class or by name. A fact with a default may be left out."""
        if len(facts) > len(self._facts) or not named.keys() <= set(self._facts[len(facts) :]):
            raise TypeError(f"{type(self).__name__} takes {self._facts}, not {facts} and {named}")
        given = dict(zip(self._facts, facts, strict=False)) | named
        for name in self._facts:
            setattr(self, name, given[name] if name in given else getattr(self, name))
        super().__init__(*vars(self).values())


class NotALogDir(LogCleanerError):
    """A directory that is missing, or holds nothing of a Kafka log directory."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; name the directory that log.dirs of the broker names"


class UnreadableFile(LogCleanerError):
    """The operating system refused a read (permission, I/O error, vanished)."""

    path: Path
    cause: str

    def __str__(self) -> str:
        remedy = f"; perhaps only its owner may: {BE_THE_OWNER}" if self.cause == _FORBIDDEN else ""
        return f"{self.path}: cannot be read: {self.cause}{remedy}"

    @property
    def has_vanished(self) -> bool:
        """Return whether the file was gone before it was read, as happens beside a live broker."""
        return isinstance(self.__cause__, FileNotFoundError)

    @property
    def is_forbidden(self) -> bool:
        """Return whether this user may not read the file, and perhaps another one may."""
        return isinstance(self.__cause__, PermissionError)


def if_unloadable(else_do: str = INSTALL_AGAIN) -> str:
    """Return what to do about machine code that the system does not load."""
    return f"is it mounted noexec, or for another CPU? else {else_do}"


class OSErrorsAs:
    """Turns an ``OSError`` within the ``with`` into another error. A generator would take thrice as long."""

    __slots__ = ("_path", "_turned")

    def __init__(self, path: Path, turned: Callable[[OSError, Path], Exception]) -> None:
        """Take the path that the error names, and the function that makes it."""
        self._path, self._turned = path, turned

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError):
            raise self._turned(error, self._path) from error


def as_unreadable(path: Path) -> OSErrorsAs:
    """Raise UnreadableFile for what the operating system refuses within the ``with``."""
    return OSErrorsAs(path, _unreadable)


def _unreadable(error: OSError, path: Path) -> UnreadableFile:
    return UnreadableFile(path, error.strerror or str(error))


class UnsafeFile(LogCleanerError):
    """A file to be changed in place that is no plain file, or has a second hard link."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; it is not written to: move it away"


class Corrupt(LogCleanerError):
    """Impossible bytes on disk: to read them again is of no use until the file changes."""


class CorruptAt(Corrupt):
    """Impossible bytes at a position of a file."""

    path: Path
    position: int
    cause: str

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.cause}"


class CorruptBatch(CorruptAt):
    """Bytes of a ``.log`` that are no valid record batch."""

    kafka_name: ClassVar[str] = "CorruptRecordException"


class CorruptIndex(CorruptAt):
    """An ``.index``, ``.timeindex`` or ``.txnindex`` with impossible entries."""


class InvalidRecord(LogCleanerError):
    """Impossible bytes of one record. The reader of the batch turns this error into a ``CorruptBatch``."""

    cause: str


class CorruptCompressedData(LogCleanerError):
    """Compressed bytes that do not decompress, or decompress to too many.

    The reader of the batch raises a ``CorruptBatch`` for them.
    """

    codec: str
    cause: str

    def __str__(self) -> str:
        return f"{self.codec}: {self.cause}"


class PlanOutOfDate(LogCleanerError):
    """A file is not as it was when the plan was made."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: changed since the plan was made ({self.cause}); left as it is, run again"


class NotRecovered(LogCleanerError):
    """A partition in which an interrupted swap waits: its recovery failed, and comes first."""

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: waits for the recovery of an interrupted swap; left as it is, run again"


class Stopped(LogCleanerError):
    """A signal asked the run to end, and a step was not begun."""

    def __str__(self) -> str:
        return "stopped before it was done; nothing is half done, run again"


class InvalidConfig(LogCleanerError):
    """One impossible configuration value. ``where`` names the layer, file and line that state it."""

    kind = ErrorKind.USAGE

    key: str
    value: object
    reason: str
    where: str = ""

    def __str__(self) -> str:
        at = f"{self.where}: " if self.where else ""
        shown = "[hidden]" if _SECRET.search(self.key) else repr(self.value)
        said = "" if self.value is None else f" = {shown}"
        return f"{at}{self.key}{said}: {self.reason}"


class InvalidConfigs(LogCleanerError):
    """All problems of a configuration, found in one reading."""

    kind = ErrorKind.USAGE

    problems: tuple[InvalidConfig, ...]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
