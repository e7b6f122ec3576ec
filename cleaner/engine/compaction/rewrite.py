"""Pass 2: write the ``.cleaned`` segment of a group, batch by batch, from the survivor bitmap.

A batch that keeps all records is copied as it is, long runs from file to file. A batch that keeps none is dropped
unread. Any other batch is rebuilt. A group of one segment that loses nothing is not written at all (Kafka rewrites it
every round); two or more segments that lose nothing are still merged, or thousands of tiny files would stay.

Source: Kafka Cleaner.cleanSegments, cleanInto; MemoryRecords.filterTo.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress as select
from itertools import takewhile
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.draft import Copied, Draft, Outputs, Recoder
from cleaner.engine.compaction.legacy_rewrite import (
    modified_ms,
    newest_ms,
    rewritten,
    upgraded,
)
from cleaner.engine.compaction.passes import Group, Horizons, Tombstones, Walked, WalkedSlice
from policies.retain import AbortedTransaction
from storage.arrays import Words
from storage.codecs.batches import body_bytes_max
from storage.directory import OpenFile, close
from storage.errors import LogCleanerError, PlanOutOfDate
from storage.kernels.bitmap import count_bits
from storage.kernels.decide import decide_batches
from storage.kernels.layout import CODEC_MASK, HEADER_BYTES, MIXED_VERSIONS, NOT_HERE, NOTHING_IS_DUE
from storage.kernels.messages import clear_tombstones
from storage.kernels.rebuild import encode_records, write_header
from storage.kernels.status import BatchAction, Status
from storage.scan.arena import ARENA_BYTES
from storage.scan.legacy_rows import MESSAGES_BYTES_MAX
from storage.scan.segments import SegmentReader
from storage.scan.slices import Slice
from storage.segment import Segment, open_to_read

COPY_RUN_BYTES_MIN: Final = 256 << 10
"""The least bytes of a run that is copied from file to file.

The kernels copy shorter runs, together with the rebuilt batches around them.
"""
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
_RECORD_GROWTH_MAX: Final = 16


class NotYetSupported(LogCleanerError):
    """Valid data that this version does not rewrite; the partition is left as it is."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what} cannot be rewritten yet; the partition is left as it is"


class BatchFates(Protocol):
    """The fates of batches, told slice by slice in offset order: of a compaction (``Fates``), or of an erasure."""

    def dispose(self, slice_: Slice) -> bool:
        """Set ``fate`` of every row. Return whether the records alone decide about all batches."""
        ...

    def take_retained(self) -> list[AbortedTransaction]:
        """Return what the cleaned transaction index gets since the last call."""
        ...


@dataclass(slots=True)
class _Drafting:
    """A slice on its way through the crew."""

    reader: SegmentReader
    segment: Segment
    walked: WalkedSlice
    slice_: Slice | None = None
    """Once it is read."""

    def read(self, *, with_keys: bool = True) -> Slice:
        """Return the slice; without keys, if nobody asks for them and the messages can be read so."""
        if self.slice_ is None and not with_keys and self.walked.messages is not None:
            self.slice_ = self.reader.messages_at(self.walked.start, self.walked.end.position, self.walked.messages)
        if self.slice_ is None:
            walked = self.walked
            self.slice_ = self.reader.slice_at(
                walked.start, walked.tombstones.size, walked.end.position, shares_rows=walked.is_shared
            )
        return self.slice_


@dataclass(eq=False)
class Rewriter:
    """Rewrites the groups of a round, each into one cleaned segment, in ascending order."""

    bitmap: Words
    """The survivors."""
    horizons: Horizons
    tombstones: Tombstones
    """The treatment of the tombstones that survived."""
    fates: BatchFates
    """Follows the transactions through all groups."""
    crew: Crew
    progress: Callable[[int], None]
    """Called with the bytes of each slice that is done."""
    upgrades: bool = field(kw_only=True)
    """Whether v0 and v1 become v2."""
    rebuilds_mixed: bool = field(default=True, kw_only=True)
    """Whether a wrapper around messages of another version is written anew, as by Kafka, even if it keeps all."""
    _outputs: Outputs = field(default_factory=Outputs)
    _expiring: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _now_ms(self) -> int:
        """The moment up to which horizons have come, epoch ms."""
        return self.horizons.now_ms if self.tombstones is Tombstones.BY_HORIZON else NOTHING_IS_DUE

    def rewrite(self, group: Group, cleaned: CleanedSegment) -> bool:
        """Write the group's survivors. Return False, and write nothing, if the group is one segment that loses nothing.

        Raises: CorruptBatch, OutOfSpace, PlanOutOfDate.
        """
        is_changed = len(group) > 1
        for reader, walked in group:
            file = open_to_read(reader.path)
            try:
                is_changed = self._rewrite_span(reader, walked, file, cleaned, is_changed)
            except EOFError as error:
                raise PlanOutOfDate(reader.path, "it was truncated while it was read") from error
            else:
                reader.let_go()
            finally:
                close(file)
            cleaned.append_aborted(self.fates.take_retained())
        return is_changed

    def _rewrite_span(
        self, reader: SegmentReader, walked: Walked, file: OpenFile, cleaned: CleanedSegment, is_changed: bool
    ) -> bool:
        skipped = self._leading_without_survivors(walked)
        if skipped:
            is_changed = True
            stretches = ((one.start.position, one.end.position) for one in walked.slices[:skipped])
            for _ in self.crew.in_order(lambda stretch: reader.leave(*stretch), stretches):
                pass
            self.progress(walked.slices[skipped - 1].end.position)
        for task, (slice_, draft) in self.crew.in_order(self._draft, self._tasks(reader, walked, skipped)):
            self.progress(slice_.size_bytes)
            if draft is None:
                if is_changed:
                    cleaned.append_copied(file, Copied.of(slice_))
                continue
            if not is_changed:
                _copy_prefix(reader, walked, task.walked, file, cleaned)
            is_changed = True
            if draft.position > SEGMENT_BYTES_MAX - cleaned.size_bytes:  # small messages take more bytes in v2
                raise NotYetSupported(reader.path, "a segment that outgrows 2 GiB in format v2")
            cleaned.append(draft, file)
            self._outputs.give(draft.out)
        return is_changed

    def _leading_without_survivors(self, walked: Walked) -> int:
        """Return the number of slices at the beginning that are dropped unread."""
        for number, one in enumerate(walked.slices):
            first, end = one.start.ordinal, one.end.ordinal
            if not one.is_ordinary or end > self.bitmap.size * 64 or count_bits(self.bitmap, first, end):
                return number
        return len(walked.slices)

    def _tasks(self, reader: SegmentReader, walked: Walked, skipped: int) -> Iterator[_Drafting]:
        """Yield the slices in order, behind the skipped ones.

        Slices that are not ordinary are read and decided here.
        """
        for one in walked.slices[skipped:]:
            task = _Drafting(reader, walked.span.segment, one)
            if not one.is_ordinary:
                slice_ = task.read()
                if not slice_.is_legacy:
                    self.fates.dispose(slice_)
            yield task

    def _draft(self, task: _Drafting) -> tuple[Slice, Draft | None]:
        """Return a slice and its output; None for the output if the slice keeps everything."""
        with self.crew.hand() as (_, arena):
            expires = self._expires_tombstones(task)
            slice_ = task.read(with_keys=expires or self.upgrades)
            if slice_.is_legacy:
                self._decide_legacy(slice_, task.walked.tombstones, expires=expires)
            else:
                slice_.table["tombstones"] = task.walked.tombstones
                self._decide(slice_, arena)
            if (slice_.table["outcome"] == BatchAction.COPY).all():
                return slice_, None
            copies = _long_copies(slice_)
            draft = Draft(_rows_max(slice_), self._outputs.take(_room_bytes(slice_, copies)))
            self._write(slice_, copies, draft, arena)
            task.reader.leave(task.walked.start.position, task.walked.end.position)
            return slice_, draft

    def _decide(self, slice_: Slice, arena: Recoder) -> None:
        table = slice_.table
        status, row = decide_batches(slice_.buf, table, 0, table.size, self.bitmap, self._now_ms)
        if status != Status.OK:
            raise slice_.fail(status, row)
        for row in np.flatnonzero(table["outcome"] == BatchAction.UNDECIDED).tolist():
            buf, _ = arena.fill(slice_, row, row + 1)
            status, _ = decide_batches(buf, table, row, row + 1, self.bitmap, self._now_ms)
            if status != Status.OK:
                raise slice_.fail(status, row)
            table["records_start"][row] = NOT_HERE

    def _expires_tombstones(self, task: _Drafting) -> bool:
        """Return whether tombstones of v0 and v1 in a slice go."""
        is_due = self.tombstones is Tombstones.BY_HORIZON and modified_ms(task.segment) <= self.horizons.legacy_ms
        return is_due and bool(task.walked.tombstones.any())

    def _decide_legacy(self, slice_: Slice, tombstones: npt.NDArray[np.int32], *, expires: bool) -> None:
        """Decide by survivors alone, because v0 and v1 have no transactions, no delete horizons, and no empty
        batches.
        """
        table = slice_.table
        if expires:
            assert slice_.keys is not None
            table["tombstones"] = tombstones
            with self._expiring:  # the same word may hold bits of another slice
                status, row = clear_tombstones(slice_.keys, table, 0, table.size, self.bitmap)
            assert status == Status.OK, (status, row)
        table["tombstones"] = 0
        status, row = decide_batches(slice_.buf, table, 0, table.size, self.bitmap, self._now_ms)
        assert status == Status.OK, (status, row)
        is_rebuilt = self.upgrades | (self.rebuilds_mixed & ((table["attributes"] & MIXED_VERSIONS) != 0))
        table["outcome"][is_rebuilt & (table["outcome"] == BatchAction.COPY)] = BatchAction.REBUILD

    def _write(self, slice_: Slice, copies: Sequence[tuple[int, int]], draft: Draft, arena: Recoder) -> None:
        """Write a slice: long runs of copied batches from file to file, everything between by the kernels."""
        row = 0
        for first, last in (*copies, (slice_.table.size, slice_.table.size)):
            if slice_.is_legacy:
                self._write_messages(slice_, row, first, draft, arena)
            else:
                self._write_rows(slice_, row, first, draft, arena)
            draft.end_run()
            if first < last:
                draft.copy(Copied.of(slice_.rows(slice_.table[first:last])))
            row = last

    def _write_messages(self, slice_: Slice, row: int, last: int, draft: Draft, arena: Recoder) -> None:
        keep = self.bitmap, self.upgrades, self.horizons.stamped_ms
        while row < last:
            status, row, draft.position, draft.rows = arena.rewrite_messages(
                slice_, row, last, keep, (draft.out, draft.position, draft.written, draft.rows)
            )
            if status == Status.OUTPUT_FULL:
                draft.make_room(_bound_bytes(slice_, row))
            elif status == Status.NEEDS_PYTHON:
                self._rebuild_messages(slice_, row, draft)
                row += 1
            elif status != Status.OK:
                raise slice_.fail(status, row)

    def _rebuild_messages(self, slice_: Slice, row: int, draft: Draft) -> None:
        batch = slice_.legacy_batch(row)
        records = batch.records(MESSAGES_BYTES_MAX)
        kept = list(select(records, _bits(self.bitmap, int(slice_.table["first_ordinal"][row]), len(records))))
        data = upgraded(batch, kept, self.horizons.new_ms) if self.upgrades else rewritten(batch, kept)
        draft.append(np.frombuffer(data, np.uint8), kept[-1].offset, newest_ms(batch, kept), len(kept))

    def _write_rows(self, slice_: Slice, row: int, last: int, draft: Draft, arena: Recoder) -> None:
        keep = self.bitmap, self._now_ms, self.horizons.stamped_ms
        while row < last:
            status, row, draft.position, draft.rows = arena.rewrite(
                slice_, row, last, keep, (draft.out, draft.position, draft.written, draft.rows)
            )
            if status == Status.OUTPUT_FULL:
                draft.make_room(_bound_bytes(slice_, row))
            elif status == Status.NEEDS_PYTHON:
                self._rebuild_compressed(slice_, row, draft, arena)
                row += 1
            elif status != Status.OK:
                raise slice_.fail(status, row)

    def _rebuild_compressed(self, slice_: Slice, row: int, draft: Draft, arena: Recoder) -> None:
        """Decompress a batch, and compress the records that stay with the same codec at its default level."""
        table = slice_.table
        buf, _ = arena.fill(slice_, row, row + 1)
        records_bytes = int(table["records_end"][row] - table["records_start"][row])
        plain = arena.plain(records_bytes + _RECORD_GROWTH_MAX * int(table["record_count"][row]))
        status, plain_bytes, kept, base_ms, latest_ms = encode_records(
            buf, table, row, self.bitmap, self._now_ms, self.horizons.stamped_ms, plain, 0
        )
        if status != Status.OK:
            raise slice_.fail(status, row)
        table["records_start"][row] = NOT_HERE
        del buf  # keep the records in memory only once, beside their compressed form
        draft.make_room(HEADER_BYTES + body_bytes_max(plain_bytes))
        body = draft.position + HEADER_BYTES
        size = arena.compress(slice_.codec_of(row), plain[:plain_bytes], draft.out, body) - draft.position
        status = write_header(draft.out, draft.position, size, table, row, kept, base_ms, latest_ms)
        assert status == Status.OK, status
        draft.note(size, int(table["last_offset"][row]), latest_ms, kept)


def _copy_prefix(
    reader: SegmentReader, walked: Walked, changed: WalkedSlice, file: OpenFile, cleaned: CleanedSegment
) -> None:
    """Copy the slices that were found unchanged before the first changed one."""
    for one in takewhile(lambda one: one is not changed, walked.slices):
        slice_ = _Drafting(reader, walked.span.segment, one).read(with_keys=False)
        cleaned.append_copied(file, Copied.of(slice_))


def _rows_max(slice_: Slice) -> int:
    """Return the most rows that a draft of the slice has: one a batch, or one a message if messages share rows."""
    if not slice_.is_shared:
        return slice_.table.size
    return int(slice_.table["record_count"].sum(dtype=np.int64))


def _bits(bitmap: Words, first: int, count: int) -> np.ndarray:
    """Return ``count`` bits from ``first`` on, one a byte."""
    words = bitmap[first >> 6 : (first + count + 63) >> 6]
    return np.unpackbits(words.view(np.uint8), bitorder="little")[first & 63 :][:count]


def _bound_bytes(slice_: Slice, row: int) -> int:
    """Return the room for a second try after a batch did not fit: the most bytes that the rebuilt batch, or its
    compressed records, can take.
    """
    batch = slice_.table[row]
    if batch["attributes"] & CODEC_MASK:
        return HEADER_BYTES + int(batch["size"]) + body_bytes_max(ARENA_BYTES)
    return int(batch["size"]) + _RECORD_GROWTH_MAX * int(batch["record_count"])


def _room_bytes(slice_: Slice, copies: Sequence[tuple[int, int]]) -> int:
    """Return the bytes of a slice that are neither dropped nor copied from file to file, and so go into its draft."""
    table = slice_.table
    is_written = table["outcome"] != BatchAction.DROP
    for first, last in copies:
        is_written[first:last] = False
    size_bytes = table["size"][is_written].sum(dtype=np.int64)
    records = table["record_count"][is_written].sum(dtype=np.int64)
    return int(size_bytes + _RECORD_GROWTH_MAX * records)


def _long_copies(slice_: Slice) -> list[tuple[int, int]]:
    """Return the runs of rows to copy that are long enough for a copy from file to file."""
    is_copy = np.concatenate(([False], slice_.table["outcome"] == BatchAction.COPY, [False]))
    edges = np.flatnonzero(is_copy[1:] != is_copy[:-1])
    ends = np.concatenate((slice_.table["position"], [int(slice_.table["position"][-1] + slice_.table["size"][-1])]))
    runs = edges.reshape(-1, 2)
    is_long = ends[runs[:, 1]] - ends[runs[:, 0]] >= COPY_RUN_BYTES_MIN
    return [(first, last) for first, last in runs[is_long].tolist()]
