"""The count of records without a key, by which a guard rail decides: each of them counts once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cleaner.engine.compaction.crew import Crew, untold
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.passes import Horizons
from cleaner.engine.compaction.survivors import Finder
from policies.facts import KeyCount
from policies.retain import AbortedTransaction
from storage.codecs.compression import Compression
from storage.records import ControlType, Record, encode_batch
from tests.batches import encode_control_batch
from tests.kafka_rounds import KafkaFinder
from tests.legacy_logs import FORMATS, segment
from tests.partition_dirs import NOW_MS, PartitionDir
from tests.sampled import some

AMPLE = 10**6
BEYOND = 10**9
HORIZONS = Horizons(NOW_MS, NOW_MS, 0)
Encode = Callable[[list[Record]], bytes]


def no_fates() -> Fates:
    return Fates([], {}, BEYOND, NOW_MS)


def drawn(draw: random.Random, directory: PartitionDir, encode: Encode) -> list[Record]:
    """A log of four segments; a third of its records has no key."""
    records: list[Record] = []
    offset = 0
    for _ in range(4):
        base, batches = offset, []
        for _ in range(draw.randrange(1, 20)):
            keys = [draw.choice((None, b"%d" % draw.randrange(99), b"k")) for _ in range(draw.randrange(1, 12))]
            batch = [Record(offset + place, NOW_MS, key, b"value") for place, key in enumerate(keys)]
            batches.append(encode(batch))
            records += batch
            offset += len(keys) + draw.choice((0, 0, 3))
        segment(directory, base, *batches)
    return records


def count_of(spans, directory: PartitionDir, first_dirty: int, threads: int = 1, new_fates=no_fates) -> KeyCount:
    key_map = KeyMap(sum(path.stat().st_size for path in directory.path.glob("*.log")), Budget(1024, 0.9), threads)
    with Crew(threads) as crew:
        return Finder(spans(directory), first_dirty, key_map, new_fates, crew, untold, untold).find().count


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("slots_log2", [20, 5], ids=["one pass", "several passes"])
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: f"v{form.magic}-{form.codec.name.lower()}")
def test_each_record_counts_once_wherever_the_dirty_section_starts(
    tmp_path, spans, monkeypatch, form, slots_log2, threads
):
    monkeypatch.setattr("cleaner.engine.compaction.key_map.LOG2_SLOTS_MIN", slots_log2)
    monkeypatch.setattr("storage.scan.segments.WINDOW_BYTES", 900)
    directory = PartitionDir(tmp_path)
    records = drawn(random.Random(7), directory, form.encode)
    expected = KeyCount(len(records), sum(record.key is None for record in records))
    assert 0 < expected.unkeyed < expected.records
    for first_dirty in some(range(0, directory.end_offset, 17), 4, always=(0,)):
        assert count_of(spans, directory, first_dirty, threads) == expected
    twin = KafkaFinder(spans(directory), 50, AMPLE, no_fates, HORIZONS, untold, untold)
    assert twin.find().count == expected


def transactional(producer_id: int, base_offset: int, count: int) -> bytes:
    records = [Record(base_offset + place, NOW_MS, None, b"v") for place in range(count)]
    return encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(kind: ControlType, producer_id: int, offset: int) -> bytes:
    return encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )


@pytest.mark.parametrize("first_dirty", [0, 3, 7])
def test_markers_and_aborted_records_do_not_count(tmp_path, spans, first_dirty):
    aborted = transactional(1, 0, 2), marker(ControlType.ABORT, 1, 2)
    committed = transactional(2, 3, 1), marker(ControlType.COMMIT, 2, 4)
    plain = encode_batch([Record(5, NOW_MS, b"a", b"v"), Record(6, NOW_MS, None, b"v")], compression=Compression.GZIP)
    directory = PartitionDir(tmp_path).segment(0, *aborted, *committed, plain)

    def fates() -> Fates:
        return Fates([AbortedTransaction(1, 0, 2, 3)], {}, BEYOND, NOW_MS)

    assert count_of(spans, directory, first_dirty, new_fates=fates) == KeyCount(3, 2)
    twin = KafkaFinder(spans(directory), 0, AMPLE, fates, HORIZONS, untold, untold)
    assert twin.find().count == KeyCount(3, 2)


def test_round_that_ends_early_counts_up_to_its_end(tmp_path, spans):
    records = [Record(offset, NOW_MS, key, b"v") for offset, key in enumerate((None, b"a", None, b"b", None))]
    directory = PartitionDir(tmp_path).segment(0, *(encode_batch([record]) for record in records))
    found = KafkaFinder(spans(directory), 0, 1, no_fates, HORIZONS, untold, untold).find()
    assert (found.end_offset, found.count) == (3, KeyCount(3, 2))
