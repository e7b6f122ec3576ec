"""Records of ``__remote_log_metadata`` as Kafka's own tool prints them.

Source: Kafka ``toString`` of ``RemoteLogSegmentMetadata``, ``RemoteLogSegmentMetadataUpdate``,
``RemotePartitionDeleteMetadata``, ``RemoteLogSegmentMetadataSnapshot``.
"""

from __future__ import annotations

from typing import Any, Final

from storage.errors import InvalidRecord

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_text(name: str, data: dict[str, Any]) -> str:
    """Return the text of a decoded message. Raises: InvalidRecord for a state that Kafka does not know."""
    match name:
        case "RemoteLogSegmentMetadataRecord":
            return _shown("RemoteLogSegmentMetadata", {
                "remoteLogSegmentId": _segment_id(data["remoteLogSegmentId"]),
                "startOffset": data["startOffset"],
                "endOffset": data["endOffset"],
                "brokerId": data["brokerId"],
                "maxTimestampMs": data["maxTimestampMs"],
                "eventTimestampMs": data["eventTimestampMs"],
                **_of_a_segment(data),
            })  # fmt: skip
        case "RemoteLogSegmentMetadataUpdateRecord":
            return _shown("RemoteLogSegmentMetadataUpdate", {
                "remoteLogSegmentId": _segment_id(data["remoteLogSegmentId"]),
                "customMetadata": _custom(data["customMetadata"]),
                "state": _state(_SEGMENT_STATES, data["remoteLogSegmentState"]),
                "eventTimestampMs": data["eventTimestampMs"],
                "brokerId": data["brokerId"],
            })  # fmt: skip
        case "RemotePartitionDeleteMetadataRecord":
            return _shown("RemotePartitionDeleteMetadata", {
                "topicPartition": _partition(data["topicIdPartition"]),
                "state": _state(_PARTITION_STATES, data["remotePartitionDeleteState"]),
                "eventTimestampMs": data["eventTimestampMs"],
                "brokerId": data["brokerId"],
            })  # fmt: skip
    return _shown("RemoteLogSegmentMetadataSnapshot", {
        "segmentId": data["segmentId"],
        "startOffset": data["startOffset"],
        "endOffset": data["endOffset"],
        "maxTimestampMs": data["maxTimestampMs"],
        **_of_a_segment(data),
    })  # fmt: skip


def _of_a_segment(data: dict[str, Any]) -> dict[str, object]:
    epochs = {epoch["leaderEpoch"]: epoch["offset"] for epoch in data["segmentLeaderEpochs"]}
    return {
        "segmentLeaderEpochs": "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}",
        "segmentSizeInBytes": data["segmentSizeInBytes"],
        "customMetadata": _custom(data["customMetadata"]),
        "state": _state(_SEGMENT_STATES, data["remoteLogSegmentState"]),
        "txnIdxEmpty": "true" if data["txnIndexEmpty"] else "false",
    }


def _segment_id(data: dict[str, Any]) -> str:
    fields = {"topicIdPartition": _partition(data["topicIdPartition"]), "id": data["id"]}
    return _shown("RemoteLogSegmentId", fields)


def _partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(states: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(states):
        raise InvalidRecord(f"unknown state {number}")
    return states[number]


def _shown(name: str, fields: dict[str, object]) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"
