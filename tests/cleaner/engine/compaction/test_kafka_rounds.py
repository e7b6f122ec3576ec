"""Rounds that end where Kafka's offset map would be full, and the readable twin against the kernels."""

from __future__ import annotations

import random

import pytest

from cleaner.engine.compaction.crew import Crew, untold
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.passes import Horizons
from cleaner.engine.compaction.survivors import Finder
from policies.config.policy import BrokerPolicy
from policies.facts import KeyCount
from storage.codecs.compression import Compression
from storage.errors import InvalidConfig
from storage.records import Record, encode_batch
from tests.kafka_rounds import KafkaFinder, RecordFate, keys_max_of, record_fate
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

HORIZONS = Horizons(NOW_MS, NOW_MS, 0)
BEYOND = 10**9
AMPLE = 10**6


def no_fates():
    return Fates([], {}, BEYOND, NOW_MS)


def survivors_of(spans, directory, first_dirty, keys_max):
    finder = KafkaFinder(spans(directory), first_dirty, keys_max, no_fates, HORIZONS, untold, untold)
    found = finder.find()
    bits = [n for n in range(found.bitmap.size * 64) if int(found.bitmap[n >> 6]) >> (n & 63) & 1]
    return found, bits


@pytest.mark.parametrize(
    ("first_dirty", "kept", "end"), [(2, [1, 2, 3, 4], 3), (3, [0, 2, 3, 4], 4), (4, [1, 3, 4], 5)]
)
def test_map_of_one_key_ends_each_round_behind_one_record(tmp_path, spans, first_dirty, kept, end):
    directory = PartitionDir(tmp_path).segment(0, *(keyed(n, f"{n % 2}=v") for n in range(5)))
    found, bits = survivors_of(spans, directory, first_dirty, 1)
    assert (bits, found.end_offset) == (kept, end)


def test_map_of_three_keys_takes_the_whole_dirty_section(tmp_path, spans):
    directory = PartitionDir(tmp_path).segment(0, *(keyed(n, f"{n % 2}=v") for n in range(5)))
    found, bits = survivors_of(spans, directory, 2, 3)
    assert (bits, found.end_offset, found.records) == ([3, 4], 5, 5)


def test_full_map_ends_the_round_even_at_a_key_it_holds(tmp_path, spans):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "a=2", "b=2", "c=1"))
    found, bits = survivors_of(spans, directory, 0, 2)
    assert (bits, found.end_offset) == ([0, 1, 2, 3, 4], 2)


def test_records_beyond_the_map_stay_even_without_a_key_and_with_an_expired_tombstone(tmp_path, spans):
    records = [Record(n, 0, key, None) for n, key in enumerate((b"a", None, b"b", None))]
    directory = PartitionDir(tmp_path).segment(0, encode_batch(records, delete_horizon_ms=NOW_MS))
    found, bits = survivors_of(spans, directory, 0, 1)
    assert (bits, found.end_offset, found.count) == ([1, 2, 3], 1, KeyCount(records=1, unkeyed=0))


def test_segments_behind_the_end_are_not_looked_at(tmp_path, spans):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=1"))
    found, _ = survivors_of(spans, directory.segment(20, keyed(20, "c=1")), 0, 1)
    assert (found.end_offset, found.records) == (10, 1)
    assert [walked.span.base_offset for walked in found.walked] == [0]


def test_gap_at_the_end_of_a_segment_counts_as_looked_at(tmp_path, spans):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(50, keyed(50, "b=1"))
    assert survivors_of(spans, directory, 0, 1)[0].end_offset == 50


@pytest.mark.parametrize(
    ("size_bytes", "threads", "factor", "expected"),
    [
        (134_217_728, 1, 0.9, 5_033_164),
        (134_217_728, 2, 0.9, 2_516_581),
        (1 << 40, 1, 0.9, 80_530_636),
        (48, 1, 0.75, 1),
    ],
)
def test_capacity_is_kafkas(size_bytes, threads, factor, expected):
    broker = BrokerPolicy(
        log_cleaner_dedupe_buffer_size=size_bytes,
        log_cleaner_threads=threads,
        log_cleaner_io_buffer_load_factor=factor,
    )
    assert keys_max_of(broker) == expected


def test_map_without_room_for_a_key_is_a_wrong_configuration():
    with pytest.raises(InvalidConfig, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        keys_max_of(BrokerPolicy(log_cleaner_io_buffer_load_factor=0.0))


def directory_bytes(directory: PartitionDir) -> int:
    return sum(path.stat().st_size for path in directory.path.glob("*.log"))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("slots_log2", [20, 5])
@pytest.mark.parametrize("seed", range(6))
def test_kernels_and_readable_twin_find_the_same_survivors(tmp_path, spans, monkeypatch, seed, slots_log2, threads):
    monkeypatch.setattr("cleaner.engine.compaction.key_map.LOG2_SLOTS_MIN", slots_log2)
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 1500)
    draw, directory, offset = random.Random(seed), PartitionDir(tmp_path), 0
    for _ in range(4):
        base, batches = offset, []
        for _ in range(draw.randrange(1, 30)):
            names = [f"{draw.randrange(200)}" + draw.choice(("=v", "=v", "")) for _ in range(draw.randrange(1, 20))]
            batches.append(keyed(offset, *names, compression=draw.choice(list(Compression))))
            offset += len(names) + draw.choice((0, 0, 3))
        directory.segment(base, *batches)
    first_dirty = draw.randrange(offset)
    key_map = KeyMap(directory_bytes(directory), Budget(1024, 0.9), threads)
    with Crew(threads) as crew:
        ours = Finder(spans(directory), first_dirty, key_map, no_fates, crew, untold, untold).find()
    twin, _ = survivors_of(spans, directory, first_dirty, AMPLE)
    assert ours.bitmap[: twin.bitmap.size].tolist() == twin.bitmap.tolist()
    assert not ours.bitmap[twin.bitmap.size :].any()
    assert (ours.records, ours.count, ours.end_offset) == (twin.records, twin.count, twin.end_offset)
    assert key_map.is_first_range == (slots_log2 == 20)


def fate_of(
    offset: int = 5, *, key: bool = True, value: bool = True, latest: int = -1, horizon_ms: int | None = None
) -> RecordFate:
    """Of a record under a map that speaks up to offset 9."""
    return record_fate(
        offset,
        has_key=key,
        has_value=value,
        latest_offset=latest,
        map_end_offset=9,
        delete_horizon_ms=horizon_ms,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("story", "fate", "expected"),
    [
        ("the key occurs later", fate_of(5, latest=6), RecordFate.SUPERSEDED),
        ("it is the key's latest", fate_of(5, latest=5), RecordFate.LATEST),
        ("the key does not occur in the dirty section", fate_of(5, latest=-1), RecordFate.LATEST),
        ("offset 0, its key's latest", fate_of(0, latest=0), RecordFate.LATEST),
        ("the map's last offset is spoken for", fate_of(9, latest=8), RecordFate.LATEST),
        ("beyond the map, whatever it says", fate_of(10, latest=20), RecordFate.BEYOND_THE_MAP),
        ("beyond the map, without a key", fate_of(10, key=False), RecordFate.BEYOND_THE_MAP),
        ("beyond the map, an expired tombstone", fate_of(10, value=False, horizon_ms=0), RecordFate.BEYOND_THE_MAP),
        # Kafka LogCleanerTest.testCleaningWithUnkeyedMessages
        ("no key", fate_of(5, key=False), RecordFate.NO_KEY),
        ("no key and no value", fate_of(5, key=False, value=False), RecordFate.NO_KEY),
        # Kafka LogCleanerTest.testCleanTombstone
        ("a tombstone seen for the first time", fate_of(5, value=False), RecordFate.TOMBSTONE_PROTECTED),
        ("before its horizon", fate_of(5, value=False, horizon_ms=NOW_MS + 1), RecordFate.TOMBSTONE_PROTECTED),
        ("at its horizon", fate_of(5, value=False, horizon_ms=NOW_MS), RecordFate.TOMBSTONE_EXPIRED),
        ("past its horizon", fate_of(5, value=False, horizon_ms=0), RecordFate.TOMBSTONE_EXPIRED),
        ("a superseded tombstone", fate_of(5, value=False, latest=6), RecordFate.SUPERSEDED),
        ("a value beside an expired tombstone", fate_of(5, horizon_ms=0), RecordFate.LATEST),
    ],
)
def test_a_record(story: str, fate: RecordFate, expected: RecordFate) -> None:
    assert fate is expected, story


def test_three_fates_keep_a_record() -> None:
    kept = {fate for fate in RecordFate if fate.is_kept}
    assert kept == {RecordFate.LATEST, RecordFate.BEYOND_THE_MAP, RecordFate.TOMBSTONE_PROTECTED}
