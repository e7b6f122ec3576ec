"""The observations of a partition, read from its files and the journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.engine.explain import explaining
from cleaner.engine.explain.choosing import Wish, choose
from cleaner.engine.explain.contents import contents_of, record_at, stamped_batches
from cleaner.engine.explain.explaining import PartitionChanged, failing_since, first_timestamp
from policies.explain.explanation import PartitionExplanation
from policies.explain.observations import DeleteHorizons, OpenTransaction, RecordPlace
from storage.checkpoints import format_offset_checkpoint
from storage.errors import InvalidConfig
from storage.log.listing import list_partition
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from storage.records import ControlType, Record, encode_batch
from tests.batches import encode_control_batch, iter_batches
from tests.partition_dirs import NOW_MS, PartitionDir, a_cleaner, committed, configured, keyed, request

ORDERS: Final = TopicPartition("orders", 0)
COMPACT: Final = {"cleanup.policy": "compact"}
DELETE: Final = {"cleanup.policy": "delete", "retention.ms": "1000"}
HOUR_MS: Final = 3_600_000


def explained(log_dir: Path, config: Mapping[str, str], *, exact: bool = False) -> PartitionExplanation:
    cleaner = a_cleaner(log_dir, configured(orders=dict(config)))
    (found,) = cleaner.explain(cleaner.plan(request(in_place=True)), ORDERS, exact=exact)
    return found


@pytest.mark.parametrize(
    ("story", "entries", "expected"),
    [
        ("nothing", [], None),
        ("a first failure", ["compact", "failed"], (2, 2)),
        ("twice in a row", ["compact", "failed", "compact", "failed"], (2, 4)),
        ("then it went well", ["compact", "failed", "compact"], None),
        ("well in between", ["compact", "failed", "compact", "compact", "failed"], (5, 5)),
        ("a deletion in between says nothing", ["compact", "failed", "delete", "compact", "failed"], (2, 5)),
        ("it failed before it began", ["failed", "failed"], (1, 2)),
    ],
)
def test_failures_count_from_the_first_one_since_the_last_success(story: str, entries: list[str], expected) -> None:
    journal: list[Mapping[str, Any]] = [{"what": what, "time_ms": place} for place, what in enumerate(entries, 1)]
    assert failing_since(journal) == expected, story


def transactional(base: int, at_ms: int, producer: int) -> bytes:
    records = [Record(base, at_ms, b"k", b"v")]
    return encode_batch(records, producer_id=producer, producer_epoch=3, base_sequence=0, is_transactional=True)


def test_open_transactions_are_found_with_producer_epoch_and_time(tmp_path: Path) -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, offset=1, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=3, coordinator_epoch=0
    )
    first = PartitionDir(tmp_path).segment(0, transactional(0, NOW_MS - 9, 7), marker, transactional(2, NOW_MS - 5, 9))
    committed(tmp_path, first.segment(3, transactional(3, NOW_MS - 4, 8)))
    for config in (COMPACT, DELETE):
        found = explained(tmp_path, config)
        assert found.seen.last_stable_offset == 2
        assert found.seen.transactions == (OpenTransaction(9, 3, 2, NOW_MS - 5), OpenTransaction(8, 3, 3, NOW_MS - 4))


def test_the_record_that_lies_in_the_future_is_found_within_its_batch(tmp_path: Path) -> None:
    times = (NOW_MS - 50, NOW_MS + HOUR_MS, NOW_MS - 40)
    batch = encode_batch([Record(place, at_ms, b"k", b"v") for place, at_ms in enumerate(times)])
    committed(tmp_path, PartitionDir(tmp_path).segment(0, batch).segment(3, keyed(3, "a=1")))
    found = explained(tmp_path, DELETE)
    assert found.seen.future == RecordPlace(1, NOW_MS + HOUR_MS)
    assert [times.first_ms for times in found.seen.times] == [NOW_MS - 50, NOW_MS]


def stamped(base: int, horizon_ms: int) -> bytes:
    return encode_batch([Record(base, NOW_MS, b"k", None)], delete_horizon_ms=horizon_ms)


def test_delete_horizons_are_looked_for_where_a_compaction_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = PartitionDir(tmp_path).segment(0, stamped(0, 5), keyed(1, "a=1")).segment(2, stamped(2, NOW_MS + 7))
    committed(tmp_path, drawn.segment(3, stamped(3, 1)).segment(4))
    assert explained(tmp_path, COMPACT).seen.horizons == DeleteHorizons()
    (tmp_path / CLEANER_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({ORDERS: 3}))
    found = explained(tmp_path, COMPACT).seen.horizons
    sizes = [len(stamped(0, 5)), len(stamped(2, NOW_MS + 7))]
    assert found == DeleteHorizons(2, sum(sizes), 5, NOW_MS + 7)
    monkeypatch.setattr(explaining, "HORIZON_BYTES_MAX", drawn.log(0).stat().st_size)
    bounded = explained(tmp_path, COMPACT).seen.horizons
    assert bounded == DeleteHorizons(1, sizes[0], 5, 5, unread_bytes=sizes[1])
    assert explained(tmp_path, COMPACT, exact=True).seen.horizons == found
    assert explained(tmp_path, DELETE).seen.horizons == DeleteHorizons()


def test_the_topic_is_counted_over_all_its_partitions(tmp_path: Path) -> None:
    drawn = [PartitionDir(tmp_path, f"orders-{n}").segment(0, keyed(0, "a=1")) for n in range(3)]
    other = PartitionDir(tmp_path, "others-0").segment(0, keyed(0, "a=1"))
    committed(tmp_path, *drawn, other)
    topic = explained(tmp_path, DELETE).seen.topic
    assert topic is not None
    assert (topic.partitions, topic.size_bytes) == (3, 3 * other.log(0).stat().st_size)


def test_the_active_segment_says_how_full_its_indexes_are_although_they_are_preallocated(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    committed(tmp_path, drawn)
    index = drawn.log(0).with_suffix(".timeindex")
    index.write_bytes(index.read_bytes() + bytes(1200))
    use = explained(tmp_path, COMPACT).seen.active
    assert (use.first_batch_ms, use.index_entries, use.time_index_entries) == (NOW_MS, 0, 1)


def test_a_segment_that_a_broker_deleted_meanwhile_is_noticed(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    committed(tmp_path, drawn)
    cleaner = a_cleaner(tmp_path, configured(orders=DELETE))
    plan = cleaner.plan(request(in_place=True))
    (found,) = cleaner.explain(plan, ORDERS)
    drawn.log(0).unlink()
    with pytest.raises(PartitionChanged, match="changed while it was looked at; run again"):
        cleaner.explain(plan, ORDERS)
    with pytest.raises(PartitionChanged):
        choose(found, Wish(base_offset=1))


def test_damage_ends_the_reading_of_a_chosen_segment_and_is_told(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), keyed(1, "b=1"))
    data = drawn.log(0).read_bytes()
    drawn.log(0).write_bytes(data[: len(data) // 2] + b"\xff" * 30)
    (segment,) = list_partition(drawn.path).segments
    contents = contents_of(segment, 2)
    assert (contents.batches, contents.records) == (1, 1)
    assert contents.problem is not None
    assert contents.problem.startswith(f"{drawn.log(0)} at byte {len(data) // 2}")
    assert stamped_batches([]) == DeleteHorizons()
    assert record_at(segment, 0) is not None


def test_a_timestamp_leads_to_its_record_and_an_unknown_base_to_the_segment_that_holds_it(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - 10))
    committed(tmp_path, drawn.segment(5, keyed(5, "b=1", "c", timestamp_ms=NOW_MS)))
    found = explained(tmp_path, DELETE)
    chosen = choose(found, Wish(timestamp_ms=NOW_MS - 5))
    assert (chosen.fate.facts.base_offset, chosen.offset) == (5, 5)
    assert chosen.record is not None
    assert (chosen.record.key_bytes, chosen.record.value_bytes) == (1, 1)
    tombstone = choose(found, Wish(offset=6)).record
    assert tombstone is not None
    assert tombstone.value_bytes is None
    assert choose(found, Wish(offset=3)).record is None
    assert Wish().is_one is False
    with pytest.raises(InvalidConfig, match="may lie in segment 0"):
        choose(found, Wish(base_offset=4))


def test_the_first_timestamp_of_a_batch(tmp_path: Path) -> None:
    plain, late = keyed(0, "a=1", timestamp_ms=9), stamped(0, 77)
    headers = [next(iter_batches(data, tmp_path)).header for data in (plain, late)]
    assert [first_timestamp(header) for header in headers] == [9, NOW_MS]
