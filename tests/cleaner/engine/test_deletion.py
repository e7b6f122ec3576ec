"""A retention carried out: renames, snapshots, leader epochs. Names only, so on a file system in memory."""

from pathlib import Path

import pytest

from cleaner.engine.deletion import remove_segments, retire_segments
from policies.facts import SegmentFacts
from policies.plan import Deletion
from policies.reasons import Action, Reason, ReasonCode, Verdict
from storage.checkpoints import CorruptCheckpoint
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem, Purpose
from storage.log.listing import list_partition
from storage.names import FileKind

PARTITION = Path("/data/orders-0")
SNAPSHOT_AT_END = b"state at the end"
WHY = Reason(ReasonCode.RETENTION_TIME, "expired")


def file(base, suffix):
    return f"{base:020d}{suffix}"


@pytest.fixture
def partition(fs):
    """Segments 0, 10 and 20 with snapshots at 10, 20 and 30 (the log end)."""
    for base in (0, 10, 20):
        for suffix in (".log", ".index", ".timeindex"):
            fs.create_file(PARTITION / file(base, suffix), contents="x" * (base + 1))
    for base in (10, 20, 30):
        fs.create_file(PARTITION / file(base, ".snapshot"))
    return fs


def a_deletion(count, *, new_start, roll_at=None):
    facts = tuple(
        SegmentFacts(s.base_offset, s.size_bytes, s.companions_bytes, 0, 0, s.mtime_ms, -1, s.log.identity)
        for s in list_partition(PARTITION).segments[:count]
    )
    verdicts = tuple(Verdict(s.base_offset, s.size_bytes, Action.DELETE, WHY) for s in facts)
    return Deletion(facts, verdicts, new_start, roll_at)


def delete(deletion, how=retire_segments):
    how(FileSystem(), list_partition(PARTITION), deletion, lambda: SNAPSHOT_AT_END)


def bases_of(kind):
    return [
        f.name.base_offset for f in list_partition(PARTITION).files if f.name.kind is kind and not f.name.state.value
    ]


def test_oldest_segments_are_renamed_with_their_indexes(partition):
    delete(a_deletion(2, new_start=20))
    assert bases_of(FileKind.LOG) == [20]
    assert bases_of(FileKind.INDEX) == [20]
    retired = {p.name for p in PARTITION.iterdir() if p.name.endswith(".deleted") and "snapshot" not in p.name}
    assert retired == {file(b, f"{s}.deleted") for b in (0, 10) for s in (".log", ".index", ".timeindex")}


def test_snapshots_of_the_deleted_bases_go_along(partition):
    delete(a_deletion(2, new_start=20))
    assert bases_of(FileKind.SNAPSHOT) == [20, 30]


def test_newest_snapshot_always_stays(partition):
    (PARTITION / file(30, ".snapshot")).unlink()
    delete(a_deletion(3, new_start=30, roll_at=30))
    assert bases_of(FileKind.SNAPSHOT) == [20, 30]  # one was made for the new segment


def test_where_everything_goes_an_empty_segment_is_rolled_at_the_log_end(partition):
    delete(a_deletion(3, new_start=30, roll_at=30))
    (segment,) = list_partition(PARTITION).segments
    assert (segment.base_offset, segment.size_bytes) == (30, 0)


def test_snapshot_at_the_end_is_written_only_where_there_is_none(partition):
    delete(a_deletion(3, new_start=30, roll_at=30))
    assert (PARTITION / file(30, ".snapshot")).read_bytes() == b""


def test_missing_snapshot_at_the_end_is_written_before_anything_goes(partition):
    (PARTITION / file(30, ".snapshot")).unlink()
    delete(a_deletion(3, new_start=30, roll_at=30))
    assert (PARTITION / file(30, ".snapshot")).read_bytes() == SNAPSHOT_AT_END


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ("0\n3\n0 0\n1 5\n2 10\n", "0\n1\n2 20\n"),
        ("0\n3\n0 0\n1 7\n2 25\n", "0\n2\n1 20\n2 25\n"),
        ("0\n1\n4 25\n", "0\n1\n4 25\n"),
    ],
)
def test_leader_epochs_are_cut_at_the_new_log_start(partition, epochs, expected):
    (PARTITION / "leader-epoch-checkpoint").write_text(epochs)
    delete(a_deletion(2, new_start=20))
    assert (PARTITION / "leader-epoch-checkpoint").read_text() == expected


def test_removed_segments_leave_nothing_of_their_sets(partition):
    delete(a_deletion(2, new_start=20), remove_segments)
    kept = {file(20, suffix) for suffix in (".log", ".index", ".timeindex", ".snapshot")}
    assert {path.name for path in PARTITION.iterdir()} == kept | {file(30, ".snapshot")}


def test_leader_epochs_are_left_to_who_removes_segments(partition):
    (PARTITION / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 5\n")
    delete(a_deletion(2, new_start=20), remove_segments)
    assert (PARTITION / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 5\n"


@pytest.mark.parametrize("how", [retire_segments, remove_segments])
def test_every_log_is_durably_gone_before_the_first_of_its_index_files(partition, how):
    steps = []

    class Recording(FileSystem):
        def rename(self, source, target, purpose):
            steps.append(source.name.partition(".")[2])
            super().rename(source, target, purpose)

        def unlink(self, path, purpose):
            steps.append(path.name.partition(".")[2])
            super().unlink(path, purpose)

        def fsync_dir(self, path, purpose):
            steps.append("fsync")

    how(Recording(), list_partition(PARTITION), a_deletion(2, new_start=20), lambda: b"")
    assert steps == ["log", "log", "fsync", "index", "timeindex", "index", "timeindex", "snapshot", "fsync"]


@pytest.mark.parametrize("how", [retire_segments, remove_segments])
@pytest.mark.parametrize("change", ["size", "time", "gone"])
def test_changed_segment_stops_the_deletion_before_its_first_step(partition, change, how):
    deletion = a_deletion(2, new_start=20)
    log = PARTITION / file(10, ".log")
    if change == "size":
        log.write_bytes(b"more than it was, by far")
    elif change == "time":
        import os

        os.utime(log, ns=(1, 1))
    else:
        log.unlink()
    before = sorted(p.name for p in PARTITION.iterdir())
    with pytest.raises(PlanOutOfDate, match=r"00000000000000000010\.log"):
        delete(deletion, how)
    assert sorted(p.name for p in PARTITION.iterdir()) == before


def test_index_that_another_file_replaced_since_the_listing_stops_the_deletion_and_takes_it_back(partition):
    listing, deletion, before = list_partition(PARTITION), a_deletion(2, new_start=20), set(PARTITION.iterdir())
    index = PARTITION / file(10, ".index")
    index.unlink()
    index.write_bytes(b"another one")
    with pytest.raises(PlanOutOfDate, match=index.name):
        retire_segments(FileSystem(), listing, deletion, lambda: SNAPSHOT_AT_END)
    assert set(PARTITION.iterdir()) == before


@pytest.mark.parametrize("how", [retire_segments, remove_segments])
def test_garbled_leader_epochs_stop_the_deletion_before_its_first_step(partition, how):
    deletion = a_deletion(3, new_start=30, roll_at=30)
    (PARTITION / "leader-epoch-checkpoint").write_text("0\nmany\n")
    before = sorted(p.name for p in PARTITION.iterdir())
    with pytest.raises(CorruptCheckpoint, match="leader-epoch-checkpoint"):
        delete(deletion, how)
    assert sorted(p.name for p in PARTITION.iterdir()) == before


def test_rename_that_is_refused_in_the_middle_leaves_the_partition_as_it_was(partition):
    class Refusing(FileSystem):
        renamed = 0

        def rename(self, source, target, purpose):
            if purpose is Purpose.RETIRE and target.name.endswith(".deleted"):
                self.renamed += 1
                if self.renamed == 2:
                    raise PermissionError(1, "Operation not permitted", str(source))
            super().rename(source, target, purpose)

    before = sorted(path.name for path in PARTITION.iterdir())
    deletion, disk = a_deletion(2, new_start=20), Refusing()
    with pytest.raises(PermissionError):
        retire_segments(disk, list_partition(PARTITION), deletion, lambda: b"")
    assert disk.renamed == 2
    assert sorted(path.name for path in PARTITION.iterdir()) == before
