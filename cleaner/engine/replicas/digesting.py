"""The digest of a replica: hashes of its committed records over fixed ranges of offsets, a few KiB a segment.

Healthy replicas differ in segments, borders of batches, codecs and delete horizons, and a compacted one in how much was
compacted. So a record is hashed by itself, with the fields of its batch that neither compaction nor replication
changes, and the hashes of a block of 4,096 offsets are added up. Of a compacted log only the latest value of each key
counts; tombstones are counted apart, since each replica drops them at a moment of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cleaner.engine.compaction.digests import Digests
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Secret, secret_of
from cleaner.engine.compaction.round import aborted_transactions
from cleaner.engine.diff.record_diff import DISCARDED, batch_facts, bits_of, latest_in, runs_of
from cleaner.engine.diff.two_states import OFFSET_END, Flags, OpenedState, State
from storage.arrays import Integers, Words
from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile
from storage.kernels.layout import CONTROL

BLOCK_OFFSETS: Final = 4096
_SECRET: Final[Secret] = secret_of((0x6C6F67636C65616E, 0x65722F6469676573))
"""The same for all brokers. A digest finds damage; it is no protection against somebody who forges records."""
_RECORD_FIELDS: Final = ("offset", "timestamp", "key_bytes", "value_bytes", "key_low", "body_low")
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_WORD_MAX: Final = (1 << 64) - 1


class Block(NamedTuple):
    """The records of a replica in one block of offsets."""

    records: int
    hashed: int
    """The sum of the records' hashes, modulo 2^64."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in one log dir, ready to be digested."""

    state: State
    start_offset: int
    """The first offset to digest."""
    end_offset: int
    """The offset behind the last one to digest: the high watermark, or the lowest one of several replicas."""
    is_compacted: bool


@dataclass(slots=True)
class Digest:
    """The records of one replica in a range of offsets."""

    blocks: dict[int, Block] = field(default_factory=dict)
    """Number of the block → its records. A block without a record has no entry."""
    tombstones: int = 0
    """The latest records of their keys that are tombstones; 0 for a log that is not compacted."""
    error: str | None = None
    """Why the replica could not be read to the end. Then nothing is compared with it."""

    @property
    def records(self) -> int:
        """The number of records in all blocks."""
        return sum(block.records for block in self.blocks.values())


def digest(replica: Replica) -> Digest:
    """Digest a replica. Damage is a fact of the result.

    Raises: PlanOutOfDate, UnreadableFile where its files changed.
    """
    found = Digest()
    try:
        for run, chosen, hashes in _hashed(replica, found):
            _add(found.blocks, run.digests["offset"][chosen], hashes)
    except LogCleanerError as error:
        if is_change(error):
            raise
        found.error = str(error)
    return found


def is_change(error: LogCleanerError) -> bool:
    """Return whether an error says that somebody changed the log while it was read."""
    return isinstance(error, PlanOutOfDate) or (isinstance(error, UnreadableFile) and error.has_vanished)


def records_between(replica: Replica, end_offset: int) -> dict[int, int]:
    """Return offset → hash of each record in the replica's range and below an offset.

    Raises: as ``OpenedState.of``; CorruptBatch.
    """
    told: dict[int, int] = {}
    for run, chosen, hashes in _hashed(replica, Digest()):
        offsets = run.digests["offset"][chosen]
        wanted = offsets < end_offset
        told |= dict(zip(offsets[wanted].tolist(), hashes[wanted].tolist(), strict=True))
    return told


def _add(blocks: dict[int, Block], offsets: Integers, hashes: Words) -> None:
    """Add some records, in ascending order, to their blocks."""
    numbers, firsts = np.unique(offsets // BLOCK_OFFSETS, return_index=True)
    if not numbers.size:
        return
    sums = np.add.reduceat(hashes, firsts)
    counts = np.diff([*firsts, offsets.size])
    for number, count, hashed in zip(numbers.tolist(), counts.tolist(), sums.tolist(), strict=True):
        before = blocks.get(number, Block(0, 0))
        blocks[number] = Block(before.records + count, (before.hashed + hashed) & _WORD_MAX)


def _hashed(replica: Replica, found: Digest) -> Iterator[tuple[Digests, Flags, Words]]:
    """Yield the records of each run, which of them count, and the hashes of those; count the tombstones."""
    start, end = replica.start_offset, replica.end_offset
    if start >= end:
        return
    with ExitStack() as stack:
        opened = OpenedState.of(replica.state, stack)
        latest = _Latest.of(opened, end) if replica.is_compacted else None
        ordinals, fates = (latest.ordinals, latest.fates) if latest else ({}, None)
        spans = list(opened.between(-1 if latest else start, end, stack))
        for run in runs_of(spans, ordinals, _SECRET, fates):
            offsets = run.digests["offset"]
            chosen = (offsets >= start) & (offsets < end)
            if latest is not None:
                counts = chosen & latest.holds(run)
                chosen = counts & (run.digests["value_bytes"] >= 0)
                found.tombstones += int(counts.sum() - chosen.sum())
            yield run, chosen, _hashes(run, chosen)


def _hashes(run: Digests, chosen: Flags) -> Words:
    digests = run.digests[chosen]
    words = np.full(digests.size, _MULTIPLIER, np.uint64)
    for column in (*(digests[name] for name in _RECORD_FIELDS), *batch_facts(run, run.rows[chosen])):
        words ^= column.astype(np.int64).view(np.uint64) if column.dtype.kind == "i" else column
        words *= _MULTIPLIER
        words ^= words >> _SHIFT
    return words


@dataclass(frozen=True, slots=True)
class _Latest:
    """Tells which records of a compacted log are the latest of their keys below an offset."""

    bitmap: Words
    ordinals: dict[Path, int]
    """The ordinal of the first record of each ``.log``."""
    fates: Fates

    @classmethod
    def of(cls, opened: OpenedState, end_offset: int) -> _Latest:
        """Find them. Raises: as ``OpenedState.between``."""
        state = opened.state
        aborted = aborted_transactions(state.listing, state.log_start_offset, OFFSET_END)

        def new_fates() -> Fates:
            return Fates(list(aborted), {}, OFFSET_END, 0, state.log_start_offset)

        with ExitStack() as stack:
            bitmap, ordinals, _ = latest_in(list(opened.between(-1, end_offset, stack)), new_fates)
        return cls(bitmap, ordinals, new_fates())

    def holds(self, run: Digests) -> Flags:
        """Return which records are data of a key, not aborted, and the latest of their key."""
        table, digests = run.slice_.table, run.digests
        is_data = (table["attributes"][run.rows] & CONTROL) == 0
        is_data &= ~np.isin(table["fate"][run.rows], DISCARDED)
        return np.asarray(is_data & (digests["key_bytes"] >= 0) & bits_of(self.bitmap, digests["ordinal"]))
