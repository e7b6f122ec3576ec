"""The referee itself: what Kafka writes, Kafka reads; what Kafka cleans holds one record a key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.interop.referee import Referee
from tests.interop.verdicts import KafkaRefused, Log

pytestmark = pytest.mark.kafka

RECORDS, KEYS = 3_000, 100
SEGMENT_BYTES = 65_536
WORKLOADS = 20
AFTER_ALL_WORKLOADS_MS = 1_700_100_000_000


@pytest.fixture
def generated(referee: Referee, tmp_path: Path) -> Path:
    partition_dir = tmp_path / "logs" / "orders-0"
    referee.generate(
        partition_dir, records=RECORDS, keys=KEYS, value_bytes=100, segment_bytes=SEGMENT_BYTES, codec="lz4"
    )
    return partition_dir


def keys(log: Log) -> Counter[str | None]:
    return Counter(record.key for record in log.records())


def test_a_generated_log_reads_back_complete(referee: Referee, generated: Path) -> None:
    (log,) = referee.read([generated], shutdown="auto", checkpoints=True)
    assert [record.offset for record in log.records()] == list(range(RECORDS))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, RECORDS, RECORDS)
    assert {batch.codec for batch in log.batches()} == {"lz4"}
    assert len(keys(log)) == KEYS
    assert len(log.segments) > 3


def test_kafkas_cleaner_leaves_the_latest_record_of_each_key(referee: Referee, generated: Path) -> None:
    (before,) = referee.read([generated])
    latest = {record.key: record for record in before.records()}
    (cleaned,) = referee.clean([generated], config={"segment.bytes": SEGMENT_BYTES})
    (after,) = referee.read([generated])
    assert list(after.records()) == sorted(latest.values(), key=lambda record: record.offset)
    assert (cleaned.end_offset, cleaned.records_written) == (RECORDS, KEYS)


def test_the_log_cleaner_of_a_broker_cleans_all_logs_that_it_is_given(referee: Referee, generated: Path) -> None:
    other = generated.with_name("orders-1")
    referee.generate(other, records=RECORDS, keys=KEYS, value_bytes=100, segment_bytes=SEGMENT_BYTES)
    done = referee.clean_all([generated, other], threads=2, warmups=1, config={"segment.bytes": SEGMENT_BYTES})
    assert done.seconds > 0
    assert done.cpu_seconds > 0
    assert [digest.records for digest in referee.digest([generated, other])] == [KEYS, KEYS]


def test_a_second_round_finds_nothing_dirty(referee: Referee, generated: Path) -> None:
    first, second = referee.clean([generated], rounds=2)
    assert first.end_offset == RECORDS
    assert second.end_offset is None


def test_the_first_dirty_offset_bounds_what_supersedes(referee: Referee, generated: Path) -> None:
    referee.clean([generated], first_dirty_offset=RECORDS - 1)
    (log,) = referee.read([generated])
    assert sum(keys(log).values()) > KEYS


def test_equal_records_give_equal_digests_whatever_the_batches(referee: Referee, tmp_path: Path) -> None:
    small, large = tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"
    referee.generate(small, records=500, keys=20, value_bytes=50, batch_bytes=1_000)
    referee.generate(large, records=500, keys=20, value_bytes=50, batch_bytes=8_000, codec="zstd")
    before_small, before_large = referee.digest([small, large])
    assert before_small.sha256 == before_large.sha256
    referee.clean([large])
    assert referee.digest([large])[0].sha256 != before_large.sha256


def test_keys_in_order_come_one_after_the_other_behind_what_the_log_holds(referee: Referee, tmp_path: Path) -> None:
    partition_dir = tmp_path / "orders-0"
    referee.generate(partition_dir, records=5, keys=5, value_bytes=1, in_order=True)
    referee.generate(partition_dir, records=3, keys=2, first_key=7, value_bytes=1, in_order=True)
    (log,) = referee.read([partition_dir])
    written = [bytes.fromhex(record.key or "") for record in log.records()]
    assert written == [b"key-%012d" % number for number in (0, 1, 2, 3, 4, 7, 8, 7)]


def test_retention_by_size_leaves_the_newest_segments(referee: Referee, generated: Path) -> None:
    (expired,) = referee.expire([generated], {"retention.bytes": SEGMENT_BYTES, "retention.ms": -1})
    (log,) = referee.read([generated])
    assert expired.segments > 0
    assert log.segments[0].base_offset == expired.log_start_offset > 0


def test_a_flipped_bit_is_refused(referee: Referee, generated: Path) -> None:
    segment = min(generated.glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[200] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(KafkaRefused, match="CorruptRecord"):
        referee.read([generated])


@pytest.fixture(scope="module")
def workloads(referee: Referee, tmp_path_factory: pytest.TempPathFactory) -> list[Log]:
    log_dir = tmp_path_factory.mktemp("workloads")
    partition_dirs = [log_dir / f"workload-{number}" for number in range(WORKLOADS)]
    referee.workload(partition_dirs, seed=1)
    return referee.read(partition_dirs, now_ms=1_700_000_000_000)


def test_random_workloads_have_every_shape(workloads: list[Log]) -> None:
    batches = [batch for log in workloads for batch in log.batches()]
    records = [record for batch in batches if not batch.control for record in batch.records]
    assert all(len(log.segments) > 3 for log in workloads)
    assert {batch.codec for batch in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {(batch.producer_id >= 0, batch.transactional, batch.control) for batch in batches} == {
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (True, True, True),
    }
    assert any(segment.aborted_txns for log in workloads for segment in log.segments)
    assert any(log.last_stable_offset < log.log_end_offset for log in workloads)
    assert any(len(log.leader_epochs) > 1 for log in workloads)
    assert any(record.value is None for record in records)
    assert any(value is None for record in records for _, value in record.headers)
    assert all(record.key is not None for record in records)


def test_the_same_seed_writes_the_same_records(referee: Referee, tmp_path: Path) -> None:
    first, again, other = (tmp_path / name / "workload-7" for name in ("first", "again", "other"))
    referee.workload([first, again], seed=3)
    referee.workload([other], seed=4)
    digests = [digest.sha256 for digest in referee.digest([first, again, other])]
    assert digests[0] == digests[1] != digests[2]


def test_a_workload_can_be_cleaned_and_continued(referee: Referee, tmp_path: Path) -> None:
    partition_dir = tmp_path / "workload-0"
    for seed in (1, 2):
        referee.workload([partition_dir], seed=seed)
        referee.clean([partition_dir], now_ms=AFTER_ALL_WORKLOADS_MS)
    (log,) = referee.read([partition_dir], now_ms=AFTER_ALL_WORKLOADS_MS)
    offsets = [record.offset for record in log.records()]
    assert offsets == sorted(set(offsets))
    assert len(offsets) < log.log_end_offset
