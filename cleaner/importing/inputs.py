"""Read input files one after the other. The offsets must rise over all files, and all records are of one partition.

JSON lines are read as ``export --to jsonl`` writes them, one line at a time.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from cleaner.errors import ExtraMissing
from cleaner.importing.records import (
    OFFSET_LAST,
    TIMESTAMP_TYPES,
    ImportedRecord,
    InputNotThere,
    NotAValue,
    UnusableInput,
    whole,
)
from storage.directory import is_read_once
from storage.records import Record

_LINE_BYTES_MAX: Final = 1 << 30
_PARTITION_MAX: Final = (1 << 31) - 1

STDIN: Final = Path("-")
_PARQUET: Final = b"PAR1"


@dataclass(slots=True)
class Inputs:
    """The records of some files. After the last one, ``left_out`` and ``source`` tell what they held."""

    paths: Sequence[Path]
    advance: Callable[[int], None]
    """Hears the number of bytes read since the last call."""
    left_out: int = 0
    """Control records, which are not imported."""
    source: tuple[str, int] | None = None
    """The topic and partition that the records were exported from."""
    _begun: Path | None = None
    """The file of the newest record."""

    def records(self) -> Iterator[ImportedRecord]:
        """Yield the records, without control records. Raises: UnusableInput, InputNotThere, ExtraMissing."""
        newest = -1
        for path in self.paths:
            for found, size_bytes in _read(path):
                self.advance(size_bytes)
                self._check(found, newest, path)
                newest = found.record.offset
                if found.is_control:
                    self.left_out += 1
                else:
                    yield found

    def _check(self, found: ImportedRecord, newest: int, path: Path) -> None:
        self.source = self.source or found.source
        if found.source != self.source:
            told = f"is of {'-'.join(map(str, found.source))}, and what came before of"
            cause = f"{told} {'-'.join(map(str, self.source))}: import one partition at a time"
            raise UnusableInput(path, found.place, cause)
        if found.record.offset > OFFSET_LAST:
            cause = f"offset {found.record.offset} is too large: no log that holds it can be read"
            raise UnusableInput(path, found.place, cause)
        if found.record.offset <= newest:
            is_first = path != self._begun
            remedy = "name the files in the order of their offsets" if is_first else "export wrote no such file"
            cause = f"offset {found.record.offset} follows offset {newest}: {remedy}"
            raise UnusableInput(path, found.place, cause)
        self._begun = path

    @property
    def size_bytes(self) -> int:
        """The size of the files; 0 of stdin and pipes. Raises: InputNotThere."""
        return sum(_size_of(path) for path in self.paths)

    @property
    def needed_bytes(self) -> int:
        """The most bytes, about, that the records take in a log without compression. Raises: InputNotThere,
        UnusableInput.
        """
        return sum(_plain_bytes(path) if _is_parquet(path) else _size_of(path) for path in self.paths)


def read_lines(file: BinaryIO, path: Path) -> Iterator[tuple[ImportedRecord, int]]:
    """Yield the records of a file, each with the size of its line in bytes. Raises: UnusableInput."""
    number = 0
    while line := file.readline(_LINE_BYTES_MAX):
        number += 1
        place = f"line {number}"
        if not line.endswith(b"\n"):
            raise UnusableInput(path, place, "the line does not end: the file was cut short")
        try:
            found = _record(json.loads(line), place)
        except NotAValue as error:
            raise UnusableInput(path, place, str(error)) from error
        except (ValueError, RecursionError) as error:
            raise UnusableInput(path, place, f"is no JSON object: {error}") from error
        yield found, len(line)


def _read(path: Path) -> Iterator[tuple[ImportedRecord, int]]:
    if _is_parquet(path):
        try:
            from cleaner.importing.parquet import read_rows  # noqa: PLC0415 - JSON lines do without pyarrow
        except ImportError as error:
            raise ExtraMissing(str(path), str(error.name), "parquet") from error
        yield from read_rows(path)
        return
    with _opened(path) as file:
        yield from read_lines(file, path)


def _is_parquet(path: Path) -> bool:
    """Return whether a file begins with the bytes of Parquet, with which no JSON line begins. Raises: InputNotThere.

    A pipe always has JSON lines: reading its beginning would lose it, and Parquet is read from its end.
    """
    if path == STDIN or is_read_once(path):
        return False
    with _opened(path) as file:
        return file.read(len(_PARQUET)) == _PARQUET


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return path.open("rb")
    except OSError as error:
        raise InputNotThere(path, error.strerror or str(error)) from error


def _size_of(path: Path) -> int:
    if path == STDIN or is_read_once(path):
        return 0
    with _opened(path):
        return path.stat().st_size


def _plain_bytes(path: Path) -> int:
    try:
        from cleaner.importing.parquet import plain_bytes  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ExtraMissing(str(path), str(error.name), "parquet") from error
    return plain_bytes(path)


def _record(fields: Any, place: str) -> ImportedRecord:
    if not isinstance(fields, dict):
        raise NotAValue("is no JSON object")
    topic, timestamp_type = fields.get("topic"), whole(fields.get("timestampType"), "timestampType")
    if not isinstance(topic, str) or timestamp_type not in TIMESTAMP_TYPES:
        raise NotAValue("has no topic, or a timestampType that cannot be: export did not write it")
    headers = fields.get("headers")
    if not isinstance(headers, list):
        raise NotAValue("has no list of headers")
    record = Record(
        whole(fields.get("offset"), "offset", 0),
        whole(fields.get("timestamp"), "timestamp"),
        _bytes(fields, "key"),
        _bytes(fields, "value"),
        tuple(_header(header) for header in headers),
    )
    source = topic, whole(fields.get("partition"), "partition", 0, _PARTITION_MAX)
    return ImportedRecord(record, timestamp_type, fields.get("control") is True, source, place)


def _bytes(fields: Mapping[str, Any], name: str) -> bytes | None:
    """Return the bytes of a key or value; None if it is null. Raises: NotAValue."""
    missing = object()
    text, encoding = fields.get(name, missing), fields.get(f"{name}Encoding", missing)
    if text is None and encoding is None:
        return None
    if encoding == "redacted":
        raise NotAValue(f"the {name} was left out by --redact, and cannot be imported")
    if isinstance(text, str) and encoding == "utf-8":
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise NotAValue(f"the {name} is no UTF-8") from error
    if isinstance(text, str) and encoding == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise NotAValue(f"the {name} is no base64") from error
    raise NotAValue(f"has no {name}, or no {name}Encoding")


def _header(fields: Any) -> tuple[bytes, bytes | None]:
    if not isinstance(fields, dict):
        raise NotAValue("has a header that is no JSON object")
    key = _bytes(fields, "key")
    if key is None:
        raise NotAValue("has a header without a key")
    return key, _bytes(fields, "value")
