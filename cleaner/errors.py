"""Errors of commands, and the line in which a person reads an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage.errors import CorruptBatch, CorruptIndex, ErrorKind, LogCleanerError
from storage.names import FileKind
from storage.stores.paths import SEPARATOR, TIER

_FETCH_ANEW: Final = (
    "if another replica is in sync, move the partition's directory away while the broker is stopped: it then fetches "
    "the partition anew; else restore the file from a backup"
)

_OF_TIER: Final = f"{TIER}{SEPARATOR}"
_LOOK_AT_TIER: Final = "verify --tier names the file in the tier, and what to do; if it names none, verify the log dirs"


class UnwritableFile(LogCleanerError):
    """A file beside the log dirs could not be written."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: cannot be written: {self.cause}"


@contextmanager
def as_unwritable(path: Path) -> Iterator[None]:
    """Raise UnwritableFile for what the operating system refuses within the ``with``."""
    try:
        yield
    except OSError as error:
        raise UnwritableFile(path, error.strerror or str(error)) from error


class UnusableOutput(LogCleanerError):
    """The directory for a copy, or the file for an export, cannot be used. Nothing was written."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; {self.remedy}"


class ExtraMissing(LogCleanerError):
    """A feature needs a package that is not installed; an extra of logcleaner installs it."""

    what: str
    package: str
    extra: str

    def __str__(self) -> str:
        return f"{self.what} needs {self.package}, which is not installed; {how_to_install(self.extra)}"


def how_to_install(extra: str) -> str:
    """Return how to install the packages of an extra. A bundle (``packaging/bundle``) cannot be added to.

    No index has logcleaner by its name, so the sources or a wheel are named.
    """
    command = f"pip install '.[{extra}]' in the sources of logcleaner, or 'FILE.whl[{extra}]'"
    if "bundle" in sys._xoptions:
        return f"{command}, on a machine with Python 3.11 or newer, because it is not in the bundle"
    return command


def told(error: BaseException) -> str:
    """Return a line with the place and the cause of an error and, for damage, the remedy."""
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        places = [str(place) for place in (error.filename, error.filename2) if place is not None]
        return f"{' to '.join(places)}: {error.strerror}" if places else error.strerror
    if isinstance(error, CorruptBatch | CorruptIndex):
        return f"{error}; {_remedy(error)}"
    if isinstance(error, OSError | KeyError | EOFError):
        return f"{error} ({type(error).__name__})"
    return str(error) or type(error).__name__


def _remedy(error: CorruptBatch | CorruptIndex) -> str:
    """Return what to do about damage."""
    if str(error.path).startswith(_OF_TIER):
        return _LOOK_AT_TIER
    return _FETCH_ANEW if isinstance(error, CorruptBatch) else _make_anew(error.path)


def _make_anew(index: Path) -> str:
    """Return what to do about a damaged index file.

    A broker that misses an offset index makes all indexes of the segment anew. If only the ``.timeindex`` or only the
    ``.txnindex`` is missing, a broker assumes that it was empty. Source: Kafka LogSegment.sanityCheck,
    LogLoader.loadSegmentFiles.
    """
    missed = index.with_suffix(FileKind.INDEX).name
    files = "it" if index.name == missed else f"it and {missed}"
    return f"move {files} away and start the broker once: it makes the indexes of the segment anew from the log"
