"""The history that the batches of a segment tell: epochs, producers, transactions, gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage.anomalies import ABORT, COMMIT, DATA, CheckedSegment
from storage.kernels.layout import BATCH, CONTROL
from storage.log.listing import list_partition
from storage.records import ControlType, Record, encode_batch
from storage.scan.segment_contents import empty_batches_in, read_segment_contents
from storage.scan.walking import Hand
from tests.batches import encode_control_batch, format_control_key
from tests.partition_dirs import NOW_MS, PartitionDir


def batch(
    offset: int, records: int = 2, producer_id: int = -1, epoch: int = 0, *, txn: bool = False, at: int = 0
) -> bytes:
    made = [Record(offset + place, NOW_MS, b"k", b"v") for place in range(records)]
    named = {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 3, "base_sequence": 10 * at}
    return encode_batch(made, partition_leader_epoch=epoch, is_transactional=txn, **named)


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    given = {"offset": offset, "timestamp_ms": NOW_MS, "producer_id": producer_id}
    return encode_control_batch(kind, **given, producer_epoch=3, coordinator_epoch=7)


@pytest.mark.parametrize(
    ("counts", "attributes", "expected"),
    [
        ((), (), (0, 0)),
        ((1, 2, 3), (0, 0, CONTROL), (0, 0)),
        ((0, 2, 0), (0, 0, 0), (2, 40)),
        ((0, 0, 1), (CONTROL, 1, 0), (1, 20)),
        ((0, 1, 1), (CONTROL, 0, 0), (0, 0)),
    ],
)
def test_batches_without_a_record_are_counted_unless_they_are_markers(
    counts: tuple[int, ...], attributes: tuple[int, ...], expected: tuple[int, int]
) -> None:
    table = np.zeros(len(counts), BATCH)
    table["record_count"], table["attributes"], table["size"] = counts, attributes, (10, 20, 30)[: len(counts)]
    assert empty_batches_in(table) == expected


@pytest.fixture
def told(tmp_path: Path):
    def read(*batches: bytes) -> CheckedSegment:
        made = PartitionDir(tmp_path / "data").segment(0, *batches)
        (segment,) = list_partition(made.path).segments
        return read_segment_contents(segment, None, Hand(), lambda _: None, is_deep=False)

    return read


def test_epochs_are_stretches_of_batches(told):
    runs = told(batch(0), batch(2), batch(4, epoch=5), batch(6, epoch=5), batch(8, epoch=6)).epochs
    assert [(run.epoch, run.first_offset, run.last_offset) for run in runs] == [(0, 0, 2), (5, 4, 6), (6, 8, 8)]


def test_the_last_batch_of_each_producer_is_told(told):
    found = told(
        batch(0, producer_id=1, at=1), batch(2, producer_id=2, at=2), batch(4, 3, producer_id=1, at=3), batch(7)
    )
    assert {id_: tuple(one) for id_, one in found.producers.items()} == {
        1: (3, 32, 6, 2),
        2: (3, 21, 3, 1),
    }


def test_steps_of_transactions_are_told_once(told):
    found = told(
        batch(0, producer_id=1, txn=True), batch(2, producer_id=2, txn=True), batch(4, producer_id=1, txn=True),
        marker(6, 1, ControlType.ABORT), batch(7, producer_id=2, txn=True), marker(9, 2, ControlType.COMMIT),
        batch(10, producer_id=1, txn=True),
    )  # fmt: skip
    assert [(one.offset, one.producer_id, one.what) for one in found.events] == [
        (0, 1, DATA), (2, 2, DATA), (6, 1, ABORT), (9, 2, COMMIT), (10, 1, DATA),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        (b"", [DATA]),
        (bytes(5), [DATA]),
        (bytes(6), [DATA, COMMIT]),
        (b"\0\1" + bytes(4), [DATA, COMMIT]),
        (b"\0\1" + bytes(9), [DATA, COMMIT]),
        (b"\xff\xff" + bytes(9), [DATA]),
    ],
)
def test_only_what_can_be_a_marker_ends_a_transaction(told, value, steps):
    record = Record(2, NOW_MS, format_control_key(ControlType.COMMIT), value)
    data = encode_batch([record], producer_id=1, producer_epoch=3, is_transactional=True, is_control=True)
    assert [one.what for one in told(batch(0, producer_id=1, txn=True), data).events] == steps


def test_gaps_and_batches_that_lost_records_are_told(told):
    whole = told(batch(0), batch(2))
    assert (whole.gap, whole.gaps, whole.is_full) == (None, 0, True)


def test_a_gap_is_told_with_its_place(told):
    found = told(batch(0), batch(9), batch(20))
    assert (found.gaps, found.gap is not None and tuple(found.gap)) == (2, (2, 9, len(batch(0))))


def test_a_batch_that_lost_records_is_not_full(told):
    lossy = encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(3, NOW_MS, b"k", b"v")])
    assert not told(lossy).is_full
