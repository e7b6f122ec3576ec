"""A copy of a log dir that a broker wants, or has, meanwhile, and what a copy does with merged groups."""

from __future__ import annotations

import os
import shutil

import pytest

from cleaner.engine.copy.manifest import damaged_files, read_manifest
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.lock import LogDirLocked
from storage.log.producer_state import ProducerState
from storage.log_dir import IncompleteCopy, LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT, FileKind, segment_file_name
from tests.cleaner.engine.compaction.test_rounds_that_end_early import as_kafka
from tests.cleaner.engine.copy.test_copying import contents, copied
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    EXPIRING,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    request,
)

LAYERS = configured(orders=COMPACT, clicks=EXPIRING)
OLD_MS = NOW_MS - 2 * DAY_MS
SNAPSHOTS = (0, 10, 20, 30, 40)


def snapshot(directory, base):
    path = directory / segment_file_name(base, FileKind.SNAPSHOT)
    path.write_bytes(ProducerState().to_snapshot_bytes())
    os.utime(path, ns=(NOW_MS * 1_000_000,) * 2)


@pytest.fixture
def original(tmp_path):
    """``orders``: four segments that become one, and the active one, each with a snapshot; ``clicks`` loses one."""
    root = tmp_path / "data"
    orders, clicks = PartitionDir(root, "orders-0"), PartitionDir(root, "clicks-0")
    for base in SNAPSHOTS:
        orders.segment(base, keyed(base, "a=1", f"k{base}=1"))
        snapshot(orders.path, base)
    clicks.segment(0, keyed(0, "x=1", timestamp_ms=OLD_MS), mtime_ms=OLD_MS).segment(1, keyed(1, "x=2"))
    return committed(root, orders, clicks)


def in_place(original, to, layers=LAYERS):
    shutil.copytree(original, to)
    a_cleaner(to, layers).clean(request(delete_delay_ms=0))
    return contents(to)


def snapshots_in(directory):
    return sorted(int(path.stem) for path in directory.glob("*.snapshot"))


def test_snapshots_at_the_bases_that_a_merged_group_took_in_are_not_in_the_copy(tmp_path, original):
    copied(original, tmp_path / "copy", layers=LAYERS)
    assert snapshots_in(tmp_path / "copy" / "orders-0") == [0, 40]
    assert contents(tmp_path / "copy") == in_place(original, tmp_path / "in-place")


@pytest.mark.parametrize("merged", [2, 3])
def test_snapshots_of_the_groups_first_bases_stay_in_the_copy(tmp_path, original, merged):
    largest_bytes = max(path.stat().st_size for path in (original / "orders-0").glob("*.log"))
    layers = configured(orders={**COMPACT, "segment.bytes": str(merged * largest_bytes)}, clicks=EXPIRING)
    copied(original, tmp_path / "copy", layers=layers)
    left = [base for place, base in enumerate(SNAPSHOTS[:-1]) if place % merged == 0] + [40]
    assert snapshots_in(tmp_path / "copy" / "orders-0") == left
    assert contents(tmp_path / "copy") == in_place(original, tmp_path / "in-place", layers)


@pytest.mark.usefixtures("as_kafka")
def test_segments_behind_a_round_that_ends_early_are_in_the_copy(tmp_path, original):
    layers = as_kafka()
    copied(original, tmp_path / "copy", layers=layers)
    assert {10, 20} & {int(path.stem) for path in (tmp_path / "copy" / "orders-0").glob("*.log")}
    assert contents(tmp_path / "copy") == in_place(original, tmp_path / "in-place", layers)


class Meanwhile(FileSystem):
    """Has something happen once, when a file of a name is first created in the copy."""

    def __init__(self, name, act):
        self.name, self.act = name, act

    def create(self, path, like, purpose):
        if self.act and path.as_posix().endswith(self.name):
            act, self.act = self.act, None
            act()
        return super().create(path, like, purpose)


PLACES = {
    "at the first file": f"clicks-0/{1:020d}.log",
    "at the last partition": f"orders-0/{40:020d}.snapshot",
    "at the checkpoints": HIGH_WATERMARK_CHECKPOINT + ".tmp",
}
places = pytest.mark.parametrize("name", PLACES.values(), ids=PLACES)


@places
def test_lock_is_refused_to_others_until_the_copy_is_whole(tmp_path, original, name):
    refused = []

    def start_a_broker():
        with pytest.raises(LogDirLocked):
            LogDir.open(original).lock(FileSystem())
        refused.append(name)

    copied(original, tmp_path / "copy", layers=LAYERS, fs=Meanwhile(name, start_a_broker))
    assert refused == [name]
    assert list(damaged_files(tmp_path / "copy", read_manifest(tmp_path / "copy").files)) == []
    LogDir.open(original).lock(FileSystem()).release()


def start_and_stop_a_broker(log_dir):
    """What a broker leaves that the lock did not keep out: it starts, takes a record into each partition, and ends."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    for name, base, offset in (("orders-0", 40, 42), ("clicks-0", 1, 2)):
        with (log_dir / name / f"{base:020d}.log").open("ab") as log:
            log.write(keyed(offset, "new=1"))
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_text("0\n2\norders 0 43\nclicks 0 3\n")
    (log_dir / ".kafka_cleanshutdown").touch()


@places
def test_broker_that_the_lock_did_not_keep_out_ends_the_copy_without_a_manifest(tmp_path, original, name):
    fs = Meanwhile(name, lambda: start_and_stop_a_broker(original))
    with pytest.raises(LogCleanerError):
        copied(original, tmp_path / "copy", layers=LAYERS, fs=fs)
    assert fs.act is None
    with pytest.raises(IncompleteCopy):
        read_manifest(tmp_path / "copy")
