"""Files that somebody changes between the plan and the step: they stay, are reported, and are planned anew, once."""

import os
import shutil

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from policies.config.config_layers import Configured
from policies.rescue import SpaceTarget
from storage.filesystem import FileSystem, Purpose
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    FakeClock,
    PartitionDir,
    committed,
    configured,
    file_names,
    keyed,
    request,
)

OLD_MS = NOW_MS - 2 * DAY_MS
LAYERS = configured(orders=COMPACT, clicks=EXPIRING)
DELETING, COMPACTING = "clicks-0", "orders-0"
EVERYTHING = SpaceTarget(100, is_percent=True)


def clicks(log_dir):
    """Two expired segments, one fresh."""
    made = PartitionDir(log_dir, DELETING).segment(0, keyed(0, "x=1", timestamp_ms=OLD_MS))
    return made.segment(1, keyed(1, "x=2", timestamp_ms=OLD_MS)).segment(2, keyed(2, "x=3"))


def orders(log_dir):
    """Three sealed segments that become one, and the active one."""
    made = PartitionDir(log_dir, COMPACTING).segment(0, keyed(0, "a=1", "b=1"))
    return made.segment(10, keyed(10, "a=2")).segment(20, keyed(20, "a=3")).segment(30, keyed(30, "d=4"))


MADE = {DELETING: (clicks, 1), COMPACTING: (orders, 10)}
"""How a partition is made, and a base offset of it that an action is about."""


def replaced(path):
    shutil.copy2(path, path.with_name("another"))
    path.with_name("another").rename(path)


def appended(path):
    with path.open("ab") as file:
        file.write(bytes(12))


def touched(path):
    os.utime(path)


def removed(path):
    path.unlink()


class Meddled(FileSystem):
    """Somebody has changed a file by the time a line of the journal lasts: behind the first look at the files."""

    def __init__(self, path, meddle, times=1):
        self._path, self._meddle, self._times = path, meddle, times

    def create(self, path, like, purpose):
        return self._watched(super().create(path, like, purpose), purpose)

    def open_to_append(self, path, purpose):
        return self._watched(super().open_to_append(path, purpose), purpose)

    def _watched(self, file, purpose):
        if purpose is Purpose.JOURNAL:
            file.fsync = self._changed
        return file

    def _changed(self):
        if self._times:
            self._times -= 1
            self._meddle(self._path)


class Heard(Silent):
    """What became of a step; that it began is no news."""

    def __init__(self):
        self.names = []

    def event(self, name, **fields):
        if name != "compaction_begun":
            self.names.append(name)


def run(tmp_path, name, meddle, suffix=".log", *, times=1, delete_delay_ms=None):
    """A clean of a new log dir with one partition; gives it, the plan, the result, the events."""
    make, base = MADE[name]
    log_dir = committed(tmp_path, make(tmp_path))
    fs, heard = Meddled(log_dir / name / f"{base:020d}{suffix}", meddle, times), Heard()
    cleaner = Cleaner(Configured((log_dir,), LAYERS), Means(fs=fs, clock=FakeClock(), listener=heard))
    planned, outcome = cleaner.clean(request(delete_delay_ms=delete_delay_ms))
    (result,) = outcome.results.values()
    return log_dir, planned, result, heard.names


def logs(log_dir, name):
    return [int(path.name.split(".")[0]) for path in sorted((log_dir / name).glob("*.log"))]


LEFT = {DELETING: [2], COMPACTING: [0, 30]}


@pytest.mark.parametrize("delete_delay_ms", [None, 0])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("meddle", [replaced, touched])
@pytest.mark.parametrize("name", MADE)
def test_file_that_was_replaced_or_touched_is_told_and_planned_anew(tmp_path, name, meddle, suffix, delete_delay_ms):
    log_dir, planned, result, events = run(tmp_path, name, meddle, suffix, delete_delay_ms=delete_delay_ms)
    assert events[0] == "partition_changed"
    assert "partition_failed" not in events
    assert (result.error, logs(log_dir, name)) == (None, LEFT[name])
    assert result.deleted_segments == sum(len(p.deletion.segments) for p in planned.partitions if p.deletion)


@pytest.mark.parametrize(("name", "suffix"), [(DELETING, ".log"), (DELETING, ".timeindex"), (COMPACTING, ".timeindex")])
def test_file_that_grew_is_told_and_planned_anew(tmp_path, name, suffix):
    log_dir, _, result, events = run(tmp_path, name, appended, suffix)
    assert events[0] == "partition_changed"
    assert (result.error, logs(log_dir, name)) == (None, LEFT[name])


def test_segment_that_is_gone_is_not_waited_for(tmp_path):
    log_dir, planned, result, events = run(tmp_path, DELETING, removed)
    assert events[0] == "partition_changed"
    assert (result.error, result.deleted_segments, logs(log_dir, DELETING)) == (None, 1, [2])
    assert [v.base_offset for v in planned.partitions[0].verdicts] == [0, 2]


@pytest.mark.parametrize(("name", "suffix"), [(DELETING, ".timeindex"), (COMPACTING, ".log")])
def test_what_cannot_be_planned_anew_stays_failed_and_is_left_as_it_is(tmp_path, name, suffix):
    log_dir, _, result, events = run(tmp_path, name, lambda path: path.write_bytes(b"\xff" * 24), suffix)
    assert result.error
    assert events[0] == "partition_changed"
    (tmp_path / "as-made").mkdir()
    assert file_names(log_dir / name) == file_names(MADE[name][0](tmp_path / "as-made").path)


@pytest.mark.parametrize("delete_delay_ms", [None, 0])
@pytest.mark.parametrize("name", MADE)
def test_file_that_never_rests_fails_its_partition_after_one_new_plan(tmp_path, name, delete_delay_ms):
    log_dir, _, result, events = run(tmp_path, name, touched, times=100, delete_delay_ms=delete_delay_ms)
    assert "changed since the plan was made" in result.error
    assert events == ["partition_changed", "partition_failed"]
    assert len(list(read_journal(log_dir))) == 2
    (tmp_path / "as-made").mkdir()
    assert file_names(log_dir / name) == file_names(MADE[name][0](tmp_path / "as-made").path)


def test_other_partition_has_its_turn_all_the_same(tmp_path):
    log_dir = committed(tmp_path, clicks(tmp_path), orders(tmp_path))
    fs = Meddled(log_dir / DELETING / f"{1:020d}.index", touched, times=100)
    _, outcome = Cleaner(Configured((log_dir,), LAYERS), Means(fs=fs, clock=FakeClock())).clean(request())
    assert [bool(result.error) for result in outcome.results.values()] == [True, False]
    assert logs(log_dir, COMPACTING) == LEFT[COMPACTING]


@pytest.mark.parametrize(("times", "is_freed"), [(1, True), (100, False)])
@pytest.mark.parametrize("name", MADE)
def test_free_plans_anew_once_too(tmp_path, name, times, is_freed):
    make, base = MADE[name]
    log_dir = committed(tmp_path, make(tmp_path))
    fs = Meddled(log_dir / name / f"{base:020d}.index", touched, times)
    rescued = Cleaner(Configured((log_dir,), LAYERS), Means(fs=fs, clock=FakeClock())).free(request(), EVERYTHING)
    (result,) = rescued.outcome.results.values()
    assert (result.error is None) == is_freed
    assert (logs(log_dir, name) == LEFT[name]) == is_freed
