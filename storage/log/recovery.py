"""Recovery: start-up deals with ``.cleaned``, ``.swap`` and ``.deleted`` files. The other half of ``storage.log.swap``.

The rules are the broker's own, so that either side may crash anywhere and the other side can finish.
``policies.preflight`` alone decides what a start of Kafka does to a whole log dir. A star marks a rule of ours that is
stricter than the broker's, with the test in ``tests/storage/log`` that holds it:
    1. A ``.swap`` file whose base is at or above the lowest ``.cleaned`` one belongs to a swap that had not begun.
       Undo the swap.
    2. Every ``.cleaned`` file is worth nothing. Delete it.
    3. The remaining ``.swap`` logs replace what they cover, from the lowest base to the highest next offset. Delete it.
       * A broker puts an empty or a damaged ``.swap`` log over records. We undo such a swap, or refuse the partition:
       test_damaged_swap_log_takes_the_place_of_nothing, test_empty_swap_log_within_a_segment_is_undone,
       test_damaged_swap_log_is_refused_while_its_sources_wait.
    4. Take the ``.swap`` suffix off.
    5. Below the first segment, an index file without a ``.log`` is left over from a segment. So is a producer snapshot,
       unless it is the newest. Delete them.
       * Where the ``.log`` waits as ``.deleted``, its files wait as well, because a restore can still take the deletion
       back: test_index_files_whose_log_waits_wait_with_it.
       * A broker deletes every snapshot that no segment begins at. A clean stop leaves snapshots like that, and needs
       no recovery: test_snapshots_that_clean_stops_of_a_broker_left_within_a_segment_are_no_leftovers.
    6. Between the segments, or behind them, an index file without a ``.log`` may be all that tells of missing records.
       * A broker deletes it. We keep it (``evidence``), but for two kinds that a crash of ours leaves: behind a swapped
       segment, the index of a source that lost all its records; at the log end, the empty index of a roll:
       test_index_files_without_a_log_stay_where_they_tell_of_missing_records.
    7. * A broker deletes ``.deleted`` files at once. We leave them: they wait for ``file.delete.delay.ms``:
       test_stage_6_finished_swap_leaves_deleted_files_to_their_delay.
    8. * A broker cuts a torn tail off. We never cut one, and touch no ``.log`` outside a swap:
       test_torn_tail_stays_while_a_swap_is_finished.
    9. * A broker leaves a symlink out, and opens the log without it. We refuse the partition:
       test_a_partition_with_any_segment_file_that_is_a_symlink_is_not_recovered.

Besides: the files that tasks of a cluster wrote for a compaction are worth nothing without its driver. Delete them. A
broker ignores them.

An empty ``.swap`` log is honest where a group lost all its records. Undoing its swap does no harm there: the next
compaction comes to the same result. We undo the swap of an empty or damaged log only where two things hold. The plain
log with the records from the swap's base on is there: the first source goes first, so no source is gone. And no
``.deleted`` log belongs into a gap above it: there, a power loss may have brought the first source back alone. Else we
refuse the partition, and leave it as it is.

Source: Kafka LogLoader.load steps 1 to 6, ProducerStateManager.removeStraySnapshots.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import is_there, pread, status_of
from storage.errors import CorruptBatch
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.end import next_offset_of
from storage.log.listing import Listing, ensure_plain_files, segments_of
from storage.names import FileKind, FileState, is_cluster_scratch, segment_file_name
from storage.records import Batch, LegacyBatch, iter_headers, read_batch
from storage.segment import Segment, SegmentFile, reading

_READ_BYTES: Final = 4096


class Recovery(NamedTuple):
    """The steps that finish or undo an interrupted swap, and the partition as it is after them."""

    undone: tuple[Path, ...]
    """The ``.swap`` files of a swap that had not begun.

    They go durably before the ``.cleaned`` files, which tell that it had not begun.
    """
    unlinks: tuple[Path, ...]
    renames: tuple[tuple[Path, Path], ...]
    retired: tuple[SegmentFile, ...]
    """Index files and snapshots that become ``.deleted``, as their ``.log`` did."""
    listing: Listing
    """The listing as recovery leaves it. The paths are still the present ones, so that a dry run can read them."""
    evidence: tuple[SegmentFile, ...] = ()
    """Index files without a ``.log`` that stay, since they may be the only trace of missing records."""

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.undone or self.unlinks or self.renames or self.retired)

    @property
    def names(self) -> list[str]:
        """The names of the files that the recovery touches."""
        retired = (file.path for file in self.retired)
        return [path.name for path in (*self.undone, *self.unlinks, *(source for source, _ in self.renames), *retired)]


def plan_recovery(listing: Listing) -> Recovery:
    """Decide what becomes of the leftovers of one partition.

    Raises: CorruptBatch where a ``.swap`` log is not whole, and a source of it may be gone; UnreadableFile;
        UnseenSegment where a file is no plain one.
    """
    ensure_plain_files(listing)
    recovery = _of_swaps(listing) if listing.needs_recovery else Recovery((), (), (), (), listing)
    if scratch := tuple(listing.directory / name for name in cluster_scratch(listing)):
        recovery = recovery._replace(unlinks=(*recovery.unlinks, *scratch))
    waiting = {f.name.base_offset for f in listing.in_state(FileState.DELETED) if f.name.kind is FileKind.LOG}
    left_over = tuple(_left_over(recovery.listing, waiting))
    if not left_over:
        return recovery
    explained = _Explained.of(listing, recovery)
    evidence = tuple(f for f in left_over if f.name.base_offset not in waiting and not explained.has(f, left_over))
    orphans = tuple(file for file in left_over if file not in evidence)
    retired = tuple(file for file in orphans if file.name.base_offset in waiting)
    unlinks = sorted(file.path for file in orphans if file not in retired)
    kept = tuple(file for file in recovery.listing.files if file not in orphans)
    return recovery._replace(
        unlinks=(*recovery.unlinks, *unlinks),
        retired=retired,
        listing=Listing(listing.directory, kept),
        evidence=evidence,
    )


def cluster_scratch(listing: Listing) -> list[str]:
    """Return the names of the files that a cluster's compaction wrote and never swapped in, ascending.

    Nobody else writes them while we hold the lock: an executor that outlived its driver only makes files of its own.
    """
    found = []
    for name in sorted(filter(is_cluster_scratch, listing.others)):
        with suppress(OSError):
            if stat.S_ISREG(status_of(listing.directory / name).st_mode):
                found.append(name)
    return found


class _Explained(NamedTuple):
    """The files without a ``.log`` that a step of ours, or of a broker, explains."""

    segments: tuple[Segment, ...]
    """The segments as recovery leaves them."""
    swapped: frozenset[int]
    """The base offsets of the segments that the recovery swaps in."""

    @classmethod
    def of(cls, listing: Listing, recovery: Recovery) -> _Explained:
        sources = {source for source, _ in recovery.renames}
        logs = (f for f in listing.in_state(FileState.SWAP) if f.name.kind is FileKind.LOG and f.path in sources)
        return cls(recovery.listing.segments, frozenset(file.name.base_offset for file in logs))

    def has(self, file: SegmentFile, left_over: Sequence[SegmentFile]) -> bool:
        """Return whether a file may go. Raises: UnreadableFile."""
        base = file.name.base_offset
        if file.name.kind is FileKind.SNAPSHOT:
            return True
        if not self.segments or base < self.segments[0].base_offset:
            return bool(self.segments)
        below = max(segment.base_offset for segment in self.segments if segment.base_offset < base)
        if below in self.swapped:
            return True
        if base < self.segments[-1].base_offset or base != next_offset_of(self.segments[-1]):
            return False
        return not any(has_entries(one) for one in left_over if one.name.base_offset == base)


def has_entries(index: SegmentFile) -> bool:
    """Return whether an index file holds more than zeros, which a broker allocates ahead. Raises: UnreadableFile."""
    if index.name.kind is FileKind.SNAPSHOT:
        return False
    with reading(index.path) as descriptor:
        return any(pread(descriptor, _READ_BYTES, 0))


def _of_swaps(listing: Listing) -> Recovery:
    cleaned = listing.in_state(FileState.CLEANED)
    undone_from = min((file.name.base_offset for file in cleaned), default=None)
    swaps = listing.in_state(FileState.SWAP)
    undone = tuple(s for s in swaps if undone_from is not None and s.name.base_offset >= undone_from)
    finished = tuple(s for s in swaps if s not in undone)
    logs = tuple(s for s in finished if s.name.kind is FileKind.LOG)
    worthless: tuple[SegmentFile, ...] = ()
    if logs and _is_worthless(
        listing, finished
    ):  # the log goes last: without it, index files would take their plain names
        undone, worthless, finished = (*undone, *(s for s in finished if s not in logs)), logs, ()
    replaced = _replaced(listing, finished)
    gone = {file.path for file in (*cleaned, *undone, *worthless, *replaced)}
    return Recovery(
        undone=tuple(file.path for file in undone),
        unlinks=tuple(file.path for file in (*cleaned, *worthless, *replaced)),
        renames=tuple((file.path, _plain(file)) for file in finished),
        retired=(),
        listing=_as_recovered(listing, gone, finished),
    )


def recover(fs: FileSystem, recovery: Recovery, directory: Path) -> None:
    """Carry a recovery out; safe to repeat after a crash at any step."""
    for paths in (recovery.undone, recovery.unlinks):
        for path in paths:
            fs.unlink(path, Purpose.RECOVER)
        if paths:
            fs.fsync_dir(directory, Purpose.RECOVER)
    for source, target in recovery.renames:
        fs.rename(source, target, Purpose.RECOVER)
    for file in recovery.retired:
        _retire(fs, file)
    if recovery.renames or recovery.retired:
        fs.fsync_dir(directory, Purpose.RECOVER)


def _retire(fs: FileSystem, file: SegmentFile) -> None:
    """Rename a file to ``.deleted``; unlink it if the disk is too full for that: an index can be made anew."""
    try:
        fs.rename(file.path, file.path.with_name(str(file.name._replace(state=FileState.DELETED))), Purpose.RECOVER)
    except OutOfSpace:
        fs.unlink(file.path, Purpose.RECOVER)


def _left_over(recovered: Listing, waiting: Collection[int]) -> Iterator[SegmentFile]:
    """Yield index files and snapshots that belong to no segment.

    The index files of a ``.log`` that is no plain file, such as a symlink, stay. So does the newest snapshot, which
    saves a broker a long replay wherever it lies.

    Args:
        recovered: the partition, swaps finished.
        waiting: base offsets of segments that wait as ``.deleted``.
    """
    logs = {segment.base_offset for segment in recovered.segments}
    first, newest = min(logs, default=0), max((file.name.base_offset for file in recovered.snapshots), default=None)
    for file in [file for file in recovered.in_state(FileState.PLAIN) if file.name.base_offset not in logs]:
        base, kind, _ = file.name
        is_left = kind is not FileKind.SNAPSHOT or (base != newest and (base < first or base in waiting))
        is_orphan = is_left and file.file_name == str(file.name)
        if is_orphan and not is_there(recovered.directory / segment_file_name(base, FileKind.LOG)):
            yield file


def _replaced(listing: Listing, finished: tuple[SegmentFile, ...]) -> tuple[SegmentFile, ...]:
    """Return the plain files with a base in the range that the finished swaps cover."""
    covering = segments_of(listing.directory, finished)
    if not covering:
        return ()
    start, end = covering[0].base_offset, max(map(next_offset_of, covering))
    return tuple(f for f in listing.in_state(FileState.PLAIN) if start <= f.name.base_offset < end)


class HollowSwap(NamedTuple):
    """A ``.swap`` log that is empty or damaged."""

    path: Path
    damage: CorruptBatch | None
    """None if it is empty."""
    replaced: Path | None
    """The plain log with records that the swap would replace, or stand beside; None if there is none."""


def hollow_swaps(listing: Listing) -> list[HollowSwap]:
    """Return the damaged ``.swap`` logs, and the empty ``.swap`` logs in front of records. All are read whole.

    Raises: UnreadableFile.
    """
    cleaned = min((file.name.base_offset for file in listing.in_state(FileState.CLEANED)), default=None)
    found = []
    for file in listing.in_state(FileState.SWAP):
        is_due = cleaned is None or file.name.base_offset < cleaned
        if file.name.kind is FileKind.LOG and is_due:
            source = _source(listing, file)
            if (damage := _damage(file)) or (source and not file.size_bytes):
                found.append(HollowSwap(file.path, damage, source.log.path if source else None))
    return found


def _is_worthless(listing: Listing, finished: tuple[SegmentFile, ...]) -> bool:
    """Return whether a swap is to be undone, because its log is empty or damaged and its sources are all there.

    Raises: CorruptBatch where its log is damaged, and a source may be gone; UnreadableFile.
    """
    logs = [file for file in finished if file.name.kind is FileKind.LOG]
    replaced = [file for file in _replaced(listing, finished) if file.name.kind is FileKind.LOG]
    sources = [source for log in logs if (source := _source(listing, log))]
    retired = {f.name.base_offset for f in listing.in_state(FileState.DELETED) if f.name.kind is FileKind.LOG}
    if not (replaced or sources or any(log.name.base_offset in retired for log in logs)):
        return False
    damage = next((damage for log in logs if (damage := _damage(log))), None)
    if damage is None:
        hollow = next((log for log in logs if _source(listing, log) and not log.size_bytes), None)
        if hollow is None:
            return False
        damage = CorruptBatch(hollow.path, 0, "the file is empty, and would take the place of records")
    if len(logs) > 1 or not sources or _fills_a_gap(listing, retired, logs[0].name.base_offset):
        raise damage
    if logs[0].size_bytes:
        for file in {file.path: file for file in (*replaced, *(source.log for source in sources))}.values():
            ensure_whole(file)
    return True


def _source(listing: Listing, swap: SegmentFile) -> Segment | None:
    """Return the plain segment that has records from the base of a swap on, and begins there or below."""
    below = [segment for segment in listing.segments if segment.base_offset <= swap.name.base_offset]
    return below[-1] if below and next_offset_of(below[-1]) > swap.name.base_offset else None


def _fills_a_gap(listing: Listing, retired: Collection[int], base_offset: int) -> bool:
    """Return whether a log that waits as ``.deleted`` belongs between two plain segments, above a base offset."""
    ends = [(segment, next_offset_of(segment)) for segment in listing.segments if segment.base_offset >= base_offset]
    gaps = [(end, above.base_offset) for (_, end), (above, _) in pairwise(ends)]
    return any(start <= base < end for base in retired if base > base_offset for start, end in gaps)


def _damage(log: SegmentFile) -> CorruptBatch | None:
    try:
        ensure_whole(log)
    except CorruptBatch as error:
        return error
    return None


def ensure_whole(log: SegmentFile) -> None:
    """Read all of a log, and compare the CRC of each batch. Raises: CorruptBatch, UnreadableFile."""
    for _ in sound_batches(log.path, log.size_bytes):
        pass


def sound_batches(path: Path, size_bytes: int | None = None) -> Iterator[Batch | LegacyBatch]:
    """Yield each batch of a ``.log`` up to that size, or all of it, its CRC compared.

    Raises: CorruptBatch, UnreadableFile.
    """
    with reading(path) as descriptor:
        size_bytes = path.stat().st_size if size_bytes is None else size_bytes
        headers = iter_headers(descriptor, path, 0, size_bytes)
        for found in headers:
            batch = read_batch(descriptor, path, found)
            batch.ensure_valid()
            yield batch
        if headers.position != size_bytes:
            raise CorruptBatch(path, headers.position, "the file ends within a batch")


def _plain(file: SegmentFile) -> Path:
    return file.path.with_name(segment_file_name(file.name.base_offset, file.name.kind))


def _as_recovered(listing: Listing, gone: set[Path], finished: tuple[SegmentFile, ...]) -> Listing:
    renamed = {_plain(file) for file in finished}
    kept = [
        file for file in listing.files if file.path not in gone and file.path not in renamed and file not in finished
    ]
    kept += [file._replace(name=file.name._replace(state=FileState.PLAIN)) for file in finished]
    kept.sort(key=lambda file: _plain(file).name)
    return Listing(listing.directory, tuple(kept))
