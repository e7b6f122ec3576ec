"""Load a partition as a starting broker does: leftovers, segments, recovery behind the recovery point, producers.

Steps:      what an interrupted deletion, compaction or swap left is finished or undone; an index without its ``.log``
            goes, a segment without its offset index is recovered; after an unclean stop every segment from the recovery
            point on is recovered, and those behind the first one that was cut go to ``.deleted``; where the log ends
            below its start, all do; leader epochs are cut at both ends; producers are rebuilt, and their snapshots with
            them.
Invariant:  nothing below the recovery point is cut. A crash in between leaves what the next start deals with.
Durable:    the files that are made anew; the directory at the end.

``policies.preflight`` predicts the same steps for a broker. ``test_predicted.py`` holds its rules and these against
each other on damaged partitions.

Source: Kafka LogLoader.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import opened
from storage.errors import as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log.config import LogConfig
from storage.log.errors import LoadingFailed
from storage.log.leader_epochs import LeaderEpochs
from storage.log.loading.positions import StoredIndex, next_offset
from storage.log.loading.recovering import InvalidOffset, empty_segment, recover_segment
from storage.log.loading.snapshots import ProducerSnapshots, ProducerTerms, rebuild_producers
from storage.log.loading.walk import CORRUPT, CorruptRecord, LogBytes
from storage.log.producer_state import ProducerState
from storage.log.roll import create_segment, segment_at
from storage.names import SEGMENT_KINDS, FileKind, FileState, parse_segment_file_name, segment_file_name
from storage.segment import Segment, reading
from storage.txn_index import is_of_segment

_SWAP: Final = FileState.SWAP.value
_DELETED: Final = FileState.DELETED.value
_CLEANED: Final = FileState.CLEANED.value
_KRAFT_SNAPSHOT_DELETED: Final = ".checkpoint.deleted"
_INDEX_KINDS: Final = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class LoadTerms(NamedTuple):
    """The facts that a start has of a log before it looks at it. Times in epoch ms."""

    now_ms: int
    had_clean_shutdown: bool
    log_start_offset: int
    """Of ``log-start-offset-checkpoint``; 0 without a line."""
    recovery_point: int
    """Of ``recovery-point-offset-checkpoint``; 0 without a line."""


class Cut(NamedTuple):
    """Bytes of a ``.log`` that a load cut off, or a segment that it took out of the log."""

    base_offset: int
    position: int
    size_bytes: int
    cause: str


class LoadedPartition(NamedTuple):
    """The log as the load left it."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerState
    snapshots: ProducerSnapshots
    cuts: tuple[Cut, ...]
    is_new: bool
    """Whether its only segment was made by the load."""
    recovered: frozenset[int]
    """The base offsets of the segments that were read whole."""


class PartitionLoader:
    """The loading of one partition. ``load`` does all."""

    def __init__(self, fs: FileSystem, directory: Path, config: LogConfig, terms: LoadTerms) -> None:
        """Look at nothing yet."""
        self._fs, self._directory, self._config, self._terms = fs, directory, config, terms
        self._epochs = LeaderEpochs(fs, directory)
        self._bases: list[int] = []
        self._cuts: list[Cut] = []
        self._recovered: set[int] = set()

    def load(self) -> LoadedPartition:
        """Load the partition.

        Raises: LoadingFailed, as Kafka's loader ends; CorruptCheckpoint, CorruptBatch (in a replay of producers),
            UnreadableFile, OutOfSpace.
        """
        terms = self._terms
        self._epochs.entries()
        self._epochs.make()
        self._clear_leftovers()
        self._load_segments()
        self._snapshots = ProducerSnapshots.listed(self._fs, self._directory)
        if not terms.had_clean_shutdown:
            self._recover_unflushed()
        found_end = self._end_of_log()
        is_new = not self._bases
        if is_new:
            self._begin_empty()
        log_end = terms.log_start_offset if found_end is None else found_end
        self._epochs.truncate_from_end(log_end)
        self._epochs.truncate_from_start(terms.log_start_offset)
        log_start = max(terms.log_start_offset, self._bases[0])
        self._fs.fsync_dir(self._directory, Purpose.RECOVER)
        producers = self._rebuild(log_start, log_end)
        is_flushed = terms.had_clean_shutdown and found_end is not None
        recovery_point = log_end if is_flushed else min(terms.recovery_point, log_end)
        return LoadedPartition(
            log_start,
            log_end,
            max(recovery_point, log_start),
            producers,
            self._snapshots,
            tuple(self._cuts),
            is_new,
            frozenset(self._recovered),
        )

    def _rebuild(self, log_start: int, log_end: int) -> ProducerState:
        self._snapshots = ProducerSnapshots.listed(self._fs, self._directory)
        self._snapshots.remove_strays(self._bases)
        terms = self._producer_terms(log_start, log_end, trusts_absence=self._terms.had_clean_shutdown)
        return rebuild_producers(self._snapshots, ProducerState(), self._segments(), terms)

    def _producer_terms(self, log_start: int, end: int, *, trusts_absence: bool) -> ProducerTerms:
        expiration_ms = self._config.producer_id_expiration_ms
        return ProducerTerms(log_start, end, self._terms.now_ms, expiration_ms, trusts_absence)

    # leftovers

    def _clear_leftovers(self) -> None:
        names = self._names()
        for name in names:
            if name.endswith(_DELETED) and not name.endswith(_KRAFT_SNAPSHOT_DELETED):
                self._unlink(name)
        cleaned = [name for name in names if name.endswith(_CLEANED)]
        undone_from = min(map(self._offset_of, cleaned), default=None)
        swaps = [name for name in names if name.endswith(_SWAP)]
        undone = [name for name in swaps if undone_from is not None and self._offset_of(name) >= undone_from]
        for doomed in (undone, cleaned):  # a .cleaned file tells that the swap had not begun: it goes last
            for name in doomed:
                self._unlink(name)
            if doomed:
                self._fs.fsync_dir(self._directory, Purpose.RECOVER)
        self._finish_swaps([name for name in swaps if name not in undone])

    def _finish_swaps(self, swaps: list[str]) -> None:
        """Delete what the finished swaps replaced, then take the suffix off."""
        logs = [name for name in swaps if name.removesuffix(_SWAP).endswith(".log")]
        ends = [(self._offset_of(name), self._next_offset(name, self._offset_of(name), _SWAP)) for name in logs]
        for base, _ in ends:
            index = f"{segment_file_name(base, FileKind.INDEX)}{_SWAP}"
            if index not in swaps:  # as in Kafka an empty one takes its place, and the segment is not read for it
                self._fs.create(self._directory / index, self._directory, Purpose.RECOVER).close()
                swaps.append(index)
        if ends:
            covered_from, covered_to = min(start for start, _ in ends), max(end for _, end in ends)
            replaced = [
                name
                for name in self._names()
                if not name.endswith(_SWAP)
                and (parsed := parse_segment_file_name(name)) is not None
                and covered_from <= parsed.base_offset < covered_to
            ]
            for name in replaced:
                self._unlink(name)
            if replaced:
                self._fs.fsync_dir(self._directory, Purpose.RECOVER)
        for name in swaps:
            source = self._directory / name
            self._fs.rename(source, source.with_name(name.removesuffix(_SWAP)), Purpose.RECOVER)
        if swaps:
            self._fs.fsync_dir(self._directory, Purpose.RECOVER)

    # segments

    def _load_segments(self) -> None:
        plain = [
            parsed
            for name in self._names()
            if (parsed := parse_segment_file_name(name)) is not None and parsed.state is FileState.PLAIN
        ]
        logs = {name.base_offset for name in plain if name.kind is FileKind.LOG}
        for name in plain:
            if name.kind in _INDEX_KINDS and name.base_offset not in logs:
                self._unlink(str(name))
        for base in sorted(logs):
            self._load_segment(base)

    def _load_segment(self, base: int) -> None:
        if not self._path(base, FileKind.INDEX).exists() or not is_of_segment(self._path(base, FileKind.TXN_INDEX)):
            try:
                self._recover_segment(base)
            except InvalidOffset as error:
                raise LoadingFailed(self._path(base, FileKind.LOG), str(error), "InvalidOffsetException") from error
        elif not self._path(base, FileKind.TIME_INDEX).exists():
            self._fs.create(self._path(base, FileKind.TIME_INDEX), self._directory, Purpose.RECOVER).close()
        self._bases.append(base)

    def _recover_segment(self, base: int) -> bool:
        """Recover a segment; return whether its log was cut. Raises: InvalidOffset, LoadingFailed."""
        snapshots = ProducerSnapshots.listed(self._fs, self._directory)
        terms = self._producer_terms(self._terms.log_start_offset, base, trusts_absence=False)
        state = rebuild_producers(snapshots, ProducerState(), self._segments(), terms)
        interval_bytes = self._config.index_interval_bytes
        found = recover_segment(self._fs, self._directory, base, interval_bytes, state, snapshots, self._epochs)
        snapshots.take(state)
        self._recovered.add(base)
        if found.cut_bytes:
            self._cuts.append(Cut(base, found.valid_bytes, found.cut_bytes, found.cause or ""))
        return found.cut_bytes > 0

    def _recover_unflushed(self) -> None:
        floor = max((base for base in self._bases if base <= self._terms.recovery_point), default=None)
        unflushed = [base for base in self._bases if floor is None or base >= floor]
        for place, base in enumerate(unflushed):
            try:
                is_cut = self._recover_segment(base)
            except InvalidOffset as error:
                cut_bytes = empty_segment(self._fs, self._directory, base)
                self._cuts.append(Cut(base, 0, cut_bytes, str(error)))
                is_cut = cut_bytes > 0
            if is_cut:
                self._retire(unflushed[place + 1 :], "lies behind the cut")
                return

    def _end_of_log(self) -> int | None:
        """Return the log end; None where the log begins anew, because it ended before its start."""
        if not self._bases:
            return None
        start = self._terms.log_start_offset
        end = self._next_offset(segment_file_name(self._bases[-1], FileKind.LOG), self._bases[-1])
        if end >= start:
            return end
        self._retire(list(self._bases), f"the log ends at {end}, before its start {start}")
        self._epochs.clear()
        self._snapshots.start_over(start)
        return None

    def _begin_empty(self) -> None:
        start, config = self._terms.log_start_offset, self._config
        allocated_bytes = config.segment_bytes if config.preallocate else 0
        create_segment(self._fs, self._directory, start, (FileKind.LOG,), allocated_bytes)
        self._bases.append(start)

    def _retire(self, bases: Iterable[int], why: str) -> None:
        """Rename segments to ``.deleted``, the last one first, so that no crash leaves a gap."""
        doomed = sorted(bases, reverse=True)
        for base in doomed:
            size_bytes = self._path(base, FileKind.LOG).stat().st_size
            self._cuts.append(Cut(base, 0, size_bytes, why))
            retire_segment(self._fs, self._directory, base)
            self._bases.remove(base)
        self._snapshots.retire(doomed)

    # files

    def _next_offset(self, log: str, base: int, suffix: str = "") -> int:
        index = self._directory / f"{segment_file_name(base, FileKind.INDEX)}{suffix}"
        path = self._directory / log
        try:
            with reading(path) as descriptor, StoredIndex.at(index if index.exists() else None, base) as entries:
                return next_offset(LogBytes(descriptor), entries, base)
        except CorruptRecord as error:
            raise LoadingFailed(path, f"byte {error.position}: {error.cause}", CORRUPT) from error

    def _segments(self) -> list[Segment]:
        return [segment_at(self._directory, base) for base in self._bases]

    def _path(self, base: int, kind: FileKind) -> Path:
        return self._directory / segment_file_name(base, kind)

    def _unlink(self, name: str) -> None:
        self._fs.unlink(self._directory / name, Purpose.RECOVER)

    def _offset_of(self, name: str) -> int:
        text = name.partition(".")[0]
        if not (text.isascii() and text.isdigit()):
            raise LoadingFailed(self._directory / name, f"{text!r} is no offset", "NumberFormatException")
        return int(text)

    def _names(self) -> list[str]:
        """Return the names of the plain files, sorted."""
        return sorted(_plain_files(self._directory))


def retire_segment(fs: FileSystem, directory: Path, base_offset: int) -> None:
    """Rename the files of a segment to ``.deleted``, the ``.log`` first. Raises: OutOfSpace."""
    for kind in (FileKind.LOG, *(kind for kind in SEGMENT_KINDS if kind is not FileKind.LOG)):
        path = directory / segment_file_name(base_offset, kind)
        if path.exists():
            fs.rename(path, path.with_name(f"{path.name}{_DELETED}"), Purpose.RETIRE)


def _plain_files(directory: Path) -> Iterator[str]:
    with as_unreadable(directory), opened(directory) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                yield entry.name
