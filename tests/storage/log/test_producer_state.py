"""Producer state: snapshots, and what batches make of it."""

import os
from pathlib import Path

import pytest

from storage.errors import CorruptBatch
from storage.log.producer_state import CorruptSnapshot, ProducerState, format_snapshot, parse_snapshot
from storage.records import ControlType, Record, encode_batch, encode_message
from storage.txn_index import AbortedTxn
from tests.batches import encode_control_batch, encode_empty_batch, iter_batches

PATH = Path("00000000000000000000.log")
SNAPSHOT = Path("00000000000000000100.snapshot")
DAY_MS = 86_400_000


def data(offset, producer_id=1, epoch=0, sequence=0, txn=False, timestamp_ms=1000, count=1):
    records = [Record(offset + n, timestamp_ms, b"k", b"v") for n in range(count)]
    return encode_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=txn
    )


def marker(kind, offset, producer_id=1, epoch=0, coordinator_epoch=4, timestamp_ms=2000):
    return encode_control_batch(
        kind,
        offset=offset,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
    )


def abort(offset, **fields):
    return marker(ControlType.ABORT, offset, **fields)


def commit(offset, **fields):
    return marker(ControlType.COMMIT, offset, **fields)


def emptied(batch):
    (parsed,) = iter_batches(batch, PATH)
    return encode_empty_batch(parsed.header)


def replayed(*batches, state=None):
    """The state after the batches, and the aborted transactions they end."""
    state = state or ProducerState()
    aborted = [entry for batch in iter_batches(b"".join(batches), PATH) if (entry := state.apply(batch))]
    return state, aborted


def test_the_last_data_batch_is_known():
    state, _ = replayed(data(10, sequence=5, count=3))
    entry = state.producers[1]
    assert entry.last_batch == (7, 12, 2, 1000)
    assert (entry.epoch, entry.last_timestamp_ms, entry.last_data_offset) == (0, 1000, 12)


def test_five_batches_are_kept():
    state, _ = replayed(*(data(n, sequence=n) for n in range(7)))
    assert [batch.last_offset for batch in state.producers[1].batches] == [2, 3, 4, 5, 6]


def test_another_epoch_drops_the_batches_of_the_old_one():
    state, _ = replayed(data(0), data(1, epoch=1))
    assert [batch.last_offset for batch in state.producers[1].batches] == [1]


def test_a_marker_with_a_bumped_epoch_leaves_no_data_offset():
    state, _ = replayed(data(0, txn=True), commit(1, epoch=1))
    assert state.producers[1].last_data_offset is None
    assert (state.producers[1].epoch, state.producers[1].coordinator_epoch) == (1, 4)


def test_a_marker_with_the_same_epoch_keeps_the_data_offset_and_its_own_time():
    state, _ = replayed(data(0, txn=True), commit(1))
    assert (state.producers[1].last_data_offset, state.producers[1].last_timestamp_ms) == (0, 2000)


def test_batches_without_a_producer_and_old_messages_change_nothing():
    state, _ = replayed(encode_batch([Record(0, 1, b"k", b"v")]), encode_message(Record(1, 1, b"k", b"v"), 1))
    assert state.producers == {}


def test_an_empty_data_batch_counts_as_data():
    state, _ = replayed(emptied(data(3, sequence=9)))
    assert state.producers[1].last_batch[:2] == (9, 3)


def test_an_empty_control_batch_only_makes_the_producer_known():
    state, _ = replayed(emptied(commit(3)))
    assert (state.producers[1].epoch, state.producers[1].last_data_offset) == (-1, None)


def test_an_empty_control_batch_does_not_close_a_transaction():
    state, _ = replayed(data(0, txn=True), emptied(commit(3)))
    assert state.first_unstable_offset(0) == 0


def test_an_abort_is_due_in_the_transaction_index():
    _, aborted = replayed(data(4, txn=True), data(5, txn=True, sequence=1), abort(6))
    assert aborted == [AbortedTxn(producer_id=1, first_offset=4, last_offset=6, last_stable_offset=7)]


def test_a_commit_and_an_abort_without_a_transaction_are_not():
    assert replayed(data(4, txn=True), commit(5), abort(6))[1] == []


def test_the_stable_offset_after_an_abort_is_the_oldest_other_open_transaction():
    _, aborted = replayed(
        data(0, producer_id=1, txn=True), data(1, producer_id=2, txn=True), data(2, producer_id=3, txn=True),
        abort(3, producer_id=1),
    )  # fmt: skip
    assert aborted[0].last_stable_offset == 1


def test_a_plain_batch_within_an_open_transaction_is_corrupt():
    with pytest.raises(CorruptBatch, match="transaction open"):
        replayed(data(0, txn=True), data(1, sequence=1))


def test_an_open_transaction_is_unstable_from_its_first_offset():
    state, _ = replayed(data(3, producer_id=1), data(4, producer_id=2, txn=True), data(5, producer_id=3, txn=True))
    assert state.first_unstable_offset(6) == 4


@pytest.mark.parametrize(("high_watermark", "unstable"), [(5, 3), (6, None)])
def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark(high_watermark, unstable):
    state, _ = replayed(data(3, txn=True), data(4, txn=True, sequence=1), commit(5))
    assert state.first_unstable_offset(high_watermark) == unstable


@pytest.mark.parametrize(("age_ms", "known"), [(DAY_MS - 1, True), (DAY_MS, False)])
def test_a_silent_producer_expires_at_the_limit(age_ms, known):
    state, _ = replayed(data(0, timestamp_ms=1000))
    state.expire(1000 + age_ms, DAY_MS)
    assert (1 in state.producers) == known


def test_a_producer_with_an_open_transaction_never_expires():
    state, _ = replayed(data(0, txn=True))
    state.expire(1 << 60, DAY_MS)
    assert 1 in state.producers


def snapshot_of(*batches):
    return replayed(*batches)[0].to_snapshot_bytes()


def test_a_snapshot_comes_back_and_goes_on_where_the_state_was():
    before = snapshot_of(data(0, txn=True), data(1, producer_id=2, sequence=8), abort(2), data(3, txn=True, sequence=1))
    loaded = ProducerState(parse_snapshot(before, SNAPSHOT))
    assert loaded.to_snapshot_bytes() == before
    assert replayed(abort(4), state=loaded)[1] == [AbortedTxn(1, 3, 4, 5)]


def test_a_snapshot_has_kafkas_layout():
    body = snapshot_of(data(7, producer_id=9, epoch=2, sequence=5, count=3))
    assert len(body) == 10 + 46
    assert body[:2] == b"\0\1"
    assert body[10:].hex() == (
        "000000000000000900020000000700000000000000090000000200000000000003e8ffffffffffffffffffffffff"
    )


def test_a_producer_known_by_markers_only_has_no_batch_in_a_snapshot():
    (entry,) = parse_snapshot(snapshot_of(commit(0)), SNAPSHOT)
    assert (entry.last_batch, entry.last_timestamp_ms, entry.coordinator_epoch) == (None, 2000, 4)


def test_an_empty_snapshot_has_ten_bytes():
    assert len(format_snapshot([])) == 10
    assert parse_snapshot(format_snapshot([]), SNAPSHOT) == []


@pytest.mark.parametrize("size_bytes", [0, 9, 55, 57])
def test_a_snapshot_of_another_size_is_corrupt(size_bytes):
    whole = snapshot_of(data(0)) + b"\0"
    with pytest.raises(CorruptSnapshot):
        parse_snapshot(whole[:size_bytes], SNAPSHOT)


@pytest.mark.parametrize("at", range(56))
def test_any_changed_byte_of_a_snapshot_is_corrupt(at):
    whole = bytearray(snapshot_of(data(0)))
    whole[at] ^= 1
    with pytest.raises(CorruptSnapshot):
        parse_snapshot(bytes(whole), SNAPSHOT)


@pytest.fixture
def log(tmp_path):
    """A file with two transactions and a plain producer, open for reading."""
    path = tmp_path / PATH.name
    path.write_bytes(data(0, txn=True) + abort(1) + data(2, producer_id=2) + data(3, txn=True, sequence=1) + commit(4))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor, path
    os.close(descriptor)


def test_replay_of_a_file_is_that_of_its_batches(log):
    state = ProducerState()
    aborted = state.replay(*log)
    expected, expected_aborted = replayed(log[1].read_bytes())
    assert state.to_snapshot_bytes() == expected.to_snapshot_bytes()
    assert aborted == expected_aborted


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "producers"),
    [(0, 3, {1, 2}), (2, 3, {2}), (3, 5, {1}), (5, 9, set()), (0, 0, set())],
)
def test_replay_keeps_to_its_offsets(log, start_offset, end_offset, producers):
    state = ProducerState()
    state.replay(*log, start_offset, end_offset)
    assert set(state.producers) == producers
