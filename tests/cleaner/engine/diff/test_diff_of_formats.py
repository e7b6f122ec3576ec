"""A log of old formats against the same records in a newer one: a record is the same whatever holds it."""

from __future__ import annotations

import pytest

from cleaner.engine.diff.record_diff import Cause
from storage.records import Record, encode_batch, encode_message
from tests.cleaner.engine.diff.test_record_diff import Pair
from tests.partition_dirs import NOW_MS, keyed

RECORDS = [
    Record(0, NOW_MS, b"a", b"1"),
    Record(1, NOW_MS, b"b", None),
    Record(2, NOW_MS, b"", b""),
    Record(3, NOW_MS, None, b"3"),
    Record(4, NOW_MS, b"key", b"value"),
]


def v1(records):
    return b"".join(encode_message(record, 1) for record in records)


@pytest.fixture
def pair(tmp_path):
    """A log of version 1, and nothing yet to compare it with."""
    made = Pair(tmp_path)
    made.before.segment(0, v1(RECORDS))
    return made


@pytest.mark.parametrize("encoded", [v1, encode_batch], ids=["v1", "v2"])
def test_records_are_the_same_in_another_format(pair, encoded):
    pair.after.segment(0, encoded(RECORDS))
    difference = pair.difference()
    assert (difference.records, difference.kept, difference.damage) == (len(RECORDS), len(RECORDS), None)


@pytest.mark.parametrize("encoded", [v1, encode_batch], ids=["v1", "v2"])
@pytest.mark.parametrize(
    "other",
    [
        Record(4, NOW_MS, b"yek", b"value"),
        Record(4, NOW_MS, b"keyv", b"alue"),
        Record(4, NOW_MS, None, b"value"),
        Record(4, NOW_MS, b"key", b"other"),
        Record(4, NOW_MS, b"key", None),
        Record(4, NOW_MS + 1, b"key", b"value"),
    ],
    ids=["another key", "another border", "no key", "another value", "no value", "another time"],
)
def test_another_record_in_the_place_of_one_is_damage(pair, encoded, other):
    pair.after.segment(0, encoded([*RECORDS[:-1], other]))
    assert pair.damage().offset == 4


def test_record_with_an_empty_key_is_superseded_like_any_other(tmp_path):
    pair = Pair(tmp_path)
    pair.before.segment(0, keyed(0, "=1", "b=1")).segment(2, keyed(2, "=2")).segment(3, keyed(3, "c=1"))
    pair.after.segment(0, keyed(1, "b=1"), keyed(2, "=2")).segment(3, keyed(3, "c=1"))
    assert pair.gone(3) == {Cause.SUPERSEDED: 1}
