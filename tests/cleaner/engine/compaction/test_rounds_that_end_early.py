"""A round of Kafka's that ends where its map is full, in the middle of a plan for several segments."""

from __future__ import annotations

import pytest

from storage.checkpoints import parse_offset_checkpoint
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from tests.partition_dirs import (
    COMPACT,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    records_of,
    request,
)

pytestmark = pytest.mark.usefixtures("as_kafka")
BUFFER_BYTES = (1 << 20) + 24
KEYS_MAX = 3
EVERYTHING = {b"a": b"5", b"b": b"1", b"c": b"1", b"d": b"1", b"e": b"1", b"f": b"1", b"z": b"1"}


def as_kafka(**topic):
    """Layers by which a round's map takes ``KEYS_MAX`` keys."""
    factor = (KEYS_MAX + 0.5) / (BUFFER_BYTES // 24)
    broker = (f"log.cleaner.dedupe.buffer.size={BUFFER_BYTES}", f"log.cleaner.io.buffer.load.factor={factor}")
    return configured(*broker, orders={**COMPACT, **topic})


@pytest.fixture
def orders(tmp_path):
    """Four segments to compact, one behind them. The map is full behind ``c``, in the second one."""
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "a=2")).segment(10, keyed(10, "c=1", "a=3", "d=1"))
    made.segment(20, keyed(20, "e=1", "a=4")).segment(30, keyed(30, "f=1", "a=5")).segment(40, keyed(40, "z=1"))
    committed(tmp_path, made)
    return made.path


def clean(directory, layers):
    _, outcome = a_cleaner(directory.parent, layers).clean(request())
    ((_, result),) = outcome.results.items()
    assert result.error is None
    return result


def offsets(directory):
    """The offsets of each segment's records, by base offset."""
    return {int(path.stem): [record.offset for record in records_of(path)] for path in sorted(directory.glob("*.log"))}


def end_offset(directory):
    path = directory.parent / CLEANER_OFFSET_CHECKPOINT
    return parse_offset_checkpoint(path.read_bytes(), path)[TopicPartition("orders", 0)]


def retired(directory):
    return sorted(int(name.partition(".")[0]) for name in file_names(directory) if name.endswith(".log.deleted"))


def test_segments_up_to_the_end_are_merged_and_those_behind_it_stay_as_they_are(orders):
    behind = {path.name: path.read_bytes() for path in orders.iterdir() if int(path.stem) >= 20}
    result = clean(orders, as_kafka())
    assert offsets(orders) == {0: [1, 2, 10, 11, 12], 20: [20, 21], 30: [30, 31], 40: [40]}
    assert {name: (orders / name).read_bytes() for name in behind} == behind
    assert (end_offset(orders), retired(orders)) == (11, [0, 10])
    assert (result.records_read, result.records_kept) == (6, 5)
    sealed_bytes = sum(path.stat().st_size for path in orders.glob("*.log")) - len(keyed(40, "z=1"))
    assert result.compacted_to_bytes == sealed_bytes


def test_segment_at_which_the_map_is_full_before_its_first_record_stays_as_it_is(tmp_path):
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "a=2")).segment(10, keyed(10, "c=1"))
    made.segment(20, keyed(20, "a=3", "a=4")).segment(30, keyed(30, "z=1"))
    committed(tmp_path, made)
    result = clean(made.path, as_kafka())
    assert offsets(made.path) == {0: [1, 2, 10], 20: [20, 21], 30: [30]}
    assert (end_offset(made.path), retired(made.path)) == (20, [0, 10])
    assert (result.records_read, result.records_kept) == (4, 3)
    assert result.compacted_to_bytes == sum(made.log(base).stat().st_size for base in (0, 20))


def test_groups_are_made_anew_for_what_the_round_reached(orders):
    limit = {"segment.bytes": str(sum((orders / f"{base:020d}.log").stat().st_size for base in (0, 10)) - 1)}
    clean(orders, as_kafka(**limit))
    assert offsets(orders) == {0: [1, 2], 10: [10, 11, 12], 20: [20, 21], 30: [30, 31], 40: [40]}
    assert (end_offset(orders), retired(orders)) == (11, [0])  # the second one loses nothing


def test_rounds_that_follow_go_on_where_one_ended_until_every_key_has_one_record(orders):
    ends = [(clean(orders, as_kafka()), end_offset(orders))[1] for _ in range(3)]
    assert ends == [11, 21, 40]
    assert offsets(orders) == {0: [1, 10, 12, 20, 30, 31], 40: [40]}
    assert latest(orders) == EVERYTHING


def test_round_whose_map_suffices_takes_the_groups_as_planned(orders):
    layers = configured(orders=COMPACT)
    clean(orders, layers)
    assert offsets(orders) == {0: [1, 10, 12, 20, 30, 31], 40: [40]}
    assert (end_offset(orders), retired(orders)) == (40, [0, 10, 20, 30])
