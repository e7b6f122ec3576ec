"""Every small log, cleaned round after round by the rules of ``policies.retain``, against what must be left of it.

A log is a word, one letter a batch. Of no producer: ``A`` ``B`` values of keys a and b, ``a`` the tombstone of a,
``W`` both values in one batch, ``U`` a record without key. In transactions of producers 1 and 2: ``T`` ``S`` a value
of a, ``t`` its tombstone, ``C`` ``D`` the commits, ``X`` ``Y`` the aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import pytest

from policies.retain import AbortedTransaction, BatchFacts, Marker, ProducerEnd, TransactionFates, batch_fate
from storage.kernels.status import BatchFate
from tests.kafka_rounds import RecordFate, record_fate

RETENTION_MS = 100
ROUNDS_MS = (0, 0, RETENTION_MS - 1, RETENTION_MS, 2 * RETENTION_MS - 1)
"""Each round's time: the horizons stamped in the first two end at the fourth, those of the third at the fifth."""
PRODUCER_OF = {"T": 1, "t": 1, "C": 1, "X": 1, "S": 2, "D": 2, "Y": 2}
MARKER_OF = {"C": Marker.COMMIT, "D": Marker.COMMIT, "X": Marker.ABORT, "Y": Marker.ABORT}
RECORDS_OF = {"A": "A", "B": "B", "a": "a", "W": "AB", "U": "U", "T": "A", "t": "a", "S": "A"}
EMPTYING = (BatchFate.DISCARD, BatchFate.DISCARD_RETAIN_EMPTY)
RETAINING_EMPTY = (BatchFate.RETAIN_EMPTY, BatchFate.DISCARD_RETAIN_EMPTY)


class Record(NamedTuple):
    """A tombstone has no value, ``U`` no key."""

    offset: int
    key: str | None
    has_value: bool


@dataclass(frozen=True, slots=True)
class Batch:
    facts: BatchFacts
    records: tuple[Record, ...]

    @property
    def is_data(self) -> bool:
        return self.facts.marker is None


class Rules(NamedTuple):
    record: Callable[..., RecordFate] = record_fate
    batch: Callable[..., BatchFate] = batch_fate


@dataclass(slots=True)
class World:
    """A log with what its transactions came to, and what was cleaned of it so far."""

    original: tuple[Batch, ...]
    aborted: tuple[AbortedTransaction, ...]
    transactions: dict[int, tuple[int, ...]]
    """A marker's offset -> the last offsets of its data batches."""
    producers: dict[int, ProducerEnd]
    log: tuple[Batch, ...]
    index: tuple[AbortedTransaction, ...]
    bare_since_ms: dict[int, int] = field(default_factory=dict)
    """A marker's offset -> when a round first found none of its data."""

    @property
    def end(self) -> int:
        return self.original[-1].facts.last_offset + 1

    @property
    def aborted_data(self) -> set[int]:
        ends = {transaction.last_offset for transaction in self.aborted}
        return {offset for marker in ends for offset in self.transactions[marker]}


# Worlds


def every_world() -> Iterator[World]:
    for letters, length_max in (("AaBWU", 4), ("AatTCX", 4), ("TSCXDY", 4), ("TACX", 5)):
        for length in range(1, length_max + 1):
            for word in product(letters, repeat=length):
                yield from worlds_of(word)


def worlds_of(word: Sequence[str]) -> Iterator[World]:
    """None while a transaction is open: it would lie above the last stable offset."""
    if not set(word) & set(PRODUCER_OF):
        yield a_world(word)
    elif all(is_decided(word, producer_id) for producer_id in (1, 2)):
        yield a_world(word)
        yield a_world(word, bumps_epochs=True)
        yield replace(a_world(word), producers={})


def is_decided(word: Sequence[str], producer_id: int) -> bool:
    own = [letter for letter in word if PRODUCER_OF.get(letter) == producer_id]
    return not own or own[-1] in MARKER_OF


def a_world(word: Sequence[str], *, bumps_epochs: bool = False) -> World:
    """With ``bumps_epochs``, a marker begins a new epoch of its producer, as in transactions since Kafka 4.0."""
    offset, epochs, batches = 0, {1: 0, 2: 0}, []
    world = World((), (), {}, {}, (), ())
    open_data: dict[int, list[int]] = {1: [], 2: []}
    for letter in word:
        producer_id, marker = PRODUCER_OF.get(letter, -1), MARKER_OF.get(letter)
        records = tuple(a_record(offset + n, kind) for n, kind in enumerate(RECORDS_OF.get(letter, "M")))
        offset += len(records)
        if marker is not None:
            epochs[producer_id] += bumps_epochs
            world.transactions[offset - 1] = tuple(open_data[producer_id])
        if marker is Marker.ABORT and open_data[producer_id]:
            aborted = AbortedTransaction(producer_id, open_data[producer_id][0], offset - 1, offset)
            world.aborted = (*world.aborted, aborted)
        if producer_id > 0:
            open_data[producer_id] = [] if marker is not None else [*open_data[producer_id], offset - 1]
            before = world.producers.get(producer_id, ProducerEnd(None, 0)).last_data_offset
            last_data = offset - 1 if marker is None else None if bumps_epochs else before
            world.producers[producer_id] = ProducerEnd(last_data, epochs[producer_id])
        facts = BatchFacts(offset - 1, producer_id, epochs.get(producer_id, -1), producer_id > 0, marker, None)
        batches.append(Batch(facts, records))
    world.original = world.log = tuple(batches)
    world.index = world.aborted
    return world


def a_record(offset: int, kind: str) -> Record:
    return Record(offset, kind.lower() if kind in "AaB" else None, kind.isupper())


# A round, as the engine applies the rules


def clean(world: World, rules: Rules, first_dirty: int, map_end: int, now_ms: int) -> set[object]:
    """Rewrite the whole log under a map of ``[first_dirty, map_end]``; gives the fates that occurred."""
    latest = latest_offsets(world, first_dirty, map_end)
    fates, left, seen = TransactionFates.of(world.index, 0), [], set[object]()
    for batch in world.log:
        can_discard = fates.can_discard(batch.facts)
        fate = rules.batch(batch.facts, can_discard, world.producers, world.end, now_ms)
        kept: list[Record] = []
        for record in () if fate in EMPTYING else batch.records:
            kept_as = RecordFate.LATEST
            if batch.is_data:
                kept_as = rules.record(
                    record.offset,
                    has_key=record.key is not None,
                    has_value=record.has_value,
                    latest_offset=latest.get(record.key, -1),
                    map_end_offset=map_end,
                    delete_horizon_ms=batch.facts.delete_horizon_ms,
                    now_ms=now_ms,
                )
                seen.add(kept_as)
            kept += [record] if kept_as.is_kept else []
        seen.add(fate)
        left += rewritten(batch, fate, tuple(kept), now_ms)
    world.log, world.index = tuple(left), tuple(fates.retained)
    return seen


def latest_offsets(world: World, first_dirty: int, map_end: int) -> dict[str | None, int]:
    fates, latest = TransactionFates.of(world.index, 0), dict[str | None, int]()
    for batch in world.log:
        if not fates.can_discard(batch.facts) and batch.is_data:
            latest |= {r.key: r.offset for r in batch.records if r.key and first_dirty <= r.offset <= map_end}
    return latest


def rewritten(batch: Batch, fate: BatchFate, kept: tuple[Record, ...], now_ms: int) -> list[Batch]:
    if not kept:
        marker = None if batch.is_data else Marker.NONE
        emptied = Batch(batch.facts._replace(marker=marker, delete_horizon_ms=None), ())
        return [emptied] if fate in RETAINING_EMPTY else []
    has_tombstone = batch.is_data and not all(record.has_value for record in kept)
    stamps = batch.facts.delete_horizon_ms is None and (has_tombstone or fate is BatchFate.KEEP_STAMPED)
    horizon_ms = now_ms + RETENTION_MS if stamps else batch.facts.delete_horizon_ms
    return [Batch(batch.facts._replace(delete_horizon_ms=horizon_ms), kept)]


# What must be left


class UnsoundCleaning(Exception):
    """A record lost, kept or brought back that must not be."""


def demand(holds: bool, what: str, *world: object) -> None:
    if not holds:
        raise UnsoundCleaning(what, *world)


def check_every_small_log(rules: Rules) -> None:
    seen: set[object] = set()
    for world in every_world():
        for map_end in range(world.end):
            seen |= check_rounds(replace(world, bare_since_ms={}), rules, map_end)
    assert seen == {*RecordFate, *BatchFate}


def check_rounds(world: World, rules: Rules, map_end: int) -> set[object]:
    """One round whose map ends early, one over the rest, then some over everything as time goes by."""
    seen: set[object] = set()
    first_dirty = 0
    for place, now_ms in enumerate(ROUNDS_MS):
        before = world.log
        seen |= clean(world, rules, first_dirty, map_end, now_ms)
        check_records(world, map_end, now_ms)
        check_markers(world, before, now_ms)
        check_batches(world, before)
        first_dirty, map_end = (map_end + 1 if place == 0 else 0), world.end - 1
    return seen


def check_records(world: World, map_end: int, now_ms: int) -> None:
    """The data is what a naive compaction of the whole history leaves."""
    live = [r for b in world.original if b.is_data and b.facts.last_offset not in world.aborted_data for r in b.records]
    latest = {record.key: record.offset for record in live if record.offset <= map_end}
    expected = [
        record
        for record in live
        if record.offset > map_end
        or (
            record.key is not None
            and record.offset == latest[record.key]
            and (record.has_value or now_ms < RETENTION_MS)
        )
    ]
    found = [record for batch in world.log if batch.is_data for record in batch.records]
    lost, back = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    demand(not lost, "record lost", lost, world)
    demand(not back, "record must be gone", back, world)
    demand(found == expected, "records out of order", world)


def check_markers(world: World, before: Sequence[Batch], now_ms: int) -> None:
    """A marker outlives its data, by the retention from the round that first found none; so does its index entry."""
    data = {batch.facts.last_offset for batch in before if batch.is_data}
    markers = {batch.facts.last_offset for batch in world.log if not batch.is_data and batch.records}
    for offset, own in world.transactions.items():
        if data & set(own):
            demand(offset in markers, "marker gone before its data", offset, world)
            continue
        since_ms = world.bare_since_ms.setdefault(offset, now_ms)
        demand((offset in markers) is (now_ms < since_ms + RETENTION_MS), "marker's horizon", offset, world)
    indexed = [txn for txn in world.aborted if data & set(world.transactions[txn.last_offset])]
    demand(list(world.index) == indexed, "transaction index", indexed, world)


def check_batches(world: World, before: Sequence[Batch]) -> None:
    """Empty batches stay for the end of an active producer and at the high watermark, and for nothing else."""
    expected = [
        batch.facts.last_offset
        for batch in before
        if batch.facts.last_offset in {b.facts.last_offset for b in world.log if b.records}
        or batch.facts.last_offset + 1 == world.end
        or is_an_end(batch.facts, world.producers.get(batch.facts.producer_id))
    ]
    demand([batch.facts.last_offset for batch in world.log] == expected, "empty batches", expected, world)


def is_an_end(batch: BatchFacts, end: ProducerEnd | None) -> bool:
    if end is None or end.last_data_offset is not None:
        return end is not None and end.last_data_offset == batch.last_offset
    return batch.marker is not None and batch.producer_epoch == end.producer_epoch


def test_every_small_log_keeps_what_must_stay_and_nothing_else() -> None:
    check_every_small_log(Rules())


# Broken twins that the checks must catch


def drops_the_latest(offset: int, *, latest_offset: int, **rest: int) -> RecordFate:
    return record_fate(offset, latest_offset=latest_offset + (latest_offset >= 0), **rest)  # type: ignore[arg-type]


def keeps_superseded(offset: int, *, latest_offset: int, **rest: int) -> RecordFate:
    return record_fate(offset, latest_offset=-1, **rest)  # type: ignore[arg-type]


def expires_tombstones_at_once(offset: int, *, delete_horizon_ms: int | None, **rest: int) -> RecordFate:
    return record_fate(offset, delete_horizon_ms=delete_horizon_ms or 0, **rest)  # type: ignore[arg-type]


def expires_tombstones_early(offset: int, *, now_ms: int, **rest: int) -> RecordFate:
    return record_fate(offset, now_ms=now_ms + 1, **rest)  # type: ignore[arg-type]


def speaks_beyond_the_map(offset: int, *, map_end_offset: int, **rest: int) -> RecordFate:
    return record_fate(offset, map_end_offset=map_end_offset + 1, **rest)  # type: ignore[arg-type]


def ignores_aborts(batch: BatchFacts, can_discard: bool, *rest: object) -> BatchFate:
    return batch_fate(batch, can_discard and batch.marker is not None, *rest)  # type: ignore[arg-type]


def deduplicates_markers(batch: BatchFacts, can_discard: bool, *rest: object) -> BatchFate:
    return batch_fate(batch, can_discard or batch.marker is not None, *rest)  # type: ignore[arg-type]


def forgets_producers(batch: BatchFacts, can_discard: bool, producers: object, end: int, now_ms: int) -> BatchFate:
    return batch_fate(batch, can_discard, {}, end, now_ms)


def forgets_the_high_watermark(
    batch: BatchFacts, can_discard: bool, producers: dict[int, ProducerEnd], *rest: int
) -> BatchFate:
    return batch_fate(batch, can_discard, producers, -1, rest[1])


@pytest.mark.parametrize(
    ("twin", "complaint"),
    [
        (Rules(record=drops_the_latest), "record lost"),
        (Rules(record=keeps_superseded), "record must be gone"),
        (Rules(record=expires_tombstones_at_once), "record lost"),
        (Rules(record=expires_tombstones_early), "record lost"),
        (Rules(record=speaks_beyond_the_map), "record lost"),
        (Rules(batch=ignores_aborts), "record must be gone"),
        (Rules(batch=deduplicates_markers), "marker"),
        (Rules(batch=forgets_producers), "empty batches"),
        (Rules(batch=forgets_the_high_watermark), "empty batches"),
    ],
)
def test_a_broken_twin_is_caught(twin: Rules, complaint: str) -> None:
    with pytest.raises(UnsoundCleaning, match=complaint):
        check_every_small_log(twin)
