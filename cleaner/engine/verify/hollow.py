"""Looks for what tells of records that are gone, or would go: hollow ``.swap`` logs, index files of segments without
records, and whatever states offsets behind the end of a log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cleaner.engine.journal import EVIDENCE, partition_of, read_journal
from policies.findings.findings import Circumstances, LogHistory, Noted
from policies.findings.of_files import EmptiedSegment, HollowSwapFacts
from policies.findings.of_log_dir import LogClaims, PartitionNames
from storage.errors import LogCleanerError
from storage.log.file_records import counted_end_of
from storage.log.listing import Listing
from storage.log.recovery import has_entries, hollow_swaps, plan_recovery
from storage.names import BASE_OFFSET_DIGITS, FileKind, FileState, parse_topic_partition
from storage.segment import Segment, SegmentFile

_INDEXES: Final = (FileKind.INDEX, FileKind.TIME_INDEX)
_LOG_NAME_LENGTH: Final = BASE_OFFSET_DIGITS + len(FileKind.LOG)


def hollow_swap_facts(listing: Listing) -> list[HollowSwapFacts]:
    """Return the ``.swap`` logs that are empty or damaged; each is read whole. Raises: UnreadableFile."""
    found = hollow_swaps(listing)
    if not found:
        return []
    is_undone = _can_recover(listing)
    return [
        HollowSwapFacts(
            str(one.path),
            one.damage.cause if one.damage else None,
            one.damage.position if one.damage else 0,
            one.replaced.name if one.replaced else None,
            is_undone,
        )
        for one in found
    ]


def _can_recover(listing: Listing) -> bool:
    try:
        plan_recovery(listing)
    except LogCleanerError:
        return False
    return True


def strange_logs(listing: Listing) -> list[str]:
    """Return the names of segments that are no plain file: a symlink, a directory. A broker follows a symlink."""
    return sorted(name for name in listing.others if name.endswith(FileKind.LOG) and _is_base(name))


def _is_base(name: str) -> bool:
    base = name.removesuffix(FileKind.LOG)
    return len(base) == 20 and base.isdecimal()


def emptied_segments(listing: Listing) -> Iterator[EmptiedSegment]:
    """Yield the segments whose ``.log`` is empty or gone, and whose index files have entries.

    What a deletion of ours left when it was stopped tells of no loss: it took the ``.log`` by policy.

    Raises: UnreadableFile.
    """
    empty = {segment.base_offset: segment for segment in listing.segments if not segment.size_bytes}
    of_empty = [file for segment in empty.values() for kind in _INDEXES if (file := segment.files.get(kind))]
    told: dict[int, SegmentFile] = {}
    for file in (*of_empty, *lone_indexes(listing)):
        base_offset = file.name.base_offset
        if base_offset not in told and has_entries(file):
            told[base_offset] = file
    deletion = _newest_deletion(listing) if told.keys() - empty.keys() else None
    for base_offset, file in told.items():
        is_gone = base_offset not in empty
        named = deletion if is_gone and deletion and base_offset in deletion.bases else None
        if named is None or not named.took(file):
            begun_ms = named.time_ms if named and not named.is_whole else None
            yield EmptiedSegment(base_offset, file.file_name, is_gone, begun_ms)


class _Deletion(NamedTuple):
    """The deletion of which the newest line of a partition tells."""

    time_ms: int
    bases: frozenset[int]
    is_whole: bool
    """Whether no segment is left below its new log start."""

    def took(self, file: SegmentFile) -> bool:
        """Return whether it took the ``.log`` of an index file, which must be older than the line: offsets can come
        back with a new topic of the same name.
        """
        return self.is_whole and file.identity.mtime_ms <= self.time_ms


def _newest_deletion(listing: Listing) -> _Deletion | None:
    """Return the deletion that is whole, or whose end is still due; None if it waits for no end.

    The newest line of the partition must tell of it, and name every segment below its new log start: then all that it
    left, and no more, goes with it. Raises: UnreadableFile.
    """
    of_it = parse_topic_partition(listing.directory.name)
    told = (e for e in read_journal(listing.directory.parent) if partition_of(e) == of_it and e["what"] != EVIDENCE)
    newest = deque(told, maxlen=1)
    if of_it is None or not newest or newest[0]["what"] != "delete":
        return None
    try:
        time_ms, start = int(newest[0]["time_ms"]), newest[0]["log_start_offset"]
        named = frozenset(base for one in newest[0]["segments"] if (base := one["base_offset"]) < start)
        left = {one.base_offset for one in listing.segments if one.base_offset < start}
    except (KeyError, TypeError, ValueError):
        return None
    return _Deletion(time_ms, named, is_whole=not left) if listing.segments and left <= named else None


def lone_indexes(listing: Listing) -> list[SegmentFile]:
    """Return the index files whose ``.log`` is here in no state. One that is no plain file is here.

    Where it is here as ``.deleted`` or ``.swap``, a broker was killed between the renames of a segment's files.
    """
    beside = {segment.base_offset for segment in listing.segments}
    lone = [file for file in listing.in_state(FileState.PLAIN) if file.name.base_offset not in beside]
    if not any(file.name.kind is not FileKind.SNAPSHOT for file in lone):
        return []
    logs = {file.name.base_offset for file in listing.files if file.name.kind is FileKind.LOG}
    logs.update(int(name.removesuffix(FileKind.LOG)) for name in strange_logs(listing))
    return [file for file in lone if file.name.kind is not FileKind.SNAPSHOT and file.name.base_offset not in logs]


def odd_logs(listing: Listing) -> dict[str, str]:
    """Return the ``.log`` files whose names have not 20 digits, by the stem that a broker would give them.

    A broker does not read these files, so ``verify`` says nothing else about them.
    """
    odd = (one for one in listing.segments if len(one.log.file_name) != _LOG_NAME_LENGTH)
    return {f"{one.base_offset:0{BASE_OFFSET_DIGITS}d}": one.log.file_name for one in odd}


def names_in(listing: Listing) -> PartitionNames:
    """Return the names in a partition directory that are none of a log."""
    others = (*listing.others, *odd_logs(listing).values())
    return PartitionNames(others, tuple(file.file_name for file in lone_indexes(listing)))


def claims_on(
    listing: Listing,
    segments: Sequence[Segment],
    log: LogHistory,
    noted: Noted,
    circumstances: Circumstances,
    end_offset: int | None,
) -> LogClaims:
    """Return the end of a log, and the offsets that other files state of it.

    Args:
        listing: of the partition.
        segments: of the log.
        log: what the segments tell.
        noted: the lines of the checkpoints about the partition.
        circumstances: of the partition.
        end_offset: the offset behind the last whole batch; None if nobody knows it.

    Raises: UnreadableFile.
    """
    counted = counted_end_of(segments[-1]) if circumstances.is_clean and segments else None
    claims = LogClaims.of(log, noted, end_offset, counted.next_offset if counted else None)
    lone_bases = tuple(sorted({file.name.base_offset for file in lone_indexes(listing)}))
    return claims._replace(newest_snapshot=newest_snapshot(listing), lone_bases=lone_bases)


def newest_snapshot(listing: Listing) -> int | None:
    """Return the offset of the newest producer snapshot; None without one."""
    return max((snapshot.name.base_offset for snapshot in listing.snapshots), default=None)


def recovered(listing: Listing) -> Listing:
    """Return the partition as recovery will leave it. If recovery is impossible, return it as it is."""
    with suppress(LogCleanerError):
        return plan_recovery(listing).listing
    return listing
