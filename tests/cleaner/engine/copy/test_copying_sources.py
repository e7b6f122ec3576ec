"""What ``clean --output`` makes of odd sources and targets: holes, strays, locks, a full disk; and what it tells."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cleaner.engine.copy import copying as output_module
from cleaner.engine.copy.copying import OutputFull
from cleaner.engine.copy.manifest import CopyDoesNotFit, damaged_files, read_manifest
from cleaner.engine.copy.moment import SeenDirectory, SourceChanged
from cleaner.errors import UnusableOutput
from storage.checkpoints import CorruptCheckpoint
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.lock import LogDirLock, LogDirLocked
from storage.log_dir import IncompleteCopy
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from tests.faults import FullDisk
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
    records_in,
    request,
)
from tests.small_disks import a_small_disk, fill
from tests.storage.test_lock import Broker
from tests.storage.test_read_lock import read_only

LAYERS = configured(clicks=EXPIRING, orders=COMPACT)
MIB = 1 << 20
PREALLOCATED_BYTES = 64 * MIB


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A log to retain and a log to compact, as a broker with ``preallocate`` leaves them: active segments and their
    indexes have the length that they may grow to."""
    root = tmp_path / "data"
    old_ms = NOW_MS - 2 * DAY_MS
    clicks = PartitionDir(root, "clicks-0").segment(0, keyed(0, "x=1", timestamp_ms=old_ms)).segment(1, keyed(1, "x=2"))
    orders = PartitionDir(root, "orders-0").segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "a=2", "b"))
    orders.segment(4, keyed(4, "c=1"))
    return committed(root, clicks, orders)


def preallocate(path: Path) -> None:
    status = path.stat()
    os.truncate(path, PREALLOCATED_BYTES)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def copied(original: Path, to: Path, fs: FileSystem | None = None, **asked: Any) -> Any:
    return a_cleaner(original, LAYERS, fs).copy(request(**asked), to, tool_version="1")


def manifest(copy: Path) -> dict[str, Any]:
    return dict(json.loads((copy / MANIFEST_FILE).read_bytes()))


def blocks_bytes(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def test_holes_of_preallocated_files_stay_holes_and_sizes_and_hashes_are_the_full_lengths(
    tmp_path: Path, original: Path
) -> None:
    active = [original / f"clicks-0/{1:020d}{suffix}" for suffix in (".log", ".index")]
    for path in active:
        preallocate(path)
    copied(original, tmp_path / "copy")
    for path in active:
        twin = tmp_path / "copy" / path.relative_to(original)
        assert twin.stat().st_size == PREALLOCATED_BYTES
        assert twin.read_bytes() == path.read_bytes()
    assert blocks_bytes(tmp_path / "copy") < MIB
    files = read_manifest(tmp_path / "copy").files
    assert list(damaged_files(tmp_path / "copy", files)) == []
    assert [file.size_bytes for file in files if file.size_bytes >= MIB] == [PREALLOCATED_BYTES] * 2


def test_what_a_copy_needs_is_counted_without_holes(
    tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preallocate(original / f"clicks-0/{1:020d}.log")
    preallocate(original / f"orders-0/{4:020d}.index")
    space = SimpleNamespace(f_bavail=1, f_frsize=4096, f_blocks=1, f_bfree=1)
    monkeypatch.setattr(output_module.os, "statvfs", lambda path: space)
    with pytest.raises(CopyDoesNotFit) as caught:
        copied(original, tmp_path / "copy")
    assert caught.value.needed_bytes < MIB + 64 * 1024


def test_metadata_log_is_counted_too(tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = original / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"x" * 3 * MIB)
    monkeypatch.setattr(
        output_module.os, "statvfs", lambda path: SimpleNamespace(f_bavail=1, f_frsize=4096, f_blocks=1, f_bfree=1)
    )
    with pytest.raises(CopyDoesNotFit) as caught:
        copied(original, tmp_path / "copy")
    assert 3 * MIB <= caught.value.needed_bytes < 4 * MIB


STRAYS: dict[str, Callable[[Path], object]] = {
    "symlink": lambda path: path.symlink_to("/etc/passwd"),
    "fifo": os.mkfifo,
    "directory": Path.mkdir,
}


@pytest.mark.parametrize("kind", STRAYS)
@pytest.mark.parametrize("where", ["orders-0/notes", "notes", f"orders-0/{0:020d}.log.deleted"])
def test_stray_that_means_nothing_to_kafka_is_left_out_and_named(
    tmp_path: Path, original: Path, kind: str, where: str
) -> None:
    STRAYS[kind](original / where)
    plan, outcome = copied(original, tmp_path / "copy")
    assert not plan.failures
    assert not any(result.error for result in outcome.results.values())
    assert manifest(tmp_path / "copy")["left_out"] == [where]
    assert not os.path.lexists(tmp_path / "copy" / where)


@pytest.mark.parametrize("kind", STRAYS)
@pytest.mark.parametrize(
    "where",
    [
        *(f"orders-0/{9:020d}{suffix}" for suffix in (".log", ".index", ".txnindex", ".snapshot", ".log.swap")),
        "orders-0/partition.metadata",
        "orders-0/leader-epoch-checkpoint",
        "meta.properties",
        "cleaner-offset-checkpoint",
        "__cluster_metadata-0/00000000000000000007-0000000001.checkpoint",
    ],
)
def test_stray_with_a_name_of_kafkas_ends_the_copy_before_anything_is_written(
    tmp_path: Path, original: Path, kind: str, where: str
) -> None:
    (original / "__cluster_metadata-0").mkdir()
    STRAYS[kind](original / where)
    with pytest.raises(UnreadableFile, match=where.rpartition("/")[2]):
        copied(original, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_partition_that_is_a_symlink_ends_the_copy_unless_it_is_not_asked_for(tmp_path: Path, original: Path) -> None:
    (original / "orders-0").rename(tmp_path / "elsewhere")
    (original / "orders-0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile, match=r"orders-0: .*no directory"):
        copied(original, tmp_path / "copy")
    a_cleaner(original, LAYERS).copy(request(topics=("clicks",)), tmp_path / "copy", tool_version="1")
    assert manifest(tmp_path / "copy")["left_out"] == ["orders-0"]


def test_manifest_tells_of_a_partition_that_failed_what_was_done(tmp_path: Path, original: Path) -> None:
    log = original / f"orders-0/{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    (original / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    copied(original, tmp_path / "copy")
    clicks, orders = manifest(tmp_path / "copy")["partitions"]
    assert (clicks["error"], clicks["log_start_offset"], clicks["compacted_to_offset"]) == (None, 1, None)
    assert "CRC" in orders["error"]
    assert (orders["log_start_offset"], orders["compacted_to_offset"]) == (0, None)
    told = [(segment["action"], segment["code"]) for segment in orders["segments"]]
    assert told == [("keep", "FAILED"), ("keep", "FAILED"), ("keep", "ACTIVE_SEGMENT")]
    assert (tmp_path / "copy/cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


def test_manifest_tells_of_a_retention_that_failed_what_was_done(
    tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", "leader-epoch-checkpoint")

    monkeypatch.setattr("cleaner.engine.copy.copying.truncate_leader_epochs", refused)
    _, outcome = copied(original, tmp_path / "copy")
    clicks = manifest(tmp_path / "copy")["partitions"][0]
    assert clicks["error"] == "leader-epoch-checkpoint: Operation not permitted"
    assert clicks["log_start_offset"] == 0
    assert clicks["segments"][0]["action"] == "keep"
    assert [result.error for result in outcome.results.values()] == [clicks["error"], None]
    assert (tmp_path / f"copy/clicks-0/{0:020d}.log").exists()


@pytest.mark.usefixtures("as_kafka")
def test_manifest_tells_where_a_round_that_ended_early_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "data"
    orders = PartitionDir(root, "orders-0")
    for number in range(4):
        orders.segment(number * 40, keyed(number * 40, *(f"{number}-{key}=1" for key in range(40))))
    committed(root, orders.segment(160, keyed(160, "end=1")))
    # the least that can be configured is 1 MiB of keys
    monkeypatch.setattr("tests.kafka_rounds.keys_max_of", lambda broker: 100)
    layers = configured(orders=COMPACT | {"segment.bytes": "100"})
    a_cleaner(root, layers).copy(request(), tmp_path / "copy", tool_version="1")
    (told,) = manifest(tmp_path / "copy")["partitions"]
    reached = told["compacted_to_offset"]
    assert 0 < reached < 160
    assert (tmp_path / "copy/cleaner-offset-checkpoint").read_text() == f"0\n1\norders 0 {reached}\n"
    found = {(s["base_offset"] < reached, s["action"], s["code"]) for s in told["segments"][:4]}
    assert found == {(True, "compact", "DIRTY"), (False, "keep", "ROUND_ENDED")}


def test_garbled_checkpoint_ends_the_copy_before_anything_is_written(tmp_path: Path, original: Path) -> None:
    (original / "recovery-point-offset-checkpoint").write_text("garbled")
    with pytest.raises(CorruptCheckpoint, match="recovery-point-offset-checkpoint"):
        copied(original, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_copy_of_a_copy_has_a_manifest_of_its_own_and_only_at_the_end(tmp_path: Path, original: Path) -> None:
    copied(original, tmp_path / "copy")
    with pytest.raises(OutputFull):
        copied(tmp_path / "copy", tmp_path / "half", FullDisk(30, frozenset({Purpose.COPY})))
    with pytest.raises(IncompleteCopy):
        read_manifest(tmp_path / "half")
    copied(tmp_path / "copy", tmp_path / "twin")
    assert manifest(tmp_path / "twin")["original"] == str(tmp_path / "copy")


def test_every_name_in_a_copy_lasts_before_its_manifest_does(tmp_path: Path, original: Path) -> None:
    steps: list[str] = []

    class Noting(FileSystem):
        def fsync_dir(self, path: Path, purpose: Purpose) -> None:
            steps.append(path.name)
            super().fsync_dir(path, purpose)

        def replace_file(self, path: Path, content: bytes, purpose: Purpose) -> None:
            steps.append(path.name)
            super().replace_file(path, content, purpose)

    copied(original, tmp_path / "copy", Noting())
    before_manifest = steps[: steps.index("logcleaner-manifest.json")]
    last_of_all = before_manifest[-len(list(original.glob("*-[0-9]"))) - 1 :]
    assert sorted(last_of_all) == sorted([*(path.name for path in original.glob("*-[0-9]")), "copy"])


def test_an_output_that_cannot_be_used_is_refused_before_the_original_is_locked(tmp_path: Path, original: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "something").touch()
    with pytest.raises(UnusableOutput):
        copied(original, tmp_path / "copy")
    assert not (original / ".lock").exists()


def test_a_copy_has_no_old_log_start_of_a_log_that_it_shortened(tmp_path: Path, original: Path) -> None:
    """Its first segment says where it begins."""
    (original / "log-start-offset-checkpoint").write_text("0\n1\nclicks 0 0\n")
    copied(original, tmp_path / "copy")
    assert (tmp_path / "copy/log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_interrupted_copy_is_no_source(tmp_path: Path, original: Path) -> None:
    (original / INCOMPLETE_FILE).touch()
    with pytest.raises(IncompleteCopy):
        copied(original, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_source_is_locked_for_the_whole_copy_and_the_file_stays(tmp_path: Path, original: Path) -> None:
    answers = set()

    class Asked(FileSystem):
        def fsync_dir(self, path: Path, purpose: Purpose) -> None:
            with Broker(original) as broker:
                answers.add(broker.answer)
            super().fsync_dir(path, purpose)

    copied(original, tmp_path / "copy", Asked())
    assert answers == {"refused"}
    assert (original / ".lock").exists()
    assert not (tmp_path / "copy/.lock").exists()
    with Broker(original) as broker:
        assert broker.answer == "locked"


def test_lock_file_is_the_one_trace_that_a_copy_leaves(tmp_path: Path, original: Path) -> None:
    def seen() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_ctime_ns) for path in original.rglob("*")}

    before = seen()
    copied(original, tmp_path / "copy")
    after = seen()
    assert after.keys() - before.keys() == {original / ".lock"}
    assert before.items() <= after.items()
    copied(original, tmp_path / "again")
    assert seen() == after


def test_read_only_mount_is_copied_and_its_lock_asked(tmp_path: Path, original: Path) -> None:
    with read_only(original) as mounted:
        copied(mounted, tmp_path / "without")
        (original / ".lock").touch()
        with Broker(original), pytest.raises(LogDirLocked):
            copied(mounted, tmp_path / "refused")
        copied(mounted, tmp_path / "with")
    assert read_manifest(tmp_path / "without")
    assert read_manifest(tmp_path / "with")
    assert not (tmp_path / "refused").exists()


def test_lock_is_let_go_where_the_copy_fails(tmp_path: Path, original: Path) -> None:
    class Writing(FileSystem):
        def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
            (original / "orders-0/notes").touch()
            super().make_dir(path, like, purpose)

    with pytest.raises(SourceChanged, match=r"notes: changed since the copy was planned \(it was not there\)"):
        copied(original, tmp_path / "copy", Writing())
    LogDirLock.acquire(original, FileSystem()).release()


@pytest.mark.parametrize("free_steps", [0, 1, 5, 20])
def test_full_target_names_the_target_and_what_helps_there(tmp_path: Path, original: Path, free_steps: int) -> None:
    disk = FullDisk(free_steps, frozenset({Purpose.COPY, Purpose.CLEAN}))
    with pytest.raises(OutputFull) as caught:
        copied(original, tmp_path / "copy", disk)
    told = str(caught.value)
    assert told.startswith(str(tmp_path / "copy"))
    assert "a file system with more space" in told
    assert "free" not in told.replace("free space", "")
    assert not (tmp_path / "copy" / MANIFEST_FILE).exists()


@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_real_target_that_others_fill_meanwhile(tmp_path: Path, original: Path, kind: str) -> None:
    class Filling(FileSystem):
        def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
            super().make_dir(path, like, purpose)
            if path.name == "orders-0":
                fill(path.parent.parent)

    with a_small_disk(kind, tmp_path) as disk, pytest.raises(OutputFull, match="no space"):
        copied(original, disk / "copy", Filling())


def test_full_source_without_a_lock_file_is_copied(tmp_path: Path, original: Path) -> None:
    with a_small_disk("tmpfs", tmp_path) as disk:
        shutil.copytree(original, disk / "data")
        fill(disk)
        copied(disk / "data", tmp_path / "copy")
    assert [record.offset for record in records_in(tmp_path / "copy/orders-0")] == [2, 3, 4]


def test_a_directory_that_another_one_replaced_is_a_change(tmp_path):
    partition = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).path
    seen = SeenDirectory.look(partition)
    partition.rename(tmp_path / "aside")
    shutil.copytree(tmp_path / "aside", partition)
    with pytest.raises(SourceChanged, match=f"^{partition}: .*another directory has its name"):
        seen.ensure_unchanged()
