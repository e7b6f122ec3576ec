"""One listing of a partition directory."""

from pathlib import Path

import pytest

from storage.errors import UnreadableFile
from storage.log.listing import list_partition
from storage.names import FileKind, FileState


@pytest.fixture
def listed(fs):
    def create(*names):
        fs.create_dir("/p")
        for name in names:
            fs.create_file(f"/p/{name}", contents="x" * 10)
        return list_partition(Path("/p"))

    return create


def name(base, suffix):
    return f"{base:020d}{suffix}"


def test_files_are_grouped_into_segments_ascending(listed):
    found = listed(name(10, ".log"), name(10, ".index"), name(0, ".log"), name(0, ".timeindex"), name(0, ".txnindex"))
    assert [segment.base_offset for segment in found.segments] == [0, 10]
    assert set(found.segments[0].files) == {FileKind.LOG, FileKind.TIME_INDEX, FileKind.TXN_INDEX}
    assert found.segments[0].companions_bytes == 20


def test_index_without_its_log_is_no_segment(listed):
    assert listed(name(0, ".index"), name(0, ".timeindex")).segments == ()


def test_leftovers_are_no_part_of_the_log(listed):
    found = listed(name(0, ".log.deleted"), name(0, ".log.cleaned"), name(0, ".log.swap"), name(10, ".log"))
    assert [segment.base_offset for segment in found.segments] == [10]
    assert [len(found.in_state(state)) for state in FileState] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("suffix", "is_needed"), [(".log.cleaned", True), (".index.swap", True), (".log.deleted", False), (".log", False)]
)
def test_recovery_is_needed_after_an_interrupted_swap_alone(listed, suffix, is_needed):
    assert listed(name(0, suffix)).needs_recovery is is_needed


def test_snapshots_are_listed_ascending_without_deleted_ones(listed):
    found = listed(name(20, ".snapshot"), name(10, ".snapshot"), name(5, ".snapshot.deleted"))
    assert [snapshot.name.base_offset for snapshot in found.snapshots] == [10, 20]


def test_foreign_files_directories_and_symlinks_are_left_out(fs, listed):
    fs.create_dir("/p")
    fs.create_dir(f"/p/{name(0, '.log')}")
    fs.create_file("/elsewhere")
    fs.create_symlink(f"/p/{name(1, '.log')}", "/elsewhere")
    fs.create_symlink(f"/p/{name(2, '.log')}", "/dangling")
    for foreign in ("leader-epoch-checkpoint", "partition.metadata", "README", ".hidden"):
        fs.create_file(f"/p/{foreign}")
    assert list_partition(Path("/p")).files == ()


def test_missing_directory_is_an_unreadable_file(tmp_path):
    with pytest.raises(UnreadableFile, match="gone"):
        list_partition(tmp_path / "gone")
