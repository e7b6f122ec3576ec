"""Control records: what Kafka itself wrote, in words.

Source: Kafka ``DumpLogSegments.printControlRecord``, ``ControlRecordUtils``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cleaner.dump.decoding.java_json import java_json
from cleaner.dump.decoding.topic_records import decode_control_message
from storage.errors import InvalidRecord
from storage.records import ControlType, Record, parse_control_type
from storage.records.control import parse_txn_marker


class ControlRecord(NamedTuple):
    """A control record, decoded. ``data`` is None for a kind that we do not know."""

    type: ControlType
    type_id: int
    data: dict[str, Any] | None


def parse_control_record(record: Record) -> ControlRecord:
    """Decode a record of a control batch. Raises: InvalidRecord."""
    kind = parse_control_type(record.key)
    assert record.key is not None
    type_id = int.from_bytes(record.key[2:4], "big", signed=True)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = parse_txn_marker(record.key, record.value, record.timestamp_ms)
        return ControlRecord(kind, type_id, {"coordinatorEpoch": marker.coordinator_epoch})
    if kind is ControlType.UNKNOWN:
        return ControlRecord(kind, type_id, None)
    return ControlRecord(kind, type_id, _quorum_message(kind, record.value))


def _quorum_message(kind: ControlType, value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise InvalidRecord(f"the control record {kind.name} has no value")
    return decode_control_message(kind, value)


_LABELS = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def control_text(control: ControlRecord) -> str:
    """Return what stands in a line behind the header keys."""
    if control.data is None:
        return f" controlType: {control.type.name}({control.type_id})"
    if label := _LABELS.get(control.type):
        return f" {label} {java_json(control.data)}"
    return f" endTxnMarker: {control.type.name} coordinatorEpoch: {control.data['coordinatorEpoch']}"
