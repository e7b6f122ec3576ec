"""Read JSON lines as ``export --to jsonl`` writes them, one line at a time."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from cleaner.importing.records import TIMESTAMP_TYPES, ImportedRecord, NotAValue, UnusableInput, whole
from storage.records import Record

_LINE_BYTES_MAX: Final = 1 << 30
_PARTITION_MAX: Final = (1 << 31) - 1


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


def _header(fields: Any) -> tuple[bytes, bytes | None]:
    if not isinstance(fields, dict):
        raise NotAValue("has a header that is no JSON object")
    key = _bytes(fields, "key")
    if key is None:
        raise NotAValue("has a header without a key")
    return key, _bytes(fields, "value")


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
