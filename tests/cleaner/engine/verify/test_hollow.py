"""What a listing tells of records that are gone: emptied segments, index files without a log, strange and odd names."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from cleaner.engine.journal import encode_entry
from cleaner.engine.verify import hollow
from cleaner.engine.verify.hollow import (
    claims_on,
    emptied_segments,
    hollow_swap_facts,
    lone_indexes,
    names_in,
    newest_snapshot,
    odd_logs,
    strange_logs,
)
from policies.findings.findings import NOTHING_NOTED, Circumstances
from policies.findings.of_files import EmptiedSegment
from policies.findings.of_log_dir import PartitionNames
from storage.log.listing import list_partition
from storage.names import JOURNAL_FILE
from tests.partition_dirs import PartitionDir, keyed
from tests.policies.findings.logs import log, segment

ENTRY, TIME = struct.pack(">ii", 1, 0), struct.pack(">qi", 5, 1)


def name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


@pytest.fixture
def made(tmp_path: Path) -> PartitionDir:
    return PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "c=3"))


@pytest.mark.parametrize(
    ("files", "emptied", "lone"),
    [
        ({}, [], []),
        ({name(5, ".index"): ENTRY}, [(5, ".index", True)], [".index"]),
        ({name(5, ".timeindex"): TIME}, [(5, ".timeindex", True)], [".timeindex"]),
        ({name(5, ".index"): ENTRY, name(5, ".timeindex"): TIME}, [(5, ".index", True)], [".index", ".timeindex"]),
        ({name(5, ".index"): b""}, [], [".index"]),
        ({name(5, ".index"): bytes(16)}, [], [".index"]),
        ({name(5, ".log"): b"", name(5, ".index"): ENTRY}, [(5, ".index", False)], []),
        ({name(5, ".log"): b"", name(5, ".timeindex"): TIME}, [(5, ".timeindex", False)], []),
        ({name(5, ".log"): b"", name(5, ".index"): b""}, [], []),
        ({name(5, ".snapshot"): b"x"}, [], []),
        ({name(5, ".index.deleted"): ENTRY}, [], []),
        ({name(5, ".log.deleted"): b"x", name(5, ".index"): ENTRY}, [], []),
        ({name(5, ".log.swap"): b"x", name(5, ".index"): ENTRY}, [], []),
    ],
)
def test_index_files_of_a_segment_without_records_are_traces(
    made: PartitionDir, files: dict[str, bytes], emptied: list[tuple[int, str, bool]], lone: list[str]
) -> None:
    for file, data in files.items():
        (made.path / file).write_bytes(data)
    listing = list_partition(made.path)
    expected = [EmptiedSegment(base, name(base, suffix), is_gone) for base, suffix, is_gone in emptied]
    assert list(emptied_segments(listing)) == expected
    assert sorted(file.file_name for file in lone_indexes(listing)) == sorted(name(5, suffix) for suffix in lone)
    assert names_in(listing).others == ()


def deletion(*bases: int, what: str = "delete", start: int = 8) -> dict[str, object]:
    named = [{"base_offset": base} for base in bases]
    return {"time_ms": 7, "what": what, "partition": "orders-0", "segments": named, "log_start_offset": start}


@pytest.mark.parametrize(
    ("lines", "deletion_ms"),
    [
        ([], None),
        ([deletion(0, 2, 5)], 7),
        ([deletion(0, 2, 5), deletion(what="evidence")], 7),
        ([deletion(0, 2, 5), {**deletion(what="compact"), "partition": "clicks-0"}], 7),
        ([deletion(0, 2, 5), deletion(what="restore")], None),  # it ended, or did not
        ([deletion(0, 2)], None),  # it did not name the segment
        ([deletion(2, 5)], None),  # nor what is left of others below it
        ([deletion(5, start=0)], None),  # it ended
        ([{"time_ms": 7, "what": "delete", "partition": "orders-0"}], None),
    ],
)
def test_a_deletion_that_a_power_loss_stopped_is_known_by_the_newest_line(
    made: PartitionDir, lines: list[dict[str, object]], deletion_ms: int | None
) -> None:
    assert made.path.name == "orders-0"
    (made.path / name(5, ".index")).write_bytes(ENTRY)
    (made.path.parent / JOURNAL_FILE).write_bytes(b"".join(map(encode_entry, lines)))
    assert [one.deletion_ms for one in emptied_segments(list_partition(made.path))] == [deletion_ms]


@pytest.mark.parametrize(
    ("line", "mtime_ms", "left"),
    [
        (deletion(5, start=8), 7, []),
        (deletion(5, start=8), 8, [5]),  # a new topic of the same name
        (deletion(5, start=8, what="restore"), 7, [5]),
        (deletion(3, start=8), 7, [5]),
        (deletion(5, start=9), 7, [5]),  # it was to take the first segment, too, and does not name it
        (deletion(5, start=5), 7, [5]),
    ],
)
def test_index_files_that_a_deletion_left_when_it_was_stopped_tell_of_no_loss(
    tmp_path: Path, line: dict[str, object], mtime_ms: int, left: list[int]
) -> None:
    made = PartitionDir(tmp_path).segment(8, keyed(8, "a=1"))
    index = made.path / name(5, ".index")
    index.write_bytes(ENTRY)
    os.utime(index, ns=(mtime_ms * 1_000_000,) * 2)
    (made.path.parent / JOURNAL_FILE).write_bytes(encode_entry(line))
    listing = list_partition(made.path)
    assert [(one.base_offset, one.deletion_ms) for one in emptied_segments(listing)] == [(base, None) for base in left]
    index.rename(made.path / name(9, ".index"))
    (made.path.parent / JOURNAL_FILE).write_bytes(encode_entry(deletion(9, start=8)))
    assert [one.base_offset for one in emptied_segments(list_partition(made.path))] == [9]


def test_the_journal_is_read_once_for_all_segments_that_are_gone(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for base in (5, 6, 7):
        (made.path / name(base, ".index")).write_bytes(ENTRY)
    (made.path.parent / JOURNAL_FILE).write_bytes(encode_entry(deletion(0, 2, 5, 7)))
    read: list[Path] = []
    journal = hollow.read_journal
    monkeypatch.setattr(hollow, "read_journal", lambda log_dir: read.append(log_dir) or journal(log_dir))
    assert [one.deletion_ms for one in emptied_segments(list_partition(made.path))] == [7, None, 7]
    assert read == [made.path.parent]


def test_a_segment_that_is_no_plain_file_is_strange_and_its_indexes_are_not_alone(made: PartitionDir) -> None:
    for base, suffix in ((5, ".log"), (6, ".index")):
        (made.path / name(base, suffix)).symlink_to(made.log(0))
    (made.path / "notes.log").mkdir()
    (made.path / f"{7:019d}.log").mkdir()
    (made.path / name(5, ".index")).write_bytes(ENTRY)
    listing = list_partition(made.path)
    assert strange_logs(listing) == [name(5, ".log")]
    assert lone_indexes(listing) == []
    assert {*names_in(listing).others} == {name(5, ".log"), name(6, ".index"), "notes.log", f"{7:019d}.log"}


def test_a_log_whose_name_has_not_20_digits_is_odd(made: PartitionDir) -> None:
    assert odd_logs(list_partition(made.path)) == {}
    (made.path / "9.log").write_bytes(keyed(9, "d=4"))
    listing = list_partition(made.path)
    assert odd_logs(listing) == {f"{9:020d}": "9.log"}
    assert names_in(listing) == PartitionNames(("9.log",), ())


def test_the_newest_snapshot_claims_that_the_log_reached_it(made: PartitionDir) -> None:
    assert newest_snapshot(list_partition(made.path)) is None
    for base in (2, 10, 5):
        (made.path / name(base, ".snapshot")).write_bytes(b"x")
    for base in (9, 7):
        (made.path / name(base, ".index")).write_bytes(ENTRY)
    listing, history = list_partition(made.path), log(segment(0, 2), segment(2, 3))
    assert newest_snapshot(listing) == 10
    for is_clean in (False, True):
        circumstances = Circumstances(False, is_clean, 3, 0, was_compacted=False)
        found = claims_on(listing, listing.segments, history, NOTHING_NOTED, circumstances, 3)
        assert (found.end_offset, found.newest_snapshot, found.lone_bases) == (3, 10, (7, 9))
        assert found.counted_end == (3 if is_clean else None)
    assert claims_on(listing, (), log(), NOTHING_NOTED, circumstances, None).counted_end is None


@pytest.mark.parametrize(
    ("data", "damage", "replaced"),
    [(b"", None, name(0, ".log")), (keyed(0, "a=1")[:-1], "bytes", name(0, ".log")), (keyed(0, "a=1"), None, None)],
)
def test_a_swap_that_is_empty_or_damaged_is_hollow(
    made: PartitionDir, data: bytes, damage: str | None, replaced: str | None
) -> None:
    swap = made.path / name(0, ".log.swap")
    swap.write_bytes(data)
    found = hollow_swap_facts(list_partition(made.path))
    assert [(one.path, one.replaced, one.position) for one in found] == [(str(swap), replaced, 0)] * (
        replaced is not None
    )
    assert [one.damage is not None for one in found] == [damage is not None] * (replaced is not None)
