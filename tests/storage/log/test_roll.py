from __future__ import annotations

from pathlib import Path

import pytest

from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose
from storage.log import Log, LogConfig
from storage.log.active import TornTail
from storage.log.errors import CannotRoll
from storage.log.listing import list_partition
from storage.log.producer_state import parse_snapshot
from storage.log.roll import RELATIVE_OFFSET_MAX, ActiveFacts, Arrival, create_segment, must_roll, write_snapshot
from storage.names import FileKind, segment_file_name
from tests.storage.log.logs import FS, NOW_MS, a_log, append, bases, offsets, reopened

CONFIG = LogConfig(segment_bytes=1000, segment_ms=500, segment_index_bytes=120)
ACTIVE = ActiveFacts(
    base_offset=10, size_bytes=700, first_batch_ms=2000, created_ms=0, index_bytes=0, time_index_bytes=0
)
ARRIVAL = Arrival(size_bytes=300, max_timestamp_ms=2500, last_offset=20)


@pytest.mark.parametrize(
    ("story", "active", "arrival", "rolls"),
    [
        ("exactly segment.bytes, exactly segment.ms", {}, {}, False),
        ("a byte more", {}, {"size_bytes": 301}, True),
        ("a millisecond more", {}, {"max_timestamp_ms": 2501}, True),
        ("an empty segment does not wait", {"size_bytes": 0, "first_batch_ms": -1}, {}, False),
        ("1970 is a time", {"first_batch_ms": 0}, {"max_timestamp_ms": 500}, False),
        ("without timestamps the clock counts", {"first_batch_ms": -1}, {}, True),
        ("without timestamps, just opened", {"first_batch_ms": -1, "created_ms": NOW_MS - 500}, {}, False),
        ("the last slot of the offset index", {"index_bytes": 112}, {}, False),
        ("the offset index is full", {"index_bytes": 120}, {}, True),
        ("the slot before the last of the time index", {"time_index_bytes": 96}, {}, False),
        ("a time index keeps its last slot free", {"time_index_bytes": 108}, {}, True),
        ("the last offset in reach", {}, {"last_offset": 10 + RELATIVE_OFFSET_MAX}, False),
        ("an offset out of reach", {}, {"last_offset": 11 + RELATIVE_OFFSET_MAX}, True),
        ("an offset below the base", {}, {"last_offset": 9}, True),
    ],
)
def test_must_roll(story: str, active: dict[str, int], arrival: dict[str, int], rolls: bool) -> None:
    decision = must_roll(ACTIVE._replace(**active), ARRIVAL._replace(**arrival), CONFIG, NOW_MS)
    assert decision is rolls, story


def test_jitter_rolls_earlier() -> None:
    assert must_roll(ACTIVE._replace(jitter_ms=1), ARRIVAL, CONFIG, NOW_MS)


def test_each_segment_draws_its_jitter(tmp_path: Path) -> None:
    drawn = iter([0, 400, 0])
    config = LogConfig(segment_ms=1000, segment_jitter_ms=500, draw=lambda below: next(drawn))
    log = a_log(tmp_path, config)
    for at in (0, 900, 1900, 2600, 3500):
        append(log, NOW_MS + at)
    assert bases(log) == [0, 2, 3], "rolled behind 1000 ms, then behind 600, then not behind 900"


def test_a_log_rolls_by_size_and_reads_on_across_its_segments(tmp_path: Path) -> None:
    with a_log(tmp_path, LogConfig(segment_bytes=200)) as log:
        for _ in range(5):
            append(log)
    assert bases(reopened(log)) == [0, 2, 4]
    assert offsets(reopened(log)) == [0, 1, 2, 3, 4]


def test_a_log_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = a_log(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    for place in range(5):
        append(log, NOW_MS + place)  # the first of a segment has no entry, the second takes the only slot
    assert bases(log) == [0, 2, 4]


def test_rolling_seals_with_the_largest_timestamp_and_a_snapshot_of_the_new_base(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log, NOW_MS + 5, NOW_MS)
    append(log, NOW_MS)
    created = log.roll(NOW_MS)
    assert (created.base_offset, created.size_bytes, created.companions_bytes) == (3, 0, 0)
    assert log.segments[0].newest_record_ms() == NOW_MS + 5
    (snapshot,) = list_partition(log.directory).snapshots
    assert snapshot.name.base_offset == 3
    assert parse_snapshot(snapshot.path.read_bytes(), snapshot.path) == []


def test_rolling_an_empty_active_segment_changes_nothing(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    before = sorted(p.name for p in log.directory.iterdir())
    assert log.roll(NOW_MS).base_offset == 0
    log.close()
    assert sorted(p.name for p in log.directory.iterdir()) == before


def test_rolling_at_a_higher_offset_leaves_the_log_end_and_a_gap_that_is_read_across(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    append(log)
    log.roll(NOW_MS, at_offset=50)
    assert (bases(log), log.log_end_offset) == ([0, 50], 1)
    with pytest.raises(CannotRoll):
        append(log)  # it would have to lie below the active segment
    log.close()
    log = reopened(log)
    append(log)
    assert (bases(log), offsets(log), log.log_end_offset) == ([0, 50], [0, 50], 51)


def test_a_log_with_a_torn_tail_is_not_rolled(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        append(log)
    with log.segments[-1].log.path.open("ab") as file:
        file.write(b"torn")
    opened = reopened(log)
    with pytest.raises(TornTail):
        opened.roll(NOW_MS)
    assert bases(reopened(log)) == [0]


class NoRoomFor(FileSystem):
    """A disk on which no file of one suffix can be created."""

    def __init__(self, suffix: str, purpose: Purpose) -> None:
        self.suffix: str | None = suffix
        self.purpose = purpose

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        if path.suffix == self.suffix and purpose is self.purpose:
            raise OutOfSpace(path, 0)
        return super().create(path, like, purpose)


def test_without_room_for_the_index_files_of_a_new_segment_nothing_is_appended(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        append(log)
    disk = NoRoomFor(".index", Purpose.APPEND)
    log = Log.open(log.directory, LogConfig(), disk)
    log.roll(NOW_MS)
    with pytest.raises(OutOfSpace):
        append(log)
    assert (bases(log), offsets(log)) == ([0, 1], [0])
    disk.suffix = None
    append(log)
    assert (bases(log), offsets(log)) == ([0, 1], [0, 1])


def test_without_room_for_a_new_segment_nothing_of_it_is_left_and_the_old_one_goes_on(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        append(log)
    disk = NoRoomFor(".log", Purpose.ROLL)
    log = Log.open(log.directory, LogConfig(), disk)
    with pytest.raises(OutOfSpace):
        log.roll(NOW_MS)
    assert {p.name[:20] for p in log.directory.glob("0*.*")} == {f"{0:020d}", f"{1:020d}"}
    assert [p.suffix for p in log.directory.glob(f"{1:020d}.*")] == [".snapshot"]
    append(log)
    assert (bases(log), offsets(log)) == ([0], [0, 1])


def test_a_new_segment_removes_index_files_of_its_base_that_have_no_log(tmp_path: Path) -> None:
    for kind in (FileKind.INDEX, FileKind.TXN_INDEX):
        (tmp_path / segment_file_name(7, kind)).write_bytes(b"stale")
    created = create_segment(FS, tmp_path, 7)
    assert (created.companions_bytes, FileKind.TXN_INDEX in created.files) == (0, False)


def test_a_new_segment_never_replaces_a_log(tmp_path: Path) -> None:
    path = tmp_path / segment_file_name(7, FileKind.LOG)
    path.write_bytes(b"records")
    with pytest.raises(FileExistsError):
        create_segment(FS, tmp_path, 7)
    assert path.read_bytes() == b"records"


def test_a_snapshot_replaces_a_longer_one_whole(tmp_path: Path) -> None:
    write_snapshot(FS, tmp_path, 3, b"a longer one")
    write_snapshot(FS, tmp_path, 3, b"short")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"short"]
