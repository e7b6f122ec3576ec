"""Look which partitions of a log dir lack records already, by the facts of the doctor that cost little to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.engine.doctor.glancing import LogEnd, glance_at
from cleaner.engine.explain.explaining import Glanced
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.verify.hollow import claims_on, emptied_segments, recovered
from cleaner.engine.verify.log_dir_files import CheckpointFiles
from policies.findings.findings import Finding, LogHistory, Noted
from policies.findings.of_partition import missing_record_findings_of
from policies.findings.symptoms import PartitionSymptoms
from storage.errors import LogCleanerError
from storage.log.end import find_end
from storage.log.listing import Listing, list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition

if TYPE_CHECKING:
    from storage.scan.small_segments import SmallSegments


def missing_records(path: Path, partitions: Collection[TopicPartition], *, is_live: bool) -> Iterator[Finding]:
    """Yield what says that records of some partitions are gone.

    What cannot be read tells nothing here.

    Args:
        path: of the log dir.
        partitions: whose directories carry their plain names.
        is_live: whether a process holds the lock of the log dir: a broker, as a rule.
    """
    rule, checkpoints = OnlyCopies(LogDir(path)), CheckpointFiles.read(path, lambda _: None)
    was_clean = checkpoints.was_clean
    for topic_partition in partitions:
        noted = checkpoints.noted(topic_partition)
        with suppress(LogCleanerError, FileNotFoundError):
            listing = list_partition(path / str(topic_partition))
            glanced = Glanced.at(recovered(listing))
            segments = glanced.listing.segments
            end = find_end(segments[-1], trust_index=was_clean) if segments else None
            ends = LogEnd(end.next_offset, 0 if is_live else end.torn_bytes) if end else LogEnd(noted.log_start or 0, 0)
            one = rule, topic_partition, listing, glanced, noted, ends
            yield from missing_record_findings_of(loss_symptoms(*one, is_live=is_live, was_clean=was_clean))


def loss_symptoms(
    rule: OnlyCopies,
    topic_partition: TopicPartition,
    listing: Listing,
    glanced: Glanced,
    noted: Noted,
    end: LogEnd,
    *,
    is_live: bool,
    was_clean: bool,
    keys: SmallSegments | None = None,
) -> PartitionSymptoms:
    """Read what tells of missing records in one partition.

    Args:
        rule: of the log dir.
        topic_partition: the partition.
        listing: of its directory.
        glanced: at its segments, as a recovery leaves them.
        noted: its lines in the checkpoints.
        end: of the log.
        is_live: whether a process holds the lock of the log dir.
        was_clean: whether the broker stopped cleanly.
        keys: see ``glance_at``.

    Raises: LogCleanerError.
    """
    circumstances = noted.circumstances(is_live=is_live, was_clean=was_clean)
    facts, unkeyed = glance_at(glanced, circumstances, end, is_unfinished=listing.needs_recovery, keys=keys)
    directory = str(listing.directory)
    log = LogHistory.of(directory, facts, circumstances)
    return PartitionSymptoms(
        topic_partition,
        directory,
        is_live,
        was_clean,
        age_ms=0,
        claims=claims_on(listing, glanced.listing.segments, log, noted, circumstances, end.offset),
        log=log,
        unkeyed_offsets=unkeyed,
        emptied=tuple(emptied_segments(listing)),
        only_copies=() if is_live else tuple(rule.by_path(topic_partition, listing)),
    )
