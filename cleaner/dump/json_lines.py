"""The lines of a dump as JSON, schema ``logcleaner.dump/1``: an object a line, whose ``type`` says what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cleaner.dump.decoding import decode_json, parse_control_record, plain_json
from cleaner.dump.files import DumpedFile
from cleaner.dump.options import DumpOptions
from cleaner.dump.stored import Stored, StoredRecord
from cleaner.export.fields import shown, told
from storage.errors import CorruptBatch, InvalidRecord, LogCleanerError

SCHEMA: Final = "logcleaner.dump/1"
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonDumpLines:
    """Makes the lines of one dump."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options

    def heading(self, file: DumpedFile) -> Iterator[str]:
        """Return the line that precedes the content of a file."""
        snapshot = file.snapshot_id
        yield _line(
            "file",
            {
                "schema": SCHEMA,
                "path": str(file.path),
                "kind": file.kind.name.lower().replace("_", "-"),
                "state": file.state[1:] or None,
                "baseOffset": file.base_offset if snapshot is None else None,
                "snapshotEndOffset": snapshot[0] if snapshot else None,
                "snapshotEpoch": snapshot[1] if snapshot else None,
            },
        )

    def batch(self, batch: Stored, is_valid: bool) -> str:
        """Return the line of a batch. A field that the version of the batch lacks is null."""
        header = batch.header
        return _line(
            "batch",
            {
                "baseOffset": None if batch.is_legacy else header.base_offset,  # type: ignore[union-attr]
                "lastOffset": header.last_offset,
                "count": None if batch.is_legacy else header.record_count,  # type: ignore[union-attr]
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "leaderEpoch": header.partition_leader_epoch,
                "transactional": header.is_transactional,
                "control": header.is_control,
                "deleteHorizon": header.delete_horizon_ms,
                "position": batch.position,
                "timestampType": batch.timestamp_type,
                "maxTimestamp": header.max_timestamp_ms,
                "size": header.size_bytes,
                "magic": header.magic,
                "codec": header.compression.name.lower(),
                "crc": header.crc,
                "valid": is_valid,
            },
        )

    def record(self, batch: Stored, stored: StoredRecord) -> str:
        """Return the line of a record. Raises: CorruptBatch for a control record that does not parse."""
        record, checksum = stored
        fields: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": batch.timestamp_type,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "sequence": record.sequence,
        }
        if checksum is not None:
            fields |= {"crc": checksum.crc, "valid": checksum.is_valid}
        if batch.header.is_control:
            fields |= _control(batch, stored)
        if self._options.shows_contents:
            fields |= self._contents(stored)
            if not batch.header.is_control:
                fields |= decode_json(self._options, record)
        return _line("record", fields)

    def _contents(self, stored: StoredRecord) -> dict[str, Any]:
        record, options = stored.record, self._options
        headers = [
            told("key", key) | shown("value", value, is_hidden=options.hides_values) for key, value in record.headers
        ]
        return {
            **shown("key", record.key, is_hidden=options.hides_keys),
            **shown("value", record.value, is_hidden=options.hides_values),
            "headers": headers,
        }

    def entry(self, kind: str, fields: Mapping[str, object]) -> str:
        """Return the line of an entry of another file than a log."""
        return _line(kind, fields)

    def damage(self, error: LogCleanerError) -> str:
        """Return the line of an error, which stands in the place of the content that cannot be read."""
        position = getattr(error, "position", None)
        fields = {"path": str(getattr(error, "path", "")), "position": position}
        return _line("damage", {**fields, "cause": getattr(error, "cause", None) or str(error)})

    def remark(self, _text: str, fields: Mapping[str, object]) -> str:
        """Return a line that says something of the file as a whole."""
        return _line("remark", fields)


def _line(kind: str, fields: Mapping[str, object]) -> str:
    return _ENCODE({"type": kind, **fields})


def _control(batch: Stored, stored: StoredRecord) -> dict[str, Any]:
    try:
        control = parse_control_record(stored.record)
    except InvalidRecord as error:
        raise CorruptBatch(batch.path, batch.position, error.cause) from error
    return {"controlType": control.type.name, "controlTypeId": control.type_id, "controlData": plain_json(control.data)}
