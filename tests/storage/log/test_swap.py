"""A swap, cut short at every step, by a process that dies or a disk that loses what was not fsynced."""

import os
import shutil

import pytest

from storage.errors import NotRecovered, PlanOutOfDate
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.listing import list_partition, segments_of
from storage.log.recovery import plan_recovery, recover
from storage.log.swap import remove_retired, swap_in
from storage.names import FileState
from tests.faults import after_power_loss, crashes
from tests.partition_dirs import PartitionDir, file_names, keyed, latest, records_in


def offsets(directory):
    return [record.offset for record in records_in(directory)]


def a_swap(log_dir, *survivors):
    """Three segments whose tombstone of ``b`` lies behind its value; the cleaned segment holds ``survivors``."""
    directory = (
        PartitionDir(log_dir).segment(0, keyed(0, "a=1")).segment(10, keyed(10, "b=V")).segment(20, keyed(20, "b"))
    )
    drawn = PartitionDir(log_dir / "drawn").segment(0, *survivors)
    for path in drawn.path.iterdir():
        path.rename(directory.path / f"{path.name}.cleaned")
    shutil.rmtree(log_dir / "drawn")
    listing = list_partition(directory.path)
    (cleaned,) = segments_of(directory.path, listing.in_state(FileState.CLEANED))
    return directory, cleaned, listing.segments


SURVIVORS = {
    "covers all sources": (keyed(0, "a=1"), keyed(20, "c=0", last_offset=20)),
    "ends before the later sources": (keyed(0, "a=1"),),
    "nothing survives": (),
}
swaps = pytest.mark.parametrize("survivors", SURVIVORS.values(), ids=SURVIVORS)


@swaps
def test_after_a_swap_the_cleaned_segment_is_the_log(tmp_path, survivors):
    directory, cleaned, sources = a_swap(tmp_path, *survivors)
    swap_in(FileSystem(), cleaned, sources)
    assert directory.log(0).read_bytes() == b"".join(survivors)
    assert {name for name in file_names(directory.path) if not name.endswith(".deleted")} == {
        f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")
    }
    assert sum(name.endswith(".log.deleted") for name in file_names(directory.path)) == 3


@swaps
def test_no_swap_takes_the_place_of_one_that_waits(tmp_path, survivors):
    directory, cleaned, sources = a_swap(tmp_path, *survivors)
    waiting = directory.path / f"{0:020d}.log.swap"
    waiting.write_bytes(b"the only copy of its records")
    with pytest.raises(NotRecovered):
        swap_in(FileSystem(), cleaned, sources)
    assert waiting.read_bytes() == b"the only copy of its records"
    assert not any(name.endswith((".cleaned", ".deleted")) for name in file_names(directory.path))
    assert offsets(directory.path) == [0, 10, 20]


@swaps
def test_recovery_of_a_swap_cut_short_anywhere_loses_no_survivor_and_brings_no_deleted_key_back(tmp_path, survivors):
    expected = latest_of(survivors)
    outcomes = set()

    def swap(disk):
        shutil.rmtree(tmp_path, ignore_errors=True)
        swap.directory, cleaned, sources = a_swap(tmp_path, *survivors)
        swap_in(disk, cleaned, sources)

    for disk in crashes(swap):
        for left in after_power_loss(swap.directory.path, disk, tmp_path / "left"):
            recover(FileSystem(), plan_recovery(list_partition(left)), left)
            assert not list_partition(left).needs_recovery
            view = latest(left)
            assert view in (expected, {b"a": b"1"}), (disk.unsynced, sorted(file_names(left)))
            outcomes.add(tuple(offsets(left)))
    assert (0, 10, 20) in outcomes  # undone
    assert tuple(offsets_of(survivors)) in outcomes  # finished


def latest_of(survivors):
    return {b"a": b"1", b"c": b"0"} if len(survivors) == 2 else {b"a": b"1"} if survivors else {}


def offsets_of(survivors):
    return [0, 20][: len(survivors)]


def test_sources_are_renamed_only_once_every_swap_name_lasts(tmp_path):
    _, cleaned, sources = a_swap(tmp_path, keyed(0, "a=1"))
    steps = []

    class Recording(FileSystem):
        def rename(self, source, target, purpose):
            steps.append((purpose, target.name.rpartition(".")[2]))
            super().rename(source, target, purpose)

        def fsync_dir(self, path, purpose):
            steps.append("fsync")
            super().fsync_dir(path, purpose)

    swap_in(Recording(), cleaned, sources)
    first_retired = steps.index((Purpose.RETIRE, "deleted"))
    assert [step for step in steps[: first_retired - 1] if step != (Purpose.SWAP_IN, "swap")] == []
    assert steps[first_retired - 1] == "fsync"
    assert steps[-1] == "fsync"


def test_retired_segment_has_all_its_files_renamed_and_unlinked_when_asked(tmp_path):
    directory, cleaned, sources = a_swap(tmp_path, keyed(0, "a=1"))
    (directory.path / f"{10:020d}.txnindex").write_bytes(b"x" * 34)
    sources = list_partition(directory.path).segments
    swap_in(FileSystem(), cleaned, sources)
    retired = {name for name in file_names(directory.path) if name.endswith(".deleted")}
    assert f"{10:020d}.txnindex.deleted" in retired
    assert len(retired) == 10
    freed_bytes = sum((directory.path / name).stat().st_size for name in retired)
    assert remove_retired(FileSystem(), sources) == freed_bytes
    assert file_names(directory.path) == {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}


def test_full_disk_before_the_swap_is_durable_leaves_the_sources_and_nothing_else(tmp_path):
    for steps in range(3):
        shutil.rmtree(tmp_path)
        directory, cleaned, sources = a_swap(tmp_path, *SURVIVORS["covers all sources"])
        names = {path.name for source in sources for path, _ in source.names(FileState.PLAIN)}
        with pytest.raises(OutOfSpace):
            swap_in(NoRoom(steps, "swap"), cleaned, sources)
        assert file_names(directory.path) == names
        assert offsets(directory.path) == [0, 10, 20]


def test_rename_that_is_refused_before_the_swap_is_durable_leaves_the_sources_and_nothing_else(tmp_path):
    class Refusing(FileSystem):
        def rename(self, source, target, purpose):
            if target.name.endswith(".timeindex.swap"):
                raise PermissionError(1, "Operation not permitted", str(source))
            super().rename(source, target, purpose)

    directory, cleaned, sources = a_swap(tmp_path, *SURVIVORS["covers all sources"])
    names = {path.name for source in sources for path, _ in source.names(FileState.PLAIN)}
    with pytest.raises(PermissionError):
        swap_in(Refusing(), cleaned, sources)
    assert file_names(directory.path) == names


@swaps
def test_source_whose_longer_name_finds_no_room_is_unlinked(tmp_path, survivors):
    directory, cleaned, sources = a_swap(tmp_path, *survivors)
    swap_in(NoRoom(1, "deleted"), cleaned, sources)
    assert offsets(directory.path) == offsets_of(survivors)
    assert [name for name in file_names(directory.path) if not name.startswith(f"{0:020d}.")] == []


@swaps
def test_swap_with_a_source_that_changed_is_not_begun(tmp_path, survivors):
    directory, cleaned, sources = a_swap(tmp_path, *survivors)
    os.utime(directory.path / f"{10:020d}.index")
    before = {name for name in file_names(directory.path) if not name.endswith(".cleaned")}
    with pytest.raises(PlanOutOfDate, match=r"\.index"):
        swap_in(FileSystem(), cleaned, sources)
    assert file_names(directory.path) == before


class NoRoom(FileSystem):
    """Takes so many renames to names of one suffix."""

    def __init__(self, renames, suffix):
        self.left, self.suffix = renames, suffix

    def rename(self, source, target, purpose):
        if target.name.endswith(self.suffix):
            if self.left <= 0:
                raise OutOfSpace(target, 0)
            self.left -= 1
        super().rename(source, target, purpose)
