"""Tell what is wrong with the files of a partition: padded indexes, zero tails, offsets that no index holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.findings.findings import (
    REBUILD,
    SPLIT_BY_ITSELF,
    TIME_INDEX_PADDED,
    WRITE_TOPIC_ID,
    Finding,
    FindingCode,
    Harm,
    RepairGroup,
    Standing,
)
from policies.findings.of_files import (
    early_end_finding,
    emptied_findings,
    missing_findings,
    swap_findings,
    tail_finding,
)
from policies.findings.of_history import EpochStart, cut_entry, forgotten_start_finding, is_lost, lost_finding
from policies.findings.shapes.symptoms import NO_EPOCH, PartitionSymptoms, ZeroTail
from policies.findings.sweeping import only_copy_findings
from policies.reasons import counted, moment, size
from storage.anomalies import EpochRun
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, FileKind

TIME_ENTRY_BYTES: Final = 12
_DENIED: Final = "Permission denied"
_VERIFY: Final = "logcleaner verify {} tells more, and verify --repair rebuilds what can be rebuilt"


def file_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield what is wrong with the files of a partition."""
    if seen.error is not None:
        yield _unreadable(seen, seen.error)
    yield from _padded_time_indexes(seen)
    yield from _emptied_time_indexes(seen)
    for tail in seen.tails:
        if (found := _tail(seen, tail)) is not None:
            yield found
    if seen.ends_early and not any(tail.is_active for tail in seen.tails):
        assert seen.counted_end is not None
        assert seen.log_end_offset is not None
        last = _standing(seen, len(seen.glances) - 1)
        yield early_end_finding(last, seen.counted_end, seen.log_end_offset, is_lost=bool(seen.claims_beyond_end))
    for segment in seen.overflowing:
        text = (
            f"Offset {segment.last_offset} is more than 2,147,483,647 above the segment's base offset: no index can "
            f"hold it, so the segment can be neither indexed nor compacted."
        )
        yield Finding(
            FindingCode.OFFSET_OVERFLOW, Harm.SLOW_START, segment.path, text, SPLIT_BY_ITSELF, None,
            segment.last_offset, "KAFKA-6264",
        )  # fmt: skip
    yield from emptied_findings(seen.emptied)
    yield from only_copy_findings(seen.only_copies)
    yield from swap_findings(seen.hollow_swaps)
    if seen.unfinished_files and not seen.is_live and not seen.hollow_swaps:
        files = counted(seen.unfinished_files, ".swap or .cleaned file")
        waits = "waits" if seen.unfinished_files == 1 else "wait"
        text = f"A compaction was interrupted: {files} {waits} to be put in, or thrown away."
        remedy = "Leave them: the next start of the broker, or the next clean, finishes or undoes the compaction."
        yield Finding(FindingCode.SWAP_LEFT, Harm.SLOW_START, seen.path, text, remedy, kafka_issue="KAFKA-12520")
    if seen.deleted_files:
        files = f"{counted(seen.deleted_files, '.deleted file')} ({size(seen.deleted_bytes)})"
        text = f"The delay of {files} is over, and nobody has unlinked them."
        remedy = (
            "The broker that holds the lock forgot them; its next start removes them."
            if seen.is_live
            else "The next start of the broker removes them; doctor --sweep does it now, named one by one."
        )
        yield Finding(FindingCode.DELETED_LEFT, Harm.WASTE, seen.path, text, remedy)


def epoch_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield that batches have a leader epoch that ``leader-epoch-checkpoint`` does not know."""
    start = seen.facts.log_start_offset if seen.facts else 0
    entries = [EpochStart(*entry) for entry in seen.leader_epochs or ()]
    if seen.error is not None:
        return
    stretches = [
        EpochRun(glance.first_epoch, glance.first_offset, glance.first_offset, 0)
        for glance in seen.glances
        if glance.first_offset is not None and glance.first_epoch > NO_EPOCH
    ]
    if seen.is_live:
        stretches = stretches[:-1]  # a broker writes the file a moment later than the batch
    path = f"{seen.path}/{LEADER_EPOCH_CHECKPOINT}"
    if (cut := cut_entry(stretches, entries, seen.noted.log_start or 0)) is not None:
        if seen.was_clean and not seen.is_live:  # else the checkpoint may be older than the entries
            yield forgotten_start_finding(path, cut)
        return
    lost = next((one for one in stretches if is_lost(one, entries, start)), None)
    if lost is not None:
        yield lost_finding(path, lost.epoch, lost.first_offset, entries[-1].epoch if entries else None)


def _unreadable(seen: PartitionSymptoms, error: str) -> Finding:
    cause = error.removeprefix(f"{seen.path}: ")
    path = f"{seen.path}/{PARTITION_METADATA_FILE}"
    if cause.startswith(path):
        text = f"It cannot be read: {cause.removeprefix(path).lstrip()}."
        code, group = FindingCode.PARTITION_METADATA, RepairGroup.TOPIC_ID
        return Finding(code, Harm.NO_START, path, text, WRITE_TOPIC_ID, repair=group)
    text = f"The partition cannot be read as it is: {cause}."
    remedy = _VERIFY.format(seen.topic_partition) + "; logcleaner leaves the partition alone."
    if "is a symlink" in cause:
        remedy = (
            "Stop the broker, and put the file that the symlink leads to in its place; never remove the symlink alone."
        )
    elif _DENIED in cause:
        remedy = (
            "Run doctor as the broker's user, or as root. If that user may not read it either, mend the owner or mode."
        )
    return Finding(FindingCode.PARTITION_UNREADABLE, Harm.NO_START, seen.path, text, remedy)


def _padded_time_indexes(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the time indexes that end with zeros although nobody appends to them."""
    is_in_use = seen.is_live or not seen.was_clean
    for place, glance in enumerate(seen.glances):
        is_active = place == len(seen.glances) - 1
        if not glance.time_index_ends_with_zeros or (is_active and is_in_use):
            continue
        if (glance.time_index_bytes or 0) <= TIME_ENTRY_BYTES and glance.first_ms <= 0:
            continue  # the only timestamp of the segment may be 0
        if not glance.size_bytes or is_rebuilt(seen, place):
            continue
        path = f"{glance.path.removesuffix('.log')}.timeindex"
        position = max((glance.time_index_bytes or 0) - TIME_ENTRY_BYTES, 0)
        written = f" Its first batch is of {moment(glance.first_ms)}." if glance.first_ms > 0 else ""
        text = f"The time index ends with zeros: {TIME_INDEX_PADDED}.{written}"
        yield Finding(
            FindingCode.TIME_INDEX_PADDED, Harm.DATA_LOST, path, text, REBUILD, position, glance.base_offset,
            "KAFKA-19200" if is_active else "KAFKA-10207", RepairGroup.DERIVED,
        )  # fmt: skip


def _emptied_time_indexes(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the time indexes of segments with records that are missing, or have no entry.

    A segment gets its last entry when it is closed. A start builds those of a compaction that was interrupted.
    """
    if seen.unfinished_files:
        return
    for place, glance in enumerate(seen.glances):
        is_in_use = place == len(seen.glances) - 1 and (seen.is_live or not seen.was_clean)
        if glance.time_index_bytes or is_in_use or is_rebuilt(seen, place):
            continue
        if glance.time_index_bytes is None:
            yield from missing_findings([FileKind.TIME_INDEX], glance.size_bytes, _standing(seen, place))
            continue
        if glance.first_ms < 0:
            continue
        path = f"{glance.path.removesuffix('.log')}.timeindex"
        text = (
            f"It has no entry, and the segment's first batch is of {moment(glance.first_ms)}: retention by time may"
            " delete the segment too early, and look-ups by time miss its records."
        )
        code, group = FindingCode.TIME_INDEX_WRONG, RepairGroup.DERIVED
        yield Finding(code, Harm.DATA_LOST, path, text, REBUILD, 0, glance.base_offset, repair=group)


def is_rebuilt(seen: PartitionSymptoms, place: int) -> bool:
    """Return whether the next start recovers a segment: it does from the recovery point on, after an unclean stop."""
    if seen.is_live or seen.was_clean:
        return False
    upper = seen.glances[place + 1].base_offset if place + 1 < len(seen.glances) else None
    return upper is None or upper > (seen.noted.recovery_point or 0)


def _standing(seen: PartitionSymptoms, place: int) -> Standing:
    is_last = place == len(seen.glances) - 1
    return Standing(seen.path, seen.glances[place].base_offset, is_last, seen.is_live, is_rebuilt(seen, place))


def _tail(seen: PartitionSymptoms, tail: ZeroTail) -> Finding | None:
    place = next(place for place, glance in enumerate(seen.glances) if glance.path == tail.path)
    standing = _standing(seen, place)
    what = "are zeros, as log.preallocate leaves them" if tail.is_zero else "are no whole batch: a write was cut short"
    what = f"The last {size(tail.size_bytes)} of the segment {what}"
    offset = seen.log_end_offset if tail.is_active else None
    return tail_finding(standing, what, tail.position, offset, is_zero=tail.is_zero, counted=seen.counted_end)
