"""Derives again the files that a broker derives from a log: indexes, producer snapshots, leader epochs.

The rules are those of a broker's recovery after an unclean stop, with one difference: recovery cuts a log at the first
batch that is not whole; this module raises an error there. A file derived from a damaged log would end at the damage,
and hide the batches behind it. Only zeros may follow the last batch, because preallocation leaves zeros. In a segment
that is not the last, zeros may follow only if no offset is missing, since lost blocks of a file read as zeros, too.

The indexes of a broker that appends may differ in single entries, because the broker counts bytes anew with each start.
Both are right.

Source: Kafka LogSegment.recover, LogLoader.recoverSegment, UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from storage.checkpoints import LeaderEpochEntry, truncate_from_end, truncate_from_start
from storage.directory import OpenFile, pread, size_of
from storage.errors import CorruptBatch
from storage.indexes import IndexBuilder
from storage.log.producer_state import CorruptSnapshot, ProducerState, parse_snapshot
from storage.log_dir import read_file
from storage.records import Batch, BatchHeader, LegacyBatch, iter_headers, read_batch
from storage.segment import Segment, SegmentFile, reading
from storage.txn_index import format_aborted_txn

_ZEROS_BYTES: Final = 1 << 20
"""The bytes of a tail that are read at a time."""


class Rebuilt(NamedTuple):
    """The files of one segment, as recovery makes them, and the facts that it learns on the way."""

    offset_index: bytes
    time_index: bytes
    txn_index: bytes
    """Empty if no transaction was aborted; then there is no file."""
    next_offset: int
    end_bytes: int
    """The byte behind the last whole batch; only zeros follow."""


class RebuildTerms(NamedTuple):
    """The values that hold for a partition. Times in epoch ms."""

    index_interval_bytes: int
    log_start_offset: int
    now_ms: int
    producer_expiration_ms: int


class WholeBatches(Iterator[Batch | LegacyBatch]):
    """The batches of a ``.log``, each read whole and with a right CRC. ``end`` is the position of the next batch."""

    def __init__(
        self, descriptor: OpenFile, log: SegmentFile, due_offset: int | None, end_bytes: int | None = None
    ) -> None:
        """Read nothing yet.

        Args:
            descriptor: of the log, open for reading.
            log: the file.
            due_offset: the base of the next segment: if zeros follow the batches, the last batch must end just before
                this offset; None for the last segment.
            end_bytes: nothing behind this byte is read; default: the size of the file.
        """
        self._descriptor, self._log, self._due_offset = descriptor, log, due_offset
        self._size_bytes = size_of(descriptor) if end_bytes is None else end_bytes
        self._headers = iter_headers(descriptor, log.path, 0, self._size_bytes)
        self._next_offset = log.name.base_offset
        self.end = 0

    def __next__(self) -> Batch | LegacyBatch:
        """Return the next batch.

        Raises:
            CorruptBatch: a batch that is not whole, a wrong CRC, offsets that go back, or bytes behind the last batch
                that are not zeros.
            UnreadableFile: the file cannot be read, or shrank.
        """
        try:
            found = next(self._headers, None)
        except CorruptBatch:
            if not self._is_zero_from_here():
                raise
            found = None
        if found is None:
            self._check_end()
            raise StopIteration
        batch = read_batch(self._descriptor, self._log.path, found)
        batch.ensure_valid()
        first_offset = batch.last_offset if isinstance(batch, LegacyBatch) else batch.base_offset
        if first_offset < self._next_offset:
            cause = f"offset {first_offset} where {self._next_offset} is the next"
            raise CorruptBatch(self._log.path, found.position, cause)
        self._next_offset, self.end = found.header.next_offset, self._headers.position
        return batch

    def _check_end(self) -> None:
        left_bytes = self._size_bytes - self.end
        if not self._is_zero_from_here():
            raise CorruptBatch(self._log.path, self.end, f"{left_bytes} bytes that are no whole batch")
        if left_bytes and self._due_offset not in (None, self._next_offset):
            cause = f"zeros, where offsets {self._next_offset} to {self._due_offset} may have been"
            raise CorruptBatch(self._log.path, self.end, cause)

    def _is_zero_from_here(self) -> bool:
        return is_zero(self._descriptor, self.end, self._size_bytes)


def is_zero(descriptor: OpenFile, start: int, end: int) -> bool:
    """Return whether every byte of a file from ``start`` to ``end`` is zero; True for an empty range."""
    while start < end:
        piece = pread(descriptor, min(_ZEROS_BYTES, end - start), start)
        if not piece or any(piece):
            return False
        start += len(piece)
    return True


@contextmanager
def whole_batches(segment: Segment, due_offset: int | None, end_bytes: int | None = None) -> Iterator[WholeBatches]:
    """Open a segment for reading. Arguments and errors as of ``WholeBatches``."""
    with reading(segment.log.path) as descriptor:
        yield WholeBatches(descriptor, segment.log, due_offset, end_bytes)


def with_due_offsets(segments: Sequence[Segment]) -> list[tuple[Segment, int | None]]:
    """Return each segment with the base of the next one; the last segment with None."""
    return [*zip_longest(segments, [segment.base_offset for segment in segments[1:]])]


def rebuild_segment(
    segment: Segment,
    due_offset: int | None,
    state: ProducerState,
    terms: RebuildTerms,
    end_bytes: int | None = None,
) -> Rebuilt:
    """Make the index files of a segment from its batches.

    Args:
        segment: the segment, whose ``.log`` is read whole.
        due_offset: as of ``WholeBatches``.
        state: of the producers at the base of the segment; the call advances the state to the segment's end.
        terms: of the partition.
        end_bytes: as of ``WholeBatches``.

    Raises: CorruptBatch, UnreadableFile. Source: Kafka LogSegment.recover.
    """
    path = segment.log.path
    indexes = IndexBuilder(segment.base_offset, terms.index_interval_bytes, path)
    aborted, next_offset = bytearray(), segment.base_offset
    with whole_batches(segment, due_offset, end_bytes) as batches:
        for batch in batches:
            header = batch.header
            indexes.append(batch.position, header.size_bytes, header.last_offset, header.max_timestamp_ms)
            if entry := state.apply(batch):
                aborted += format_aborted_txn(entry)
            next_offset = header.next_offset
    index, time_index = indexes.seal()
    return Rebuilt(index, time_index, bytes(aborted), next_offset, batches.end)


class RebuiltProducers:
    """The states of the producers of a partition at several offsets.

    Each state is made of the nearest state before it: a snapshot, or a state that was made here. So ask for them in
    ascending order.
    """

    def __init__(self, segments: Sequence[Segment], snapshots: Iterable[SegmentFile], terms: RebuildTerms) -> None:
        """Read nothing yet.

        Args:
            segments: of the log, ascending.
            snapshots: the snapshots that may be believed; a damaged snapshot is left out.
            terms: of the partition. A snapshot at or below the log start is of no use, as to a broker.
        """
        self._segments, self._terms = segments, terms
        self._snapshots = {s.name.base_offset: s for s in snapshots if s.name.base_offset > terms.log_start_offset}
        self._made: dict[int, bytes] = {}

    def at(self, offset: int) -> ProducerState:
        """Return the state just below an offset. Raises: CorruptBatch, UnreadableFile.

        Source: Kafka ProducerStateManager.truncateAndReload, which forgets expired producers of a snapshot, and no
        others.
        """
        for start in sorted({start for start in (*self._snapshots, *self._made) if start <= offset}, reverse=True):
            state = self._load(start)
            if state is not None:
                return self._replayed(state, start, offset)
        return self._replayed(ProducerState(), None, offset)

    def note(self, offset: int, state: ProducerState) -> None:
        """Remember a state that another replay made."""
        self._made[offset] = state.to_snapshot_bytes()

    def _load(self, offset: int) -> ProducerState | None:
        try:
            snapshot = self._snapshots.get(offset)
            data = self._made[offset] if offset in self._made else snapshot and read_file(snapshot.path)
            if data is None:
                return None
            state = ProducerState(parse_snapshot(data, self._segments[0].directory))
        except CorruptSnapshot:
            del self._snapshots[offset]
            return None
        state.expire(self._terms.now_ms, self._terms.producer_expiration_ms)
        return state

    def _replayed(self, state: ProducerState, start: int | None, offset: int) -> ProducerState:
        for segment, due_offset in with_due_offsets(self._segments):
            ends_below = start is not None and due_offset is not None and due_offset <= start
            if segment.base_offset < offset and not ends_below:
                _replay(segment, due_offset, state, start, offset)
        self.note(offset, state)
        return state


def _replay(segment: Segment, due_offset: int | None, state: ProducerState, start: int | None, offset: int) -> None:
    with whole_batches(segment, due_offset) as batches:
        for batch in batches:
            if batch.last_offset >= offset:
                break
            if start is None or batch.last_offset >= start:
                state.apply(batch)


class SeenEpochs(NamedTuple):
    """The leader epochs that the batches of a log have, and where the log ends."""

    entries: tuple[LeaderEpochEntry, ...]
    """Each epoch with the base offset of its first batch, as far as they ascend."""
    end_offset: int


def epochs_in(segments: Sequence[Segment]) -> SeenEpochs:
    """Read the leader epochs of all batches of a log.

    Whole batches are read, so that no damaged header tells a wrong epoch.

    Raises: CorruptBatch, UnreadableFile.
    """
    entries: list[LeaderEpochEntry] = []
    end_offset = segments[0].base_offset if segments else 0
    for segment, due_offset in with_due_offsets(segments):
        with whole_batches(segment, due_offset) as batches:
            for batch in batches:
                entries = _assigned(entries, batch)
                end_offset = batch.header.next_offset
    return SeenEpochs(tuple(entries), end_offset)


def _assigned(entries: list[LeaderEpochEntry], batch: Batch | LegacyBatch) -> list[LeaderEpochEntry]:
    header = batch.header
    if not isinstance(header, BatchHeader) or header.partition_leader_epoch < 0:
        return entries
    return with_epoch(entries, LeaderEpochEntry(header.partition_leader_epoch, header.base_offset))


def with_epoch(entries: list[LeaderEpochEntry], entry: LeaderEpochEntry) -> list[LeaderEpochEntry]:
    """Add an epoch that is newer than all; any other epoch is known already. Source: Kafka LogSegment.recover."""
    if entries and entry.epoch <= entries[-1].epoch:
        return entries
    return [*truncate_from_end(entries, entry.start_offset), entry]


def rebuild_epochs(
    stated: Sequence[LeaderEpochEntry] | None, seen: SeenEpochs, log_start_offset: int
) -> list[LeaderEpochEntry]:
    """Return the leader epochs of a log, by its batches and by what the file states.

    The entries of the file stay, as in a broker's recovery, and the batches add entries. But where a batch contradicts
    the file, or the file does not parse, the batches alone count.

    Args:
        stated: by ``leader-epoch-checkpoint``; None where it is missing or does not parse.
        seen: in the batches.
        log_start_offset: epochs that end below it are cut off.

    Source: Kafka LogLoader.load, LogSegment.recover, LeaderEpochFileCache.truncateFromStart.
    """
    entries = truncate_from_end(stated or [], seen.end_offset)
    for entry in seen.entries:
        entries = with_epoch(entries, entry)
    if not _agree(entries, seen.entries):
        entries = list(seen.entries)
    return truncate_from_start(entries, log_start_offset)


def _agree(entries: Sequence[LeaderEpochEntry], seen: Iterable[LeaderEpochEntry]) -> bool:
    """Return whether the entries ascend and give each epoch of the batches its first offset."""
    starts = [entry.start_offset for entry in entries]
    if any(later <= earlier for earlier, later in pairwise(starts)):
        return False
    return all(_epoch_at(entries, entry.start_offset) == entry.epoch for entry in seen)


def _epoch_at(entries: Sequence[LeaderEpochEntry], offset: int) -> int | None:
    return next((entry.epoch for entry in reversed(entries) if entry.start_offset <= offset), None)
