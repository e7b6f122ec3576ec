"""The journal of a log dir."""

import pytest

from cleaner.engine.journal import Journal, encode_entry, read_journal
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.names import JOURNAL_FILE
from tests.faults import FullDisk

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
    journal = Journal(tmp_path, disk)
    journal.record("delete", 0, n=1)
    journal.record("delete", 0, n=2)
    assert list(read_journal(tmp_path)) == []
    disk.left = 100
    journal.record("delete", 0, n=3)
    assert entries(tmp_path) == [("delete", 1), ("delete", 2), ("delete", 3)]


def test_waiting_lines_are_written_at_the_end_of_the_run(tmp_path):
    disk = FullDisk(0, JOURNALLING)
    journal = Journal(tmp_path, disk)
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

    journal = Journal(tmp_path, FileSystem())
    monkeypatch.setattr(os, "write", half_then_full)
    journal.record("delete", 0, n=1)
    monkeypatch.undo()
    journal.record("delete", 0, n=2)
    assert entries(tmp_path) == [("delete", 1), ("delete", 2)]


def test_journal_past_its_cap_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr("cleaner.engine.journal.SIZE_MAX_BYTES", 10)
    for n in range(2):
        journal = Journal(tmp_path, FileSystem())
        journal.record("delete", 0, n=n)
        journal.close()
    assert entries(tmp_path) == [("delete", 1)]
    assert (tmp_path / f"{JOURNAL_FILE}.1").exists()


def test_journal_that_is_a_directory_is_unreadable(tmp_path):
    (tmp_path / JOURNAL_FILE).mkdir()
    with pytest.raises(UnreadableFile):
        list(read_journal(tmp_path))
