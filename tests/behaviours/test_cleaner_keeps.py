"""Kafka LogCleanerTest: which records, batches and sequences a round keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleaner import Cleaner
from cleaner.engine.means import Means
from policies.config.config_layers import Configured
from storage.errors import CorruptBatch
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.config import TimestampType
from storage.records import Record, encode_batch
from storage.records.v2 import ControlType
from tests.batches import format_control_key, iter_batches
from tests.behaviours.lives import AMPLE, Life, Writer, small_map
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

LATER_MS = NOW_MS + DAY_MS
SINCE_4_4 = Means()
UP_TO_4_3 = Means(keeps_round_end=True)
KAFKAS_ROUNDS = small_map(1000)
either_round = pytest.mark.parametrize("options", [(), KAFKAS_ROUNDS], ids=["full", "kafka"])


def idempotent(id_):
    return Writer(id_, is_transactional=False)


@pytest.fixture
def life(tmp_path):
    return Life(tmp_path)


@either_round
def test_keys_of_the_dirty_section_supersede_those_before_it(tmp_path, options):
    # testCleanSegments: of three segments only the keys stay that the fourth does not have
    life = Life(tmp_path, options)
    for keys in (range(4), range(4, 8), range(8, 12)):
        life.put(*keys).roll()
    life.put(1, 3, 5, 7, 9).roll()
    done = life.round(dirty=12)
    assert life.keys() == ["0", "2", "4", "6", "8", "10", "11", "1", "3", "5", "7", "9"]
    assert (done.records_read, done.records_kept) == (17, 12)


def test_repeated_batches_are_recognised_after_a_cleaning(life):
    # testDuplicateCheckAfterCleaning
    p1, p2, p3, p4 = map(idempotent, (1, 2, 3, 4))
    life.put(1, 2, 3, by=p1).put(3, 1, 4, by=p2).put(1, 4, by=p3).roll()
    life.round()
    assert (life.keys(), life.offsets(), life.batch_ends()) == (["2", "3", "1", "4"], [1, 3, 6, 7], [2, 5, 7])
    last = {id_: (b.last_offset - b.offset_delta, b.last_offset, b.last_sequence) for id_, b in batches_of(life)}
    assert last == {1: (0, 2, 2), 2: (3, 5, 2), 3: (6, 7, 1)}
    life.reopen().put(2, by=p4).roll()
    life.round(dirty=8)
    assert (life.keys(), life.offsets()) == (["3", "1", "4", "2"], [3, 6, 7, 8])
    assert life.batch_ends() == [2, 5, 7, 8]
    assert {id_: batch.last_sequence for id_, batch in batches_of(life)} == {1: 2, 2: 2, 3: 1, 4: 0}


def batches_of(life):
    return [(id_, batch) for id_, batch in life.last_batches().items() if batch]


def test_last_batch_of_each_producer_stays_for_its_sequence(life):
    # testLogCleanerRetainsProducerLastSequence
    p1, p2, p3 = map(idempotent, (1, 2, 3))
    life.put(0).put(0, by=p1).put(0, by=p2).put(0, by=p3).put(1, by=p2).roll()
    life.round()
    assert (life.batch_ends(), life.keys(), life.offsets()) == ([1, 3, 4], ["0", "1"], [3, 4])
    assert {id_: batch.last_sequence for id_, batch in batches_of(life)} == {1: 0, 2: 1, 3: 0}


def test_last_sequence_of_an_aborted_transaction_stays_until_the_producer_writes_again(life):
    # testLogCleanerRetainsLastSequenceEvenIfTransactionAborted
    p1 = Writer(1)
    life.put(1, by=p1).put(2, 3, by=p1).abort(p1).roll()
    life.round()
    assert (life.batch_ends(), life.keys(), life.offsets()) == ([2, 3], [], [3])
    assert life.last_batches()[1].last_sequence == 2
    life.put(1, 5, by=p1).roll()
    life.round(dirty=4)
    assert (life.batch_ends(), life.keys(), life.offsets()) == ([3, 5], ["1", "5"], [3, 4, 5])
    assert life.last_batches()[1].last_sequence == 4


@pytest.mark.parametrize("writer", [None, idempotent(1)], ids=["no producer", "producer"])
def test_sequences_are_replayed_over_the_gaps_and_empty_batches_of_a_cleaned_log(life, writer):
    # UnifiedLogTest.testRebuildProducerIdMapWithCompactedData, …WithEmptyCompactedBatch
    p1, p2 = idempotent(7), idempotent(8)
    life.put("a", "b", "c", "d", by=p1).put("x", "y", by=p2).put("b", "c", by=writer).put("x", "y", by=writer).roll()
    life.round()
    assert [batch.header.record_count for batch in life.batches()] == [2, 0, 2, 2]
    assert (life.last_batches()[7].last_sequence, life.last_batches()[8].last_sequence) == (3, 1)


def test_deleted_keys_have_no_value_left(life):
    # testCleaningWithDeletes
    life.put(*range(10)).roll().delete(*range(0, 10, 2)).roll().put("z").roll()
    life.round()
    assert life.keys() == ["1", "3", "5", "7", "9", "z"]


@pytest.mark.parametrize("record_ms", [0, 10**15], ids=["an old tombstone", "a future one"])
def test_tombstone_stays_by_the_time_of_its_first_cleaning_not_its_own(life, record_ms):
    # testCleanTombstone
    life.put(0, at_ms=10**15).roll()
    life.round()
    life.delete(0, at_ms=record_ms).roll()
    life.round(dirty=1)
    assert life.batch_ends() == [1]
    life.put(1).roll()
    life.round(dirty=2)
    assert life.batch_ends() == [1, 2]
    assert [record.timestamp_ms for record in life.batches()[0].records()] == [record_ms]


@either_round
def test_records_without_a_key_go_with_exactly_their_bytes_and_are_counted(tmp_path, options):
    # testCleaningWithUnkeyedMessages
    life = Life(tmp_path, options).put("a")
    keyed_bytes = life.log.size_bytes
    life.put_unkeyed().put_unkeyed().roll()
    unkeyed_bytes = life.log.size_bytes - keyed_bytes
    life.put("b").roll()
    all_bytes = life.log.size_bytes
    assert life.round().unkeyed == 2
    assert life.keys() == ["a", "b"]
    assert life.log.size_bytes == all_bytes - unkeyed_bytes


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_key_that_looks_like_a_markers_does_not_supersede_it(life, kind):
    # testCleaningWithKeysConflictingWithTxnMarkerKeys
    p1, p2 = Writer(1), Writer(2)
    life.put(1, by=p1).commit(p1).put(format_control_key(kind), by=p2).commit(p2).roll()
    life.round()
    assert life.offsets() == life.batch_ends() == [0, 1, 2, 3]


def test_full_map_ends_the_round_and_the_next_one_goes_on_within_the_segment(tmp_path):
    # testPartialSegmentClean
    life = Life(tmp_path, small_map(1)).put(0).put(1).put(0).put(1).put(0).roll()
    for dirty, offsets in ((2, [1, 2, 3, 4]), (3, [2, 3, 4]), (4, [3, 4])):
        assert life.round(dirty=dirty).end_offset == dirty + 1
        assert life.offsets() == offsets


def test_round_tells_its_end_and_what_it_read_and_wrote(tmp_path):
    # testLogCleanerStats
    life = Life(tmp_path, small_map(3)).put(0).put(1).put(0).put(1).put(0).roll()
    done = life.round(dirty=2)
    assert (done.end_offset, done.records_read, done.records_kept, done.unkeyed) == (5, 5, 2, 0)
    assert done.size_bytes == life.log.size_bytes


@pytest.mark.parametrize(("high_watermark", "left"), [(3, [0, 1, 2, 3]), (4, [2, 3]), (5, [2, 3])])
def test_segment_that_holds_the_first_uncleanable_offset_stays_as_it_is(tmp_path, high_watermark, left):
    # testCleaningWithUncleanableSection
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=0", "b=1")).segment(2, keyed(2, "a=2", "b=3"))
    made.segment(4, keyed(4, "c=4"))
    before = made.log(4).read_bytes()
    committed(tmp_path, made)
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    a_cleaner(tmp_path, configured(orders=COMPACT)).clean(request())
    assert [record.offset for record in records_in(made.path)] == [*left, 4]
    assert made.log(4).read_bytes() == before


def test_only_the_batch_at_the_high_watermark_stays_without_records(life):
    # testCleanSegmentsRetainingLastEmptyBatch
    life.put(0).delete(0).roll().delete(1).roll()
    life.round()
    life.round(dirty=life.bases()[-1], now_ms=LATER_MS)
    (last,) = life.batches()
    assert (last.last_offset, last.header.record_count) == (life.bases()[-1] - 1, 0)


@pytest.mark.parametrize(("means", "left"), [(SINCE_4_4, [0, 2]), (UP_TO_4_3, [0, 1, 2])], ids=["4.4", "4.0 to 4.3"])
def test_empty_batch_where_a_round_ends_below_the_high_watermark_stays_by_the_older_rule_alone(tmp_path, means, left):
    # KAFKA-17076, KAFKA-20452
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=0"), keyed(1, "b")).segment(2, keyed(2, "c=2"))
    committed(tmp_path, made)
    for now_ms in (NOW_MS, LATER_MS):
        cleaner = Cleaner(Configured((tmp_path,), configured(orders=COMPACT)), replace(means, clock=FakeClock(now_ms)))
        cleaner.clean(request(now_ms, force_compaction=True))
        (tmp_path / "cleaner-offset-checkpoint").unlink()
    batches = [batch for path in sorted(made.path.glob("*.log")) for batch in iter_batches(path.read_bytes(), path)]
    assert [batch.header.last_offset for batch in batches] == left


def test_no_empty_batch_stays_where_the_round_ends_behind_it(life):
    # testCleanSegmentsNotRetainingLastEmptyBatch
    life.put(0).delete(0).roll().put(1).roll()
    life.round()
    life.round(dirty=2, now_ms=LATER_MS)
    assert life.batch_ends() == [2]


@either_round
@pytest.mark.parametrize("segments", [1, 3])
def test_offsets_missing_at_the_ends_of_segments_do_not_hold_the_round(tmp_path, options, segments):
    # testCleaningBeyondMissingOffsetsSingleSegment, …MultipleSegments
    life = Life(tmp_path, options)
    for place in range(segments):
        life.put("a", "b").roll(at_offset=100 * (place + 1))
    assert life.round().end_offset == 100 * segments
    assert life.offsets() == [100 * (segments - 1), 100 * (segments - 1) + 1]


@pytest.mark.parametrize("preallocate", ["true", "false"])
def test_cleaned_segment_has_no_byte_behind_its_last_batch(tmp_path, preallocate):
    # testSizeTrimmedForPreallocatedAndCompactedTopic
    life = Life(tmp_path, config={**AMPLE, "preallocate": preallocate}).put(0, 1).put(0).roll()
    life.round()
    sizes = [batch.header.size_bytes for batch in life.batches()]
    assert (life.path / f"{0:020d}.log").stat().st_size == sum(sizes)


@pytest.mark.parametrize("limit", ["2097152", "100"], ids=["within the limit", "limit lowered since"])
def test_batch_larger_than_max_message_bytes_is_cleaned(tmp_path, limit):
    # testLargeMessage, testMessageLargerThanMaxMessageSize
    made = PartitionDir(tmp_path).segment(0, keyed(0, f"a={'x' * (1 << 20)}", "b=1"), keyed(2, "b=2"))
    committed(tmp_path, made.segment(3, keyed(3, "c=3")))
    a_cleaner(tmp_path, configured(orders={**COMPACT, "max.message.bytes": limit})).clean(request())
    assert [(record.offset, len(record.value)) for record in records_in(made.path)] == [(0, 1 << 20), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda data: data[:16] + b"\xff" + data[17:], "unknown record format"),
        (lambda data: data[:1024], "ends within a batch"),
    ],
    ids=["magic 0xff", "cut to 1024 bytes"],
)
def test_impossible_batch_is_corrupt(life, damage, cause):
    # testMessageLargerThanMaxMessageSizeWithCorruptHeader, testCorruptMessageSizeLargerThanBytesAvailable
    life.put("k" * 2000).roll()
    path = life.path / f"{0:020d}.log"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptBatch, match=cause):
        life.reopen().round()


def test_log_append_time_stays_on_a_rebuilt_batch(life):
    # MemoryRecordsTest.testFilterToPreservesLogAppendTime
    records = [Record(place, NOW_MS + place, key, b"v") for place, key in enumerate((b"a", b"b", b"c"))]
    of_the_log = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
    with Log.open(life.path, of_the_log, FileSystem()) as log:
        log.append(encode_batch(records), now_ms=NOW_MS + 50)
    life.reopen()
    life.put("c").roll()
    life.round()
    batch = life.batches()[0]
    assert batch.header.is_log_append_time
    assert batch.header.max_timestamp_ms == NOW_MS + 50
    assert [record.timestamp_ms for record in batch.records()] == [NOW_MS + 50] * 2


def test_horizon_takes_the_base_timestamp_and_records_keep_theirs(life):
    # MemoryRecordsTest.testBaseTimestampToDeleteHorizonConversion
    records = [Record(0, ms, b"k%d" % ms, None if ms == 15 else b"v") for ms in (5, 10, 15)]
    life.log.append_records(records, now_ms=NOW_MS)
    life.roll().round()
    batch = life.batches()[0]
    assert batch.header.delete_horizon_ms == NOW_MS + DAY_MS
    assert [record.timestamp_ms for record in batch.records()] == [5, 10, 15]
    assert batch.header.max_timestamp_ms == 15
