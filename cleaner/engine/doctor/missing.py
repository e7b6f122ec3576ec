"""Look which partitions of a log dir lack records already, by the facts of the doctor that cost little to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from cleaner.engine.doctor.glancing import counted_end_at, glance_at, tails_of
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.verify.hollow import emptied_segments, lost_segments, recovered
from policies.findings.findings import Finding
from policies.findings.shapes.of_missing_records import missing_record_findings_of
from policies.findings.shapes.symptoms import Noted, PartitionSymptoms
from storage.errors import LogCleanerError
from storage.log.end import find_end
from storage.log.listing import list_partition
from storage.log_dir import LogDir, Offsets
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)

_CHECKPOINTS = HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT


def missing_records(path: Path, partitions: Collection[TopicPartition], *, is_live: bool) -> Iterator[Finding]:
    """Yield what says that records of some partitions are gone.

    What cannot be read tells nothing here.

    Args:
        path: of the log dir.
        partitions: whose directories carry their plain names.
        is_live: whether a process holds the lock of the log dir: a broker, as a rule.
    """
    log_dir = LogDir(path)
    was_clean = (path / CLEAN_SHUTDOWN_FILE).exists()
    offsets = [_offsets(log_dir, name) for name in _CHECKPOINTS]  # before the logs, which grow beside a broker
    for topic_partition in partitions:
        noted = Noted(*(one.get(topic_partition) for one in offsets))
        with suppress(LogCleanerError, FileNotFoundError):
            seen = _symptoms(log_dir, topic_partition, noted, is_live=is_live, was_clean=was_clean)
            yield from missing_record_findings_of(seen)


def _offsets(log_dir: LogDir, name: str) -> Offsets:
    with suppress(LogCleanerError):
        return log_dir.offsets(name)
    return {}


def _symptoms(
    log_dir: LogDir, topic_partition: TopicPartition, noted: Noted, *, is_live: bool, was_clean: bool
) -> PartitionSymptoms:
    """Read what tells of missing records. Raises: LogCleanerError."""
    path = log_dir.path / str(topic_partition)
    listing = list_partition(path)
    segments = recovered(listing).segments
    end = find_end(segments[-1], trust_index=was_clean) if segments else None
    glances = glance_at(segments, with_keys=False)
    return PartitionSymptoms(
        topic_partition,
        str(path),
        is_live,
        was_clean,
        age_ms=0,
        noted=noted,
        log_end_offset=end.next_offset if end else None,
        newest_snapshot=max((snapshot.name.base_offset for snapshot in listing.snapshots), default=None),
        glances=glances,
        tails=tuple(tails_of(segments, glances, 0 if is_live or end is None else end.torn_bytes, is_deep=True)),
        lost_segments=lost_segments(listing),
        emptied=tuple(emptied_segments(listing, noted.log_start or 0, with_last=was_clean and not is_live)),
        only_copies=() if is_live else tuple(OnlyCopies(log_dir).by_path(topic_partition, listing)),
        counted_end=counted_end_at(segments) if was_clean and not is_live else None,
    )
