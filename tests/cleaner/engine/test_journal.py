"""The journal of a log dir."""

from pathlib import Path

import pytest

from cleaner.engine.journal import Journal, encode_entry, read_journal, read_lines
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.names import JOURNAL_FILE, ROTATED_JOURNAL_FILE
from tests.faults import FullDisk
from tests.partition_dirs import file_names

JOURNALLING = frozenset({Purpose.JOURNAL})


def entries(log_dir):
    return [(entry["what"], entry["n"]) for entry in read_journal(log_dir)]


def test_entries_are_read_back_oldest_first_across_runs(tmp_path):
    for n in range(2):
        journal = Journal(tmp_path, FileSystem())
        journal.record("delete", 1000, n=n)
        journal.record("compact", 2000, n=n)
        journal.close()
        journal.close()
    assert entries(tmp_path) == [("delete", 0), ("compact", 0), ("delete", 1), ("compact", 1)]


def test_entry_is_on_disk_before_the_journal_is_closed(tmp_path):
    Journal(tmp_path, FileSystem()).record("delete", 1000, n=1)
    assert list(read_journal(tmp_path)) == [{"time_ms": 1000, "what": "delete", "n": 1}]


def test_run_without_an_entry_leaves_no_file(tmp_path):
    Journal(tmp_path, FileSystem()).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [lambda line: line[:-5], lambda line: line.replace(b"delete", b"DELETE"), lambda line: b"junk\n" + line[:3]],
    ids=["cut short", "altered", "junk"],
)
def test_damaged_line_is_passed_over_and_the_next_one_is_whole(tmp_path, damage):
    whole = encode_entry({"what": "delete", "n": 1, "time_ms": 0})
    (tmp_path / JOURNAL_FILE).write_bytes(whole + damage(encode_entry({"what": "delete", "n": 2, "time_ms": 0})))
    journal = Journal(tmp_path, FileSystem())
    journal.record("delete", 0, n=3)
    journal.close()
    assert entries(tmp_path) == [("delete", 1), ("delete", 3)]


def test_lines_wait_in_memory_until_a_full_disk_has_space(tmp_path):
    disk = FullDisk(0, JOURNALLING)
    journal = Journal(tmp_path, disk, may_wait=True)
    journal.record("delete", 0, n=1)
    journal.record("delete", 0, n=2)
    assert list(read_journal(tmp_path)) == []
    disk.left = 100
    journal.record("delete", 0, n=3)
    assert entries(tmp_path) == [("delete", 1), ("delete", 2), ("delete", 3)]


def test_waiting_lines_are_written_at_the_end_of_the_run(tmp_path):
    disk = FullDisk(0, JOURNALLING)
    journal = Journal(tmp_path, disk, may_wait=True)
    journal.record("delete", 0, n=1)
    disk.left = 100
    journal.close()
    assert entries(tmp_path) == [("delete", 1)]


def test_line_that_a_full_disk_cut_short_does_not_spoil_the_next(tmp_path, monkeypatch):
    import errno
    import os

    real = os.write

    def half_then_full(descriptor, data):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, data[: len(data) - 10])

    journal = Journal(tmp_path, FileSystem(), may_wait=True)
    monkeypatch.setattr(os, "write", half_then_full)
    journal.record("delete", 0, n=1)
    monkeypatch.undo()
    journal.record("delete", 0, n=2)
    assert entries(tmp_path) == [("delete", 1), ("delete", 2)]


@pytest.mark.parametrize("runs", ["a run each", "one long run"])
def test_journal_past_its_cap_is_put_aside_and_read_first(tmp_path, monkeypatch, runs):
    monkeypatch.setattr("cleaner.engine.journal.SIZE_MAX_BYTES", 10)
    journal = Journal(tmp_path, FileSystem())
    for n in range(3):
        journal.record("delete", 0, n=n)
        if runs == "a run each":
            journal.close()
    assert file_names(tmp_path) == {JOURNAL_FILE, ROTATED_JOURNAL_FILE}
    assert entries(tmp_path) == [("delete", 1), ("delete", 2)]


def test_torn_line_put_aside_does_not_spoil_the_new_file(tmp_path, monkeypatch):
    (tmp_path / JOURNAL_FILE).write_bytes(b"cut short")
    monkeypatch.setattr("cleaner.engine.journal.SIZE_MAX_BYTES", 5)
    Journal(tmp_path, FileSystem()).record("delete", 0, n=1)
    assert (tmp_path / JOURNAL_FILE).read_bytes() == encode_entry({"time_ms": 0, "what": "delete", "n": 1})


def test_damaged_lines_are_told_in_their_places(tmp_path):
    first, second = (encode_entry({"what": "delete", "n": n, "time_ms": 0}) for n in (1, 2))
    (tmp_path / ROTATED_JOURNAL_FILE).write_bytes(first + second[:-9])
    (tmp_path / JOURNAL_FILE).write_bytes(b"junk\n" + second)
    assert [entry and entry["n"] for entry in read_lines(tmp_path)] == [1, None, None, 2]


@pytest.mark.parametrize("entry", [[], 7, {"what": "delete"}, {"time_ms": True, "what": "delete"}, {"time_ms": 0}])
def test_line_that_says_neither_what_nor_when_counts_as_damaged(tmp_path, entry):
    (tmp_path / JOURNAL_FILE).write_bytes(encode_entry(entry))
    assert list(read_lines(tmp_path)) == [None]


def test_line_that_never_ends_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("cleaner.engine.journal.LINE_BYTES_MAX", 100)
    (tmp_path / JOURNAL_FILE).write_bytes(b"x" * 250)
    assert list(read_lines(tmp_path)) == [None, None, None]


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to(ROTATED_JOURNAL_FILE)])
def test_journal_that_is_a_directory_or_symlink_is_unreadable(tmp_path, make):
    Journal(tmp_path, FileSystem()).record("delete", 0)
    (tmp_path / JOURNAL_FILE).rename(tmp_path / ROTATED_JOURNAL_FILE)
    make(tmp_path / JOURNAL_FILE)
    with pytest.raises(UnreadableFile):
        list(read_journal(tmp_path))
