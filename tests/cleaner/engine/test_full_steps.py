"""A disk that is full for one step: leader epochs, or the longer name of a producer snapshot."""

from __future__ import annotations

import pytest

from cleaner.engine.deletion import retire_snapshots
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.listing import list_partition
from storage.log.producer_state import ProducerState
from storage.names import LEADER_EPOCH_CHECKPOINT
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    latest,
    records_in,
    request,
)

OLD_MS = NOW_MS - 2 * DAY_MS
BASES = (0, 10, 20, 30)
EPOCHS = "0\n3\n0 0\n1 10\n2 30\n"
LAYERS = configured(clicks=EXPIRING, orders={**COMPACT, "file.delete.delay.ms": "60000"})


class NoRoom(FileSystem):
    """Has no room for the names that end so, the first ``refusals`` times."""

    def __init__(self, suffix, refusals=1 << 30):
        self.suffix, self.refusals, self.refused = suffix, refusals, []

    def create(self, path, like, purpose):
        self._check(path)
        return super().create(path, like, purpose)

    def rename(self, source, target, purpose):
        self._check(target)
        super().rename(source, target, purpose)

    def _check(self, path):
        if path.name.endswith(self.suffix) and len(self.refused) < self.refusals:
            self.refused.append(path.name)
            raise OutOfSpace(path, 0)


@pytest.fixture
def log_dir(tmp_path):
    """Two segments of ``clicks`` are expired; three of ``orders`` become one. Each base has its snapshot."""
    clicks, orders = PartitionDir(tmp_path, "clicks-0"), PartitionDir(tmp_path, "orders-0")
    for base in BASES:
        time_ms = OLD_MS if base < 20 else NOW_MS
        clicks.segment(base, keyed(base, "a=1", "b=1", timestamp_ms=time_ms), mtime_ms=time_ms)
        orders.segment(base, keyed(base, "a=1", f"k{base}=1"))
        for made in (clicks, orders):
            (made.path / f"{base:020d}.snapshot").write_bytes(ProducerState().to_snapshot_bytes())
    (clicks.path / LEADER_EPOCH_CHECKPOINT).write_text(EPOCHS)
    return committed(tmp_path, clicks, orders)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def clean(log_dir, fs, **options):
    _, outcome = a_cleaner(log_dir, LAYERS, fs).clean(request(**options))
    return {key[1].topic: result for key, result in outcome.results.items()}, outcome


def epochs(log_dir):
    return (log_dir / "clicks-0" / LEADER_EPOCH_CHECKPOINT).read_text()


def offsets(directory):
    return [record.offset for record in records_in(directory)]


EPOCHS_TMP = f"{LEADER_EPOCH_CHECKPOINT}.tmp"


def test_leader_epochs_that_find_no_room_at_once_are_cut_behind_the_deletions(log_dir):
    fs = NoRoom(EPOCHS_TMP, refusals=1)
    results, outcome = clean(log_dir, fs, delete_delay_ms=0)
    assert fs.refused == [EPOCHS_TMP]
    assert (results["clicks"].error, results["clicks"].deleted_segments, outcome.errors) == (None, 2, ())
    assert offsets(log_dir / "clicks-0") == [20, 21, 30, 31]
    assert epochs(log_dir) == "0\n2\n1 20\n2 30\n"


def test_leader_epochs_that_find_no_room_at_all_are_told_and_the_deletion_stands(log_dir):
    fs = NoRoom(EPOCHS_TMP)
    results, outcome = clean(log_dir, fs, delete_delay_ms=0)
    assert len(fs.refused) == 2  # at once, and behind the deletions
    assert (results["clicks"].error, results["clicks"].deleted_segments) == (None, 2)
    assert [LEADER_EPOCH_CHECKPOINT in error for error in outcome.errors] == [True]
    assert offsets(log_dir / "clicks-0") == [20, 21, 30, 31]
    assert epochs(log_dir) == EPOCHS
    assert results["orders"].error is None


def test_deletion_that_waits_is_undone_if_its_leader_epochs_find_no_room(log_dir):
    before = contents(log_dir / "clicks-0")
    results, _ = clean(log_dir, NoRoom(EPOCHS_TMP))
    assert "no space" in results["clicks"].error
    assert results["clicks"].deleted_segments == 0
    assert contents(log_dir / "clicks-0") == before
    assert results["orders"].error is None
    clean(log_dir, FileSystem())
    assert epochs(log_dir) == "0\n2\n1 20\n2 30\n"


@pytest.mark.parametrize("suffix", [".log.deleted", ".index.deleted", ".timeindex.deleted", ".snapshot.deleted"])
def test_deletion_that_waits_is_undone_if_one_longer_name_finds_no_room(log_dir, suffix):
    before = contents(log_dir / "clicks-0")
    fs = NoRoom(f"{10:020d}{suffix}")
    results, _ = clean(log_dir, fs)
    assert fs.refused
    assert "no space" in results["clicks"].error
    assert contents(log_dir / "clicks-0") == before


def test_snapshot_of_a_merged_base_that_finds_no_room_for_the_longer_name_is_unlinked(log_dir):
    fs = NoRoom(".snapshot.deleted")
    results, _ = clean(log_dir, fs)
    assert [name for name in fs.refused if name.startswith((f"{10:020d}", f"{20:020d}"))]
    assert (results["orders"].error, results["orders"].records_kept) == (None, 4)
    names = {name for name in file_names(log_dir / "orders-0") if "snapshot" in name}
    assert names == {f"{base:020d}.snapshot" for base in (0, 30)}
    assert latest(log_dir / "orders-0") == dict.fromkeys((b"a", b"k0", b"k10", b"k20", b"k30"), b"1")


def test_only_the_snapshot_without_room_is_unlinked_and_the_other_waits(log_dir):
    results, _ = clean(log_dir, NoRoom(f"{10:020d}.snapshot.deleted"))
    assert results["orders"].error is None
    names = {name for name in file_names(log_dir / "orders-0") if "snapshot" in name}
    assert names == {f"{0:020d}.snapshot", f"{20:020d}.snapshot.deleted", f"{30:020d}.snapshot"}


def test_snapshot_is_unlinked_for_the_purpose_of_retiring_it(log_dir):
    purposes = []

    class Noting(NoRoom):
        def unlink(self, path, purpose):
            purposes.append((path.name, purpose))
            super().unlink(path, purpose)

    listing = list_partition(log_dir / "orders-0")
    retire_snapshots(Noting(".snapshot.deleted"), listing, listing.segments[1:2])
    assert purposes == [(f"{10:020d}.snapshot", Purpose.RETIRE)]
