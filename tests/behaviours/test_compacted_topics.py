"""Kafka LogCleanerIntegrationTest and LogCleanerManagerTest: whole runs over compacted topics, by the clock."""

from __future__ import annotations

import pytest

from storage.checkpoints import parse_offset_checkpoint
from storage.codecs.compression import Compression
from storage.names import TopicPartition
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    latest,
    records_in,
    request,
)

HOUR_MS = DAY_MS // 24
ORDERS = TopicPartition("orders", 0)
each_codec = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())


def drawn(log_dir, **batch):
    """A hundred records of ten keys in five sealed segments, another one in the active segment."""
    made = PartitionDir(log_dir)
    for base in range(0, 100, 20):
        starts = range(base, base + 20, 5)
        batches = (keyed(start, *(f"{n % 10}={n}" for n in range(start, start + 5)), **batch) for start in starts)
        made.segment(base, *batches, mtime_ms=batch.get("timestamp_ms", NOW_MS))
    committed(log_dir, made.segment(100, keyed(100, "0=100", **batch)))
    return made


def clean(log_dir, now_ms=NOW_MS, **config):
    """One run; gives the cleaner's checkpoint of the partition."""
    layers = configured(orders={**COMPACT, **config})
    _, outcome = a_cleaner(log_dir, layers).clean(request(now_ms, delete_delay_ms=0))
    assert not [result.error for result in outcome.results.values() if result.error]
    path = log_dir / "cleaner-offset-checkpoint"
    return parse_offset_checkpoint(path.read_bytes(), path).get(ORDERS) if path.exists() else None


def offsets(made):
    return [record.offset for record in records_in(made.path)]


@each_codec
def test_nothing_is_compacted_within_the_lag_and_the_sealed_segments_are_after_it(tmp_path, codec):
    # cleanerTest
    made = drawn(tmp_path, compression=codec)
    view, lag = latest(made.path), {"min.compaction.lag.ms": str(HOUR_MS)}
    assert clean(tmp_path, NOW_MS + HOUR_MS - 1, **lag) is None
    assert offsets(made) == list(range(101))
    assert clean(tmp_path, NOW_MS + HOUR_MS, **lag) == 100
    assert offsets(made) == list(range(90, 101))
    assert latest(made.path) == view


@each_codec
def test_what_is_written_after_a_round_is_compacted_by_the_next(tmp_path, codec):
    # testCleanerCompaction: the second time with a record far larger than the others
    made = drawn(tmp_path, compression=codec)
    assert clean(tmp_path) == 100
    made.segment(101, keyed(101, f"1={'x' * (1 << 20)}", "2=102", compression=codec))
    committed(tmp_path, made.segment(103, keyed(103, "3=103")))
    view = latest(made.path)
    assert clean(tmp_path) == 103
    assert offsets(made) == [*range(93, 104)]
    assert latest(made.path) == view


def test_records_older_than_the_longest_lag_are_compacted_whatever_the_ratio(tmp_path):
    # testMaxLogCompactionLag
    made, config = drawn(tmp_path), {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": str(HOUR_MS)}
    assert clean(tmp_path, NOW_MS + HOUR_MS, **config) is None
    assert clean(tmp_path, NOW_MS + HOUR_MS + 1, **config) == 100
    assert offsets(made) == list(range(90, 101))


def test_topic_of_both_policies_is_compacted_while_it_is_fresh_and_deleted_when_it_expired(tmp_path):
    # testCleansCombinedCompactAndDeleteTopic
    made, both = drawn(tmp_path), {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}
    assert clean(tmp_path, **both) == 100
    assert offsets(made) == list(range(90, 101))
    clean(tmp_path, NOW_MS + DAY_MS + 1, **both)
    (log,) = made.path.glob("*.log")
    assert (log.name, log.stat().st_size) == (f"{101:020d}.log", 0)


@pytest.mark.parametrize(
    ("checkpoint", "log_start", "corrected"),
    [("200", "0", 0), ("0", "10", 10), ("15", "10", None), ("15", "20", 20)],
)
def test_checkpoint_outside_the_log_is_corrected_though_nothing_is_compacted(
    tmp_path, checkpoint, log_start, corrected
):
    # testDirtyOffsetReset…, testCleanableOffsetsNeedsCheckpointReset, testCheckpointUpdatedForInvalidOffset…
    made = drawn(tmp_path)
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n2\norders 0 {checkpoint}\nother 0 7\n")
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {log_start}\n")
    found = clean(tmp_path, **{"min.cleanable.dirty.ratio": "1.0"})
    assert found == (int(checkpoint) if corrected is None else corrected)
    assert offsets(made)[-1] == 100
    assert "other 0 7\n" in (tmp_path / "cleaner-offset-checkpoint").read_text()
