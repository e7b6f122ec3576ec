"""A batch of a stream is in all of its logs, once, wherever its commit was stopped, and by whatever."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pytest

from cleaner.arrow.schema import TIMESTAMP
from cleaner.engine.streams import DamagedStreams, StreamBatch, read_streams, write_stream
from cleaner.spark.table import stream_sink
from cleaner.spark.table.sink import Part, PartGone, PartWriter, Write
from cleaner.spark.table.stream_sink import BatchGoneBack, MicroBatch, StagedGone, append_batch
from storage.codecs.compression import Compression
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.lock import LogDirLocked
from storage.log import Log, LogConfig
from storage.log.active import TornTail
from storage.log.end import LogEndsBeforeItsStart
from storage.log.staging import UnsoundEnd
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SCRATCH_SUFFIX,
    STREAMS_FILE,
    TopicPartition,
    parse_staged_name,
)
from storage.records import Record
from tests.crash.power import Inode, Left, RecordingFileSystem, lay_down, power_losses
from tests.crash.stops import FailingAt, by_kill
from tests.faults import CrashingFileSystem, PowerCut
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
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
from tests.sampled import some

QUERY: Final = "185bb8a5-0028-4da7-899d-e5b9fe80add0"
ORDERS, CLICKS, NEW = TopicPartition("orders", 0), TopicPartition("clicks", 1), TopicPartition("fresh", 2)
CLOCK: Final = FakeClock(NOW_MS)
Rows = Mapping[TopicPartition, list[str]]
ROWS: Final[Rows] = {ORDERS: ["o1", "o2", "o3", "o4"], CLICKS: ["c1", "c2"], NEW: ["n1"]}
SMALL: Final = 200
"""A size of segments that makes two of the rows of orders."""
COLUMNS: Final = pa.schema({"key": pa.string(), "value": pa.string(), "partition": pa.int32(), "timestamp": TIMESTAMP})
STEPS_TRIED: Final = 24
STATES_TRIED: Final = 60
MEMORY: Final = Path("/dev/shm")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An absent directory, in memory if possible; a lock is believed at once."""
    monkeypatch.setattr("storage.lock.SETTLE_SECONDS", 0.0)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as directory:
        yield Path(directory, "data")


def micro_batch(log_dir: Path, number: int = 7, query: str = QUERY, segment_bytes: int = SMALL) -> MicroBatch:
    return MicroBatch(Write(log_dir, f"{query[:8]:0>16}", NOW_MS, Compression.NONE, segment_bytes), query, number)


def parts_of(batch: MicroBatch, rows: Rows = ROWS, task: int = 0) -> tuple[Part, ...]:
    writer = PartWriter(batch.write, task)
    for name, values in rows.items():
        made = [
            {"key": one, "value": "v" * 30, "partition": name.partition, "timestamp": NOW_MS * 1000} for one in values
        ]
        writer.add(pa.RecordBatch.from_pylist(made, COLUMNS), name.topic)
    return writer.close()


def append(log_dir: Path, rows: Rows = ROWS, fs: FileSystem | None = None, number: int = 7, query: str = QUERY) -> None:
    batch = micro_batch(log_dir, number, query)
    append_batch(batch, parts_of(batch, rows), fs, CLOCK)


def drawn(path: Path) -> Path:
    """Orders has two segments, and clicks an empty one behind its records."""
    orders = PartitionDir(path).segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "a=3"))
    clicks = PartitionDir(path, "clicks-1").segment(5, keyed(5, "x=1")).segment(6)
    return committed(path, orders, clicks)


def keys(log_dir: Path) -> dict[TopicPartition, list[tuple[int, str]]]:
    """As our Log opens the partitions."""
    return {
        name: [(one.offset, (one.key or b"").decode()) for one in Log.open(path, LogConfig(), FileSystem()).records()]
        for name, path in LogDir(log_dir).partitions()
    }


BEFORE: Final = {ORDERS: [(0, "a"), (1, "b"), (2, "a")], CLICKS: [(5, "x")]}
AFTER: Final = {
    ORDERS: [*BEFORE[ORDERS], (3, "o1"), (4, "o2"), (5, "o3"), (6, "o4")],
    CLICKS: [(5, "x"), (6, "c1"), (7, "c2")],
    NEW: [(0, "n1")],
}


def leftovers(log_dir: Path) -> list[str]:
    """Files that mean nothing."""
    return [path.name for path in log_dir.rglob(f"*/*{SCRATCH_SUFFIX}")]


def check_done(log_dir: Path) -> None:
    assert keys(log_dir) == AFTER
    assert leftovers(log_dir) == []
    assert read_streams(log_dir)[QUERY] == StreamBatch(QUERY, 7, NOW_MS, {})
    assert LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT) == {ORDERS: 7, CLICKS: 8, NEW: 1}
    for _, directory in LogDir(log_dir).partitions():
        for path in directory.glob("*.log"):
            assert path.with_suffix(".index").exists()
            assert path.with_suffix(".timeindex").stat().st_size == 12
        assert len(records_in(directory)) == len(keys(log_dir)[TopicPartition(*split(directory.name))])


def split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def check_between(log_dir: Path) -> None:
    """What was there is there. Of the batch, a partition has all records, or the first ones, and none twice."""
    for name, found in keys(log_dir).items():
        assert found[: len(BEFORE.get(name, []))] == BEFORE.get(name, [])
        assert found == AFTER[name][: len(found)]


def test_batch_is_appended_as_whole_segments_behind_what_is_there(place: Path) -> None:
    log_dir = drawn(place)
    append(log_dir)
    check_done(log_dir)
    names = {path.name for path in (log_dir / "orders-0").glob("*.log")}
    assert names == {f"{base:020d}.log" for base in (0, 2, 3, 5)}
    assert (log_dir / "orders-0" / f"{3:020d}.snapshot").exists()


def test_batch_that_is_replayed_changes_nothing(place: Path) -> None:
    log_dir = drawn(place)
    append(log_dir)
    append(log_dir, {ORDERS: ["other"]})
    assert keys(log_dir) == AFTER
    append(log_dir, {ORDERS: ["o5"]}, number=8)
    assert keys(log_dir)[ORDERS] == [*AFTER[ORDERS], (7, "o5")]


def test_batch_below_the_last_one_is_refused(place: Path) -> None:
    log_dir = drawn(place)
    append(log_dir)
    with pytest.raises(BatchGoneBack, match=r"batch 6 of query .* comes behind batch 7"):
        append(log_dir, number=6)


def steps_of(place: Path) -> list[int]:
    """Some of the steps of a commit; all in a whole run."""
    disk = FailingAt(-1)
    append(drawn(place), fs=disk)
    shutil.rmtree(place)
    return some(range(disk.steps), STEPS_TRIED)


@pytest.mark.parametrize("replayed", [ROWS, {ORDERS: ["other"], NEW: ["rows"]}], ids=["alike", "otherwise"])
def test_commit_that_dies_at_any_step_is_finished_by_the_next_one(place: Path, replayed: Rows) -> None:
    """Before the commit point the rows of the replay count, behind it those of the first commit."""
    seen = set()
    for step in steps_of(place):
        log_dir = drawn(place)
        with suppress(PowerCut):
            append(log_dir, fs=CrashingFileSystem(step))
        check_between(log_dir)
        is_committed = bool(read_streams(log_dir))
        seen.add(is_committed)
        append(log_dir, replayed)
        if replayed is ROWS or is_committed:
            check_done(log_dir)
        else:
            assert keys(log_dir) == BEFORE | {ORDERS: [*BEFORE[ORDERS], (3, "other")], NEW: [(0, "rows")]}
            waiting = log_dir.rglob(f"*/*{SCRATCH_SUFFIX}")  # only the next batch with records of clicks removes them
            assert {path.parent.name for path in waiting} <= {str(CLICKS)}
        shutil.rmtree(log_dir)
    assert seen == {True, False}


def test_killed_commit_is_finished_by_the_next_one(place: Path) -> None:
    for step in some(steps_of(place), 12):
        log_dir = drawn(place)
        assert by_kill(lambda path, fs: append(path, fs=fs), log_dir, step)
        check_between(log_dir)
        append(log_dir)
        check_done(log_dir)
        shutil.rmtree(log_dir)


def test_power_loss_at_any_step_leaves_each_record_once(place: Path) -> None:
    acted = drawn(place)
    batch = micro_batch(acted)
    parts = parts_of(batch)
    losses = power_losses(acted, lambda _, fs: append_batch(batch, parts, fs, CLOCK), 4, Random(0))
    states = [left for _, left in losses]
    for left in some(states, STATES_TRIED):
        assert after_the_next_commit(left, acted, ROWS) == AFTER
        check_done(place.with_name("lost"))
    assert len(states) > STATES_TRIED
    check_done(acted)


def after_the_next_commit(left: Left, acted: Path, rows: Rows) -> dict[TopicPartition, list[tuple[int, str]]]:
    """Lay down what a power loss left, and return the records behind the next commit."""
    lost = acted.with_name("lost")
    shutil.rmtree(lost, ignore_errors=True)
    lay_down(left, acted, lost)
    check_between(lost)
    append(lost, rows)
    return keys(lost)


class StagedUnsynced(RecordingFileSystem):
    """Staged bytes may not last."""

    def fsync_file(self, inode: Inode) -> None:
        if not any(parse_staged_name(path.name) for path, one in self.disk.names.items() if one is inode):
            super().fsync_file(inode)


class StagedUnnamed(RecordingFileSystem):
    """The names of staged files may not last."""

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        if purpose is not Purpose.APPEND:
            super().fsync_dir(path, purpose)


def forgets_what_waits(log_dir: Path, batch: StreamBatch, fs: FileSystem) -> None:
    write_stream(log_dir, batch._replace(staged={}), fs)


def notes_the_end_alone(log_dir: Path, batch: StreamBatch, fs: FileSystem) -> None:
    if not batch.staged:
        write_stream(log_dir, batch, fs)


@pytest.mark.parametrize(
    ("disk", "writes"),
    [
        (StagedUnsynced, write_stream),
        (StagedUnnamed, write_stream),
        (RecordingFileSystem, forgets_what_waits),
        (RecordingFileSystem, notes_the_end_alone),
    ],
)
def test_broken_commit_is_caught(
    place: Path, monkeypatch: pytest.MonkeyPatch, disk: type[RecordingFileSystem], writes: Callable[..., None]
) -> None:
    acted = drawn(place)
    batch, rows = micro_batch(acted), {ORDERS: ["o1"]}
    parts = parts_of(batch, rows)
    with monkeypatch.context() as patched:
        patched.setattr(stream_sink, "write_stream", writes)
        losses = power_losses(acted, lambda _, fs: append_batch(batch, parts, fs, CLOCK), 2, Random(0), disk)
    assert any(is_broken(left, acted, rows) for _, left in losses)


def is_broken(left: Left, acted: Path, rows: Rows) -> bool:
    try:
        return after_the_next_commit(left, acted, rows) != BEFORE | {ORDERS: AFTER[ORDERS][:4]}
    except (AssertionError, LogCleanerError):
        return True


class FullFrom(FailingAt):
    """A disk without a free byte from one step on: what is unlinked frees none."""

    def at(self, number: int) -> None:
        if number >= self.number:
            raise OutOfSpace(Path("disk"), 1)


class FailingUnlessUnlinking(FullFrom):
    """As before, but unlink works."""

    def unlink(self, path: Path, purpose: Purpose) -> None:
        FileSystem.unlink(self, path, purpose)


@pytest.mark.parametrize("disk", [FailingAt, FullFrom, FailingUnlessUnlinking])
def test_error_at_any_step_leaves_each_record_once(place: Path, disk: type[FailingAt]) -> None:
    for step in steps_of(place):
        log_dir = drawn(place)
        with suppress(OSError, LogCleanerError):
            append(log_dir, fs=disk(step))
        check_between(log_dir)
        append(log_dir)
        check_done(log_dir)
        shutil.rmtree(log_dir)


def test_staged_records_move_behind_what_a_broker_appended_since(place: Path) -> None:
    log_dir = stopped_behind_its_line(place)
    with Log.open(log_dir / str(ORDERS), LogConfig(), FileSystem()) as log:
        log.append_records([Record(0, NOW_MS, b"broker", b"v")], now_ms=NOW_MS)
    append(log_dir, {ORDERS: ["other"]})
    moved = [(4, "o1"), (5, "o2"), (6, "o3"), (7, "o4")]
    assert keys(log_dir) == AFTER | {ORDERS: [*BEFORE[ORDERS], (3, "broker"), *moved]}
    assert leftovers(log_dir) == []
    assert LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT)[ORDERS] == 8


def test_clean_in_between_takes_nothing_of_what_waits(place: Path) -> None:
    """Retention takes all that was there before, and rolls a segment at the log end."""
    log_dir = stopped_behind_its_line(place)
    layers, late_ms = configured(clicks=EXPIRING, orders=EXPIRING), NOW_MS + 400 * DAY_MS
    a_cleaner(log_dir, layers, FileSystem(), FakeClock(late_ms)).clean(request(late_ms, delete_delay_ms=0))
    assert keys(log_dir) == {key: [] for key in AFTER}
    append(log_dir)
    assert keys(log_dir) == AFTER | {ORDERS: AFTER[ORDERS][3:], CLICKS: AFTER[CLICKS][1:]}
    assert leftovers(log_dir) == []


def test_another_query_finishes_what_waits_in_its_partitions(place: Path) -> None:
    log_dir = stopped_behind_its_line(place)
    append(log_dir, {ORDERS: ["q"]}, query="other")
    assert keys(log_dir) == AFTER | {ORDERS: [*AFTER[ORDERS], (7, "q")]}
    assert read_streams(log_dir).keys() == {QUERY, "other"}


def test_query_leaves_what_waits_in_partitions_of_others(place: Path) -> None:
    log_dir = stopped_behind_its_line(place)
    append(log_dir, {TopicPartition("mine", 0): ["q"]}, query="other")
    assert keys(log_dir)[ORDERS] == BEFORE[ORDERS]
    append(log_dir)
    assert keys(log_dir)[ORDERS] == AFTER[ORDERS]


def test_staged_records_that_somebody_removed_are_told(place: Path) -> None:
    log_dir = stopped_behind_its_line(place)
    for path in (log_dir / str(CLICKS)).glob(f"*{SCRATCH_SUFFIX}"):
        path.unlink()
    with pytest.raises(StagedGone, match="clicks-1: the log ends at 6, and the staged records of batch 7"):
        append(log_dir)
    with pytest.raises(StagedGone, match=r"remove the query's line from \.logcleaner-streams and start it again"):
        append(log_dir, {CLICKS: ["x"]}, number=0, query="another")
    (log_dir / STREAMS_FILE).unlink()  # its only line
    append(log_dir)
    check_done(log_dir)


def test_part_that_a_starting_broker_removed_is_told_and_the_batch_comes_again(place: Path) -> None:
    log_dir = drawn(place)
    batch = micro_batch(log_dir)
    parts = parts_of(batch)
    for path in parts[1].directory.iterdir():
        path.unlink()
    with pytest.raises(PartGone, match="0 of the"):
        append_batch(batch, parts, None, CLOCK)
    assert not read_streams(log_dir)
    append(log_dir)
    assert keys(log_dir) == AFTER


def test_topic_that_was_deleted_before_its_records_were_put_in_stays_deleted(place: Path) -> None:
    log_dir = stopped_behind_its_line(place)
    shutil.rmtree(log_dir / str(CLICKS))
    append(log_dir)
    assert keys(log_dir) == {name: found for name, found in AFTER.items() if name != CLICKS}


def stopped_behind_its_line(place: Path) -> Path:
    """A commit that died as soon as it was sure."""
    log_dir = drawn(place)

    class Dying(FileSystem):
        def replace_file(self, path: Path, data: bytes, purpose: Purpose) -> None:
            super().replace_file(path, data, purpose)
            if path.name == STREAMS_FILE:
                raise PowerCut

    with pytest.raises(PowerCut):
        append(log_dir, fs=Dying())
    assert keys(log_dir) == BEFORE | {NEW: []}
    return log_dir


def test_log_start_within_a_segment_stays(place: Path) -> None:
    log_dir = drawn(place)
    LogDir(log_dir).write_offsets(LOG_START_OFFSET_CHECKPOINT, {ORDERS: 1}, FileSystem())
    append(log_dir)
    assert LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT) == {ORDERS: 1}


def test_partition_that_appears_anew_has_no_line_of_an_earlier_one(place: Path) -> None:
    log_dir = drawn(place)
    earlier = {ORDERS: 1000, NEW: 1000}
    for name in OFFSET_CHECKPOINTS:
        LogDir(log_dir).write_offsets(name, {**LogDir(log_dir).offsets(name), **earlier}, FileSystem())
    shutil.rmtree(log_dir / str(ORDERS))
    append(log_dir)
    assert LogDir(log_dir).offsets(LOG_START_OFFSET_CHECKPOINT) == {}
    assert LogDir(log_dir).offsets(HIGH_WATERMARK_CHECKPOINT) == {ORDERS: 4, CLICKS: 8, NEW: 1}
    assert [offset for offset, _ in keys(log_dir)[ORDERS]] == [0, 1, 2, 3]


def test_log_that_a_start_would_delete_refuses_the_batch(place: Path) -> None:
    log_dir = drawn(place)
    LogDir(log_dir).write_offsets(LOG_START_OFFSET_CHECKPOINT, {ORDERS: 4}, FileSystem())
    with pytest.raises(LogEndsBeforeItsStart, match="orders-0: ends at offset 3, below its checkpointed log start 4"):
        append(log_dir)
    assert leftovers(log_dir) == []
    assert not read_streams(log_dir)


def test_damage_that_an_unclean_start_would_cut_off_refuses_the_batch(place: Path) -> None:
    log_dir = drawn(place)
    path = log_dir / str(ORDERS) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    with pytest.raises(UnsoundEnd, match=r"orders-0: .*CRC.*; nothing was appended: start the broker once"):
        append(log_dir)
    assert leftovers(log_dir) == []
    assert not read_streams(log_dir)


def test_without_a_clean_stop_the_recovery_point_follows_what_was_read(place: Path) -> None:
    log_dir = drawn(place)
    (log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    append(log_dir)
    assert LogDir(log_dir).offsets(RECOVERY_POINT_CHECKPOINT) == {ORDERS: 7, CLICKS: 8, NEW: 1}


def test_torn_tail_refuses_the_batch_in_all_partitions(place: Path) -> None:
    log_dir = drawn(place)
    path = log_dir / str(ORDERS) / f"{2:020d}.log"
    path.write_bytes(path.read_bytes() + b"torn")
    with pytest.raises(TornTail):
        append(log_dir)
    assert keys(log_dir)[CLICKS] == BEFORE[CLICKS]
    assert leftovers(log_dir) == []


def test_damaged_list_of_streams_refuses_every_batch(place: Path) -> None:
    log_dir = drawn(place)
    append(log_dir)
    path = log_dir / STREAMS_FILE
    path.write_bytes(path.read_bytes().replace(b'"batch":7', b'"batch":6'))
    with pytest.raises(DamagedStreams, match="logcleaner-streams line 1: damaged"):
        append(log_dir, number=8)


def test_commit_waits_for_the_lock_of_another_query(place: Path) -> None:
    log_dir = drawn(place)
    batch = micro_batch(log_dir)
    held = LogDir(log_dir).lock(FileSystem())

    class Releasing(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            held.__exit__()

    append_batch(batch, parts_of(batch), clock=Releasing(NOW_MS))
    check_done(log_dir)


def test_broker_that_keeps_the_lock_is_told_once_the_wait_is_over(place: Path) -> None:
    log_dir = drawn(place)
    with LogDir(log_dir).lock(FileSystem()), pytest.raises(LogDirLocked):
        append(log_dir)
    assert keys(log_dir) == BEFORE
