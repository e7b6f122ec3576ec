"""Pass 1 of an erasure: find the records of the wanted keys in one segment, and note which of them go.

Every batch is read, with its checksum. The result is a bitmap as that of a compaction, so that pass 2 is the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.passes import OpenSpan, Span, Walk, Walked
from cleaner.engine.prove_erased.searching import KeyMatcher
from cleaner.engine.prove_erased.wanted import WantedKey
from policies.erasure import ErasureBounds, KeyedRecord, StayReason, erasure_fate, why_record_stays
from policies.retain import AbortedTransaction, BatchFacts, Marker, ProducerEnd
from storage.arrays import Integers, Table, Words
from storage.kernels.bitmap import new_bitmap
from storage.kernels.layout import BATCH, CONTROL, HEADER_BYTES, LOCATED_FIELDS, OFFSET, ROW, VALUE_BYTES
from storage.kernels.locate import locate_records
from storage.kernels.status import Status
from storage.records import Record, encode_batch
from storage.records.v2 import OFFSET_MAX
from storage.scan.arena import Arena, Run
from storage.scan.chunks import Chunk
from storage.scan.slices import Checksums, Slice

_ALL_BITS: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_MAP_BYTES_A_KEY: Final = 64
"""Four times the bytes of log by which a map estimates a key: it then is a quarter full at most."""
_MAP_BYTES_MAX: Final = 256 << 20
"""The most memory for the map of keys; more keys are compared by their bytes alone."""


class ErasureFates:
    """The fates of the batches of an erasure, for the rewriter of a compaction."""

    def __init__(
        self,
        producers: Mapping[int, ProducerEnd],
        bounds: ErasureBounds,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> None:
        """Prepare the fates.

        Args:
            producers: the active producers' ends, by producer id.
            bounds: of the erasure.
            aborted: the entries of the segment's transaction index, all of which stay, as all markers do.
        """
        self._producers, self._bounds, self._aborted = producers, bounds, list(aborted)
        ends = [end.last_data_offset for end in producers.values() if end.last_data_offset is not None]
        self._special_ends = np.array(sorted({*ends, *(end - 1 for end in bounds.kept_ends)}), np.int64)

    def dispose(self, slice_: Slice) -> bool:
        """Set ``fate`` of every row. Return whether the records alone decide about all batches."""
        table = slice_.table
        special = np.isin(table["last_offset"], self._special_ends)
        special |= ((table["attributes"] & CONTROL) != 0) | (table["record_count"] == 0)
        for row in np.flatnonzero(special).tolist():
            batch = table[row]
            facts = BatchFacts(
                int(batch["last_offset"]),
                int(batch["producer_id"]),
                int(batch["producer_epoch"]),
                is_transactional=False,
                marker=Marker.OTHER if int(batch["attributes"]) & CONTROL else None,
                delete_horizon_ms=None,
            )
            table["fate"][row] = erasure_fate(facts, int(batch["record_count"]), self._producers, self._bounds)
        return not special.any()

    def take_retained(self) -> list[AbortedTransaction]:
        """Return the aborted transactions of the segment, once."""
        aborted, self._aborted = self._aborted, []
        return aborted


class Stays(NamedTuple):
    """Records of wanted keys that stay for one reason."""

    reason: StayReason
    records: int
    first_offset: int
    last_offset: int

    def with_record(self, offset: int) -> Stays:
        """Count one more record, with a higher offset."""
        return self._replace(records=self.records + 1, last_offset=offset)

    @classmethod
    def total(cls, found: Sequence[Stays]) -> tuple[Stays, ...]:
        """Add up by reason, in the order of the reasons."""
        by_reason = {reason: [one for one in found if one.reason is reason] for reason in StayReason}
        return tuple(
            cls(reason, sum(s.records for s in some), some[0].first_offset, some[-1].last_offset)
            for reason, some in by_reason.items()
            if some
        )


@dataclass(frozen=True, slots=True, eq=False)
class MarkedSegment:
    """The findings of pass 1 about one segment."""

    walked: Walked
    ordinals: Integers
    """The ordinals of the records that go, ascending."""
    offsets: Integers
    """The offsets of these records."""
    tombstones: int
    """How many of these records have no value."""
    stays: tuple[Stays, ...]

    @property
    def span(self) -> Span:
        """The segment."""
        return self.walked.span

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the offsets of the records that go, as ranges with inclusive ends."""
        runs = np.split(self.offsets, np.flatnonzero(np.diff(self.offsets) != 1) + 1)
        return tuple((int(run[0]), int(run[-1])) for run in runs if run.size)

    def bitmap(self) -> Words:
        """Return the records that stay, one bit a record."""
        bitmap = new_bitmap(self.walked.records)
        bitmap[:] = _ALL_BITS
        bits = np.uint64(1) << (self.ordinals & 63).astype(np.uint64)
        np.bitwise_and.at(bitmap, self.ordinals >> 6, ~bits)
        return bitmap


class _Hit(NamedTuple):
    """A record of a wanted key."""

    ordinal: int
    record: KeyedRecord


class KeyFinder:
    """Finds the records that have a wanted key: by hashes first, as a compaction looks keys up, then by their bytes."""

    def __init__(self, keys: Sequence[WantedKey], threads: int) -> None:
        """Prepare the keys for some threads. Keys behind any schema id have no hash: all records are compared."""
        self._matcher = KeyMatcher(keys)
        forms = sorted({form for key in keys for form in key.forms})
        self._map = None if any(key.payloads for key in keys) else _mapped(forms, threads)

    def hits(self, slice_: Slice, share: int, arena: Arena) -> Iterator[_Hit]:
        """Verify a slice, and yield its data records with a wanted key. Raises: CorruptBatch."""
        if self._map is None:
            yield from _hits(slice_, self._matcher, arena)
            return
        ordinals = self._ordinals_with_a_hash(self._map, slice_, share, arena)
        if ordinals.size:
            rows = np.unique(_rows_of(ordinals, slice_.table))
            yield from _hits(slice_.rows(slice_.table[rows]), self._matcher, arena, ordinals)

    def _ordinals_with_a_hash(self, key_map: KeyMap, slice_: Slice, share: int, arena: Arena) -> Integers:
        """Return the ordinals of the records that may have a wanted key, ascending, perhaps with some without a key."""
        table = slice_.table
        base = int(table["first_ordinal"][0]) & ~63
        records = int(table["first_ordinal"][-1] + table["record_count"][-1]) - base
        bitmap, unkeyed = new_bitmap(records), key_map.unkeyed_of(share)
        bitmap[:] = _ALL_BITS
        is_plain = slice_.is_plain
        runs = [Run(slice_.buf, 0, table.size, is_unverified=True)] if is_plain else arena.runs(
            slice_, 0, table.size, verify=True
        )  # fmt: skip
        for run in runs:
            key_map.mark(slice_, run, bitmap, base, bitmap[:0], share)
        cleared = np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little") == 0)
        if cleared.size == key_map.unkeyed_of(share) - unkeyed:  # only records without a key
            return np.empty(0, np.int64)
        return cleared + base


def _rows_of(ordinals: Integers, table: Table) -> Integers:
    """Return the rows of a table that hold the records.

    A row without records has the first ordinal of the next one: the last of equal ones has the record.
    """
    return np.searchsorted(table["first_ordinal"], ordinals, "right") - 1


def _mapped(forms: Sequence[bytes], threads: int) -> KeyMap | None:
    """Return a map of some keys, in which a compaction's kernels look keys up; None if they do not fit."""
    data = np.frombuffer(encode_batch([Record(n, 0, form, None) for n, form in enumerate(forms)]), np.uint8)
    table = np.zeros(1, BATCH)
    table["size"], table["records_start"], table["records_end"] = data.size, HEADER_BYTES, data.size
    table["last_offset"], table["record_count"] = len(forms) - 1, len(forms)
    key_map = KeyMap(_MAP_BYTES_A_KEY * len(forms), Budget(_MAP_BYTES_MAX, 1.0), threads)
    key_map.add(Slice(data, 0, table, 0, Path("keys")), Run(data, 0, 1), 0, 0)
    return key_map if key_map.is_last_range else None


def mark(
    opened: OpenSpan, finder: KeyFinder, bounds: ErasureBounds, fates: ErasureFates, crew: Crew, pace: Pace
) -> MarkedSegment:
    """Walk over one segment, and note the records of the wanted keys.

    Raises: CorruptBatch, PlanOutOfDate, UnreadableFile, Stopped.
    """
    walk, tombstones, stays = Walk.of(opened, 0), 0, dict[StayReason, Stays]()
    ordinals, offsets = array("q"), array("q")  # a key may be on most of a hundred million records

    def slices() -> Iterator[tuple[Slice, bool]]:
        for slice_ in opened.reader.slices(checksums=Checksums.BY_CALLER, start=walk.start):
            yield slice_, slice_.is_legacy or fates.dispose(slice_)

    def hits(found: tuple[Slice, bool]) -> list[_Hit]:
        with crew.hand() as (share, arena):
            return list(finder.hits(found[0], share, arena))

    for (slice_, is_ordinary), found in crew.in_order(hits, slices()):
        slice_.table["tombstones"] = 0  # pass 2 then decides by the bitmap alone, and sets no horizon
        walk.add(slice_, is_ordinary=is_ordinary)
        for hit in found:
            reason = why_record_stays(hit.record, bounds)
            if reason is None:
                ordinals.append(hit.ordinal)
                offsets.append(hit.record.offset)
                tombstones += hit.record.is_tombstone
            elif reason in stays:
                stays[reason] = stays[reason].with_record(hit.record.offset)
            else:
                stays[reason] = Stays(reason, 1, hit.record.offset, hit.record.offset)
        pace(slice_.size_bytes)
    going = np.frombuffer(ordinals, np.int64), np.frombuffer(offsets, np.int64)
    return MarkedSegment(walk.walked, *going, tombstones, tuple(stays.values()))


def _hits(slice_: Slice, matcher: KeyMatcher, arena: Arena, ordinals: Integers | None = None) -> Iterator[_Hit]:
    """Yield the data records of a slice that have a wanted key.

    Args:
        slice_: the batches.
        matcher: the keys.
        arena: of the thread.
        ordinals: the records that are compared, ascending, whose batches were verified. None compares all, and verifies
            their batches.

    Raises: CorruptBatch.
    """
    for run in arena.runs(slice_, 0, slice_.table.size, verify=ordinals is None):
        table, located = slice_.table[run.first : run.last], _located(slice_, run)
        places = np.cumsum(table["record_count"], dtype=np.int64) - table["record_count"]
        chunk = Chunk(run.buf, table, located, slice_.file_position)
        for match in matcher.matches(chunk, None if ordinals is None else _places_of(ordinals, table, places)):
            row = int(located[ROW, match.place])
            batch = table[row]
            if int(batch["attributes"]) & CONTROL:
                continue
            is_tombstone = int(located[VALUE_BYTES, match.place]) < 0
            offset = int(located[OFFSET, match.place])
            record = KeyedRecord(offset, int(batch["last_offset"]), is_tombstone, slice_.is_legacy)
            yield _Hit(int(batch["first_ordinal"]) + match.place - int(places[row]), record)


def _places_of(ordinals: Integers, table: Table, places: Integers) -> Integers:
    """Return where the records of some rows lie among all of these rows; ordinals of other rows are passed over.

    Args:
        ordinals: of records, ascending.
        table: the rows, at least one.
        places: where the records of each row begin.
    """
    first, end = int(table["first_ordinal"][0]), int(table["first_ordinal"][-1] + table["record_count"][-1])
    mine = ordinals[np.searchsorted(ordinals, first) : np.searchsorted(ordinals, end)]
    rows = _rows_of(mine, table)
    found: Integers = mine - table["first_ordinal"][rows] + places[rows]
    return found


def _located(slice_: Slice, run: Run) -> npt.NDArray[np.int64]:
    """Return the fields of all records of a run, control records among them. Raises: CorruptBatch."""
    table = slice_.table[run.first : run.last]
    records = int(table["record_count"].sum(dtype=np.int64))
    located = np.empty((LOCATED_FIELDS, records), np.int64)
    status, row, _ = locate_records(run.buf, table, 0, table.size, 0, OFFSET_MAX, located.reshape(-1), 0)
    if status != Status.OK:
        raise slice_.fail(status, run.first + row)
    return located
