"""Transaction index: layout, damage, and which aborted transactions matter to a range of offsets."""

from pathlib import Path

import pytest

from storage.errors import CorruptIndex
from storage.txn_index import AbortedTxn, collect_aborted_txns, format_aborted_txn, parse_txn_index

PATH = Path("a.txnindex")
FIRST = AbortedTxn(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTxn(producer_id=8, first_offset=15, last_offset=30, last_stable_offset=31)


def test_entries_come_back_and_take_34_bytes_each():
    data = format_aborted_txn(FIRST) + format_aborted_txn(SECOND)
    assert len(data) == 68
    assert parse_txn_index(data, PATH) == [FIRST, SECOND]


def test_a_torn_entry_is_left_out():
    assert parse_txn_index(format_aborted_txn(FIRST) + b"\0" * 33, PATH) == [FIRST]


def test_another_version_is_corrupt():
    with pytest.raises(CorruptIndex, match="version 1"):
        parse_txn_index(b"\0\1" + format_aborted_txn(FIRST)[2:], PATH)


def test_markers_that_do_not_ascend_are_corrupt():
    with pytest.raises(CorruptIndex) as caught:
        parse_txn_index(format_aborted_txn(SECOND) + format_aborted_txn(FIRST), PATH)
    assert caught.value.position == 34


@pytest.mark.parametrize(
    ("from_offset", "upper_offset", "found"),
    [
        (0, 100, [FIRST, SECOND]),
        (0, 10, []),
        (0, 11, [FIRST]),
        (0, 15, [FIRST]),
        (20, 100, [FIRST, SECOND]),
        (21, 100, [SECOND]),
        (31, 100, []),
    ],
)
def test_transactions_that_overlap_the_range_are_collected(from_offset, upper_offset, found):
    assert collect_aborted_txns([[FIRST], [SECOND]], from_offset, upper_offset) == found


def test_a_wrong_last_stable_offset_hides_no_later_entry():
    altered = FIRST._replace(last_stable_offset=FIRST.last_stable_offset + (1 << 40))
    assert collect_aborted_txns([[altered], [SECOND]], 0, 100) == [altered, SECOND]
