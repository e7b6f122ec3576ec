"""The records of an input, and the error for a record that cannot be imported."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import ErrorKind, LogCleanerError
from storage.records import Record

INT64_MAX: Final = (1 << 63) - 1
OFFSET_LAST: Final = INT64_MAX - (1 << 31)
"""The greatest base offset.

A reader takes a batch beyond it for damaged, because a base offset plus a delta could overflow.
"""
LOG_APPEND_TIME: Final = 1
TIMESTAMP_TYPES: Final = (-1, 0, LOG_APPEND_TIME)
"""The names of the timestamp types: none, CreateTime, LogAppendTime. Source: Kafka TimestampType."""


class ImportedRecord(NamedTuple):
    """A record of an input."""

    record: Record
    timestamp_type: int
    is_control: bool
    source: tuple[str, int]
    """The topic and the partition that it was exported from."""
    place: str
    """The place of the record in the input: ``line 7``, ``row 7``."""


class UnusableInput(LogCleanerError):
    """An input that is damaged, cut short, or not what ``export`` writes. Nothing was imported."""

    path: Path
    place: str
    cause: str

    def __str__(self) -> str:
        where = f"{self.path} {self.place}" if self.place else str(self.path)
        return f"{where}: {self.cause}; nothing was imported"


class InputNotThere(LogCleanerError):
    """An input file that cannot be opened."""

    kind = ErrorKind.USAGE

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: cannot be read: {self.cause}; nothing was imported"


class NotAValue(Exception):
    """A field of a record holds something that ``export`` does not write; the message says what."""


def whole(value: object, name: str, low: int = -(1 << 63), high: int = INT64_MAX) -> int:
    """Return a whole number within bounds. Raises: NotAValue."""
    if type(value) is not int or not low <= value <= high:
        raise NotAValue(f"{name} is {value!r:.40}, which cannot be")
    return value
