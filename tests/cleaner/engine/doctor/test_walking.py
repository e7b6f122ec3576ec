"""The walk over headers: how far its budget reaches, and what it sums up."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.doctor.walking import ALL_BYTES_MAX, PARTITION_BYTES_MAX, WalkBudget, walk
from storage.anomalies import CheckedSegment
from storage.log.listing import list_partition
from storage.records import ControlType, parse_header
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch, encode_empty_batch
from tests.partition_dirs import PartitionDir, keyed
from tests.policies.findings.logs import segment

MINE = PARTITION_BYTES_MAX


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
