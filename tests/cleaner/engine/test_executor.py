"""A plan spent: order, failures, checkpoints, journal, crashes."""

from __future__ import annotations

import shutil

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from policies.config.config_layers import Configured
from policies.plan import Only
from storage.checkpoints import parse_offset_checkpoint
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from tests.faults import after_power_loss, crashes
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    records_in,
    request,
)

OLD_MS = NOW_MS - 2 * DAY_MS
LAYERS = configured(orders=COMPACT, clicks=EXPIRING)
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)


def orders(log_dir):
    """Compacted: three sealed segments, of whose records 1, 10 and 20 survive; active from 30 on."""
    made = PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1", "b=1"))
    return made.segment(10, keyed(10, "c=2")).segment(20, keyed(20, "a=3")).segment(30, keyed(30, "d=4"))


def clicks(log_dir):
    """Two expired segments, one fresh."""
    made = PartitionDir(log_dir, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=OLD_MS))
    return made.segment(1, keyed(1, "x=2", timestamp_ms=OLD_MS)).segment(2, keyed(2, "x=3"))


def a_log_dir(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return committed(path, orders(path), clicks(path))


@pytest.fixture
def log_dir(tmp_path):
    return a_log_dir(tmp_path / "data")


def offsets(log_dir, name):
    return [record.offset for record in records_in(log_dir / name)]


def checkpoint(log_dir, name):
    path = log_dir / name
    return parse_offset_checkpoint(path.read_bytes(), path) if path.exists() else {}


class Listening(Silent):
    def __init__(self):
        self.events = []
        self.bytes = 0

    def event(self, name, **fields):
        self.events.append((name, fields))

    def progress(self, done_bytes):
        self.bytes += done_bytes


def test_run_deletes_and_compacts_and_checkpoints(log_dir):
    _, outcome = a_cleaner(log_dir, LAYERS).clean(request())
    assert offsets(log_dir, "clicks-0") == [2]
    assert offsets(log_dir, "orders-0") == [1, 10, 20, 30]
    assert checkpoint(log_dir, "cleaner-offset-checkpoint") == {ORDERS: 30}
    results = {key[1]: result for key, result in outcome.results.items()}
    assert (results[CLICKS].deleted_segments, results[CLICKS].freed_bytes) == (2, 0)
    assert (results[ORDERS].records_read, results[ORDERS].records_kept) == (4, 3)
    on_disk = sum(path.stat().st_size for path in (log_dir / "orders-0").glob("*.log")) - len(keyed(30, "d=4"))
    assert results[ORDERS].compacted_to_bytes == on_disk


def test_other_partitions_keep_their_checkpoint_lines(log_dir):
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n2\nelsewhere 3 77\norders 0 0\n")
    a_cleaner(log_dir, LAYERS).clean(request())
    found = checkpoint(log_dir, "cleaner-offset-checkpoint")
    assert found == {TopicPartition("elsewhere", 3): 77, ORDERS: 30}


def test_log_start_line_goes_once_the_first_segment_starts_there(log_dir):
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nclicks 0 1\nother 0 5\n")
    a_cleaner(log_dir, LAYERS).clean(request())
    assert checkpoint(log_dir, "log-start-offset-checkpoint") == {TopicPartition("other", 0): 5}


def test_journal_says_what_why_and_how_many_bytes(log_dir):
    a_cleaner(log_dir, LAYERS).clean(request())
    delete, compact = read_journal(log_dir)
    assert (delete["what"], delete["partition"], delete["time_ms"]) == ("delete", "clicks-0", NOW_MS)
    assert [(s["base_offset"], s["code"]) for s in delete["segments"]] == [(0, "RETENTION_TIME"), (1, "RETENTION_TIME")]
    assert delete["bytes"] > 0
    assert (compact["what"], compact["end_offset"], compact["groups"]) == ("compact", 30, [[0, 10, 20]])


def test_events_and_progress_are_told(log_dir):
    heard = Listening()
    Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock(), listener=heard)).clean(request())
    names = ["segment_deleted", "segment_deleted", "compaction_begun", "segments_compacted"]
    assert [name for name, _ in heard.events] == names
    assert heard.events[0][1]["reason"] == "RETENTION_TIME"
    assert heard.bytes > 0


def test_failing_partition_stops_nobody_else(log_dir):
    class Stubborn(FileSystem):
        def rename(self, source, target, purpose):
            if source.parent.name == "clicks-0":
                raise PermissionError(1, "not permitted", str(source))
            super().rename(source, target, purpose)

    _, outcome = a_cleaner(log_dir, LAYERS, Stubborn()).clean(request())
    errors = {key[1]: result.error for key, result in outcome.results.items()}
    assert "not permitted" in errors[CLICKS]
    assert errors[ORDERS] is None
    assert offsets(log_dir, "orders-0") == [1, 10, 20, 30]


@pytest.mark.parametrize(("only", "deleted", "compacted"), [(Only.RETENTION, 1, 0), (Only.COMPACTION, 0, 1)])
def test_only_one_of_the_jobs_is_done(log_dir, only, deleted, compacted):
    a_cleaner(log_dir, LAYERS).clean(request(only=only))
    assert (offsets(log_dir, "clicks-0") == [2]) is bool(deleted)
    assert (offsets(log_dir, "orders-0") == [1, 10, 20, 30]) is bool(compacted)


def test_checkpoint_that_lies_outside_the_log_is_corrected_without_a_compaction(tmp_path):
    made = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1"))
    committed(tmp_path, made)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 500\n")
    a_cleaner(tmp_path, LAYERS).clean(request())
    assert checkpoint(tmp_path, "cleaner-offset-checkpoint") == {ORDERS: 0}


def test_checkpoint_that_cannot_be_written_is_reported(log_dir):
    class NoCheckpoints(FileSystem):
        def replace_file(self, path, data, purpose):
            if purpose is Purpose.CHECKPOINT and path.parent == log_dir:
                raise PermissionError(1, "not permitted", str(path))
            super().replace_file(path, data, purpose)

    _, outcome = a_cleaner(log_dir, LAYERS, NoCheckpoints()).clean(request())
    assert any("cleaner-offset-checkpoint" in error for error in outcome.errors)


@pytest.mark.parametrize(("seconds_each", "writes"), [(0.0, 2), (0.4, 3), (2.0, 5)])
def test_lines_of_the_cleaners_checkpoint_are_written_together_each_second_and_at_the_end(
    tmp_path, seconds_each, writes
):
    names = [f"orders-{number}" for number in range(5)]
    made = [
        PartitionDir(tmp_path, name).segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1")) for name in names
    ]
    committed(tmp_path, *made)
    clock, written = FakeClock(), []

    class Slow(FileSystem):
        def replace_file(self, path, data, purpose):
            written.append(path.name)
            super().replace_file(path, data, purpose)

        def create(self, path, like, purpose):
            if path.name.endswith(".log.cleaned"):
                clock.sleep(seconds_each)
            return super().create(path, like, purpose)

    Cleaner(Configured((tmp_path,), LAYERS), Means(Slow(), clock)).clean(request())
    assert checkpoint(tmp_path, "cleaner-offset-checkpoint") == {TopicPartition("orders", n): 2 for n in range(5)}
    assert written.count("cleaner-offset-checkpoint") == writes


def test_stop_ends_the_run_between_two_steps(log_dir):
    cleaner = a_cleaner(log_dir, LAYERS)
    cleaner.stop()
    _, outcome = cleaner.clean(request())
    assert outcome.interrupted
    assert offsets(log_dir, "clicks-0") == [0, 1, 2]
    assert offsets(log_dir, "orders-0") == [0, 1, 10, 20, 30]


def test_stop_during_a_compaction_leaves_whole_segments(log_dir):
    stops = []

    class Stopping(FileSystem):
        def rename(self, source, target, purpose):
            super().rename(source, target, purpose)
            if purpose is Purpose.SWAP_IN and not stops:
                stops.append(target.name)
                cleaner.stop()

    layers = configured(orders={**COMPACT, "segment.bytes": "14"})
    cleaner = a_cleaner(log_dir, layers, Stopping())
    cleaner.clean(request())
    assert stops
    assert not list_partition(log_dir / "orders-0").needs_recovery
    assert "cleaner-offset-checkpoint" not in file_names(log_dir)
    assert latest(log_dir / "orders-0") == {b"a": b"3", b"b": b"1", b"c": b"2", b"d": b"4"}


@pytest.mark.parametrize("segment_bytes", ["1048576", "14"], ids=["one group", "a group each"])
def test_next_run_finishes_what_a_crash_at_any_step_left(tmp_path, segment_bytes):
    path = tmp_path / "data"
    layers = configured(orders={**COMPACT, "segment.bytes": segment_bytes}, clicks=EXPIRING)

    def run(disk):
        a_log_dir(path)
        a_cleaner(path, layers, disk).clean(request())

    steps = 0
    for _ in crashes(run):
        a_cleaner(path, layers).clean(request())
        assert offsets(path, "clicks-0") == [2]
        assert latest(path / "orders-0") == {b"a": b"3", b"b": b"1", b"c": b"2", b"d": b"4"}
        assert offsets(path, "orders-0") == [1, 10, 20, 30]
        leftovers = {name for name in file_names(path / "orders-0") if name.endswith((".cleaned", ".swap"))}
        assert leftovers == set()
        assert checkpoint(path, "cleaner-offset-checkpoint") == {ORDERS: 30}
        steps += 1
    assert steps > 30


EVERYTHING_EXPIRES = configured(clicks={**EXPIRING, "retention.ms": "0"})


@pytest.mark.parametrize("layers", [configured(clicks=EXPIRING), EVERYTHING_EXPIRES], ids=["some go", "all go"])
def test_deletion_without_a_delay_cut_short_anywhere_loses_nothing_else_and_converges(tmp_path, layers):
    path = tmp_path / "data"

    def run(disk):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        clean(committed(path, clicks(path)), disk)

    def clean(log_dir, disk=None):
        a_cleaner(log_dir, layers, disk).clean(request(NOW_MS + 1, delete_delay_ms=0))

    run(None)
    expected = {name: (path / "clicks-0" / name).read_bytes() for name in file_names(path / "clicks-0")}
    kept = offsets(path, "clicks-0")
    states = 0
    for disk in crashes(run):
        for left in after_power_loss(path / "clicks-0", disk, tmp_path / "left" / "clicks-0"):
            shutil.copy(path / "replication-offset-checkpoint", tmp_path / "left")
            assert kept == [offset for offset in offsets(tmp_path / "left", "clicks-0") if offset in kept]
            assert list_partition(left).segments
            clean(tmp_path / "left")
            assert {name: (left / name).read_bytes() for name in file_names(left)} == expected
            states += 1
    assert states > 15


@pytest.mark.parametrize("options", [{}, {"delete_delay_ms": 0}])
def test_a_checkpoint_that_a_dying_disk_does_not_give_any_more_is_told_and_the_other_log_dirs_go_on(
    tmp_path, monkeypatch, options
):
    """The disk answered the plan, and no more behind the first deletion."""
    dying, healthy = a_log_dir(tmp_path / "dying"), tmp_path / "healthy"
    healthy.mkdir()
    committed(healthy, PartitionDir(healthy, "prices-0").segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1")))
    read = LogDir.offsets

    def offsets(log_dir, name):
        is_over = len(list((dying / "clicks-0").glob("*.log"))) == 1
        if log_dir.path == dying and is_over and name in (LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT):
            raise UnreadableFile(log_dir.path / name, "Input/output error")
        return read(log_dir, name)

    monkeypatch.setattr(LogDir, "offsets", offsets)
    layers = configured(orders=COMPACT, clicks=EXPIRING, prices=COMPACT)
    cleaner = Cleaner(Configured((dying, healthy), layers), Means(clock=FakeClock()))
    _, outcome = cleaner.clean(request(**options))
    assert len(outcome.errors) == 2
    assert all("Input/output error" in error for error in outcome.errors)
    assert outcome.results[str(dying), CLICKS].deleted_segments == 2
    assert latest(healthy / "prices-0") == {b"a": b"2", b"b": b"1"}
    assert len(records_in(healthy / "prices-0")) == 2
