"""What is stopped: a clean, a ``free``, a restore, repairs, a sweep; each is run the same way again by who goes on."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from unittest.mock import patch

from cleaner.engine.delete_records import delete_records as delete_from
from cleaner.engine.delete_records import plan_deletion
from cleaner.engine.doctor.sweeping import Named, Sweeper
from cleaner.engine.erase.erasing import ErasureRequest
from cleaner.engine.erase.erasing import erase as erase_keys
from cleaner.engine.means import Means, Silent
from cleaner.engine.prove_erased.wanted import WantedKey
from cleaner.engine.repack import repacking
from cleaner.engine.repack.merging import AskedCodec
from cleaner.engine.repair.repairing import RepairRequest, repair_log_dirs
from cleaner.engine.restore import Restorer
from cleaner.engine.sole_replicas import Placed
from cleaner.engine.verify.checked import Checked, CheckRequest
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.repairs import DERIVED, RepairKind
from policies.record_deletion import Before
from policies.rescue import SpaceTarget
from storage.codecs.compression import Compression
from storage.filesystem import FileSystem
from storage.log.listing import list_partition
from storage.log_dir import LogDir, Space
from storage.metadata.assignments import Assignment, Assignments
from storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    FileKind,
    segment_file_name,
)
from storage.segment import BLOCK_BYTES
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, FakeClock, a_cleaner, configured, request

FS: Final = FileSystem()
AT_MS: Final = max(NOW_MS, time.time_ns() // 1_000_000 + DAY_MS)
"""When everything happens; later than the change times of real files, or none of them could be swept."""
GROUPS: Final = {"segment.bytes": "420", "index.interval.bytes": "0"}
"""Groups of two or three segments."""
TOPICS: Final = {
    "clicks": EXPIRING,
    "gone": EXPIRING,
    "orders": {**COMPACT, **GROUPS},
    "prices": {**COMPACT, **GROUPS, "segment.bytes": "700"},
    "payments": {**COMPACT, **GROUPS, "segment.bytes": "1200"},
    "accounts": {**COMPACT, **EXPIRING, "cleanup.policy": "compact,delete"},
    "wallets": {**COMPACT, **GROUPS},
    "small": {**COMPACT, **GROUPS},
    "drawn": {**COMPACT, **GROUPS, "segment.bytes": "1000"},
}
LAYERS: Final = configured(**TOPICS)
DELETABLE: Final = configured(clicks={"cleanup.policy": "delete"}, accounts={"cleanup.policy": "delete"})
STRAY: Final = f"old-0.{'ab' * 16}-stray"
DELETE: Final = f"older-0.{'cd' * 16}-delete"
SWEPT: Final = (
    *(f"{partition}/{0:020d}{kind}.deleted" for partition in ("clicks-0", "gone-0") for kind in (".log", ".index")),
    STRAY,
    DELETE,
)
"""What a sweep is asked for."""
DIRECTORY_ID: Final = f"{'B' * 21}A"
ERASED: Final = ("a", "b", "e", "x", "x1", "y2")
"""The keys of an erasure."""
TORN: Final = b"a write that was cut short"
ZEROS: Final = 5000
Act = Callable[[Path, FileSystem], object]
"""Does something to a log dir; failures of a partition are in what it returns."""


def clean(log_dir: Path, fs: FileSystem) -> object:
    """What is retired waits as ``.deleted``, which a restore can take back."""
    return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).clean(request(AT_MS))


def clean_at_once(log_dir: Path, fs: FileSystem) -> object:
    """What is retired is unlinked."""
    return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).clean(request(AT_MS, delete_delay_ms=0))


def free(log_dir: Path, fs: FileSystem) -> object:
    """As much as policy allows, compactions too. What other processes write to the file system is not counted."""
    space_of = LogDir.space
    with patch.object(LogDir, "space", lambda self: _space_alone(space_of, self)):
        return a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).free(request(AT_MS), SpaceTarget(100, is_percent=True))


def _space_alone(space_of: Callable[[LogDir], Space], log_dir: LogDir) -> Space:
    blocks = sum(path.lstat().st_blocks for path in log_dir.path.rglob("*"))
    return space_of(log_dir)._replace(used_bytes=blocks * BLOCK_BYTES)


def delete_records(log_dir: Path, fs: FileSystem) -> object:
    """In each partition, up to its last record but one: the segments before that go."""
    done = []
    for name, directory in sorted(LogDir(log_dir).partitions()):
        cleaner = a_cleaner(log_dir, DELETABLE, fs, FakeClock(AT_MS))
        before = Before(list_partition(directory).snapshots[-1].name.base_offset - 1)
        asked = request(AT_MS, topics=(str(name),), confirmed=True)
        done.append(delete_from(cleaner, name, before, asked, plan_deletion(cleaner, name, before, asked)))
    return done


def erase(log_dir: Path, fs: FileSystem) -> object:
    """The records of some keys, tombstones too; what is replaced waits as ``.deleted``."""
    return _erased(log_dir, fs, None)


def erase_at_once(log_dir: Path, fs: FileSystem) -> object:
    """The same; what is replaced is unlinked."""
    return _erased(log_dir, fs, 0)


def repack(log_dir: Path, fs: FileSystem) -> object:
    """Batches are merged, and compressed anew; what is replaced waits as ``.deleted``."""
    return _repacked(log_dir, fs, None)


def repack_at_once(log_dir: Path, fs: FileSystem) -> object:
    """The same; what is replaced is unlinked."""
    return _repacked(log_dir, fs, 0)


def _repacked(log_dir: Path, fs: FileSystem, delete_delay_ms: int | None) -> object:
    """Each partition counts as one of a single replica."""
    alone = {name: Assignment((1,), (), 0, (1,)) for name, _ in LogDir(log_dir).partitions()}
    asked = request(AT_MS, confirmed=True, delete_delay_ms=delete_delay_ms)
    with patch.object(repacking, "placed", lambda *_: Placed(1, alone)):
        cleaner = a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS))
        return repacking.repack(cleaner, repacking.RepackRequest(asked, AskedCodec(Compression.ZSTD)))


def _erased(log_dir: Path, fs: FileSystem, delete_delay_ms: int | None) -> object:
    asked = request(AT_MS, confirmed=True, delete_delay_ms=delete_delay_ms)
    keys = tuple(WantedKey(key, (key.encode(),)) for key in ERASED)
    return erase_keys(a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)), ErasureRequest(asked, keys, True))


def restore(log_dir: Path, fs: FileSystem) -> object:
    """Everything that still waits."""
    return Restorer([LogDir(log_dir)], Means(fs, FakeClock(AT_MS), Silent())).restore(lambda _: True)


def sweep(log_dir: Path, fs: FileSystem) -> object:
    """Files that wait, a stray directory, and one of a deleted topic."""
    named = [Named(LogDir(log_dir), name) for name in SWEPT]
    return Sweeper(Means(fs, FakeClock(AT_MS), Silent()), lambda: LAYERS).sweep(named)


def damage(log_dir: Path, _fs: FileSystem) -> object:
    """One file of each kind that can be made anew, in each partition. All still parse, or their damage shows."""
    for path in _to_mend(log_dir):
        match path.suffix:
            case ".index" | ".timeindex":
                path.write_bytes(path.read_bytes() + bytes(24))
            case ".snapshot":
                path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))
            case ".txnindex":
                path.write_bytes(path.read_bytes()[:-1] + b"\x55")  # of a last stable offset
            case _:
                path.write_bytes(b"0\n1\n0 0\n")
    return None


def repair(log_dir: Path, fs: FileSystem) -> object:
    """What was damaged; a file that is as it would be made is left alone."""
    return _repaired(log_dir, fs, _to_mend(log_dir), RepairGroup.DERIVED)


def forget_ids(log_dir: Path, _fs: FileSystem) -> object:
    """No partition tells its topic id; a file that does not parse is there, or none."""
    (log_dir / META_PROPERTIES_FILE).write_text(f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={DIRECTORY_ID}\n")
    for place, path in enumerate(_metadata_files(log_dir)):
        path.write_text("garbage") if place % 2 else path.unlink()
    return None


def write_ids(log_dir: Path, fs: FileSystem) -> object:
    """The topic ids that the cluster metadata knows."""
    topics = {tp.topic for tp, _ in LogDir(log_dir).partitions()}
    assignment = Assignment((1,), (DIRECTORY_ID,), 1 << 20)
    ids = {topic: f"{place:02d}{'A' * 19}Q" for place, topic in enumerate(sorted(topics))}
    known = Assignments(ids, {}, {(topic_id, 0): assignment for topic_id in ids.values()})
    with patch("cleaner.engine.repair.observing.read_assigned", lambda *_: known):
        return _repaired(log_dir, fs, _metadata_files(log_dir), RepairGroup.TOPIC_ID)


def leave_zeros(log_dir: Path, _fs: FileSystem) -> object:
    """Each log ends with zeros."""
    for path in _last_logs(log_dir):
        path.write_bytes(path.read_bytes() + bytes(ZEROS))
    return None


def cut_zeros(log_dir: Path, fs: FileSystem) -> object:
    """Cut zeros off."""
    return _repaired(log_dir, fs, _last_logs(log_dir), RepairGroup.ZERO_TAIL)


def tear_ends(log_dir: Path, _fs: FileSystem) -> object:
    """Each log ends with a write that was cut short, and its offset index names that write."""
    for path in _last_logs(log_dir):
        with path.with_suffix(".index").open("ab") as index:
            index.write(struct.pack(">ii", 1 << 20, path.stat().st_size))
        path.write_bytes(path.read_bytes() + TORN)
    return None


def end_logs(log_dir: Path, fs: FileSystem) -> object:
    """Cut logs behind their last whole batch, and keep the bytes that are cut off."""
    return _repaired(log_dir, fs, _last_logs(log_dir), RepairGroup.LOG_END)


def _repaired(log_dir: Path, fs: FileSystem, paths: Iterable[Path], group: RepairGroup) -> object:
    found = [Finding(FindingCode.INDEX_MISSING, Harm.NO_START, str(path), "", "", repair=group) for path in paths]
    kinds = DERIVED if group is RepairGroup.DERIVED else frozenset({RepairKind(group)})
    with a_cleaner(log_dir, LAYERS, fs, FakeClock(AT_MS)).locked() as opened:
        return repair_log_dirs(opened, RepairRequest(CheckRequest(), kinds), lambda *_: Checked(found))


def _metadata_files(log_dir: Path) -> list[Path]:
    return [directory / PARTITION_METADATA_FILE for _, directory in sorted(LogDir(log_dir).partitions())]


def _last_logs(log_dir: Path) -> list[Path]:
    return [max(directory.glob("*.log")) for _, directory in sorted(LogDir(log_dir).partitions())]


def _to_mend(log_dir: Path) -> list[Path]:
    paths = []
    for _, directory in LogDir(log_dir).partitions():
        listing = list_partition(directory)
        base_offset = listing.segments[-2].base_offset
        paths += [directory / segment_file_name(base_offset, kind) for kind in (FileKind.INDEX, FileKind.TIME_INDEX)]
        paths += [directory / segment_file_name(base_offset, FileKind.TXN_INDEX), directory / LEADER_EPOCH_CHECKPOINT]
        paths += [snapshot.path for snapshot in listing.snapshots[-1:]]
    return paths
