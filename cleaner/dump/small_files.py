"""The small files of a log dir, entry by entry: producer snapshots, transaction indexes, checkpoints, metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.dump.files import DumpedKind
from storage.checkpoints import parse_leader_epochs, parse_offset_checkpoint, parse_partition_metadata
from storage.log.producer_state import ProducerEntry, parse_snapshot
from storage.properties import parse_properties
from storage.records.header import sequence_before
from storage.txn_index import parse_txn_index

_TXN_INDEX_VERSION: Final = 0


class FileEntry(NamedTuple):
    """An entry of a file: its type, as JSON names it, and its fields, in the order of the text."""

    kind: str
    fields: Mapping[str, object]


def _producers(data: bytes, path: Path) -> Iterator[FileEntry]:
    for producer in parse_snapshot(data, path):
        yield FileEntry("producer", _producer(producer))


def _producer(producer: ProducerEntry) -> dict[str, object]:
    """Return the fields of a producer. Source: Kafka DumpLogSegments.dumpProducerIdSnapshot."""
    fields: dict[str, object] = {
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": producer.open_txn_first_offset,
        "lastTimestamp": producer.last_timestamp_ms,
    }
    if batch := producer.last_batch:
        fields |= {
            "firstSequence": sequence_before(batch.last_sequence, batch.offset_delta),
            "lastSequence": batch.last_sequence,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": batch.timestamp_ms,
        }
    return fields


def _aborted(data: bytes, path: Path) -> Iterator[FileEntry]:
    for found in parse_txn_index(data, path):
        yield FileEntry(
            "aborted-transaction",
            {
                "version": _TXN_INDEX_VERSION,
                "producerId": found.producer_id,
                "firstOffset": found.first_offset,
                "lastOffset": found.last_offset,
                "lastStableOffset": found.last_stable_offset,
            },
        )


def _offsets(data: bytes, path: Path) -> Iterator[FileEntry]:
    for (topic, partition), offset in parse_offset_checkpoint(data, path).items():
        yield FileEntry("checkpoint", {"topic": topic, "partition": partition, "offset": offset})


def _leader_epochs(data: bytes, path: Path) -> Iterator[FileEntry]:
    for epoch, start_offset in parse_leader_epochs(data, path):
        yield FileEntry("leader-epoch", {"epoch": epoch, "startOffset": start_offset})


def _topic_id(data: bytes, path: Path) -> Iterator[FileEntry]:
    yield FileEntry("partition-metadata", {"topicId": parse_partition_metadata(data, path)})


def _properties(data: bytes, path: Path) -> Iterator[FileEntry]:
    for name, (value, _) in parse_properties(data, str(path)).items():
        yield FileEntry("property", {"name": name, "value": value})


ENTRIES: Final[Mapping[DumpedKind, Callable[[bytes, Path], Iterator[FileEntry]]]] = {
    DumpedKind.PRODUCER_SNAPSHOT: _producers,
    DumpedKind.TXN_INDEX: _aborted,
    DumpedKind.OFFSET_CHECKPOINT: _offsets,
    DumpedKind.LEADER_EPOCHS: _leader_epochs,
    DumpedKind.PARTITION_METADATA: _topic_id,
    DumpedKind.META_PROPERTIES: _properties,
}
"""The readers of the files that are read as a whole. They raise LogCleanerError."""
