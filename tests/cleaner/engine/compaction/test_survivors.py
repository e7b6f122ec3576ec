"""Pass 1: the offsets of the records that survive."""

from __future__ import annotations

import random

import pytest

from cleaner.engine.compaction.crew import Crew, untold
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.survivors import Finder
from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.records import Record, encode_batch, encode_message, encode_wrapper
from tests.partition_dirs import NOW_MS, PartitionDir, keyed


def test_latest_record_of_each_key_survives(tmp_path, survivors):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "a=2")).segment(10, keyed(10, "b=2", "c"))
    assert survivors(directory) == ({2, 10, 11}, 2)


def test_clean_records_survive_unless_the_dirty_section_has_their_key(tmp_path, survivors):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=1", "a=2")).segment(10, keyed(10, "b=2"))
    assert survivors(directory, 10)[0] == {0, 2, 10}


@pytest.mark.parametrize("first_dirty", [0, 1, 2, 3, 4])
def test_first_dirty_offset_may_lie_within_a_segment_of_many_batches(tmp_path, survivors, first_dirty):
    batches = [keyed(n, f"{key}=v") for n, key in enumerate("ababa")]
    directory = PartitionDir(tmp_path).segment(0, *batches)
    assert survivors(directory, first_dirty)[0] == _expected("ababa", first_dirty)


def _expected(keys, first_dirty):
    """Kafka: a record survives if no mapped record of its key lies behind it; the map holds what is dirty."""
    mapped = {key: n for n, key in enumerate(keys) if n >= first_dirty}
    return {n for n, key in enumerate(keys) if n >= mapped.get(key, -1)}


@pytest.mark.parametrize("first_dirty", [0, 1, 2, 3, 4])
def test_first_dirty_offset_may_lie_within_a_batch(tmp_path, survivors, first_dirty):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, *(f"{key}=v" for key in "ababa")))
    assert survivors(directory, first_dirty)[0] == _expected("ababa", first_dirty)


def many_keys(seed=1, records=3000, keys=700):
    draw = random.Random(seed)
    return [str(draw.randrange(keys)) for _ in range(records)]


def in_segments(log_dir, keys, *, per_batch=50, per_segment=1000):
    directory = PartitionDir(log_dir)
    for base in range(0, len(keys), per_segment):
        segment = keys[base : base + per_segment]
        codecs = list(Compression)
        batches = [
            keyed(base + at, *(f"{k}=v" for k in segment[at : at + per_batch]), compression=codecs[at // per_batch % 5])
            for at in range(0, len(segment), per_batch)
        ]
        directory.segment(base, *batches)
    return directory


@pytest.mark.parametrize("first_dirty", [0, 1000, 1730])
def test_tiny_map_finds_in_several_passes_what_a_large_one_finds_in_one(tmp_path, survivors, monkeypatch, first_dirty):
    keys = many_keys()
    directory = in_segments(tmp_path, keys)
    in_one, walks = survivors(directory, first_dirty)
    assert in_one == _expected(keys, first_dirty)
    monkeypatch.setattr("cleaner.engine.compaction.key_map.LOG2_SLOTS_MIN", 5)
    in_many, more_walks = survivors(directory, first_dirty, Budget(2048, 0.9))
    assert more_walks >= 4 * walks
    assert in_many == in_one


@pytest.mark.parametrize("seed", range(2))
def test_messages_that_share_rows_survive_as_those_that_do_not(tmp_path, survivors, seed):
    """The first dirty offset may lie within a row."""
    draw = random.Random(seed)
    directory, offset = PartitionDir(tmp_path), 0
    for _ in range(3):
        base, batches = offset, []
        for _ in range(draw.randrange(1, 50)):
            count = draw.choice([1, 1, 1, 1, 3])
            records = [
                Record(offset + n, 0, draw.choice([None, b"%d" % draw.randrange(30)]), draw.choice([None, b"v"]))
                for n in range(count)
            ]
            magic, (first, *others) = draw.randrange(2), records
            wrapped = encode_wrapper(records, magic, Compression.LZ4) if others else encode_message(first, magic)
            batches.append(wrapped)
            offset += count + draw.randrange(2)
        directory.segment(base, *batches)
    for first_dirty in range(0, offset, 3):
        assert survivors(directory, first_dirty, shares_rows=True) == survivors(directory, first_dirty)


def test_records_without_a_key_do_not_survive(tmp_path, sources, survivors):
    records = [Record(0, 0, None, b"v"), Record(1, 0, b"k", b"v"), Record(2, 0, None, b"v")]
    directory = PartitionDir(tmp_path).segment(0, encode_batch(records))
    assert survivors(directory)[0] == {1}


def test_keys_that_are_prefixes_or_empty_are_told_apart(tmp_path, survivors):
    directory = PartitionDir(tmp_path).segment(0, keyed(0, "=1", "a=1", "aa=1", "\0=1", "a\0=1"))
    assert survivors(directory)[0] == {0, 1, 2, 3, 4}


def test_corrupt_batch_ends_the_search_with_its_path_and_position(tmp_path, survivors):
    first, second = keyed(0, "a=1"), keyed(1, "b=1")
    directory = PartitionDir(tmp_path).segment(0, first, second[:-1] + b"!")
    with pytest.raises(CorruptBatch) as caught:
        survivors(directory)
    assert (caught.value.path, caught.value.position) == (directory.log(0), len(first))


@pytest.mark.parametrize(("budget", "share"), [(Budget(1 << 20, 0.9), 700 / 58982), (Budget(1 << 15, 0.1), 1.0)])
def test_utilisation_is_the_share_of_the_budget_or_all_of_it(tmp_path, spans, budget, share):
    opened = spans(in_segments(tmp_path, [str(n % 700) for n in range(3000)]))
    key_map = KeyMap(sum(one.span.size_bytes for one in opened), budget, 1)
    with Crew(1) as crew:
        found = Finder(opened, 0, key_map, lambda: Fates([], {}, 3000, NOW_MS), crew, untold, untold).find()
    assert found.map_utilisation == pytest.approx(share)
