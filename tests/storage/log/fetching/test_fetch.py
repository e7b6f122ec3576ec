"""Fetches: what is refused, where they begin and end, and what they say of aborted transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import CorruptBatch
from storage.log import Isolation, Log, LogConfig
from storage.log.errors import OffsetOutOfRange
from storage.log.fetching.fetch import Fetched
from storage.log.writing.append import Producer
from storage.log.writing.origin import AppendOrigin
from storage.records import ControlType, Record, encode_batch, encode_control_batch, iter_batches
from tests.partition_dirs import PartitionDir
from tests.storage.log.logs import FS, NOW_MS, a_log, append, bases, record, reopened

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)
MUCH = 1 << 20


def filled(tmp_path: Path, batches: int = 20, config: LogConfig = SMALL) -> Log:
    """Three records a batch."""
    log = a_log(tmp_path, config)
    for place in range(batches):
        append(log, *(NOW_MS + 10 * place + by for by in range(3)))
    return log


def bases_of(found: Fetched) -> list[int]:
    return [batch.base_offset for batch in iter_batches(found.data, Path("fetched"))]


def transactional(log: Log, producer_id: int, sequence: int, count: int = 2) -> None:
    records = [record(f"k{n}") for n in range(count)]
    producer = Producer(producer_id, 0, sequence, is_transactional=True)
    log.append_records(records, now_ms=NOW_MS, producer=producer)


def marker(log: Log, producer_id: int, kind: ControlType) -> None:
    data = encode_control_batch(
        kind, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )
    log.append(data, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_an_offset_outside_the_log_is_refused(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path), SMALL, log_start_offset=7)
    for offset in (-1, 6, 61, 1 << 40):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} lies"):
            log.fetch(offset, MUCH)
    assert OffsetOutOfRange.kafka_name == "OffsetOutOfRangeException"


def test_a_fetch_of_less_than_nothing_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        filled(tmp_path).fetch(0, -1)


@pytest.mark.parametrize("is_open", [True, False], ids=["being written", "reopened"])
def test_a_fetch_begins_with_the_batch_of_its_offset_and_ends_with_the_segment(tmp_path: Path, is_open: bool) -> None:
    log = filled(tmp_path)
    if not is_open:
        log.close()
        log = reopened(log)
    assert len(bases(log)) >= 3
    for offset in range(60):
        found = log.fetch(offset, MUCH)
        base = max(base for base in bases(log) if base <= offset)
        upper = min((base for base in bases(log) if base > offset), default=60)
        assert bases_of(found) == list(range(offset // 3 * 3, upper, 3))
        assert (found.start_offset, found.segment_base_offset) == (offset // 3 * 3, base)
        log_file = log.directory / f"{base:020d}.log"
        assert log_file.read_bytes()[found.position :] == found.data
        assert (found.aborted, found.is_first_incomplete) == (None, False)


def test_at_the_log_end_there_is_nothing_yet(tmp_path: Path) -> None:
    log = filled(tmp_path)
    last = log.segments[-1]
    assert log.fetch(60, MUCH) == Fetched(b"", 60, last.base_offset, last.size_bytes)
    append(log)
    assert bases_of(log.fetch(60, MUCH)) == [60]


def test_an_empty_log_has_nothing_to_fetch(tmp_path: Path) -> None:
    assert a_log(tmp_path).fetch(0, MUCH) == Fetched(b"", 0, 0, 0)
    directory = tmp_path / "none-0"
    directory.mkdir()
    assert Log.open(directory, SMALL, FS, log_start_offset=5).fetch(5, MUCH) == Fetched(b"", 5, 5, 0)


def test_at_least_the_first_batch_comes_whole_where_that_is_asked_for(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=3)
    first, second = (batch.header.size_bytes for batch in list(log.read())[:2])
    assert len(log.fetch(1, 0).data) == len(log.fetch(1, first - 1).data) == first
    assert not log.fetch(1, first - 1).is_first_incomplete
    assert len(log.fetch(0, first + second - 1).data) == first + second - 1


def test_without_that_the_first_batch_may_be_cut_off(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=3)
    whole = log.fetch(0, MUCH, min_one_message=False)
    cut = log.fetch(0, 20, min_one_message=False)
    assert (cut.data, cut.is_first_incomplete) == (whole.data[:20], True)
    nothing = log.fetch(4, 0, min_one_message=False)
    assert (nothing.data, nothing.is_first_incomplete) == (b"", False)
    assert nothing.position == whole.data.index(log.fetch(3, MUCH).data)


def test_where_compaction_left_nothing_the_next_segment_is_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    first, second, *_ = log.segments
    kept = first.log.path.read_bytes()[: next(log.read()).header.size_bytes]
    first.log.path.write_bytes(kept)
    for kind in ("index", "timeindex"):
        first.log.path.with_suffix(f".{kind}").write_bytes(b"")
    found = reopened(log).fetch(5, MUCH)
    assert (found.start_offset, found.segment_base_offset, found.position) == (
        second.base_offset,
        second.base_offset,
        0,
    )


def test_where_nothing_is_left_up_to_the_log_end_the_answer_is_the_log_end(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path).segment(0, encode_batch([Record(0, NOW_MS, None, b"v")])).segment(50)
    log = Log.open(made.path, SMALL, FS)
    assert log.fetch(10, MUCH) == Fetched(b"", 50, 50, 0)
    log.update_high_watermark(50)
    assert log.fetch(10, MUCH, Isolation.TXN_COMMITTED) == Fetched(b"", 50, 50, 0, aborted=None)


def test_a_torn_tail_is_not_fetched(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=2)
    log.close()
    with log.segments[-1].log.path.open("ab") as file:
        file.write(b"\1" * 30)
    opened = reopened(log)
    assert bases_of(opened.fetch(0, MUCH)) == [0, 3]
    assert len(opened.fetch(0, MUCH).data) == log.segments[-1].size_bytes
    assert opened.fetch(6, MUCH).data == b""


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "last"])
def test_damage_in_the_middle_is_an_error_of_a_sealed_segment_and_the_end_of_the_last(
    tmp_path: Path, is_sealed: bool
) -> None:
    log = filled(tmp_path, batches=5)
    if is_sealed:
        log.roll(NOW_MS)
    log.close()
    path = log.segments[0].log.path
    data, at = bytearray(path.read_bytes()), log.fetch(6, MUCH).position
    data[at + 8 : at + 12] = b"\0\0\0\1"
    path.write_bytes(data)
    for index in log.directory.glob("*index"):
        index.unlink()
    opened = reopened(log)
    assert bases_of(opened.fetch(0, at)) == [0, 3]
    with pytest.raises(CorruptBatch if is_sealed else OffsetOutOfRange):
        opened.fetch(9, MUCH)


@pytest.mark.parametrize(("told", "kept"), [(-5, 0), (0, 0), (7, 7), (60, 60), (99, 60)])
def test_the_high_watermark_stays_within_the_log(tmp_path: Path, told: int, kept: int) -> None:
    log = filled(tmp_path)
    assert log.high_watermark == 0
    assert log.update_high_watermark(told) == log.high_watermark == kept


def test_the_high_watermark_is_not_below_the_log_start(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path), log_start_offset=7)
    assert log.high_watermark == log.last_stable_offset == 7
    assert log.update_high_watermark(3) == 7


def test_a_consumer_reads_up_to_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path, config=LogConfig(index_interval_bytes=100))
    for upper in range(61):
        log.update_high_watermark(upper)
        for start in (0, 1, 29, 30, 59):
            found = log.fetch(start, MUCH, Isolation.HIGH_WATERMARK)
            assert bases_of(found) == list(range(start // 3 * 3, upper // 3 * 3, 3))
            assert found.start_offset == start // 3 * 3
        at_the_bound = log.fetch(upper, MUCH, Isolation.HIGH_WATERMARK)
        assert (at_the_bound.data, at_the_bound.start_offset) == (b"", upper // 3 * 3)


def test_a_high_watermark_within_a_batch_moves_to_its_base_with_the_first_fetch_that_asks(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert log.update_high_watermark(7) == 7
    log.fetch(0, MUCH)
    assert log.high_watermark == 7
    with pytest.raises(OffsetOutOfRange):
        log.fetch(-1, MUCH, Isolation.HIGH_WATERMARK)
    assert log.high_watermark == 7
    log.fetch(0, MUCH, Isolation.HIGH_WATERMARK)
    assert log.high_watermark == log.last_stable_offset == 6


def test_a_first_batch_beyond_the_high_watermark_does_not_come_at_all(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.update_high_watermark(1)
    found = log.fetch(0, 10, Isolation.HIGH_WATERMARK)
    assert (found.data, found.is_first_incomplete) == (b"", False)


def test_committed_reads_end_at_the_last_stable_offset(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    transactional(log, 7, 0)  # 1, 2
    append(log)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 1
    assert bases_of(log.fetch(0, MUCH, Isolation.TXN_COMMITTED)) == [0]
    assert log.fetch(2, MUCH, Isolation.TXN_COMMITTED) == Fetched(b"", 1, 0, log.fetch(2, MUCH).position, aborted=())
    marker(log, 7, ControlType.COMMIT)
    assert log.last_stable_offset == 1  # the marker is not replicated yet
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    assert bases_of(log.fetch(0, MUCH, Isolation.TXN_COMMITTED)) == [0, 1, 3, 4]


def test_the_last_stable_offset_of_a_log_that_was_only_opened(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    transactional(log, 7, 0)
    log.close()
    opened = reopened(log)
    opened.update_high_watermark(3)
    assert opened.last_stable_offset == 1
    later = reopened(log, log_start_offset=2)
    later.update_high_watermark(3)
    assert later.last_stable_offset == 1  # as Kafka: the base of the batch in which the log starts


@pytest.mark.parametrize("is_open", [True, False], ids=["being written", "reopened"])
def test_aborted_transactions_are_told_with_what_they_may_have_in_the_data(tmp_path: Path, is_open: bool) -> None:
    log = a_log(tmp_path, LogConfig(segment_bytes=500, index_interval_bytes=1))
    for number in range(6):
        transactional(log, 7, 2 * number)
        append(log)
        marker(log, 7, ControlType.ABORT if number % 2 == 0 else ControlType.COMMIT)
    if not is_open:
        log.close()
        log = reopened(log)
    assert len(bases(log)) > 2
    log.update_high_watermark(24)
    told = []
    offset = 0
    while offset < 24:
        found = log.fetch(offset, 1, Isolation.TXN_COMMITTED)
        assert found.aborted is not None
        (batch,) = iter_batches(found.data, Path("fetched"))
        lasting = [txn for txn in found.aborted if txn.first_offset <= batch.last_offset <= txn.last_offset]
        number, place = divmod(offset, 4)
        assert bool(lasting) == (number % 2 == 0)
        told.append([(txn.producer_id, txn.first_offset) for txn in found.aborted])
        offset = batch.last_offset + 1
        assert place in (0, 2, 3)
    assert all(one[0] == (7, 8 * (at // 6)) for at, one in enumerate(told) if at % 6 < 3)
    assert log.fetch(24, MUCH, Isolation.TXN_COMMITTED).aborted == ()


def test_a_fetch_that_ends_where_the_first_entry_begins_is_told_of_aborted_transactions_up_to_the_second(
    tmp_path: Path,
) -> None:
    """The search of a broker does not see that the first entry is equal."""
    log = a_log(tmp_path, LogConfig(index_interval_bytes=0))
    append(log)
    append(log)
    transactional(log, 7, 0)
    marker(log, 7, ControlType.ABORT)
    log.update_high_watermark(log.log_end_offset)
    first_bytes = len(log.fetch(0, 1).data)
    told = [log.fetch(0, size, Isolation.TXN_COMMITTED, min_one_message=False).aborted for size in (1, first_bytes)]
    assert [[one.producer_id for one in aborted or ()] for aborted in told] == [[], [7]]


def test_an_aborted_transaction_whose_marker_is_in_a_later_segment_is_told(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    transactional(log, 7, 0)
    log.roll(NOW_MS)
    append(log)
    log.roll(NOW_MS)
    marker(log, 7, ControlType.ABORT)
    log.update_high_watermark(4)
    for opened in (log, reopened(log)):
        opened.update_high_watermark(4)
        found = opened.fetch(0, MUCH, Isolation.TXN_COMMITTED)
        assert [(txn.first_offset, txn.last_offset) for txn in found.aborted or ()] == [(0, 3)]


def test_a_batch_of_an_older_broker_is_found_by_the_entry_of_several(tmp_path: Path) -> None:
    """Up to Kafka 3.9 an entry led from the last offset of all batches of an append to the first of them."""
    data = b"".join(encode_batch([Record(n, NOW_MS + n, None, b"v" * 30)]) for n in range(40))
    size = len(data) // 40
    directory = tmp_path / "old-0"
    directory.mkdir()
    stem = directory / f"{0:020d}"
    stem.with_suffix(".log").write_bytes(data)
    entries = [(9, 5 * size), (19, 10 * size), (29, 20 * size)]
    stem.with_suffix(".index").write_bytes(b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in entries))
    stem.with_suffix(".timeindex").write_bytes((NOW_MS + 39).to_bytes(8, "big") + (39).to_bytes(4, "big"))
    log = Log.open(directory, SMALL, FS)
    assert [log.fetch(offset, 1).position for offset in range(40)] == [offset * size for offset in range(40)]
