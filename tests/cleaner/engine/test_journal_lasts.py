"""A journal line that counts as written survives a power loss; a line that could not be written is neither lost nor
made up.
"""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from cleaner.engine.journal import Journal, JournalFull, encode_entry, read_journal
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.names import JOURNAL_FILE, ROTATED_JOURNAL_FILE
from tests.crash.power import Disk, RecordingFileSystem, lay_down
from tests.faults import SteppingFile, SteppingFileSystem
from tests.partition_dirs import (
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

OLD_MS = NOW_MS - 2 * DAY_MS


def entries(log_dir):
    return [entry["n"] for entry in read_journal(log_dir)]


def after_power_losses(log_dir, disk: Disk, scratch):
    """Return what the journal says in each state that a power loss may leave now."""
    said = []
    for place, left in enumerate(disk.after_power_loss(Random(1))):
        directory = scratch / str(place)
        directory.mkdir(parents=True)
        said.append(entries(lay_down(left, log_dir, directory)))
    return said


@pytest.fixture
def log_dir(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("runs", ["a run each", "one long run"])
def test_entry_outlasts_a_power_loss_from_the_moment_it_is_recorded(log_dir, tmp_path, runs):
    fs = RecordingFileSystem(log_dir, lambda _: None)
    journal = Journal(log_dir, fs)
    for n in range(3):
        assert journal.record("delete", 0, n=n)
        states = after_power_losses(log_dir, fs.disk, tmp_path / str(n))
        assert [state for state in states if state != list(range(n + 1))] == []
        if runs == "a run each":
            journal.close()


def test_entries_put_aside_outlast_a_power_loss_and_so_does_the_first_of_the_new_file(log_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("cleaner.engine.journal.SIZE_MAX_BYTES", 10)
    fs = RecordingFileSystem(log_dir, lambda _: None)
    journal = Journal(log_dir, fs)
    journal.record("delete", 0, n=0)
    journal.record("delete", 0, n=1)
    assert (log_dir / ROTATED_JOURNAL_FILE).exists()
    states = after_power_losses(log_dir, fs.disk, tmp_path / "left")
    assert states
    assert {tuple(state) for state in states} == {(0, 1)}


class Failing(SteppingFileSystem):
    """Refuses what adds to the journal with the errors of a list, in turn; None lets a step pass. Then all pass."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def unlink(self, path, purpose):
        FileSystem.unlink(self, path, purpose)

    def truncate(self, path, size_bytes, purpose):
        FileSystem.truncate(self, path, size_bytes, purpose)

    def step(self, purpose):
        if purpose is Purpose.JOURNAL and self.errors and (error := self.errors.pop(0)):
            raise error


def full():
    return OutOfSpace(JOURNAL_FILE, 0)


def broken():
    return OSError(errno.EIO, "Input/output error")


def test_line_that_waits_for_a_full_disk_outlives_an_error_of_the_next_and_is_written_when_the_journal_closes(log_dir):
    fs = Failing(full(), broken())
    journal = Journal(log_dir, fs, may_wait=True)
    assert not journal.record("delete", 0, n=1)
    with pytest.raises(OSError, match="Input/output error"):
        journal.record("delete", 0, n=2)
    assert entries(log_dir) == []
    journal.close()
    assert entries(log_dir) == [1]  # what could not be written down was not done: no line may say that it was


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_all_lines_that_wait_outlive_an_error_in_their_order(log_dir, lines):
    fs = Failing(*[full()] * lines, broken(), full())
    journal = Journal(log_dir, fs, may_wait=True)
    for n in range(lines):
        assert not journal.record("delete", 0, n=n)
    with pytest.raises(OSError, match="Input/output error"):
        journal.record("delete", 0, n=77)
    assert not journal.record("delete", 0, n=lines)
    assert journal.record("delete", 0, n=lines + 1)
    assert entries(log_dir) == list(range(lines + 2))


def test_line_that_is_refused_is_not_written_by_the_next_record(log_dir):
    journal = Journal(log_dir, Failing(broken()))
    with pytest.raises(OSError, match="Input/output error"):
        journal.record("delete", 0, n=1)
    assert journal.record("delete", 0, n=2)
    assert entries(log_dir) == [2]


def test_lines_that_find_no_room_to_the_end_are_given_up_with_the_run(log_dir):
    journal = Journal(log_dir, Failing(full(), full()), may_wait=True)
    assert not journal.record("delete", 0, n=1)
    journal.close()
    assert entries(log_dir) == []


def open_files(root):
    """Return how many files below a directory are open."""
    found = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(file.is_relative_to(root) for file in found)


def test_error_when_the_journal_closes_is_raised_and_its_file_is_closed_all_the_same(log_dir):
    journal = Journal(log_dir, Failing(None, full(), None, broken()), may_wait=True)
    assert not journal.record("delete", 0, n=1)
    with pytest.raises(OSError, match="Input/output error"):
        journal.close()
    assert open_files(log_dir) == 0


def test_journal_that_cannot_be_closed_is_told_and_the_run_goes_on(log_dir):
    made = [PartitionDir(log_dir, f"{topic}-0") for topic in ("clicks", "views")]
    for one in made:
        one.segment(0, keyed(0, "a=1", timestamp_ms=OLD_MS), mtime_ms=OLD_MS).segment(1, keyed(1, "b=1"))
    committed(log_dir, *made)
    tries = 2 * (1 + 3)  # before the first of three files of a segment goes, and behind each of them
    fs = Failing(*[full()] * tries, *[broken()] * 9)
    _, outcome = a_cleaner(log_dir, configured(clicks=EXPIRING, views=EXPIRING), fs).clean(request(delete_delay_ms=0))
    assert [error for error in outcome.errors if "Input/output error" in error] == list(outcome.errors)
    assert len(outcome.errors) == 1
    for one in made:
        assert [record.offset for record in records_in(one.path)] == [1]
    assert {(key[1].topic, result.error) for key, result in outcome.results.items()} == {
        ("clicks", None),
        ("views", None),
    }
    assert [result.deleted_segments for result in outcome.results.values()] == [1, 1]


class Gathering(SteppingFileSystem):
    """Lets the first sync of the journal end once other lines wait; ``failures`` are raised by the syncs in turn."""

    def __init__(self, arrived: threading.Semaphore, others: int, *failures: Exception | None):
        self.arrived, self.others, self.failures = arrived, others, list(failures)
        self.syncs = 0

    def open_to_append(self, path, purpose):
        return GatheringFile(super().open_to_append(path, purpose), self, purpose)

    def create(self, path, like, purpose):
        return GatheringFile(super().create(path, like, purpose), self, purpose)


class GatheringFile(SteppingFile):
    def fsync(self):
        self.disk.syncs += 1
        for _ in range(self.disk.others):
            assert self.disk.arrived.acquire(timeout=60)
        self.disk.others = 0
        if self.disk.failures and (failure := self.disk.failures.pop(0)):
            raise failure
        super().fsync()


def recorded_by_threads(log_dir, monkeypatch, threads, *failures, may_wait=False):
    """Record a line in each thread. Return the disk, and what came of each line: its durability, or its error."""
    arrived = threading.Semaphore(0)
    fs = Gathering(arrived, threads, *failures)
    journal = Journal(log_dir, fs, may_wait=may_wait)

    def noted(entry):
        arrived.release()
        return encode_entry(entry)

    def record(n):
        try:
            return journal.record("delete", 0, n=n) and n in entries(log_dir)
        except (OSError, JournalFull) as error:
            return error

    monkeypatch.setattr("cleaner.engine.journal.encode_entry", noted)
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(record, range(threads)))
    journal.close()
    return fs, results


def test_lines_of_several_threads_share_an_fsync_and_each_is_durable_when_it_is_recorded(log_dir, monkeypatch):
    fs, results = recorded_by_threads(log_dir, monkeypatch, 12)
    assert results == [True] * 12
    assert sorted(entries(log_dir)) == list(range(12))
    assert fs.syncs <= 6, "two, but for threads that were slow to add their lines"


@pytest.mark.parametrize(("failure", "told"), [(broken(), OSError), (full(), JournalFull)])
def test_error_of_a_shared_fsync_is_the_error_of_each_line_and_none_of_them_is_left(
    log_dir, monkeypatch, failure, told
):
    _, results = recorded_by_threads(log_dir, monkeypatch, 12, None, failure)
    failed = [n for n, result in enumerate(results) if result is not True]
    assert failed
    assert {type(results[n]) for n in failed} == {told}
    assert sorted(entries(log_dir)) == [n for n in range(12) if n not in failed]


@pytest.mark.parametrize("failures", range(1, 6))
def test_lines_of_several_threads_that_wait_for_space_are_all_written(log_dir, monkeypatch, failures):
    recorded_by_threads(log_dir, monkeypatch, 12, *[full()] * failures, may_wait=True)
    assert sorted(entries(log_dir)) == list(range(12))
