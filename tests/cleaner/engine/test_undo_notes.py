"""What is read again of the journal's ``delete`` lines."""

from __future__ import annotations

import pytest

from cleaner.engine.journal import REPLACING, Journal
from cleaner.engine.undo_notes import Renamed, journalled_deletions, rename_times
from policies.restore import RetiredFile
from storage.filesystem import FileSystem
from storage.names import FileKind, FileState, SegmentFileName, TopicPartition

CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)
DELETED_MS = 1_800_000_000_000
FILE = RetiredFile(SegmentFileName(0, FileKind.LOG, FileState.PLAIN), 10, 20)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path, FileSystem())


def delete(journal, time_ms, partition="clicks-0", **changes):
    undo = {
        "files": [[f"{0:020d}.log", 10, 20]],
        "end_offset": 5,
        "log_start_checkpoint": None,
        "cleaner_checkpoint": None,
        "leader_epochs": [],
        "roll_at_offset": None,
        "rolled_snapshot": False,
    }
    journal.record("delete", time_ms, partition=partition, log_start_offset=5, undo={**undo, **changes})


def test_newest_line_that_names_a_file_tells_when_it_was_renamed(tmp_path, journal):
    delete(journal, DELETED_MS)
    delete(journal, DELETED_MS + 7)
    assert rename_times(tmp_path, [CLICKS]) == {CLICKS: {FILE: Renamed(DELETED_MS + 7)}}


def test_the_line_tells_until_when_the_file_was_promised_to_wait(tmp_path, journal):
    delete(journal, DELETED_MS, until_ms=DELETED_MS + 99)
    assert rename_times(tmp_path, [CLICKS]) == {CLICKS: {FILE: Renamed(DELETED_MS, DELETED_MS + 99)}}


def test_restore_makes_the_times_of_its_partition_forgotten(tmp_path, journal):
    delete(journal, DELETED_MS)
    delete(journal, DELETED_MS, "orders-0")
    journal.record("restore", DELETED_MS, partition="clicks-0")
    assert rename_times(tmp_path, [CLICKS, ORDERS]) == {CLICKS: {}, ORDERS: {FILE: Renamed(DELETED_MS)}}
    delete(journal, DELETED_MS + 7)
    assert rename_times(tmp_path, [CLICKS]) == {CLICKS: {FILE: Renamed(DELETED_MS + 7)}}


@pytest.mark.parametrize("what", REPLACING)
def test_source_of_a_later_line_was_not_renamed_by_the_deletion(tmp_path, journal, what):
    """A power loss may come between the line of a deletion and its renames."""
    names = [f"{base:020d}{suffix}" for base in (0, 5) for suffix in (".index", ".log")]
    delete(journal, DELETED_MS, files=[[name, 10, 20] for name in names], end_offset=7)
    journal.record(what, DELETED_MS, partition="clicks-0", sources=[[0, 10, 20], [5, 10, 21], [7, 10, 20]])
    assert {file.name.base_offset for file in rename_times(tmp_path, [CLICKS])[CLICKS]} == {5}
    journal.record(what, DELETED_MS, partition="clicks-0", sources="none that can be read")
    assert len(rename_times(tmp_path, [CLICKS])[CLICKS]) == 2


def test_partitions_that_nobody_asks_for_are_left_out(tmp_path, journal):
    delete(journal, DELETED_MS)
    journal.record("delete", DELETED_MS, partition=7)
    journal.record("delete", DELETED_MS)
    assert rename_times(tmp_path, [ORDERS]) == {ORDERS: {}}
    assert journalled_deletions(tmp_path, [ORDERS], []) == {ORDERS: ()}


def test_compaction_concerns_the_deletions_before_it(tmp_path, journal):
    delete(journal, DELETED_MS)
    journal.record("compact", DELETED_MS, partition="orders-0")
    journal.record("compact", DELETED_MS, partition="clicks-0")
    delete(journal, DELETED_MS)
    found = journalled_deletions(tmp_path, [CLICKS], [])[CLICKS]
    assert [deletion.is_compacted_since for deletion in found] == [True, False]


def test_segments_end_where_the_next_one_begins(tmp_path, journal):
    files = [[f"{base:020d}{suffix}", 1, 2] for base in (30, 4) for suffix in (".index", ".log")]
    delete(journal, DELETED_MS, files=files, end_offset=70)
    (deletion,) = journalled_deletions(tmp_path, [CLICKS], [])[CLICKS]
    assert [(s.base_offset, s.end_offset, len(s.files)) for s in deletion.segments] == [(4, 30, 2), (30, 70, 2)]
    assert deletion.end_offset == 70


@pytest.mark.parametrize("names", [[".index"], [".snapshot"], []])
def test_segment_without_a_log_makes_a_line_useless(tmp_path, journal, names):
    delete(journal, DELETED_MS, files=[[f"{0:020d}{name}", 1, 2] for name in names])
    delete(journal, DELETED_MS, files=[[f"{0:020d}.log", 1, 2], [f"{9:020d}.index", 1, 2]])
    assert journalled_deletions(tmp_path, [CLICKS], []) == {CLICKS: ()}
