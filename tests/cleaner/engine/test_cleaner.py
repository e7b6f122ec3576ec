"""The life of a run: lock, recovery, plan, sweep; and the dry run beside it."""

from __future__ import annotations

import os

import pytest

from cleaner.engine.journal import read_journal
from policies.config.config_layers import Configured
from storage.errors import NotALogDir
from storage.filesystem import FileSystem
from storage.lock import LogDirLocked
from storage.log.listing import list_partition
from storage.log_dir import LogDir
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
    records_in,
    request,
)

LAYERS = configured(clicks=EXPIRING, orders=COMPACT)
DELAY_MS = 60_000


@pytest.fixture
def clicks(tmp_path):
    """One expired segment, one fresh."""
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=NOW_MS - 2 * DAY_MS))
    made.segment(1, keyed(1, "x=2"))
    committed(tmp_path, made)
    return made


def deleted(partition):
    return sorted(name for name in file_names(partition.path) if name.endswith(".deleted"))


def test_deleted_files_stay_for_the_delay_and_go_after_it(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    waiting = deleted(clicks)
    assert len(waiting) == 3
    _, outcome = a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS - 1)).clean(request())
    assert (deleted(clicks), outcome.swept_bytes) == (waiting, 0)
    size_bytes = sum((clicks.path / name).stat().st_size for name in waiting)
    _, outcome = a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS)).clean(request())
    assert (deleted(clicks), outcome.swept_bytes) == ([], size_bytes)


def test_delay_counts_from_the_journals_line_whatever_happened_to_the_files_times(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    for name in deleted(clicks):
        (clicks.path / name).chmod(0o600)  # sets the change time: the machine's, long before NOW_MS
    a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS - 1)).clean(request())
    assert len(deleted(clicks)) == 3
    a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS)).clean(request())
    assert deleted(clicks) == []


def test_clock_that_jumped_back_unlinks_nothing_early(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    for now_ms in (NOW_MS - DAY_MS, 0, NOW_MS + DELAY_MS - 1):
        a_cleaner(tmp_path, LAYERS, clock=FakeClock(now_ms)).clean(request())
        assert len(deleted(clicks)) == 3


def test_moment_of_the_run_does_not_shorten_the_delay(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    clock = FakeClock(NOW_MS)
    a_cleaner(tmp_path, LAYERS, clock=clock).clean(request(now_ms=NOW_MS + 365 * DAY_MS))
    assert len(deleted(clicks)) >= 3


def test_without_a_delay_the_space_is_free_at_once(tmp_path, clicks):
    clock = FakeClock((1 << 62) // 1_000_000)
    _, outcome = a_cleaner(tmp_path, LAYERS, clock=clock).clean(request(delete_delay_ms=0))
    (result,) = outcome.results.values()
    assert deleted(clicks) == []
    assert result.freed_bytes == result.deleted_bytes > 0


def test_delay_of_the_topic_holds(tmp_path, clicks):
    layers = configured(clicks={**EXPIRING, "file.delete.delay.ms": "0"})
    a_cleaner(tmp_path, layers).clean(request())
    a_cleaner(tmp_path, layers, clock=FakeClock(NOW_MS)).clean(request())
    assert deleted(clicks) == []


def test_leftovers_of_a_topic_nobody_speaks_of_stay(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    a_cleaner(tmp_path, configured(), clock=FakeClock(1 << 60)).clean(request(delete_delay_ms=0))
    assert len(deleted(clicks)) == 3


def test_dry_run_tells_what_is_due_and_leaves_it(tmp_path, clicks):
    a_cleaner(tmp_path, LAYERS).clean(request())
    waiting = deleted(clicks)
    early = a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS - 1))
    assert early.would_do(early.plan(request())).swept_bytes == 0
    later = a_cleaner(tmp_path, LAYERS, clock=FakeClock(NOW_MS + DELAY_MS))
    due = sum((clicks.path / name).stat().st_size for name in waiting)
    assert later.would_do(later.plan(request())).swept_bytes == due
    assert deleted(clicks) == waiting


def test_held_lock_refuses_the_run_and_nothing_was_changed(tmp_path, clicks):
    before = file_names(clicks.path)
    with LogDir(tmp_path).lock(FileSystem()), pytest.raises(LogDirLocked, match=str(tmp_path)):
        a_cleaner(tmp_path, LAYERS).clean(request())
    assert file_names(clicks.path) == before
    assert not list(read_journal(tmp_path))


def test_held_lock_does_not_refuse_a_dry_run_and_is_told(tmp_path, clicks):
    with LogDir(tmp_path).lock(FileSystem()):
        planned = a_cleaner(tmp_path, LAYERS).plan(request())
    assert planned.has_work
    assert planned.log_dirs[0].facts.locked_by is not None


def test_second_locked_log_dir_releases_the_first(tmp_path):
    for name in ("one", "two"):
        committed(tmp_path / name, PartitionDir(tmp_path / name, "clicks-0").segment(0))
    from cleaner.engine.cleaner import Cleaner

    cleaner = Cleaner(Configured((tmp_path / "one", tmp_path / "two"), LAYERS))
    with LogDir(tmp_path / "two").lock(FileSystem()), pytest.raises(LogDirLocked):
        cleaner.clean(request())
    assert LogDir(tmp_path / "one").locked_by() is None


def test_missing_dir_is_refused_at_once(tmp_path):
    with pytest.raises(NotALogDir):
        a_cleaner(tmp_path / "none", LAYERS)


@pytest.fixture
def interrupted(tmp_path):
    """A swap of ``orders-0`` whose sources were not renamed yet."""
    made = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    made.segment(20, keyed(20, "c=1"))
    swap = PartitionDir(tmp_path / "drawn").segment(0, keyed(1, "b=1", base_offset=0), keyed(10, "a=2"))
    for path in swap.path.iterdir():
        path.rename(made.path / f"{path.name}.swap")
    swap.path.rmdir()
    (tmp_path / "drawn").rmdir()
    committed(tmp_path, made)
    return made


def test_interrupted_swap_is_finished_before_anything_else(tmp_path, interrupted):
    a_cleaner(tmp_path, LAYERS).clean(request())
    assert [record.offset for record in records_in(interrupted.path)] == [1, 10, 20]
    assert not list_partition(interrupted.path).needs_recovery
    first, *_ = read_journal(tmp_path)
    assert (first["what"], first["partition"]) == ("recover", "orders-0")


def test_dry_run_leaves_an_interrupted_swap_and_plans_as_if_recovered(tmp_path, interrupted):
    before = file_names(interrupted.path)
    cleaner = a_cleaner(tmp_path, LAYERS)
    planned = cleaner.plan(request())
    cleaner.would_do(planned, exact=True)
    assert [segment.base_offset for segment in planned.partitions[0].facts.segments] == [0, 20]
    assert file_names(interrupted.path) == before


@pytest.mark.parametrize("topics", [("clicks",), ("orders-1",)])
def test_swap_of_a_partition_that_was_not_named_is_left(tmp_path, interrupted, topics):
    a_cleaner(tmp_path, LAYERS).clean(request(topics=tuple(topics)))
    assert list_partition(interrupted.path).needs_recovery


def test_swap_of_a_topic_nobody_speaks_of_is_left(tmp_path, interrupted):
    a_cleaner(tmp_path, configured()).clean(request())
    assert list_partition(interrupted.path).needs_recovery


def test_recovery_that_fails_is_reported_and_stops_nobody_else(tmp_path, interrupted, clicks):
    class Stubborn(FileSystem):
        def unlink(self, path, purpose):
            if path.parent.name == "orders-0":
                raise PermissionError(1, "not permitted", str(path))
            super().unlink(path, purpose)

    committed(tmp_path, interrupted, clicks)
    _, outcome = a_cleaner(tmp_path, LAYERS, Stubborn()).clean(request())
    assert any("not permitted" in error for error in outcome.errors)
    assert len(deleted(clicks)) == 3


def test_sweep_that_fails_is_reported_and_stops_nobody_else(tmp_path, clicks):
    class Stubborn(FileSystem):
        def unlink(self, path, purpose):
            if path.suffix == ".deleted" and path.parent.name == "blocked-0":
                raise PermissionError(1, "not permitted", str(path))
            super().unlink(path, purpose)

    blocked = PartitionDir(tmp_path, "blocked-0").segment(0)
    blocked.log(0).rename(blocked.path / f"{0:020d}.log.deleted")
    layers = configured(clicks=EXPIRING, blocked=EXPIRING)
    _, outcome = a_cleaner(tmp_path, layers, Stubborn(), FakeClock(1 << 60)).clean(request())
    assert any("not permitted" in error for error in outcome.errors)
    assert [record.offset for record in records_in(clicks.path)] == [1]


def test_lock_is_free_after_the_run_and_the_mark_of_a_clean_shutdown_stays(tmp_path, clicks):
    before = (tmp_path / ".kafka_cleanshutdown").stat()
    a_cleaner(tmp_path, LAYERS).clean(request())
    assert LogDir(tmp_path).locked_by() is None
    after = (tmp_path / ".kafka_cleanshutdown").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_run_with_nothing_to_do_writes_nothing(tmp_path):
    made = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "x=1"))
    (tmp_path / ".lock").touch()
    committed(tmp_path, made)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    planned, outcome = a_cleaner(tmp_path, LAYERS).clean(request())
    assert not planned.has_work
    assert outcome.results == {}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert os.listdir(tmp_path / "clicks-0")  # noqa: PTH208
