"""The walk over headers: how far its budget reaches, and what it sums up."""

from __future__ import annotations

import os
from itertools import count as counted
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleaner.engine.doctor.walking import ALL_BYTES_MAX, PARTITION_BYTES_MAX, WalkBudget, walk
from storage.anomalies import CheckedSegment
from storage.codecs.compression import Compression
from storage.log.end import edges_of
from storage.log.listing import list_partition
from storage.records import ControlType, Record, encode_batch, encode_message, parse_header
from storage.scan.small_segments import SMALLEST_BYTES_MAX, SmallLog, SmallSegments
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch, encode_empty_batch
from tests.partition_dirs import PartitionDir, keyed
from tests.policies.findings.logs import segment

MINE = PARTITION_BYTES_MAX
TXN = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
SPAN = 10
"""The offsets between the bases of two segments."""


def marker_at(offset: int) -> bytes:
    return encode_control_batch(
        ControlType.ABORT, offset=offset, timestamp_ms=5, producer_id=7, producer_epoch=2, coordinator_epoch=0
    )


def with_codec(batch: bytes, codec: int) -> bytes:
    return batch[:22] + bytes([codec]) + batch[23:]


BATCHES = {
    "data": lambda at: keyed(at, "a=1"),
    "a transaction": lambda at: keyed(at, "b=2", is_transactional=True, **TXN),
    "a marker": marker_at,
    "empty": lambda at: encode_empty_batch(parse_header(keyed(at, "c=3", **TXN), 0, "x")),
    "no key": lambda at: encode_batch([Record(at, 9, b"k", b"v"), Record(at + 1, 8, None, b"v")]),
    "compressed": lambda at: encode_batch([Record(at, 1, None, b"v" * 99)], compression=Compression.GZIP),
    "a gap": lambda at: keyed(at + 3, "d=4"),
    "an unknown codec": lambda at: with_codec(keyed(at, "j=9"), 7),
    "below its base": lambda at: keyed(max(at - 1, 0), "k=10"),
    "far ahead": lambda at: keyed(at + 3 * SPAN, "e=5"),
    "going back": lambda at: keyed(max(at - 2 * SPAN, 0), "f=6"),
    "no timestamp": lambda at: keyed(at, "g=7", timestamp_ms=-1),
    "of v1": lambda at: encode_message(Record(at, 1, b"k", b"v"), 1),
    "a torn end": lambda at: keyed(at, "h=8")[:-3],
    "zeros": lambda _: bytes(70),
    "large": lambda at: keyed(at, "i=" + "v" * SMALLEST_BYTES_MAX),
}
SOUND = ("a gap", "a marker", "a transaction", "compressed", "data", "empty", "far ahead", "no key", "no timestamp")
numbers = counted()


def logs_of(made: PartitionDir) -> list[SmallLog | None]:
    return SmallSegments().smallest(list_partition(made.path).segments, with_keys=True)


def ensure_as_one_by_one(made: PartitionDir) -> None:
    """Compare what is read of the segments together with what is read of each alone."""
    segments, logs, small = list_partition(made.path).segments, logs_of(made), SmallSegments()
    facts = [segment(one.base_offset, one.base_offset + 4).facts for one in segments]
    assert walk(segments, facts, WalkBudget(), logs) == walk(segments, facts, WalkBudget())
    for one, log in zip(segments, logs, strict=True):
        assert log is None or log.edges == edges_of(one)
        if log is not None and log.edges.first is not None:
            assert log.lacks_a_key is small.lacks_a_key(one, log.edges.first.size_bytes)


@given(
    kinds=st.lists(st.lists(st.sampled_from(sorted(BATCHES)), max_size=4), min_size=1, max_size=9),
    flips=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 400), st.integers(1, 255)), max_size=2),
)
def test_segments_that_are_read_together_tell_what_each_alone_does(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[list[str]], flips: list[tuple[int, int, int]]
) -> None:
    made = PartitionDir(tmp_path_factory.mktemp("together"), f"orders-{next(numbers)}")
    for place, names in enumerate(kinds):
        data = bytearray().join(BATCHES[name](place * SPAN + 2 * at) for at, name in enumerate(names))
        for which, at, bits in flips:
            if which == place and at < len(data):
                data[at] ^= bits
        made.segment(place * SPAN).log(place * SPAN).write_bytes(data)
    ensure_as_one_by_one(made)


def test_every_sound_segment_is_read_together_whatever_its_neighbours_are(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path)
    for place, name in enumerate(sorted(BATCHES)):
        made.segment(place * SPAN).log(place * SPAN).write_bytes(BATCHES[name](place * SPAN))
    found = dict(zip(sorted(BATCHES), logs_of(made), strict=True))
    assert {name for name, log in found.items() if log} == set(SOUND)
    lacking = {name: log.lacks_a_key for name, log in found.items() if log}
    assert lacking.pop("compressed") is None
    assert {name for name, lacks in lacking.items() if lacks} == {"no key"}
    ensure_as_one_by_one(made)


def test_transactions_and_gaps_of_segments_that_are_read_together_have_their_places_in_their_own(
    tmp_path: Path,
) -> None:
    made = PartitionDir(tmp_path)
    for place in range(0, 8, 2):
        made.segment(place * SPAN, *(BATCHES["data"](place * SPAN + at) for at in range(2)))
        base = (place + 1) * SPAN
        made.segment(base, BATCHES["data"](base), BATCHES["a transaction"](base + 2), BATCHES["a marker"](base + 5))
    logs = logs_of(made)
    assert [(len(log.events), log.gaps) for log in logs if log] == [(0, 0), (2, 2)] * 4
    ensure_as_one_by_one(made)


def test_a_batch_that_is_cut_between_two_segments_belongs_to_neither(tmp_path: Path) -> None:
    made, cut = PartitionDir(tmp_path).segment(0).segment(2), keyed(1, "a=1")
    made.log(0).write_bytes(keyed(0, "a=1") + cut[:40])
    made.log(2).write_bytes(cut[40:] + keyed(2, "a=1"))
    assert logs_of(made) == [None, None]
    ensure_as_one_by_one(made)


def test_a_batch_below_the_base_of_its_segment_is_not_sound_though_it_follows_the_segment_before(
    tmp_path: Path,
) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(9)
    made.log(9).write_bytes(keyed(8, "b=2"))
    assert [log is not None for log in logs_of(made)] == [True, False]


def test_a_run_of_many_small_segments_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.scan.small_segments.TOGETHER_BYTES", 300)
    made = PartitionDir(tmp_path)
    for base in range(20):
        made.segment(base, keyed(base, "k=v"))
    assert all(logs_of(made))
    ensure_as_one_by_one(made)


def test_a_segment_that_changed_has_index_entries_or_cannot_be_read_is_read_alone(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path)
    for base in range(5):
        made.segment(base, keyed(base, "k=v"))
    made.log(1).with_suffix(".index").write_bytes(bytes(8))
    segments = list_partition(made.path).segments
    made.log(2).write_bytes(keyed(2, "k=v", "l=w"))
    os.truncate(made.log(3), 69)
    made.log(4).unlink()
    assert [log is not None for log in SmallSegments().smallest(segments)] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("sizes", "left_bytes", "count", "spent"),
    [
        ([MINE], ALL_BYTES_MAX, 1, MINE),
        ([MINE + 1], ALL_BYTES_MAX, 0, 0),
        ([MINE - 1, 1, 1], ALL_BYTES_MAX, 2, MINE),
        ([MINE - 1, 2, 1], ALL_BYTES_MAX, 1, MINE - 1),
        ([5, 5, 5], 10, 2, 10),
        ([5, 6, 1], 10, 1, 5),
        ([], 10, 0, 0),
        ([0, 0], 0, 2, 0),
    ],
)
def test_a_walk_takes_the_oldest_segments_as_far_as_both_bounds_allow(
    sizes: list[int], left_bytes: int, count: int, spent: int
) -> None:
    budget = WalkBudget(left_bytes=left_bytes)
    assert (budget.take(sizes), left_bytes - budget.left_bytes) == (count, spent)


def test_a_deep_walk_has_no_bound_and_spends_nothing() -> None:
    budget = WalkBudget(is_deep=True, left_bytes=1)
    assert (budget.take([MINE + 1, 7]), budget.left_bytes) == (2, 1)


def walked(made: PartitionDir, budget: WalkBudget) -> tuple[tuple[CheckedSegment, ...], int]:
    segments = list_partition(made.path).segments
    return walk(segments, [segment(one.base_offset, one.base_offset + 4).facts for one in segments], budget)


def test_headers_tell_of_empty_batches_gaps_and_transactions(tmp_path: Path) -> None:
    txn = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    batch = keyed(2, "b=2", **txn)
    empty = encode_empty_batch(parse_header(batch, 0, "x"))
    marker = encode_control_batch(
        ControlType.ABORT, offset=7, timestamp_ms=5, producer_id=7, producer_epoch=2, coordinator_epoch=0
    )
    index = format_aborted_txn(AbortedTxn(7, 6, 7, 8))
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), empty, keyed(4, "c=3"))
    made.segment(6, keyed(6, "d=4", is_transactional=True, **txn), marker, aborted=index).segment(8, keyed(8, "e=5"))
    sizes = [one.size_bytes for one in list_partition(made.path).segments]
    facts, count = walked(made, WalkBudget(left_bytes=sum(sizes[:2])))
    assert count == 2
    assert [(one.batches, one.empty_batches, one.empty_bytes, one.gaps, len(one.events)) for one in facts] == [
        (3, 1, len(empty), 2, 0),
        (2, 0, 0, 0, 2),
        (0, 0, 0, 0, 0),
    ]
    assert [one.aborted for one in facts] == [(), (AbortedTxn(7, 6, 7, 8),), ()]
    assert not any(one.is_damaged for one in facts)


def test_damage_ends_the_walk_of_its_segment_alone(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), keyed(1, "b=2")).segment(4, keyed(4, "c=3"))
    data = bytearray(made.log(0).read_bytes())
    data[len(keyed(0, "a=1")) + 8 + 3] ^= 0x7F  # the length of the second batch
    made.log(0).write_bytes(data)
    made.log(0).with_suffix(".txnindex").write_bytes(b"damaged")
    (first, second), count = walked(made, WalkBudget())
    assert (first.is_damaged, first.aborted, second.is_damaged, second.batches, count) == (True, (), False, 1, 2)
