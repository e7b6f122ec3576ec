"""A clean that cannot write its journal: leftovers that waited long enough make space, else the log dir stays as it is.

Real disks with 0 bytes free, and a disk that takes no more journal lines from the K-th on.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import read_journal
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from cleaner.engine.verify.hollow import emptied_segments, lone_indexes
from policies.config.config_layers import Configured
from policies.facts import Boot
from policies.plan import Only
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import JOURNAL_FILE
from tests.faults import FullDisk
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
from tests.small_disks import a_small_disk, fill

LAYERS = configured(clicks=EXPIRING, orders=COMPACT, views=EXPIRING)
LATER = FakeClock((1 << 62) // 1_000_000)
"""By it, every file renamed to ``.deleted`` waits since long ago."""
NO_JOURNAL = "no space for the journal"


def a_topic(log_dir: Path, name: str, now_ms: int) -> PartitionDir:
    """Five segments that expired, one that has not."""
    made = PartitionDir(log_dir, name)
    for base in range(6):
        timestamp_ms = now_ms - 2 * DAY_MS if base < 5 else now_ms
        made.segment(base, keyed(base, f"x={'v' * 1500}", timestamp_ms=timestamp_ms))
    return made


def a_log_dir(path: Path, now_ms: int = NOW_MS) -> Path:
    path.mkdir(parents=True)
    orders = PartitionDir(path, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(10, keyed(10, "a=2"))
    topics = (a_topic(path, name, now_ms) for name in ("clicks-0", "views-0"))
    committed(path, *topics, orders.segment(20, keyed(20, "c=1")))
    (path / ".lock").touch()  # of the broker that the full disk stopped
    return path


def leftovers(directory: Path, bases: range) -> None:
    """Rename the oldest segments as an earlier run did, which no journal knows of any more."""
    for base in bases:
        for suffix in (".log", ".index", ".timeindex"):
            path = directory / f"{base:020d}{suffix}"
            path.rename(path.with_name(f"{path.name}.deleted"))


def content(log_dir: Path) -> dict[str, bytes]:
    """Of all files but the lock, which a run takes away when it ends."""
    files = [path for path in log_dir.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in files}


def offsets(log_dir: Path, name: str) -> list[int]:
    return [record.offset for record in records_in(log_dir / name)]


def test_log_dir_whose_journal_finds_no_space_stays_as_it_is(disk):
    log_dir = a_log_dir(disk / "data")
    fill(disk)
    before = content(log_dir)
    _, outcome = a_cleaner(log_dir, LAYERS).clean(request())
    assert content(log_dir) == before
    (told,) = outcome.errors
    assert told.startswith(f"{log_dir}: {NO_JOURNAL}")
    assert "free" in told
    assert dict(outcome.results) == {}
    assert outcome.full_log_dirs == {str(log_dir): told}


def test_command_says_so_in_one_line_and_exits_1(disk, capsys):
    log_dir = a_log_dir(disk / "data", time.time_ns() // 1_000_000)
    fill(disk)
    before = content(log_dir)
    retention = ("--set", "cleanup.policy=delete", "--set", "retention.ms=1d", "--topic", "clicks")
    assert main(["clean", "--log-dir", str(log_dir), *retention]) == 1
    assert content(log_dir) == before
    said, told = capsys.readouterr()
    (line,) = [line for line in told.splitlines() if NO_JOURNAL in line]
    assert "free" in line
    assert "not deleted" in said


def test_leftovers_that_waited_long_enough_make_space_for_the_journal(disk):
    log_dir = a_log_dir(disk / "data")
    leftovers(log_dir / "views-0", range(5))
    fill(disk)
    _, outcome = a_cleaner(log_dir, LAYERS, clock=LATER).clean(request())
    assert outcome.errors == ()
    assert outcome.swept_bytes > 5 * 1500
    assert offsets(log_dir, "clicks-0") == [5]
    waiting = {name for name in file_names(log_dir / "clicks-0") if name.endswith(".deleted")}
    assert waiting == journalled(log_dir, "clicks-0")


def journalled(log_dir: Path, partition: str) -> set[str]:
    """Names, as ``.deleted``, of the files whose renames the journal tells of."""
    told = [entry for entry in read_journal(log_dir) if entry["what"] == "delete" and entry["partition"] == partition]
    return {f"{name}.deleted" for entry in told for name, _, _ in entry["undo"]["files"]}


def test_other_log_dirs_go_on(tmp_path):
    with a_small_disk("tmpfs", tmp_path) as disk:
        full, roomy = a_log_dir(disk / "data"), a_log_dir(tmp_path / "data")
        fill(disk)
        before = content(full)
        _, outcome = Cleaner(Configured((full, roomy), LAYERS), Means(clock=FakeClock())).clean(request())
        assert content(full) == before
    assert (offsets(roomy, "clicks-0"), offsets(roomy, "orders-0")) == ([5], [1, 10, 20])
    assert [error.partition(":")[0] for error in outcome.errors] == [str(full)]
    assert {key[0] for key in outcome.results} == {str(roomy)}


@pytest.mark.parametrize("lines", range(8))
def test_nothing_is_done_that_the_journal_does_not_tell_of(tmp_path, lines):
    """The disk takes so many lines, a creation and each fsync counted, and no more."""
    log_dir = a_log_dir(tmp_path / "data")
    before = content(log_dir)
    disk = FullDisk(lines, frozenset({Purpose.JOURNAL}))
    _, outcome = a_cleaner(log_dir, LAYERS, fs=disk).clean(request())
    told = {entry["partition"] for entry in read_journal(log_dir)}
    for name in ("clicks-0", "views-0", "orders-0"):
        was = {path: data for path, data in before.items() if path.startswith(name)}
        is_ = {path: data for path, data in content(log_dir).items() if path.startswith(name)}
        assert (is_ != was) == (name in told)
    assert len(outcome.errors) == (len(told) < 3)
    assert len(told) < 3 or not disk.refused
    assert (log_dir / JOURNAL_FILE).exists() == bool(told)


def test_line_that_finds_no_space_leaves_nothing_in_the_journal(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / JOURNAL_FILE).write_bytes(b"")
    a_cleaner(log_dir, LAYERS).clean(request(only=Only.RETENTION))
    before = (log_dir / JOURNAL_FILE).read_bytes()
    a_cleaner(log_dir, LAYERS, fs=_HalfLines()).clean(request())
    assert (log_dir / JOURNAL_FILE).read_bytes() == before


class _HalfLines(FileSystem):
    """The journal's file system fills up within a line."""

    def open_to_append(self, path, purpose):
        opened = super().open_to_append(path, purpose)
        whole = opened.write

        def half(data):
            from storage.filesystem import OutOfSpace

            whole(data[: len(data) // 2])
            raise OutOfSpace(path, len(data))

        opened.write = half
        return opened


def cleaned_leftover(log_dir: Path) -> Path:
    """What a compaction that was killed leaves."""
    path = log_dir / "orders-0" / f"{0:020d}.log.cleaned"
    path.write_bytes(b"")
    return path


def test_recovery_waits_for_the_journal_too(disk):
    log_dir = a_log_dir(disk / "data")
    left = cleaned_leftover(log_dir)
    fill(disk)
    _, outcome = a_cleaner(log_dir, LAYERS).clean(request())
    assert left.exists()
    assert len(outcome.errors) == 1
    assert a_cleaner(log_dir, LAYERS).correct_checkpoints(request()) == outcome.errors
    assert left.exists()


def test_recovery_follows_once_leftovers_made_space(disk):
    log_dir = a_log_dir(disk / "data")
    left = cleaned_leftover(log_dir)
    leftovers(log_dir / "views-0", range(5))
    fill(disk)
    _, outcome = a_cleaner(log_dir, LAYERS, clock=LATER).clean(request())
    assert not left.exists()
    assert outcome.errors == ()
    assert [entry["what"] for entry in read_journal(log_dir)] == ["recover", "delete", "compact"]
    assert outcome.swept_bytes > 5 * 1500


def test_free_and_no_delay_go_on_and_tell_what_they_could_not_write(disk):
    events = []

    class Listening(Silent):
        def event(self, name, **fields):
            events.append((name, fields.get("what")))

    log_dir = a_log_dir(disk / "data")
    cleaned_leftover(log_dir)
    fill(disk)
    cleaner = Cleaner(Configured((log_dir,), LAYERS), Means(clock=FakeClock(), listener=Listening()))
    _, outcome = cleaner.clean(request(only=Only.RETENTION, delete_delay_ms=0))
    assert outcome.errors == ()
    assert offsets(log_dir, "clicks-0") == [5]
    assert ("journal_waits", "recover") in events
    assert ("journal_waits", "delete") in events


def test_line_of_a_deletion_is_there_before_its_index_files_go_so_that_a_kill_leaves_no_riddle(disk):
    log_dir = a_log_dir(disk / "data")
    fill(disk)
    seen = []

    class LookingAtIndexes(FileSystem):
        def unlink(self, path: Path, purpose: Purpose) -> None:
            if path.suffix == ".index":
                listing = list_partition(path.parent)
                told = [entry for entry in read_journal(log_dir) if entry["partition"] == path.parent.name]
                seen.append((len(told), list(emptied_segments(listing)), bool(lone_indexes(listing))))
            super().unlink(path, purpose)

    a_cleaner(log_dir, LAYERS, LookingAtIndexes()).clean(request(only=Only.RETENTION, delete_delay_ms=0))
    assert seen == [(1, [], True)] * 10


def test_wrong_clock_that_a_person_confirmed_still_needs_the_journal(disk):
    layers = configured("clock.jump.max=30d", clicks=EXPIRING, views=EXPIRING)
    log_dir = a_log_dir(disk / "data")
    boot = Boot("it", NOW_MS)
    a_cleaner(log_dir, layers, clock=FakeClock(NOW_MS, boot)).clean(request(only=Only.COMPACTION, confirmed=True))
    later = FakeClock(NOW_MS + 40 * DAY_MS, boot._replace(booted_ms=NOW_MS + 40 * DAY_MS))
    fill(disk)
    before = content(log_dir)
    _, outcome = a_cleaner(log_dir, layers, clock=later).clean(request(later.now_ms(), confirmed=True))
    assert content(log_dir) == before
    assert len(outcome.errors) == 1


def test_free_tells_of_a_confirmed_clock_whose_line_waits(tmp_path):
    events = []

    class Listening(Silent):
        def event(self, name, **fields):
            events.append((name, fields.get("what"), fields.get("log_dir")))

    layers = configured("clock.jump.max=30d", clicks=EXPIRING, views=EXPIRING)
    log_dir = a_log_dir(tmp_path / "data")
    boot = Boot("it", NOW_MS)
    a_cleaner(log_dir, layers, clock=FakeClock(NOW_MS, boot)).clean(request(only=Only.COMPACTION, confirmed=True))
    later = FakeClock(NOW_MS + 40 * DAY_MS, boot._replace(booted_ms=NOW_MS + 40 * DAY_MS))
    means = Means(FullDisk(0, frozenset({Purpose.JOURNAL})), later, Listening())
    cleaner = Cleaner(Configured((log_dir,), layers), means)
    cleaner.clean(request(later.now_ms(), confirmed=True, delete_delay_ms=0))
    assert events.count(("journal_waits", "clock", str(log_dir))) == 1


def test_checkpoints_of_what_was_done_are_written_all_the_same(tmp_path):
    """The first deletion has its line, the second one has none."""
    log_dir = a_log_dir(tmp_path / "data")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nclicks 0 1\nviews 0 1\n")
    a_cleaner(log_dir, LAYERS, fs=FullDisk(3, frozenset({Purpose.JOURNAL}))).clean(request())
    assert (offsets(log_dir, "clicks-0"), len(offsets(log_dir, "views-0"))) == ([5], 6)
    assert (log_dir / "log-start-offset-checkpoint").read_text() == "0\n1\nviews 0 1\n"


def restorer(log_dir: Path, fs: FileSystem, events: list[tuple[str, object]] | None = None) -> Restorer:
    class Listening(Silent):
        def event(self, name, **fields):
            if events is not None:
                events.append((name, fields.get("what")))

    return Restorer([LogDir(log_dir)], Means(fs, FakeClock(), Listening()))


def test_restore_that_cannot_be_written_down_changes_nothing(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    a_cleaner(log_dir, LAYERS).clean(request(only=Only.RETENTION))
    before = content(log_dir)
    results = restorer(log_dir, FullDisk(0, frozenset({Purpose.JOURNAL}))).restore(lambda tp: tp.topic == "clicks")
    assert content(log_dir) == before
    (error,) = [result.error for result in results if result.error]
    assert NO_JOURNAL in error
    assert "would unlink what waits" in error


def test_release_that_cannot_be_written_down_is_told(tmp_path):
    """What it lets go may be the space that is missing."""
    log_dir = a_log_dir(tmp_path / "data")
    a_cleaner(log_dir, LAYERS).clean(request(only=Only.RETENTION))
    restorer(log_dir, FileSystem()).restore(lambda tp: tp.topic == "clicks")
    events: list[tuple[str, object]] = []
    released = restorer(log_dir, FullDisk(0, frozenset({Purpose.JOURNAL})), events).release(lambda _: True)
    assert [str(topic_partition) for topic_partition in released] == ["clicks-0"]
    assert ("journal_waits", "release") in events
