"""Small logs laid down as files, and read back: the engine and the model make the same of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from policies.retain import AbortedTransaction, Marker
from storage.checkpoints import format_offset_checkpoint, parse_offset_checkpoint
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
)
from storage.records import Batch as EncodedBatch
from storage.records import ControlType, encode_batch, parse_header
from storage.records import Record as EncodedRecord
from storage.records.v2 import parse_control_type
from storage.txn_index import AbortedTxn, format_aborted_txn, parse_txn_index
from tests.batches import encode_empty_batch, format_control_key, format_txn_marker_value, iter_batches
from tests.builders import NOW_MS
from tests.models.small_logs.exploration import Sample
from tests.models.small_logs.invariants import demand
from tests.models.small_logs.operations import REQUESTS
from tests.models.small_logs.world import Batch, Record, Segment, World
from tests.partition_dirs import PartitionDir, a_cleaner

PARTITION: Final = TopicPartition("orders", 0)
_TYPES: Final = {Marker.COMMIT: ControlType.COMMIT, Marker.ABORT: ControlType.ABORT}
_MARKERS: Final = {kind: marker for marker, kind in _TYPES.items()}


def check_engine(sample: Sample, log_dir: Path) -> None:
    """Let the engine do the sample's step in a new directory, and compare every segment, batch and checkpoint.

    Raises: Violation.
    """
    laid_down(sample.before, log_dir)
    cleaner = a_cleaner(log_dir, sample.scenario.layers)
    _, outcome = cleaner.clean(REQUESTS[sample.letter])
    demand(not outcome.errors, "the engine failed", sample, outcome.errors)
    expected, found = _comparable(sample.after), _comparable(read_back(log_dir, sample.after))
    demand(found == expected, "the engine differs from the model", sample, expected, found)
    shutil.rmtree(log_dir)


def _comparable(world: World) -> World:
    """Without the notes, and without the file time of a segment that was just rolled, which is the machine's."""
    active = world.segments[-1]
    rolled = active if active.batches else active._replace(mtime_ms=NOW_MS)
    return world._replace(segments=(*world.segments[:-1], rolled), passed_ms=())


def laid_down(world: World, log_dir: Path) -> None:
    """Write the log, its indexes and its checkpoints."""
    partition = PartitionDir(log_dir)
    for segment in world.segments:
        aborted = b"".join(format_aborted_txn(AbortedTxn(*_fields(entry))) for entry in segment.aborted)
        partition.segment(segment.base, *map(encoded, segment.batches), mtime_ms=segment.mtime_ms, aborted=aborted)
    checkpoints = {HIGH_WATERMARK_CHECKPOINT: world.high_watermark, LOG_START_OFFSET_CHECKPOINT: world.log_start}
    if world.checkpoint is not None:
        checkpoints[CLEANER_OFFSET_CHECKPOINT] = world.checkpoint
    for name, offset in checkpoints.items():
        (log_dir / name).write_bytes(format_offset_checkpoint({PARTITION: offset}))
    (log_dir / ".kafka_cleanshutdown").touch()


def _fields(entry: AbortedTransaction) -> tuple[int, int, int, int]:
    return entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset


def encoded(batch: Batch) -> bytes:
    """As a broker or a cleaner writes it."""
    records = [
        EncodedRecord(
            record.offset,
            batch.time_ms,
            record.key.encode() if record.key is not None else None,
            bytes([record.offset]) if record.has_value else None,
        )
        for record in batch.records
    ]
    if batch.is_marker and batch.marker is not None:
        key, value = format_control_key(_TYPES[batch.marker]), format_txn_marker_value(0)
        records = [EncodedRecord(batch.base, batch.time_ms, key, value)]
    data = encode_batch(
        records or [EncodedRecord(batch.base, batch.time_ms, None, None)],
        base_offset=batch.base,
        last_offset=batch.last,
        delete_horizon_ms=batch.horizon_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.epoch,
        base_sequence=batch.sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.marker is not None,
    )
    return data if records else encode_empty_batch(parse_header(data, 0, Path("drawn")))


def read_back(log_dir: Path, like: World) -> World:
    """The log as it lies there; what no file says (log end, high watermark) as in ``like``."""
    directory = log_dir / str(PARTITION)
    segments = tuple(_segment(path) for path in sorted(directory.glob("*.log")))
    start = _checkpointed(log_dir, LOG_START_OFFSET_CHECKPOINT)
    return like._replace(
        segments=segments,
        log_start=max(start or 0, segments[0].base),
        checkpoint=_checkpointed(log_dir, CLEANER_OFFSET_CHECKPOINT),
    )


def _segment(path: Path) -> Segment:
    index = path.with_suffix(".txnindex")
    entries = parse_txn_index(index.read_bytes(), index) if index.exists() else []
    return Segment(
        int(path.stem),
        path.stat().st_mtime_ns // 1_000_000,
        tuple(map(_batch, iter_batches(path.read_bytes(), path))),
        tuple(AbortedTransaction(*entry) for entry in entries),
    )


def _batch(found: object) -> Batch:
    assert isinstance(found, EncodedBatch)
    found.ensure_valid()
    header, records = found.header, found.records()
    marker = None
    if header.is_control:
        marker = _MARKERS[parse_control_type(records[0].key)] if records else Marker.NONE
    for record in records:
        times = (record.timestamp_ms, record.value)
        expected = (header.max_timestamp_ms, record.value and bytes([record.offset]))
        demand(marker is not None or times == expected, "a record's time or value", record)
    return Batch(
        header.base_offset,
        header.last_offset,
        header.max_timestamp_ms,
        () if header.is_control else tuple(_record(record) for record in records),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        marker,
        header.delete_horizon_ms,
    )


def _record(record: EncodedRecord) -> Record:
    return Record(record.offset, record.key.decode() if record.key is not None else None, record.value is not None)


def _checkpointed(log_dir: Path, name: str) -> int | None:
    path = log_dir / name
    return parse_offset_checkpoint(path.read_bytes(), path).get(PARTITION) if path.exists() else None
