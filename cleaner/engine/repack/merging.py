"""Write a segment anew with fewer batches: which are merged says ``policies.repacking``, by the headers alone.

A merged batch is written only if it is smaller than the batches that it replaces, or if it has the codec that was asked
for while they have not. Everything else is copied as it is. The checksum of every batch is verified first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.draft import Copied, Draft, Outputs, Recoder
from cleaner.engine.compaction.passes import OpenSpan
from cleaner.engine.compaction.rewrite import COPY_RUN_BYTES_MIN
from policies.repacking import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    DELTA_MAX,
    GROWTH_BYTES,
    LOG_APPEND_TIME_BIT,
    MERGEABLE_BITS,
    PLAIN_BYTES_MAX,
    SEQUENCES,
    RepackBounds,
    is_worth_it,
)
from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import body_bytes_max
from storage.codecs.compression import Compression, compress
from storage.directory import OpenFile, close
from storage.errors import PlanOutOfDate
from storage.kernels.layout import BATCH, HEADER_BYTES, NOT_HERE
from storage.kernels.merge import merge_records
from storage.kernels.rebuild import write_header
from storage.kernels.status import Status
from storage.scan.arena import ARENA_BYTES
from storage.scan.slices import Checksums, Slice
from storage.segment import open_to_read

_RECORD_GROWTH_MAX: Final = 21
"""The room that the kernel asks for beside each record."""


class AskedCodec(NamedTuple):
    """The codec that a user asked for."""

    compression: Compression
    level: int | None = None
    """None for the codec's default."""


class Merged(NamedTuple):
    """The figures of a segment that was written anew, or would be."""

    size_bytes: int
    """The size of the ``.log`` afterwards."""
    batches: int
    """The batches that were replaced."""
    merged: int
    """The batches in their place."""
    recoded: int
    """The batches among the replaced ones that had another codec than was asked for."""

    def plus(self, other: Merged) -> Merged:
        """Add up."""
        return Merged(*(one + another for one, another in zip(self, other, strict=True)))


_NOTHING: Final = Merged(0, 0, 0, 0)


def runs_of(table: Table, bounds: RepackBounds, kept_bases: Integers, *, any_codec: bool) -> Iterator[tuple[int, int]]:
    """Yield the runs of rows that become one batch each. The readable twin is ``policies.repacking.merged``.

    Args:
        table: ``layout.BATCH``, the rows of one slice of format v2.
        bounds: of the partition.
        kept_bases: those of ``bounds``, ascending.
        any_codec: whether every batch gets a codec that was asked for.
    """
    may_change = (table["record_count"] > 0) & ((table["attributes"] & ~MERGEABLE_BITS) == 0)
    may_change &= (table["last_offset"] < bounds.stable_offset) & ~np.isin(table["base_offset"], kept_bases)
    joins = np.zeros(table.size + 1, np.bool_)  # whether a row can join the one before; the end joins nothing
    joins[1:-1] = may_change[1:] & may_change[:-1] & _may_follow(table, any_codec=any_codec)
    adds = table["size"] - HEADER_BYTES + GROWTH_BYTES * table["record_count"].astype(np.int64)
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(adds)))
    ends = np.flatnonzero(~joins[1:]) + 1
    begins = np.flatnonzero(may_change & ~joins[:-1])
    if not any_codec:
        begins = begins[joins[begins + 1]]
    for begin, end in zip(begins.tolist(), ends[np.searchsorted(ends, begins, "right")].tolist(), strict=True):
        first = begin
        while first < end:
            room = sums[first] + bounds.batch_bytes_max - HEADER_BYTES
            last = int(np.searchsorted(sums, room, "right")) - 1
            last = min(
                last, int(np.searchsorted(table["last_offset"], table["base_offset"][first] + DELTA_MAX, "right"))
            )
            last = max(min(last, end), first + 1)
            if last - first > 1 or any_codec:
                yield first, last
            first = last


def _may_follow(table: Table, *, any_codec: bool) -> npt.NDArray[np.bool_]:
    """Return for each row but the first whether one header can tell the row and the one before."""
    before, after = table[:-1], table[1:]
    flags = table["attributes"] & ~CODEC_BITS if any_codec else table["attributes"]
    fits: npt.NDArray[np.bool_] = flags[:-1] == flags[1:]
    for name in ("producer_id", "producer_epoch", "leader_epoch"):
        fits &= before[name] == after[name]
    fits &= ((flags[1:] & LOG_APPEND_TIME_BIT) == 0) | (before["max_timestamp"] == after["max_timestamp"])
    fits &= ((flags[1:] & DELETE_HORIZON_BIT) == 0) | (before["base_timestamp"] == after["base_timestamp"])
    distance = after["base_offset"] - before["base_offset"]
    fits &= (distance > 0) & (distance <= DELTA_MAX)
    early, late = before["base_sequence"].astype(np.int64), after["base_sequence"].astype(np.int64)
    has_none = (early < 0) | (late < 0)
    fits &= np.where(has_none, early == late, (early + distance) % SEQUENCES == late)
    return fits


class Merger:
    """Writes the segments of one partition anew."""

    def __init__(self, bounds: RepackBounds, codec: AskedCodec | None, crew: Crew, pace: Pace) -> None:
        """Prepare.

        Args:
            bounds: of the partition.
            codec: what was asked for; None keeps each codec.
            crew: the threads.
            pace: told of the bytes of each slice.
        """
        self._bounds, self._codec, self._crew, self._pace = bounds, codec, crew, pace
        self._kept_bases = np.array(sorted(bounds.kept_bases), np.int64)
        self._outputs = Outputs()

    def merge(self, opened: OpenSpan, cleaned: CleanedSegment) -> Merged | None:
        """Write a segment. Return None, and leave nothing written, if it would not get smaller.

        Raises: CorruptBatch, OutOfSpace, PlanOutOfDate, UnreadableFile, Stopped.
        """
        reader, found, pending = opened.reader, _NOTHING, list[Copied]()
        file = open_to_read(reader.path)
        try:
            slices = reader.slices(checksums=Checksums.ON_READ)
            for slice_, (draft, figures) in self._crew.in_order(self._draft, slices):
                self._pace(slice_.size_bytes)
                if not figures.batches:
                    pending.append(Copied.of(slice_))
                    if found.batches:
                        _flush(pending, file, cleaned)
                    continue
                _flush(pending, file, cleaned)
                found = found.plus(figures)
                cleaned.append(draft, file)
                self._outputs.give(draft.out)
        except EOFError as error:
            raise PlanOutOfDate(reader.path, "it was truncated while it was read") from error
        finally:
            close(file)
        reader.let_go()
        if not found.batches or not is_worth_it(opened.span.size_bytes, cleaned.size_bytes, found.recoded):
            cleaned.discard()
            return None
        return found._replace(size_bytes=cleaned.size_bytes)

    def _draft(self, slice_: Slice) -> tuple[Draft, Merged]:
        """Return the output of a slice, and what was merged in it; without a merged batch, the output is void."""
        runs = (
            list(runs_of(slice_.table, self._bounds, self._kept_bases, any_codec=self._codec is not None))
            if not slice_.is_legacy
            else []
        )
        if not runs:
            return Draft(0, np.empty(0, np.uint8)), _NOTHING
        draft, figures, row = Draft(slice_.table.size, self._outputs.take(slice_.size_bytes)), _NOTHING, 0
        with self._crew.hand() as (_, arena):
            for first, last in runs:
                _keep(slice_, row, first, draft)
                figures = figures.plus(self._write(slice_, first, last, draft, arena))
                row = last
        _keep(slice_, row, slice_.table.size, draft)
        draft.end_run()
        if not figures.batches:
            self._outputs.give(draft.out)
        return draft, figures

    def _write(self, slice_: Slice, first: int, last: int, draft: Draft, arena: Recoder) -> Merged:
        """Write some rows as one batch, as several if they are too much for one, or as they are."""
        figures = _NOTHING
        while first < last:
            codec, level = self._codec_of(slice_, first)
            codes = slice_.table["attributes"][first:last] & CODEC_BITS
            if last - first == 1 and level is None and codes[0] == codec:
                _keep(slice_, first, last, draft)
                return figures
            plain, end = _plain(slice_, first, last, arena)
            written = self._append(slice_, (first, end), AskedCodec(codec, level), plain, draft, arena)
            if written is None and end - first > 1:  # the rest of the rows are halved, too
                middle = first + (end - first) // 2
                written = self._write(slice_, first, middle, draft, arena)
                written = written.plus(self._write(slice_, middle, end, draft, arena))
            figures = figures.plus(written or _NOTHING)
            first = end
        return figures

    def _codec_of(self, slice_: Slice, row: int) -> AskedCodec:
        return self._codec or AskedCodec(slice_.codec_of(row))

    def _append(
        self, slice_: Slice, rows: tuple[int, int], codec: AskedCodec, plain: Bytes, draft: Draft, arena: Recoder
    ) -> Merged | None:
        """Append one batch for some rows, or the rows as they are. Return None if the batch would be too large, and
        halves of it might not.
        """
        (first, last), table = rows, slice_.table
        replaced = table[first:last]
        size_bytes = _append_body(codec, plain, draft, arena)
        before_bytes = int(replaced["size"].sum())
        recoded = int(((replaced["attributes"] & CODEC_BITS) != codec.compression).sum()) if self._codec else 0
        if size_bytes > self._bounds.batch_bytes_max and last - first > 1:
            return None
        is_too_large = size_bytes > max(self._bounds.batch_bytes_max, before_bytes)
        if is_too_large or (size_bytes >= before_bytes and not recoded):
            _keep(slice_, first, last, draft)
            return _NOTHING
        one = _header(replaced, codec.compression)
        records, latest = int(replaced["record_count"].sum()), int(replaced["max_timestamp"].max())
        base_ms = int(one["base_timestamp"][0])
        status = write_header(draft.out, draft.position, size_bytes, one, 0, records, base_ms, latest)
        assert status == Status.OK, status
        draft.note(size_bytes, int(one["last_offset"][0]), latest, records)
        return Merged(0, last - first, 1, recoded)


def _header(replaced: Table, codec: Compression) -> Table:
    """Return a row for the batch that takes the place of some."""
    one = np.zeros(1, BATCH)
    one[:] = replaced[:1]
    one["last_offset"] = replaced["last_offset"][-1]
    one["attributes"] = (replaced["attributes"][0] & ~CODEC_BITS) | codec
    one["outcome"] = 0
    return one


def _append_body(codec: AskedCodec, plain: Bytes, draft: Draft, arena: Recoder) -> int:
    """Compress records to where the body of the next batch lies. Return the size of this batch."""
    draft.make_room(HEADER_BYTES + body_bytes_max(plain.size))
    body = draft.position + HEADER_BYTES
    if codec.level is None:
        return arena.compress(codec.compression, plain, draft.out, body) - draft.position
    data = np.frombuffer(compress(codec.compression, plain.data, level=codec.level), np.uint8)
    draft.make_room(HEADER_BYTES + data.size)
    draft.out[body : body + data.size] = data
    return int(HEADER_BYTES + data.size)


def _plain(slice_: Slice, first: int, last: int, arena: Recoder) -> tuple[Bytes, int]:
    """Decompress rows, and return their records as those of one batch, and the row behind the last one that fits.

    Raises: CorruptBatch.
    """
    table, out, at, row = slice_.table, arena.plain(ARENA_BYTES), 0, first
    base_offset, base_ms = int(table["base_offset"][first]), int(table["base_timestamp"][first])
    while row < last:
        is_plain = not (table["attributes"][row:last] & CODEC_BITS).any()
        buf, end = (slice_.buf, last) if is_plain else arena.fill(slice_, row, last)
        sums = np.cumsum(table["records_end"][row:end] - table["records_start"][row:end])
        taken = int(np.searchsorted(sums, PLAIN_BYTES_MAX - at, "right"))
        if not at:
            taken = max(taken, 1)
        if taken:
            records = int(table["record_count"][row : row + taken].sum(dtype=np.int64))
            out = _grown(out, at, int(sums[taken - 1]) + _RECORD_GROWTH_MAX * records)
            status, stopped, at = merge_records(buf, table, row, row + taken, base_offset, base_ms, out, at)
            if status != Status.OK:
                raise slice_.fail(status, stopped)
        if not is_plain:
            table["records_start"][row:end] = NOT_HERE
        row += taken
        if row < end:
            break
    return out[:at], row


def _grown(out: Bytes, used: int, more: int) -> Bytes:
    if out.size - used >= more:
        return out
    grown = np.empty(max(used + more, 2 * out.size), np.uint8)
    grown[:used] = out[:used]
    return grown


def _keep(slice_: Slice, first: int, last: int, draft: Draft) -> None:
    """Append rows as they are: a long stretch from file to file."""
    if first == last:
        return
    rows = slice_.rows(slice_.table[first:last])
    if rows.size_bytes >= COPY_RUN_BYTES_MIN:
        draft.copy(Copied.of(rows))
        return
    start = int(rows.table["position"][0])
    draft.append_rows(slice_.buf[start : start + rows.size_bytes], Copied.of(rows).written)


def _flush(pending: list[Copied], file: OpenFile, cleaned: CleanedSegment) -> None:
    """Copy the slices that stay as they are."""
    for run in pending:
        cleaned.append_copied(file, run)
    pending.clear()
