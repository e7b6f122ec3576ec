"""Which records of wanted keys go, which batches stay empty, and of which partitions nothing is erased."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from policies.erasure import (
    ErasureBounds,
    ErasureRefusal,
    KeyedRecord,
    StayReason,
    erasure_fate,
    refused_erasure,
    why_record_stays,
)
from policies.reasons import ReasonCode
from policies.retain import BatchFacts, Marker, ProducerEnd
from storage.kernels.status import BatchFate
from tests.builders import a_log
from tests.partition_dirs import configured

END = 4
"""Of the small logs: offsets 0 to 3."""


def bounds(stable: int = END, watermark: int = END, end: int = END, *, with_tombstones: bool = False) -> ErasureBounds:
    return ErasureBounds(stable, watermark, end, with_tombstones)


@pytest.mark.parametrize(
    ("record", "within", "reason"),
    [
        (KeyedRecord(1, 1, False, False), bounds(), None),
        (KeyedRecord(3, 3, False, False), bounds(), None),
        (KeyedRecord(1, 1, True, False), bounds(), StayReason.TOMBSTONE),
        (KeyedRecord(1, 1, True, False), bounds(with_tombstones=True), None),
        (KeyedRecord(1, 2, False, False), bounds(2, 2), StayReason.ABOVE_HIGH_WATERMARK),
        (KeyedRecord(1, 2, False, False), bounds(2, 3), StayReason.OPEN_TRANSACTION),
        (KeyedRecord(1, 1, True, False), bounds(1, 3), StayReason.OPEN_TRANSACTION),
        (KeyedRecord(3, 3, False, True), bounds(), StayReason.LAST_MESSAGE),
        (KeyedRecord(1, 1, False, True), bounds(2, 2), StayReason.LAST_MESSAGE),
        (KeyedRecord(1, 1, False, True), bounds(2, 3), StayReason.LAST_MESSAGE),
        (KeyedRecord(2, 3, False, True), bounds(), None),
    ],
)
def test_a_record_goes_unless_something_needs_it(record, within, reason) -> None:
    assert why_record_stays(record, within) is reason


def test_no_tombstone_goes_while_an_older_value_stays_and_every_reason_occurs() -> None:
    seen = set()
    for stable, watermark in ((s, w) for w in range(END + 1) for s in range(w + 1)):
        for tombstones in product((False, True), repeat=END):
            for is_legacy, with_tombstones in product((False, True), repeat=2):
                within = bounds(stable, watermark, with_tombstones=with_tombstones)
                reasons = [why_record_stays(KeyedRecord(o, o, t, is_legacy), within) for o, t in enumerate(tombstones)]
                seen.update(reasons)
                values = [o for o, t in enumerate(tombstones) if not t and reasons[o] is not None]
                gone = [o for o, t in enumerate(tombstones) if t and reasons[o] is None]
                assert not any(value < tombstone for value in values for tombstone in gone)
                assert all(offset < stable for offset, reason in enumerate(reasons) if reason is None)
    assert seen == {None, *StayReason}


@pytest.mark.parametrize(
    ("last_offset", "marker", "records", "fate"),
    [
        (1, None, 2, BatchFate.DELETE_EMPTY),
        (2, None, 2, BatchFate.RETAIN_EMPTY),  # ends the producer
        (4, None, 2, BatchFate.RETAIN_EMPTY),  # ends at the last stable offset
        (6, None, 2, BatchFate.RETAIN_EMPTY),  # ends at the high watermark
        (9, None, 2, BatchFate.RETAIN_EMPTY),  # ends at the log end
        (1, None, 0, BatchFate.KEEP),
        (1, Marker.OTHER, 1, BatchFate.KEEP),
        (9, Marker.OTHER, 1, BatchFate.KEEP),
    ],
)
def test_batches_that_somebody_waits_for_stay_empty(last_offset, marker, records, fate) -> None:
    batch = BatchFacts(last_offset, 5, 0, False, marker, None)
    assert erasure_fate(batch, records, {5: ProducerEnd(2, 0)}, bounds(5, 7, 10)) is fate


@pytest.mark.parametrize(
    ("topic", "changes", "moves", "config", "code"),
    [
        ("clicks", {}, False, {"cleanup.policy": "delete"}, None),
        ("clicks", {}, False, {}, None),
        ("__consumer_offsets", {}, False, {}, ErasureRefusal.INTERNAL_TOPIC),
        ("__mine", {}, False, {}, ErasureRefusal.INTERNAL_TOPIC),
        ("clicks", {}, True, {}, ErasureRefusal.REPLICA_MOVES),
        ("clicks", {"high_watermark": None}, False, {}, ReasonCode.NO_HIGH_WATERMARK),
        ("clicks", {"held_since_ms": 5}, False, {}, ReasonCode.HELD),
        ("clicks", {}, False, {"cleanup.policy": "delete", "remote.storage.enable": "true"}, ReasonCode.REMOTE_STORAGE),
    ],
)
def test_partitions_of_which_nothing_is_erased(topic, changes, moves, config, code) -> None:
    layers = configured(**{topic: config}) if config else configured()
    facts = replace(a_log(f"{topic}-0").segments(100, 100).facts(), **changes)
    refused = refused_erasure(facts, layers.policy_for(topic), moves=moves)
    assert (refused.code if refused else None) == code
    assert refused is None or refused.is_for_now == moves
