"""Tell what is wrong with the files of a partition: padded indexes, zero tails, offsets that no index holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.checking.findings import Finding, FindingCode, Harm
from policies.checking.shapes.symptoms import NO_EPOCH, PartitionSymptoms, SegmentGlance, ZeroTail
from policies.explaining.words import counted, size
from policies.reasons import moment

TIME_ENTRY_BYTES: Final = 12
_VERIFY: Final = "logcleaner verify {} tells more, and verify --repair rebuilds what can be rebuilt"

_RECOVERS_ALL: Final = (
    "Without .kafka_cleanshutdown the next start recovers every log of the log dir, and cuts each one at its first "
    "damage."
)


def file_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield what is wrong with the files of a partition."""
    if seen.error is not None:
        yield _unreadable(seen, seen.error)
    yield from _padded_time_indexes(seen)
    for tail in seen.tails:
        yield from _tail(seen, tail)
    for segment in seen.overflowing:
        text = (
            f"Offset {segment.last_offset} is more than 2,147,483,647 above the segment's base offset: no index can "
            f"hold it, so the segment can be neither indexed nor compacted."
        )
        remedy = "Start the broker once: it splits the segment while it loads the log."
        yield Finding(
            FindingCode.OFFSET_OVERFLOW, Harm.SLOW_START, segment.path, text, remedy, None, segment.last_offset,
            "KAFKA-6264",
        )  # fmt: skip
    if seen.unfinished_files and not seen.is_live:
        files = counted(seen.unfinished_files, ".swap or .cleaned file")
        text = f"A compaction was interrupted: {files} wait to be put in, or thrown away."
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
    epochs, start = seen.leader_epochs, (seen.facts.log_start_offset if seen.facts else 0)
    if seen.error is not None:
        return
    glances = [g for g in seen.glances if g.first_offset is not None and g.first_epoch > NO_EPOCH]
    if seen.is_live:
        glances = glances[:-1]  # a broker writes the file a moment later than the batch
    witness = next((g for g in glances if not _is_known(g, epochs or (), start)), None)
    if witness is None:
        return
    newest = f"its newest entry is {epochs[-1][0]}" if epochs else "it has no entry"
    text = (
        f"The batch at offset {witness.first_offset} was written in leader epoch {witness.first_epoch}, which "
        f"leader-epoch-checkpoint does not know: {newest}. Followers that ask for the end of that epoch get no answer, "
        f"and fetch in a loop or truncate too much."
    )
    remedy = "Stop the broker, and let logcleaner verify --repair rebuild the epochs from the batches."
    yield Finding(
        FindingCode.EPOCHS_LOST, Harm.WRONG_ANSWER, seen.path, text, remedy, None, witness.first_offset, "KAFKA-20961",
        "leader-epochs",
    )  # fmt: skip


def _is_known(glance: SegmentGlance, epochs: tuple[tuple[int, int], ...], log_start_offset: int) -> bool:
    """Return whether the epoch of a segment's first batch is in the file, or need not be."""
    assert glance.first_offset is not None
    if glance.first_offset < log_start_offset:  # the entries below the log start were cut off
        return bool(epochs) or glance.first_epoch == NO_EPOCH
    below = [epoch for epoch, start_offset in epochs if start_offset <= glance.first_offset]
    return bool(below) and below[-1] >= glance.first_epoch


def _unreadable(seen: PartitionSymptoms, error: str) -> Finding:
    cause = error.removeprefix(f"{seen.path}: ")
    text = f"The partition cannot be read as it is: {cause}."
    remedy = _VERIFY.format(seen.topic_partition) + "; logcleaner leaves the partition alone."
    return Finding(FindingCode.PARTITION_UNREADABLE, Harm.NO_START, seen.path, text, remedy)


def _padded_time_indexes(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the time indexes that end with zeros although nobody appends to them."""
    is_in_use = seen.is_live or not seen.was_clean
    for place, glance in enumerate(seen.glances):
        is_active = place == len(seen.glances) - 1
        if not glance.time_index_ends_with_zeros or (is_active and is_in_use):
            continue
        if glance.time_index_bytes <= TIME_ENTRY_BYTES and glance.first_ms <= 0:
            continue  # the only timestamp of the segment may be 0
        if not glance.size_bytes or _is_rebuilt(seen, place):
            continue
        path = f"{glance.path.removesuffix('.log')}.timeindex"
        position = max(glance.time_index_bytes - TIME_ENTRY_BYTES, 0)
        written = f" Its first batch is of {moment(glance.first_ms)}." if glance.first_ms > 0 else ""
        text = (
            f"The time index ends with zeros, so a broker takes 1970 for the segment's newest record, and time "
            f"retention deletes the segment at its next check.{written}"
        )
        remedy = "Before the broker starts, run logcleaner verify --repair: it rebuilds the index from the log."
        yield Finding(
            FindingCode.TIME_INDEX_PADDED, Harm.DATA_LOST, path, text, remedy, position, glance.base_offset,
            "KAFKA-19200" if is_active else "KAFKA-10207", "time-index",
        )  # fmt: skip


def _is_rebuilt(seen: PartitionSymptoms, place: int) -> bool:
    """Return whether the next start rebuilds the index: it does from the recovery point on, after an unclean stop."""
    if seen.is_live or seen.was_clean:
        return False
    upper = seen.glances[place + 1].base_offset if place + 1 < len(seen.glances) else seen.log_end_offset
    return upper is not None and upper > (seen.noted.recovery_point or 0)


def _tail(seen: PartitionSymptoms, tail: ZeroTail) -> Iterator[Finding]:
    if seen.is_live and tail.is_active:
        return  # it is being written, or log.preallocate is on
    what = "are zeros, as log.preallocate leaves them" if tail.is_zero else "are no whole batch: a write was cut short"
    text = f"The last {size(tail.size_bytes)} of the segment {what}"
    code = FindingCode.ZERO_TAIL if tail.is_zero else FindingCode.TORN_TAIL
    issue = "KAFKA-21000" if tail.is_zero else None
    if not seen.was_clean and tail.is_active:
        text += ". The stop was not clean, so the next start of the broker finds the end, and cuts them off."
        remedy = "Start the broker once. To look at them before, copy the file."
        yield Finding(code, Harm.SLOW_START, tail.path, text, remedy, tail.position, None, issue)
        return
    text += ". The stop was clean, so the next start does not look for the end"
    if not tail.is_zero:
        text += (
            ": the broker serves the log, and puts what producers send behind these bytes, where no consumer and no "
            "replica ever gets to."
        )
        remedy = (
            f"Keep the broker stopped, and run logcleaner verify first. {_RECOVERS_ALL} If only this tail is damaged, "
            f"remove the file: the start cuts these bytes off."
        )
        yield Finding(code, Harm.DATA_LOST, tail.path, text, remedy, tail.position, None, issue)
        return
    text += ": it meets a record of size 0, and fails."
    remedy = (
        f"Run logcleaner verify --repair=zero-tail before the broker starts, and leave .kafka_cleanshutdown: "
        f"{_RECOVERS_ALL[:1].lower()}{_RECOVERS_ALL[1:]}"
    )
    yield Finding(code, Harm.NO_START, tail.path, text, remedy, tail.position, None, issue, "zero-tail")
