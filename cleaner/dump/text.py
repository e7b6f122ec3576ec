"""The lines of a dump as text: as Kafka's own tool prints them, and in a plain form for files that it does not know.

Source: Kafka 4.3 ``DumpLogSegments``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cleaner.dump.decoding import RecordContents, control_text, decode_text, java_text, parse_control_record
from cleaner.dump.files import DumpedFile, DumpedKind, without_controls
from cleaner.dump.options import DumpOptions
from cleaner.dump.stored import Stored, StoredRecord
from storage.errors import CorruptBatch, InvalidRecord
from storage.records import Record

REDACTED: Final = "[redacted]"
_OPTIONAL: Final = frozenset({"currentTxnFirstOffset"})
"""Fields that Kafka prints as Java prints an ``OptionalLong``."""

Fields = Mapping[str, object]


class TextLines:
    """Makes the lines of one dump."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options

    def heading(self, file: DumpedFile) -> Iterator[str]:
        """Return the lines that precede the content of a file."""
        yield f"Dumping {without_controls(str(file.path))}"
        if file.kind is DumpedKind.LOG and file.base_offset is not None:
            yield f"Log starting offset: {file.base_offset}"
        elif file.kind is DumpedKind.SNAPSHOT_LOG:
            snapshot = file.snapshot_id
            yield (
                f"Snapshot end offset: {snapshot[0]}, epoch: {snapshot[1]}" if snapshot else "KRaft bootstrap snapshot"
            )

    def batch(self, batch: Stored, is_valid: bool) -> str:
        """Return the line of a batch."""
        return f"{_before_position(batch)} {_from_position_on(batch, is_valid)}"

    def record(self, batch: Stored, stored: StoredRecord) -> str:
        """Return the line of a record. Raises: CorruptBatch for a control record that does not parse."""
        record, options = stored.record, self._options
        parts = []
        if not options.skip_record_metadata:
            parts.append(_metadata(batch, stored))
            if batch.header.is_control:
                parts.append(_control(batch, stored))
        if options.shows_contents and not batch.header.is_control:
            contents = decode_text(options, record)
            parts.append(_contents_text(contents, options))
            if options.shows_headers and record.headers:
                parts.append(_headers_text(record, options))
        return "".join(parts)

    def entry(self, kind: str, fields: Fields) -> str:
        """Return the line of an entry of another file than a log."""
        if kind == "property":
            return f"{fields['name']}={fields['value']}"
        return " ".join(f"{name}: {_value(name, value)}" for name, value in fields.items())

    def remark(self, text: str, _fields: Fields) -> str:
        """Return a line that says something of the file as a whole."""
        return without_controls(text)


def _before_position(batch: Stored) -> str:
    header = batch.header
    if batch.is_legacy:
        return f"offset: {header.last_offset}"
    horizon = _optional(header.delete_horizon_ms)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"  # type: ignore[union-attr]
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_boolean(header.is_transactional)} isControl: {_boolean(header.is_control)}"
        f" deleteHorizonMs: {horizon}"
    )


def _from_position_on(batch: Stored, is_valid: bool) -> str:
    header = batch.header
    return (
        f"position: {batch.position} {batch.timestamp_type_name}: {header.max_timestamp_ms} size: {header.size_bytes}"
        f" magic: {header.magic} compresscodec: {header.compression.name.lower()} crc: {header.crc}"
        f" isvalid: {_boolean(is_valid)}"
    )


def _metadata(batch: Stored, stored: StoredRecord) -> str:
    record, checksum = stored
    line = (
        f"| offset: {record.offset} {batch.timestamp_type_name}: {record.timestamp_ms}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if checksum is None:
        keys = ",".join(java_text(key) for key, _ in record.headers)
        return f"{line} sequence: {record.sequence} headerKeys: [{keys}]"
    return f"{line} isValid: {_boolean(checksum.is_valid)} crc: {checksum.crc}"


def _control(batch: Stored, stored: StoredRecord) -> str:
    try:
        return control_text(parse_control_record(stored.record))
    except InvalidRecord as error:
        raise CorruptBatch(batch.path, batch.position, error.cause) from error


def _contents_text(contents: RecordContents, options: DumpOptions) -> str:
    prefix, line = "| " if options.skip_record_metadata else " ", ""
    if contents.key is not None:
        line = f"{prefix}key: {REDACTED if options.hides_keys else contents.key}"
        prefix = " "
    if contents.value is not None:
        line += f"{prefix}payload: {REDACTED if options.hides_values else contents.value}"
    return line


def _headers_text(record: Record, options: DumpOptions) -> str:
    values = ("null" if v is None else REDACTED if options.hides_values else java_text(v) for _, v in record.headers)
    pairs = (f"{java_text(key)}={value}" for (key, _), value in zip(record.headers, values, strict=True))
    return f" headers: [{', '.join(pairs)}]"


def _value(name: str, value: object) -> object:
    if name in _OPTIONAL:
        return _optional(value)
    return "" if value is None else value


def _optional(value: object) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)
