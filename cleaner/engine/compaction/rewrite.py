"""Pass 2: write the ``.cleaned`` segment of a group, batch by batch, from the survivor bitmap.

All records kept: the bytes are copied as they are, long runs from file to file. None: dropped unread. Some: rebuilt. A
group of one segment that loses nothing is not written at all (Kafka rewrites it every round); two or more segments that
lose nothing are still merged, or thousands of tiny files would stay.

Source: Kafka Cleaner.cleanSegments, cleanInto; MemoryRecords.filterTo.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress as select
from typing import Final

import numpy as np

from cleaner.engine.compaction.arena import Arena, codec_of
from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.legacy import (
    MESSAGES_BYTES_MAX,
    MIXED_VERSIONS,
    modified_ms,
    newest_ms,
    rewritten,
    upgraded,
)
from cleaner.engine.compaction.sources import Slice, Source
from storage.errors import NotYetSupported, PlanOutOfDate
from storage.kernels.codecs import body_bytes_max
from storage.kernels.decide import decide_batches
from storage.kernels.layout import HEADER_BYTES, NOT_HERE
from storage.kernels.rewrite import encode_records, rewrite_batches, write_header
from storage.kernels.signatures import Words
from storage.kernels.status import Outcome, Status
from storage.segment import open_to_read

COPY_RUN_BYTES_MIN: Final = 256 << 10
"""Shorter runs of untouched batches are copied by the kernel, together with the rebuilt ones around them."""
_SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
_RECORD_GROWTH_MAX: Final = 16
_MAKES_ROOM: Final = frozenset({Status.OUTPUT_FULL, Status.TABLE_FULL})


@dataclass(frozen=True, slots=True)
class Times:
    """One value each for a whole round, epoch ms."""

    now_ms: int
    new_horizon_ms: int
    """now + ``delete.retention.ms``."""
    legacy_horizon_ms: int
    """From ``legacy_horizon_ms``: tombstones of v0 and v1 stay in segments modified later."""


class Rewriter:
    """Rewrites the groups of a round, each into one cleaned segment, in ascending order."""

    def __init__(
        self,
        bitmap: Words,
        times: Times,
        fates: Fates,
        arena: Arena,
        progress: Callable[[int], None],
        *,
        upgrades: bool,
    ) -> None:
        """Prepare for a round.

        Args:
            bitmap: the survivors.
            times: of the round.
            fates: follows the transactions through all groups.
            arena: for compressed batches.
            progress: told the bytes of every slice dealt with.
            upgrades: whether v0 and v1 become v2.
        """
        self._bitmap = bitmap
        self._times = times
        self._fates = fates
        self._arena = arena
        self._progress = progress
        self._upgrades = upgrades
        self._cleaned: CleanedSegment
        self._source_file = -1

    def rewrite(self, group: Sequence[Source], cleaned: CleanedSegment) -> bool:
        """Write the group's survivors; gives False where it is one segment that loses nothing: then nothing was
        written.

        Raises: CorruptBatch, OutOfSpace, PlanOutOfDate.
        """
        self._cleaned = cleaned
        is_changed = len(group) > 1
        for source in group:
            self._source_file = open_to_read(source.path)
            try:
                is_changed = self._rewrite_source(source, is_changed)
            except EOFError as error:
                raise PlanOutOfDate(source.path, "it was truncated while it was read") from error
            finally:
                os.close(self._source_file)
            self._cleaned.append_aborted(self._fates.take_retained())
        return is_changed

    def _rewrite_source(self, source: Source, is_changed: bool) -> bool:
        for slice_, tombstones in zip(source.slices(verify=False), source.tombstones, strict=True):
            if slice_.is_legacy:
                self._decide_legacy(slice_, tombstones, modified_ms(source.segment))
            else:
                self._decide(slice_, tombstones)
            self._progress(slice_.size_bytes)
            if not is_changed and (slice_.table["outcome"] == Outcome.COPY).all():
                continue
            if not is_changed and slice_.first_row:
                self._copy_prefix(source, slice_.first_row)
            is_changed = True
            self._write(slice_)
        return is_changed

    def _copy_prefix(self, source: Source, rows: int) -> None:
        """Batches of the slices that were found unchanged before the first one that was not."""
        for slice_ in source.slices(verify=False):
            if slice_.first_row == rows:
                return
            self._cleaned.append_copied(self._source_file, slice_.file_position, slice_.table)

    def _decide(self, slice_: Slice, tombstones: np.ndarray) -> None:
        table = slice_.table
        self._fates.dispose(slice_)
        table["tombstones"] = tombstones
        status, row = decide_batches(slice_.buf, table, 0, table.size, self._bitmap, self._times.now_ms)
        if status != Status.OK:
            raise slice_.fail(status, row)
        for row in np.flatnonzero(table["outcome"] == Outcome.UNDECIDED).tolist():
            arena, _ = self._arena.fill(slice_, row, row + 1)
            status, _ = decide_batches(arena, table, row, row + 1, self._bitmap, self._times.now_ms)
            if status != Status.OK:
                raise slice_.fail(status, row)
            table["records_start"][row] = NOT_HERE

    def _decide_legacy(self, slice_: Slice, tombstones: np.ndarray, source_ms: int) -> None:
        """Decide by survivors alone: there are neither transactions nor delete horizons, and no empty batch that could
        stay."""
        table = slice_.table
        table["tombstones"] = 0
        if source_ms <= self._times.legacy_horizon_ms:
            self._expire_tombstones(slice_, np.flatnonzero(tombstones > 0).tolist())
        status, row = decide_batches(slice_.buf, table, 0, table.size, self._bitmap, self._times.now_ms)
        assert status == Status.OK, (status, row)
        is_rebuilt = self._upgrades | ((table["attributes"] & MIXED_VERSIONS) != 0)
        table["outcome"][is_rebuilt & (table["outcome"] == Outcome.COPY)] = Outcome.REBUILD

    def _expire_tombstones(self, slice_: Slice, rows: Sequence[int]) -> None:
        for row in rows:
            first = int(slice_.table["first_ordinal"][row])
            for ordinal, record in enumerate(slice_.legacy_batch(row).records(MESSAGES_BYTES_MAX), first):
                if record.is_tombstone:
                    self._bitmap[ordinal >> 6] &= ~np.uint64(1 << (ordinal & 63))

    def _write(self, slice_: Slice) -> None:
        """Long runs of copied batches from file to file, everything between by the kernel, or message by message."""
        write_rows = self._write_messages if slice_.is_legacy else self._write_rows
        row = 0
        for first, last in _long_copies(slice_):
            write_rows(slice_, row, first)
            self._cleaned.append_copied(self._source_file, slice_.file_position, slice_.table[first:last])
            row = last
        write_rows(slice_, row, slice_.table.size)

    def _write_messages(self, slice_: Slice, row: int, last: int) -> None:
        table = slice_.table
        for at in (row + np.flatnonzero(table["outcome"][row:last] != Outcome.DROP)).tolist():
            position, size, count = (int(table[name][at]) for name in ("position", "size", "record_count"))
            if table["outcome"][at] == Outcome.REBUILD:
                self._rebuild_messages(slice_, at)
                continue
            message = slice_.buf[position : position + size]
            self._cleaned.append(message, int(table["last_offset"][at]), int(table["max_timestamp"][at]), count)

    def _rebuild_messages(self, slice_: Slice, row: int) -> None:
        batch = slice_.legacy_batch(row)
        records = batch.records(MESSAGES_BYTES_MAX)
        kept = list(select(records, _bits(self._bitmap, int(slice_.table["first_ordinal"][row]), len(records))))
        data = upgraded(batch, kept, self._times.new_horizon_ms) if self._upgrades else rewritten(batch, kept)
        if len(data) > _SEGMENT_BYTES_MAX - self._cleaned.size_bytes:  # v2 takes more for small messages
            raise NotYetSupported(slice_.path, "a segment that outgrows 2 GiB in format v2")
        self._cleaned.append(np.frombuffer(data, np.uint8), kept[-1].offset, newest_ms(batch, kept), len(kept))

    def _write_rows(self, slice_: Slice, row: int, last: int) -> None:
        cleaned, times = self._cleaned, self._times
        while row < last:
            status, row, cleaned.position, cleaned.rows = rewrite_batches(
                slice_.buf, slice_.table, row, last, self._bitmap, times.now_ms, times.new_horizon_ms,
                cleaned.out, cleaned.position, cleaned.written, cleaned.rows,
            )  # fmt: skip
            if status in _MAKES_ROOM:
                cleaned.make_room(_bound_bytes(slice_, row))
            elif status == Status.NEEDS_RECORDS:
                self._rebuild_compressed(slice_, row)
                row += 1
            elif status != Status.OK:
                raise slice_.fail(status, row)

    def _rebuild_compressed(self, slice_: Slice, row: int) -> None:
        """Decompress a batch, keep what stays of it, compress that with the same codec at its default level."""
        cleaned, table = self._cleaned, slice_.table
        arena, _ = self._arena.fill(slice_, row, row + 1)
        records_bytes = int(table["records_end"][row] - table["records_start"][row])
        plain = self._arena.plain(records_bytes + _RECORD_GROWTH_MAX * int(table["record_count"][row]))
        status, plain_bytes, kept, base_ms, latest_ms = encode_records(
            arena, table, row, self._bitmap, self._times.now_ms, self._times.new_horizon_ms, plain, 0
        )
        if status != Status.OK:
            raise slice_.fail(status, row)
        del arena  # the records are held once, not twice, beside what they compress to
        cleaned.make_room(HEADER_BYTES + body_bytes_max(plain_bytes))
        position = cleaned.position
        end = self._arena.compress(codec_of(slice_, row), plain[:plain_bytes], cleaned.out, position + HEADER_BYTES)
        size = end - position
        status = write_header(cleaned.out, position, size, table, row, kept, base_ms, latest_ms)
        assert status == Status.OK, status
        cleaned.written[cleaned.rows] = (position, size, table["last_offset"][row], latest_ms, kept)
        cleaned.position, cleaned.rows = position + size, cleaned.rows + 1


def _bits(bitmap: Words, first: int, count: int) -> np.ndarray:
    """``count`` bits from ``first`` on, one a byte."""
    words = bitmap[first >> 6 : (first + count + 63) >> 6]
    return np.unpackbits(words.view(np.uint8), bitorder="little")[first & 63 :][:count]


def _bound_bytes(slice_: Slice, row: int) -> int:
    """Most bytes that a batch can take when it is rebuilt."""
    batch = slice_.table[row]
    return int(batch["size"]) + _RECORD_GROWTH_MAX * int(batch["record_count"])


def _long_copies(slice_: Slice) -> list[tuple[int, int]]:
    """Runs of rows to copy that are long enough for a copy from file to file."""
    is_copy = np.concatenate(([False], slice_.table["outcome"] == Outcome.COPY, [False]))
    edges = np.flatnonzero(is_copy[1:] != is_copy[:-1])
    ends = np.concatenate((slice_.table["position"], [int(slice_.table["position"][-1] + slice_.table["size"][-1])]))
    runs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [(first, last) for first, last in runs if ends[last] - ends[first] >= COPY_RUN_BYTES_MIN]
