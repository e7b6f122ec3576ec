"""Kafka UnifiedLogTest: retention end to end, over a hundred records in segments of five."""

from __future__ import annotations

import shutil

import pytest

from storage.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from storage.log import LogConfig
from storage.names import TopicPartition
from storage.records import Record
from tests.behaviours.lives import FS, Life
from tests.partition_dirs import DAY_MS, EXPIRING, NOW_MS, a_cleaner, configured, request

ORDERS = TopicPartition("orders", 0)
BASES = list(range(0, 100, 5))
EXPIRED = Record(0, NOW_MS - 2 * DAY_MS, b"key", b"value")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Epoch 0 wrote the first 40 records, epoch 1 the rest; all of it is older than its retention."""
    drawn = Life(tmp_path_factory.mktemp("drawn"))
    for base in BASES:
        if base:
            drawn.roll()
        for _ in range(5):
            drawn.log.append_records([EXPIRED], now_ms=NOW_MS, leader_epoch=int(drawn.log.log_end_offset >= 40))
    drawn.log.close()
    return drawn.log_dir


@pytest.fixture
def life(drawn, tmp_path):
    """A copy of it, to be retained."""
    return Life(shutil.copytree(drawn, tmp_path, dirs_exist_ok=True))


def retained(life, high_watermark, log_start=None, **config):
    """Return the bases of the segments that one run leaves."""
    (life.log_dir / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    if log_start is not None:
        (life.log_dir / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {log_start}\n")
    layers = configured(orders={**EXPIRING, **config})
    _, outcome = a_cleaner(life.log_dir, layers).clean(request(delete_delay_ms=0))
    assert not outcome.errors
    life.reopen()
    return life.bases()


def epochs(life):
    path = life.path / "leader-epoch-checkpoint"
    return parse_leader_epochs(path.read_bytes(), path)


@pytest.mark.parametrize("high_watermark", [0, 4, 5, 25, 26, 27, 30, 99])
def test_segments_go_up_to_the_one_that_holds_the_high_watermark(life, high_watermark):
    # testDeleteOldSegments, testSegmentDeletionWithHighWatermarkInitialization,
    # testCannotDeleteSegmentsAtOrAboveHighWatermark
    first = high_watermark // 5 * 5
    assert retained(life, high_watermark) == list(range(first, 100, 5))
    assert life.log.log_start_offset == first <= high_watermark


def test_everything_committed_and_expired_leaves_an_empty_segment_and_one_epoch(life):
    # testDeleteOldSegments, testCannotDeleteSegmentsAtOrAboveHighWatermark
    assert retained(life, 100) == [100]
    assert (life.log.log_start_offset, life.log.log_end_offset, life.log.size_bytes) == (100, 100, 0)
    assert epochs(life) == [(1, 100)]
    assert retained(life, 100) == [100]


@pytest.mark.parametrize(("high_watermark", "left"), [(38, [(0, 35), (1, 40)]), (40, [(1, 40)]), (61, [(1, 60)])])
def test_leader_epochs_begin_where_the_log_does(life, high_watermark, left):
    # shouldTruncateLeaderEpochsWhenDeletingSegments, shouldUpdateOffsetForLeaderEpochsWhenDeletingSegments
    retained(life, high_watermark)
    assert epochs(life) == left


@pytest.mark.parametrize(("log_start", "bases"), [(1, BASES), (6, BASES[1:]), (15, BASES[3:]), (100, BASES[-1:])])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_segments_below_the_log_start_go_under_either_policy(life, policy, log_start, bases):
    # testLogDeletionAfterDeleteRecords, shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete
    config = {"cleanup.policy": policy, "retention.ms": "-1", "min.cleanable.dirty.ratio": "1.0"}
    assert retained(life, 100, log_start, **config) == bases
    path = life.log_dir / "log-start-offset-checkpoint"
    is_inside = log_start > bases[0]
    assert parse_offset_checkpoint(path.read_bytes(), path) == ({ORDERS: log_start} if is_inside else {})


def test_snapshots_stay_for_each_base_that_does_but_not_for_the_first(life):
    # testRetentionDeletesProducerStateSnapshots, testLogStartOffsetMovementDeletesSnapshots
    left = retained(life, 27)
    snapshots = sorted(int(path.stem) for path in life.path.glob("*.snapshot"))
    assert snapshots == [*left, 100]


def test_roll_after_a_deletion_goes_on_at_the_same_offset(life):
    # testThatGarbageCollectingSegmentsDoesntChangeOffset
    retained(life, 100)
    with life.log.open(life.path, LogConfig(), FS) as log:
        assert log.append_records([EXPIRED], now_ms=NOW_MS).first_offset == 100
