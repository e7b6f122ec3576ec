"""Producer state of a log: the newest valid snapshot, then the batches behind it."""

import pytest

from storage.log.listing import list_partition
from storage.log.producer_state import ProducerState, load_producer_state
from storage.records import ControlType
from tests.batches import encode_control_batch
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

DAY_MS = 86_400_000


def written_by(producer_id, base_offset, *pairs, **batch):
    return keyed(base_offset, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=0, **batch)


@pytest.fixture
def directory(tmp_path):
    """Producer 1 writes 0, producer 2 writes 1 (next segment), producer 3 writes 2 (active)."""
    made = PartitionDir(tmp_path)
    made.segment(0, written_by(1, 0, "a=1")).segment(1, written_by(2, 1, "b=2")).segment(2, written_by(3, 2, "c=3"))
    return made.path


def state_of(directory, log_start=0, log_end=3, now_ms=NOW_MS):
    found = list_partition(directory)
    return load_producer_state(found.snapshots, found.segments, log_start, log_end, now_ms, DAY_MS)


def write_snapshot(directory, offset, *producer_ids):
    state = ProducerState()
    for segment in list_partition(directory).segments:
        with segment.log.path.open("rb") as file:
            state.replay(file.fileno(), segment.log.path)
    kept = ProducerState(entry for id_, entry in state.producers.items() if id_ in producer_ids)
    path = directory / f"{offset:020d}.snapshot"
    path.write_bytes(kept.to_snapshot_bytes())
    return path


def test_without_a_snapshot_the_whole_log_is_replayed(directory):
    assert set(state_of(directory).producers) == {1, 2, 3}


def test_replay_starts_at_the_newest_snapshot(directory):
    write_snapshot(directory, 1, 1)
    write_snapshot(directory, 2, 2)  # says that producer 1 was forgotten
    assert set(state_of(directory).producers) == {2, 3}


def test_damaged_snapshot_gives_way_to_the_next_older_one(directory):
    write_snapshot(directory, 1)
    newest = write_snapshot(directory, 2, 1, 2)
    newest.write_bytes(newest.read_bytes()[:-1])
    assert set(state_of(directory).producers) == {2, 3}


def test_snapshot_above_the_log_end_or_at_its_start_is_not_used(directory):
    write_snapshot(directory, 3)
    write_snapshot(directory, 1)
    assert set(state_of(directory, log_start=1, log_end=2).producers) == {2}


def test_snapshot_at_the_log_end_needs_no_replay(directory):
    write_snapshot(directory, 3, 1)
    (directory / f"{2:020d}.log").write_bytes(b"no batch, and nobody looks" * 9)
    assert set(state_of(directory).producers) == {1}


def test_idle_producer_is_forgotten_unless_its_transaction_is_open(directory):
    later = NOW_MS + DAY_MS
    assert state_of(directory, now_ms=later).producers == {}
    (directory / f"{2:020d}.log").write_bytes(written_by(3, 2, "c=3", is_transactional=True))
    state = state_of(directory, now_ms=later)
    assert set(state.producers) == {3}
    assert state.first_unstable_offset(3) == 2


def test_transaction_that_ended_above_the_high_watermark_is_unstable(directory):
    marker = encode_control_batch(
        ControlType.COMMIT, offset=3, timestamp_ms=NOW_MS, producer_id=3, producer_epoch=0, coordinator_epoch=0
    )
    (directory / f"{2:020d}.log").write_bytes(written_by(3, 2, "c=3", is_transactional=True) + marker)
    state = state_of(directory, log_end=4)
    assert state.first_unstable_offset(3) == 2
    assert state.first_unstable_offset(4) is None
