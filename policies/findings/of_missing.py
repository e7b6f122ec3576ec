"""Findings of records that are gone: files that name offsets which the ``.log`` files lack.

A compaction leaves gaps, too. But it makes the index files anew with the log: none of them names what is gone. So an
index that leads behind the end of its log, to an offset that no other segment has, tells of a loss. What tells of it
must stay: nothing that is derived from the whole log is made anew there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from policies.findings.facts import LogHistory
from policies.findings.findings import Finding, FindingCode, Harm
from storage.names import FileKind, SegmentFileName, segment_file_name

_ASK_FOR_RECORDS: Final = (
    "Copy the directory to a safe place, and touch nothing; then fetch the partition from another replica, or restore"
    " it from a backup."
)
INDEXES_GO: Final = "Do not start the broker: its start removes these index files, too."
"""What comes first where index files without a ``.log`` tell of the loss."""


class NamedBatch(NamedTuple):
    """An entry of an offset index."""

    offset: int
    position: int


class NamedTime(NamedTuple):
    """An entry of a time index."""

    timestamp_ms: int
    offset: int


class IndexedTail(NamedTuple):
    """The end of one segment, and the entries of its index files that name offsets behind it."""

    base_offset: int
    end_bytes: int
    """The byte behind the last sound batch."""
    largest_ms: int
    """The largest timestamp of the batches; -1 without one."""
    batches: Sequence[NamedBatch]
    times: Sequence[NamedTime]
    aborted: Sequence[int]
    """Offsets of the markers that the transaction index names."""
    shift_bytes: int = 0
    """The number of bytes by which the offset index leads too far, from some entry on to its end."""


class EmptiedSegment(NamedTuple):
    """A segment without a record, of which an index file has entries."""

    directory: str
    base_offset: int
    index_name: str
    is_gone: bool
    """Whether the ``.log`` is gone; else it is empty."""


def emptied_findings(found: Iterable[EmptiedSegment]) -> Iterator[Finding]:
    """Yield a finding for each segment that lost all its records."""
    for one in found:
        text = f"{one.index_name} has entries, and {'no .log' if one.is_gone else 'its .log is empty'}"
        yield _lost(one.directory, one.base_offset, one.base_offset, text, is_gone=one.is_gone)


def missing_record_findings(
    log: LogHistory,
    tails: Iterable[IndexedTail],
    lone: Iterable[SegmentFileName],
    log_start_offset: int,
    whole_to: int | None,
) -> list[Finding]:
    """Return a finding for each place where files name records that no ``.log`` has.

    Args:
        log: the partition.
        tails: of its segments.
        lone: index files with entries, whose ``.log`` is gone, and does not wait as ``.deleted``.
        log_start_offset: what lies below it may be gone.
        whole_to: the end of the log as the broker noted it when it stopped cleanly; None where it did not.
    """
    known = {tail.base_offset: tail for tail in tails}
    found: list[Finding] = []
    gaps: list[tuple[int, int | None]] = [(log_start_offset, log.start_offset)]
    following = [segment.standing.base_offset for segment in log.segments[1:]]
    for segment, due_offset in zip_longest(log.segments, following):
        next_offset, base_offset = segment.facts.next_offset, segment.standing.base_offset
        if due_offset is None or next_offset < due_offset:
            gaps.append((next_offset, due_offset))
        is_live_end = due_offset is None and segment.standing.is_live
        if segment.facts.is_damaged or is_live_end or (tail := known.get(base_offset)) is None:
            continue
        is_whole = next_offset == (whole_to if due_offset is None else due_offset)
        text = None if is_whole else next(_named_behind(tail, next_offset, due_offset), None)
        if text is None and tail.shift_bytes:
            index = segment_file_name(base_offset, FileKind.INDEX)
            text = f"{index} leads {tail.shift_bytes:,} bytes behind the batches: so many are gone from the log"
        if text:
            found.append(_lost(log.directory, base_offset, next_offset, text))
    for one in lone:
        is_due = any(_is_between(one.base_offset, *gap) for gap in gaps)
        if is_due and all(finding.offset != one.base_offset for finding in found):
            text = f"{one} has entries, and no .log"
            found.append(_lost(log.directory, one.base_offset, one.base_offset, text, is_gone=True))
    return found


def _named_behind(tail: IndexedTail, next_offset: int, due_offset: int | None) -> Iterator[str]:
    """Yield what files of a segment name behind its end, below the next segment.

    Two fields of an entry must agree on it: one that is wrong by itself is no evidence.
    """
    ends = f"and the batches end at {next_offset}"
    for offset, position in tail.batches:
        if _is_between(offset, next_offset, due_offset) and position >= tail.end_bytes:
            name = segment_file_name(tail.base_offset, FileKind.INDEX)
            yield f"{name} names offset {offset} at byte {position}, {ends}"
    for timestamp_ms, offset in tail.times:
        if _is_between(offset, next_offset, due_offset) and timestamp_ms > tail.largest_ms:
            yield f"{segment_file_name(tail.base_offset, FileKind.TIME_INDEX)} names offset {offset}, {ends}"
    for offset in tail.aborted:
        if _is_between(offset, next_offset, due_offset):
            yield f"{segment_file_name(tail.base_offset, FileKind.TXN_INDEX)} names offset {offset}, {ends}"


def _is_between(offset: int, lower: int, upper: int | None) -> bool:
    return offset >= lower and (upper is None or offset < upper)


def _lost(directory: str, base_offset: int, offset: int, text: str, *, is_gone: bool = False) -> Finding:
    path = f"{directory}/{segment_file_name(base_offset, FileKind.LOG)}"
    remedy = f"{INDEXES_GO} {_ASK_FOR_RECORDS}" if is_gone else _ASK_FOR_RECORDS
    return Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, path, f"Records are missing: {text}.", remedy, offset=offset)
