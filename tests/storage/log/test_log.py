from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from storage.indexes import IndexBuilder
from storage.log import Log, LogConfig, Producer, SpecialTimestamp
from storage.log.active import TornTail
from storage.log.listing import list_partition
from storage.names import FileKind, segment_file_name
from storage.segment import Segment
from tests.batches import iter_batches
from tests.storage.log.logs import (
    ANY_SIZE,
    FS,
    NOW_MS,
    TOPIC_ID,
    a_log,
    append,
    bases,
    looked_up,
    offsets,
    record,
    reopened,
)

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in directory.iterdir()}


def rebuilt_indexes(segment: Segment, interval_bytes: int, opened_behind: int | None = None) -> tuple[bytes, bytes]:
    """``opened_behind``: the number of batches that were there when the log was opened again."""
    path = segment.log.path
    builder = IndexBuilder(segment.base_offset, interval_bytes, path)
    for place, batch in enumerate(iter_batches(path.read_bytes(), path)):
        if place == opened_behind:
            builder.reopen()
        builder.append(batch.position, len(batch.data), batch.last_offset, batch.header.max_timestamp_ms)
    return builder.seal()


def found_indexes(segment: Segment) -> tuple[bytes, bytes]:
    return (
        segment.files[FileKind.INDEX].path.read_bytes(),
        segment.files[FileKind.TIME_INDEX].path.read_bytes(),
    )


def filled(tmp_path: Path, batches: int = 30) -> Log:
    """Three records a batch, timestamps one second apart but for every fourth, which is late."""
    with a_log(tmp_path, SMALL) as log:
        for place in range(batches):
            first_ms = NOW_MS + 1000 * place - (9000 if place % 4 == 3 else 0)
            append(log, first_ms, first_ms + 1, first_ms + 2)
    return reopened(log, SMALL)


def test_a_new_partition_has_what_a_broker_gives_it(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert {p.name: p.read_bytes() for p in log.directory.iterdir()} == {
        "00000000000000000000.log": b"",
        "00000000000000000000.index": b"",
        "00000000000000000000.timeindex": b"",
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
        "partition.metadata": f"version: 0\ntopic_id: {TOPIC_ID}".encode(),
    }


def test_opening_and_reading_change_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = files(log.directory)
    with reopened(log) as opened:
        assert len(list(opened.records())) == 90
        looked_up(opened, NOW_MS)
        opened.flush()
    assert files(log.directory) == before


def test_a_closed_log_ends_with_exact_indexes_and_a_snapshot_at_its_end(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert len(log.segments) > 3
    assert any(segment.bytes_of(FileKind.INDEX) for segment in log.segments)
    for segment in log.segments:
        assert found_indexes(segment) == rebuilt_indexes(segment, SMALL.index_interval_bytes)
    snapshots = [s.name.base_offset for s in list_partition(log.directory).snapshots]
    assert snapshots == [*bases(log)[1:], log.log_end_offset]


@pytest.mark.parametrize("left_by", [b"", b"\0" * 96, b"\xff" * 9], ids=["no entry", "preallocated", "garbage"])
def test_appending_makes_the_indexes_of_an_unclean_stop_anew(tmp_path: Path, left_by: bytes) -> None:
    log = filled(tmp_path, batches=3)
    for kind in (FileKind.INDEX, FileKind.TIME_INDEX):
        (log.directory / segment_file_name(bases(log)[-1], kind)).write_bytes(left_by)
    with reopened(log, SMALL) as opened:
        append(opened)
    segment = reopened(log).segments[-1]
    assert found_indexes(segment) == rebuilt_indexes(segment, SMALL.index_interval_bytes, opened_behind=3)


def test_a_log_that_is_opened_again_counts_the_bytes_to_the_next_index_entry_anew(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=200)
    with a_log(tmp_path, config) as log:
        for place in range(3):
            append(log, NOW_MS + place)
    with reopened(log, config) as opened:
        for place in range(3, 10):
            append(opened, NOW_MS + place)
    segment = reopened(log).segments[-1]
    assert found_indexes(segment) == rebuilt_indexes(segment, 200, opened_behind=3)
    assert found_indexes(segment) != rebuilt_indexes(segment, 200)


def test_the_indexes_of_the_active_segment_have_their_full_length_until_the_close(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=1000, index_interval_bytes=100)
    with a_log(tmp_path, config) as log:
        for place in range(4):
            append(log, NOW_MS + place)
        index, time_index = found_indexes(log.segments[-1])
        assert (len(index), len(time_index)) == (1000, 996)
    sealed, sealed_by_time = found_indexes(reopened(log).segments[-1])
    assert index == sealed.ljust(1000, b"\0")
    assert time_index == sealed_by_time[:-12].ljust(996, b"\0"), "the last entry comes with the close"


def test_a_segment_that_was_just_rolled_has_no_index_files_until_it_is_needed(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    log.roll(NOW_MS)
    assert list(log.segments[-1].files) == [FileKind.LOG]
    append(log)
    assert {FileKind.INDEX, FileKind.TIME_INDEX} <= set(log.segments[-1].files)
    log.roll(NOW_MS)
    log.close()
    assert log.segments[-1].companions_bytes == 0
    assert {FileKind.INDEX, FileKind.TIME_INDEX} <= set(log.segments[-1].files)


def test_a_preallocated_segment_has_its_full_length_until_it_is_rolled_or_closed(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, preallocate=True)
    log = a_log(tmp_path, config)
    append(log)
    log.roll(NOW_MS)
    assert log.segments[-1].size_bytes == 1000
    append(log)
    append(log)
    assert [segment.size_bytes for segment in log.segments] == [log.segments[0].size_bytes, 1000]
    assert offsets(log) == [0, 1, 2]
    log.close()
    assert log.segments[-1].size_bytes == 2 * log.segments[0].size_bytes
    assert offsets(reopened(log)) == [0, 1, 2]


def test_a_flush_in_between_leaves_the_indexes_as_if_there_had_been_none(tmp_path: Path) -> None:
    with a_log(tmp_path, SMALL) as log:
        for place in range(6):
            append(log, NOW_MS + place)
            log.flush()
    segment = reopened(log).segments[-1]
    assert found_indexes(segment) == rebuilt_indexes(segment, SMALL.index_interval_bytes)


def test_every_range_gives_just_its_records(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=8)
    for start, end in itertools.product(range(25), repeat=2):
        assert [r.offset for r in log.records(start, end_offset=end)] == list(range(start, min(end, 24)))


def test_the_log_start_hides_what_lies_below_it(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path), SMALL, log_start_offset=7)
    assert offsets(log)[0] == 7
    assert next(log.read(0)).base_offset == 6
    assert looked_up(log, 0) == (NOW_MS + 2001, 7)


def test_a_log_start_below_the_first_segment_is_the_first_segment(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for path in log.directory.glob("00000000000000000000.*"):
        path.unlink()
    opened = reopened(log, log_start_offset=1)
    assert opened.log_start_offset == bases(opened)[0] == offsets(opened)[0] > 1


@pytest.mark.parametrize("batches_too_far", [0.5, 1, 3], ids=["into a batch", "a batch late", "three late"])
def test_an_index_that_points_to_another_place_is_not_believed(tmp_path: Path, batches_too_far: float) -> None:
    log = filled(tmp_path)
    batch_bytes = next(log.read()).header.size_bytes
    for segment in log.segments:
        wrong = (2).to_bytes(4, "big") + int(batches_too_far * batch_bytes).to_bytes(4, "big")
        segment.files[FileKind.INDEX].path.write_bytes(wrong)
    opened = reopened(log)
    for start in range(90):
        assert next(opened.records(start)).offset == start


def test_the_log_ends_before_a_torn_tail(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with log.segments[-1].log.path.open("ab") as file:
        file.write(b"\0" * 99)
    opened = reopened(log)
    assert (opened.log_end_offset, opened.torn_bytes, len(offsets(opened))) == (90, 99, 90)


def first_at(log: Log, timestamp_ms: int) -> tuple[int, int] | None:
    """The rule read aloud: the first segment that is late enough, and in it the first record."""
    for segment, upper in itertools.pairwise([*bases(log), log.log_end_offset]):
        found = [(r.timestamp_ms, r.offset) for r in log.records(segment, end_offset=upper)]
        if max(found)[0] >= timestamp_ms:
            return next(one for one in found if one[0] >= timestamp_ms)
    return None


def test_a_timestamp_finds_the_first_record_as_late(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for timestamp_ms in range(NOW_MS - 10, NOW_MS + 31_000, 251):
        assert looked_up(log, timestamp_ms) == first_at(log, timestamp_ms)


def test_a_timestamp_is_found_before_any_index_was_written(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log, NOW_MS)
    append(log, NOW_MS + 7)
    assert looked_up(log, NOW_MS + 1) == (NOW_MS + 7, 1)
    killed = reopened(log)
    assert looked_up(killed, NOW_MS + 1) == (NOW_MS + 7, 1)
    assert looked_up(killed, SpecialTimestamp.MAX_TIMESTAMP) == (NOW_MS + 7, 1)


@pytest.mark.parametrize(
    ("target", "number", "found"),
    [
        (SpecialTimestamp.LATEST, -1, (-1, 4)),
        (SpecialTimestamp.EARLIEST, -2, (-1, 0)),
        (SpecialTimestamp.MAX_TIMESTAMP, -3, (NOW_MS + 9, 1)),
        (SpecialTimestamp.EARLIEST_LOCAL, -4, (-1, 0)),
        (SpecialTimestamp.LATEST_TIERED, -5, (-1, -1)),
        (SpecialTimestamp.EARLIEST_PENDING_UPLOAD, -6, (-1, -1)),
    ],
)
def test_special_timestamps_have_the_numbers_of_kafkas_requests(
    tmp_path: Path, target: SpecialTimestamp, number: int, found: tuple[int, int]
) -> None:
    log = a_log(tmp_path)
    append(log, NOW_MS, NOW_MS + 9)
    log.roll(NOW_MS)
    append(log, NOW_MS + 9, NOW_MS + 3)
    assert looked_up(log, target) == looked_up(log, number) == found


def test_an_empty_log_has_no_largest_timestamp(tmp_path: Path) -> None:
    assert looked_up(a_log(tmp_path), SpecialTimestamp.MAX_TIMESTAMP) is None


def test_an_interrupted_swap_is_read_over_and_finished_by_the_first_change(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for path in log.directory.glob(f"{bases(log)[1]:020d}.*"):
        if path.suffix != ".snapshot":
            path.rename(f"{path}.swap")
    before = files(log.directory)
    opened = Log.open(log.directory, ANY_SIZE, FS)
    assert len(offsets(opened)) == 90
    opened.close()
    assert files(log.directory) == before
    with opened:
        append(opened)
    assert not list(log.directory.glob("*.swap"))
    assert len(offsets(reopened(log))) == 91


def test_first_batch_that_is_torn_is_a_torn_tail(tmp_path: Path) -> None:
    with a_log(tmp_path, LogConfig(index_interval_bytes=1)) as log:
        for _ in range(5):
            append(log)
    path = log.directory / segment_file_name(0, FileKind.LOG)
    data = bytearray(path.read_bytes())
    data[9] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(TornTail):
        append(reopened(log))
    assert path.read_bytes() == data


def test_an_opened_log_has_no_idle_producers_of_a_snapshot_alone(tmp_path: Path) -> None:
    """Those of the batches behind it are there, as behind a start of Kafka."""
    with a_log(tmp_path) as log:
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(1, 0, 0))
        log.roll(NOW_MS)
        log.append_records([record()], now_ms=NOW_MS, producer=Producer(2, 0, 0))
    (log.directory / segment_file_name(2, FileKind.SNAPSHOT)).unlink()
    later_ms = NOW_MS + ANY_SIZE.producer_id_expiration_ms
    assert set(reopened(log).producer_state(later_ms).producers) == {2}
