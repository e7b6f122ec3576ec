"""Each shape, made in a healthy log dir: the doctor names it, and nothing else. Healthy log dirs have no finding.

What real Kafka makes is in ``tests/interop/test_doctor.py``; here each is made by hand, which is quick.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.doctor.examining import unlinked_of
from cleaner.engine.doctor.glancing import tail_at_end
from cleaner.engine.explain.explaining import Glanced
from cleaner.engine.space import FileSystemAccount, UnlinkedFile, UnlinkedFiles
from policies.findings.findings import FindingCode
from policies.rescue import Volume
from storage.anomalies import Anomaly
from storage.checkpoints import format_offset_checkpoint
from storage.errors import PlanOutOfDate, UnreadableFile
from storage.filesystem import FileSystem
from storage.log import AppendOrigin
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from storage.records import ControlType, Record, encode_batch
from storage.records.v2 import MAGIC_POSITION
from tests.cleaner.engine.doctor.made import HOUR_MS, NOW_MS, TOPICS, Healthy, seen
from tests.metadata_dirs import alter, metadata_log
from tests.partition_dirs import PartitionDir, keyed

DAY_MS = 24 * HOUR_MS
ROOT = Path(__file__).parents[4]
Damage = Callable[[Healthy], object]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is looked at an hour after it was written."""
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)


def append(healthy: Healthy, name: str, data: bytes) -> None:
    path = healthy.file(name, ".log", -1)
    path.write_bytes(path.read_bytes() + data)


def padded(healthy: Healthy) -> None:
    """A sealed segment whose index was not trimmed."""
    index = healthy.file("clicks-0", ".timeindex")
    index.write_bytes(index.read_bytes() + bytes(120))


def never_written(healthy: Healthy) -> None:
    """The active segment's index, preallocated and never written."""
    healthy.file("clicks-0", ".timeindex", -1).write_bytes(bytes(1200))


def zero_tail(healthy: Healthy) -> None:
    append(healthy, "clicks-0", bytes(5000))


def zero_tail_unclean(healthy: Healthy) -> None:
    zero_tail(healthy)
    (healthy.log_dir / CLEAN_SHUTDOWN_FILE).unlink()


def torn(healthy: Healthy) -> None:
    append(healthy, "clicks-0", b"\1" * 40)


def torn_in_the_middle(healthy: Healthy) -> None:
    """A closed segment that ends within a batch."""
    os.truncate(path := healthy.file("clicks-0", ".log"), path.stat().st_size - 5)


def emptied_time_index(healthy: Healthy) -> None:
    healthy.file("clicks-0", ".timeindex").write_bytes(b"")


def without_time_index(healthy: Healthy) -> None:
    healthy.file("clicks-0", ".timeindex").unlink()


def without_id(healthy: Healthy) -> None:
    (healthy.log_dir / "clicks-0" / "partition.metadata").unlink()


def foreign_id(healthy: Healthy) -> None:
    path = healthy.log_dir / "clicks-0" / "partition.metadata"
    path.write_text(path.read_text().replace("00", "99"))


def garbled_id(healthy: Healthy) -> None:
    (healthy.log_dir / "clicks-0" / "partition.metadata").write_text("version: 0\ntopic_id: None")


def unowned(healthy: Healthy) -> None:
    healthy.partition("gone-0")
    healthy.stopped()


def garbled_epochs(healthy: Healthy) -> None:
    (healthy.log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("0\n1\nx 0\n")


def without_epochs(healthy: Healthy) -> None:
    (healthy.log_dir / "clicks-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def aborted(healthy: Healthy) -> None:
    healthy.transaction("payments-0", ControlType.ABORT)
    healthy.file("payments-0", ".txnindex", -1).unlink()


def hanging(healthy: Healthy) -> None:
    healthy.transaction("payments-0", None, at_ms=NOW_MS - 5 * HOUR_MS)


def lost_end(healthy: Healthy) -> None:
    clicks = TopicPartition("clicks", 0)
    (healthy.log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint({clicks: 9}))


def lost_snapshot(healthy: Healthy) -> None:
    directory = healthy.log_dir / "clicks-0"
    (directory / f"{8:020d}.snapshot").write_bytes(healthy.file("clicks-0", ".snapshot").read_bytes())


def lost_logs(healthy: Healthy) -> None:
    """Somebody ran rm *.log."""
    for path in (healthy.log_dir / "clicks-0").glob("*.log"):
        path.unlink()


def lost_partition(healthy: Healthy) -> None:
    shutil.rmtree(healthy.log_dir / "clicks-0")


def lost_start(healthy: Healthy) -> None:
    clicks = TopicPartition("clicks", 0)
    (healthy.log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(format_offset_checkpoint({clicks: 12}))


def cleaner_beyond(healthy: Healthy) -> None:
    healthy.clean("orders-0", 40)


def empty_batches(healthy: Healthy) -> None:
    with healthy.log_of("orders-0") as log:
        for number in range(150):
            data = encode_batch([Record(6 + number, NOW_MS - HOUR_MS, b"e", None)], partition_leader_epoch=2)
            log.append(emptied(data), now_ms=NOW_MS - HOUR_MS, leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)
        log.roll(NOW_MS - HOUR_MS)
    healthy.stopped()
    healthy.clean("orders-0", 156)


def emptied(batch: bytes) -> bytes:
    """The batch as compaction leaves it when its records are gone: a header."""
    from crc32c import crc32c

    header = bytearray(batch[:61])
    struct.pack_into(">i", header, 8, 49)
    struct.pack_into(">i", header, 57, 0)
    struct.pack_into(">I", header, 17, crc32c(bytes(header[21:])))
    return bytes(header)


def future(healthy: Healthy) -> None:
    with healthy.log_of("clicks-0") as log:
        log.append_records([Record(0, NOW_MS + 400 * DAY_MS, b"f", b"v")], now_ms=NOW_MS, leader_epoch=2)
        log.roll(NOW_MS)
        log.append_records([Record(0, NOW_MS - HOUR_MS, b"f", b"v")], now_ms=NOW_MS, leader_epoch=2)
    healthy.stopped()


def future_tiered(healthy: Healthy) -> None:
    with healthy.log_of("tiered-0") as log:
        log.append_records([Record(0, NOW_MS + 400 * DAY_MS, b"f", b"v")], now_ms=NOW_MS, leader_epoch=2)
    healthy.stopped()


def remade(healthy: Healthy, name: str, **options: Any) -> None:
    directory = healthy.log_dir / name
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    healthy.partition(name, **options)
    healthy.stopped()


def residue(healthy: Healthy) -> None:
    """Closed segments are three days old, and the log was written to an hour ago."""
    remade(healthy, "tiered-0", at_ms=NOW_MS - 3 * DAY_MS)
    os.utime(healthy.file("tiered-0", ".log", -1), ns=((NOW_MS - HOUR_MS) * 1_000_000,) * 2)


def without_state(healthy: Healthy) -> None:
    """A follower that got the log start from remote storage, and no auxiliary state."""
    directory = healthy.log_dir / "tiered-0"
    for path in sorted(directory.iterdir()):
        if path.name != "partition.metadata":
            path.unlink()
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{1000:020d}{suffix}").touch()
    healthy.stopped()


def index_cache(healthy: Healthy) -> None:
    (healthy.log_dir / "remote-log-index-cache").mkdir()
    (healthy.log_dir / "remote-log-index-cache" / "1_x.index").write_bytes(bytes(5000))


def compacted_once(healthy: Healthy) -> None:
    healthy.clean("tiered-0", 4)


def share_state(healthy: Healthy) -> None:
    remade(healthy, "__share_group_state-0", at_ms=NOW_MS - 5 * DAY_MS)


def behind(healthy: Healthy) -> None:
    """Twelve segments that a round was due for."""
    with healthy.log_of("orders-0") as log:
        for _ in range(12):
            log.append_records([Record(0, NOW_MS - HOUR_MS, b"k", b"v" * 90)], now_ms=NOW_MS, leader_epoch=2)
            log.roll(NOW_MS)
    healthy.stopped()
    for hours, path in enumerate(sorted((healthy.log_dir / "orders-0").glob("*.log"))):
        os.utime(path, ns=((NOW_MS - (30 - hours) * HOUR_MS) * 1_000_000,) * 2)


def unkeyed(healthy: Healthy) -> None:
    remade(healthy, "orders-0", key=None)


def far_offset(healthy: Healthy) -> None:
    """A batch that an old Kafka's cleaner put into a segment that begins too far below."""
    far = bytearray(encode_batch([Record(1 << 32, NOW_MS - HOUR_MS, b"k", b"v")]))
    struct.pack_into(">i", far, 12, 2)
    path = healthy.file("clicks-0", ".log", -1)
    path.write_bytes(path.read_bytes() + bytes(far))


def waiting(healthy: Healthy) -> None:
    (healthy.log_dir / "clicks-0" / f"{0:020d}.log.deleted").write_bytes(b"of an earlier run")


def replaced(healthy: Healthy) -> None:
    """The leader epochs that a repair replaced."""
    (healthy.log_dir / "clicks-0" / "leader-epoch-checkpoint.deleted").write_bytes(b"of an earlier run")


def swap(healthy: Healthy) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        path = healthy.file("clicks-0", suffix)
        path.with_name(f"{path.name}.swap").write_bytes(path.read_bytes())


def scratch(healthy: Healthy) -> None:
    """Files of a compaction on a cluster whose driver was killed."""
    for name in (f"{0:020d}.log", "0.bitmap"):
        (healthy.log_dir / "clicks-0" / f"{name}.0123abcd-0123456789abcdef.logcleaner").touch()


def without_meta(healthy: Healthy) -> None:
    (healthy.log_dir / "meta.properties").unlink()


def empty_meta(healthy: Healthy) -> None:
    (healthy.log_dir / "meta.properties").write_text("")


def garbled_checkpoint(healthy: Healthy) -> None:
    (healthy.log_dir / LOG_START_OFFSET_CHECKPOINT).write_text("nonsense")


def two_lines(healthy: Healthy) -> None:
    (healthy.log_dir / RECOVERY_POINT_CHECKPOINT).write_text("0\n2\nclicks 0 6\nclicks 0 6\n")


def stray(healthy: Healthy) -> None:
    (healthy.log_dir / f"old-0.{'ab' * 16}-stray").mkdir()


def deleting(healthy: Healthy) -> None:
    (healthy.log_dir / f"old-0.{'ab' * 16}-delete").mkdir()


def lost_as(suffix: str) -> Damage:
    """The only directory of a partition was renamed."""

    def rename(healthy: Healthy) -> None:
        (healthy.log_dir / "clicks-0").rename(healthy.log_dir / f"clicks-0.{'ab' * 16}-{suffix}")

    rename.__name__ = f"lost_as_{suffix}"
    return rename


def lost_as_stray_without_id(healthy: Healthy) -> None:
    without_id(healthy)
    lost_as("stray")(healthy)


def lost_as_stray_without_metadata(healthy: Healthy) -> None:
    """Nothing but a checkpoint of the clean stop says that the partition belongs here."""
    shutil.rmtree(healthy.log_dir / "__cluster_metadata-0")
    lost_as("stray")(healthy)


def lost_as_stray_without_checkpoints(healthy: Healthy) -> None:
    """A broker that started meanwhile wrote them anew."""
    lost_as("stray")(healthy)
    healthy.stopped()


def strange(healthy: Healthy) -> None:
    (healthy.log_dir / "lost+found").mkdir()


SHAPES: list[tuple[Damage, str, int, str]] = [
    (padded, "TIME_INDEX_PADDED", 4, "KAFKA-10207"),
    (never_written, "TIME_INDEX_PADDED", 4, "KAFKA-19200"),
    (zero_tail, "ZERO_TAIL", 4, "KAFKA-21000"),
    (zero_tail_unclean, "ZERO_TAIL", 0, "KAFKA-21000"),
    (torn, "TORN_TAIL", 4, ""),
    (torn_in_the_middle, "TORN_TAIL", 4, ""),
    (emptied_time_index, "TIME_INDEX_WRONG", 4, ""),
    (without_time_index, "INDEX_MISSING", 4, ""),
    (without_id, "TOPIC_ID_MISSING", 4, "KAFKA-16814"),
    (foreign_id, "TOPIC_ID_FOREIGN", 4, "KAFKA-14616"),
    (garbled_id, "PARTITION_METADATA", 4, ""),
    (unowned, "DIRECTORY_UNOWNED", 0, "KAFKA-15605"),
    (without_epochs, "EPOCHS_LOST", 4, "KAFKA-20961"),
    (garbled_epochs, "EPOCHS_CORRUPT", 4, ""),
    (aborted, "ABORTED_UNINDEXED", 4, "KAFKA-13727"),
    (hanging, "TRANSACTION_HANGING", 0, "KAFKA-12671"),
    (lost_end, "END_BELOW_WATERMARK", 4, "KAFKA-17076"),
    (lost_snapshot, "END_BELOW_WATERMARK", 4, "KAFKA-17076"),
    (lost_logs, "END_BELOW_WATERMARK", 4, "KAFKA-17076"),
    (lost_partition, "PARTITION_LOST", 4, ""),
    (lost_start, "CHECKPOINT_BEYOND_END", 4, ""),
    (cleaner_beyond, "CHECKPOINT_BEYOND_END", 0, ""),
    (empty_batches, "EMPTY_BATCHES", 0, "KAFKA-20452"),
    (future, "FUTURE_TIMESTAMP", 0, "KAFKA-20609"),
    (future_tiered, "FUTURE_TIMESTAMP", 0, "KAFKA-20609"),
    (residue, "TIERED_RESIDUE", 0, "KAFKA-17020"),
    (without_state, "TIERED_RESIDUE", 0, "KAFKA-16890"),
    (compacted_once, "COMPACTED_NOW_TIERED", 0, "KAFKA-15388"),
    (share_state, "SHARE_STATE_GROWS", 0, "KAFKA-18058"),
    (behind, "CLEANER_BEHIND", 0, ""),
    (unkeyed, "UNKEYED_RECORDS", 0, ""),
    (far_offset, "OFFSET_OVERFLOW", 0, "KAFKA-6264"),
    (waiting, "DELETED_LEFT", 0, ""),
    (replaced, "DELETED_LEFT", 0, ""),
    (swap, "SWAP_LEFT", 0, "KAFKA-12520"),
    (scratch, "SWAP_LEFT", 0, ""),
    (without_meta, "META_PROPERTIES", 4, ""),
    (empty_meta, "META_PROPERTIES", 4, ""),
    (garbled_checkpoint, "CHECKPOINT_CORRUPT", 4, ""),
    (two_lines, "CHECKPOINT_CORRUPT", 4, ""),
    (stray, "STRAY_DIRECTORY", 0, "KAFKA-15605"),
    (deleting, "DELETE_DIRECTORY", 0, ""),
    (lost_as("stray"), "PARTITION_LOST", 4, ""),
    (lost_as("delete"), "PARTITION_LOST", 4, ""),
    (lost_as_stray_without_id, "PARTITION_LOST", 4, ""),
    (lost_as_stray_without_metadata, "PARTITION_LOST", 4, ""),
    (lost_as_stray_without_checkpoints, "PARTITION_LOST", 4, ""),
    (strange, "NAME_STRANGE", 4, ""),
]


@pytest.mark.usefixtures("clock")
def test_healthy_log_dir_has_no_finding(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    healthy.transaction("payments-0", ControlType.ABORT)
    healthy.transaction("payments-0", ControlType.COMMIT)
    healthy.clean("orders-0", 4)
    assert seen(capsys, healthy.log_dir) == (0, [])
    assert seen(capsys, healthy.log_dir, options=("--deep",)) == (0, [])
    (healthy.log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    assert seen(capsys, healthy.log_dir) == (0, [])


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("damage", "code", "status", "issue"), SHAPES, ids=lambda one: getattr(one, "__name__", None))
def test_shape_is_named_and_nothing_else(
    tmp_path: Path, capsys, damage: Damage, code: str, status: int, issue: str
) -> None:
    healthy = Healthy(tmp_path / "data", orders=CLEANABLE if damage is behind else {})
    damage(healthy)
    found_status, findings = seen(capsys, healthy.log_dir)
    assert [(one["code"], one["kafka_issue"] or "") for one in findings] == [(code, issue)]
    assert found_status == status
    if code == "FUTURE_TIMESTAMP":  # up to 4.4 no release takes the file time
        assert "No release takes the file time instead, up to Kafka 4.4." in findings[0]["remedy"]


OF_BOTH = {
    *("TIME_INDEX_PADDED", "ZERO_TAIL", "TORN_TAIL", "TOPIC_ID_MISSING", "TOPIC_ID_FOREIGN", "EPOCHS_LOST"),
    *(
        "PARTITION_METADATA",
        "ABORTED_UNINDEXED",
        "END_BELOW_WATERMARK",
        "CHECKPOINT_BEYOND_END",
        "NAME_STRANGE",
        "OFFSET_OVERFLOW",
        "EPOCHS_CORRUPT",
    ),
}
"""The shapes that verify tells, too."""
MADE_SO = {"INDEX_MISSING"}
"""What verify finds of a metadata log that is made by hand."""


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("damage", "code"), [shape[:2] for shape in SHAPES if shape[1] in OF_BOTH])
def test_verify_says_the_same_of_the_same_shape(tmp_path: Path, capsys, damage: Damage, code: str) -> None:
    healthy = Healthy(tmp_path / "data")
    before = seen(capsys, healthy.log_dir, command="verify")[1]
    assert {one["code"] for one in before} <= MADE_SO
    damage(healthy)
    _, (ours,) = seen(capsys, healthy.log_dir)
    theirs = seen(capsys, healthy.log_dir, command="verify")[1]
    same = [one for one in theirs if one["code"] == code]
    assert same, theirs
    for one in same:
        assert {key: one[key] for key in ("harm", "kafka_issue", "repair", "remedy")} == {
            key: ours[key] for key in ("harm", "kafka_issue", "repair", "remedy")
        }
    following = {
        never_written: {"TIME_INDEX_WRONG"},
        far_offset: {"OFFSET_GAP"},
        lost_logs: {"EPOCHS_WRONG"},
    }.get(damage, set())
    assert {one["code"] for one in theirs} - {code} - MADE_SO == following


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("command", [("doctor",), ("doctor", "--deep"), ("verify",)], ids=" ".join)
@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (zero_tail, "The file ends with 5,000 zeros, as log.preallocate leaves them"),
        (torn, "The file ends with 40 bytes that are no whole batch, as a write that was cut short leaves them"),
        (aborted, "begins at offset 6 in 00000000000000000004.log, and was aborted at offset 7: consumers of"),
        (emptied_time_index, "retention by time may delete the segment too early, and a look-up by time may miss"),
        (far_offset, "no index can hold it, so the segment can be neither indexed nor compacted"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_each_command_says_what_it_comes_of_and_what_follows(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, damage: Damage, cause: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    healthy = Healthy(tmp_path / "data")
    damage(healthy)
    main([*command, str(healthy.log_dir)])
    lines = capsys.readouterr().out.splitlines()
    assert cause in " ".join(" ".join(lines).split())
    assert max(len(line) for line in lines if str(healthy.log_dir) not in line) <= 80


CLEANABLE = {"min.cleanable.dirty.ratio": "0.01"}


@pytest.mark.usefixtures("clock")
def test_damage_in_the_active_segment_is_told_though_its_last_batch_is_sound(tmp_path: Path, capsys) -> None:
    """Behind a clean stop no start looks there: it finds the end from the last index entry on."""
    healthy = Healthy(tmp_path / "data")
    path = healthy.file("orders-0", ".log", -1)
    data = bytearray(path.read_bytes())
    data[MAGIC_POSITION] = 9
    path.write_bytes(data)
    status, findings = seen(capsys, healthy.log_dir)
    assert (status, [one["code"] for one in findings]) == (4, ["PARTITION_UNREADABLE"])
    assert f"{path} at byte 0" in findings[0]["text"]


@pytest.mark.usefixtures("clock")
def test_index_cache_without_a_tiered_topic_is_a_residue(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data", tiered={"remote.storage.enable": "false"})
    index_cache(healthy)
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"], finding["kafka_issue"]) == (0, "TIERED_RESIDUE", "KAFKA-17020")


@pytest.mark.usefixtures("clock")
def test_index_cache_of_a_tiered_topic_is_none(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    index_cache(healthy)
    assert seen(capsys, healthy.log_dir) == (0, [])


@pytest.mark.usefixtures("clock")
def test_lost_segments_are_named_by_the_indexes_that_they_left(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    lost_logs(healthy)
    (finding,) = seen(capsys, healthy.log_dir)[1]
    assert "the high watermark 6" in finding["text"]
    assert "3 segments left index files without a .log: of base offset 0, 2, 4." in finding["text"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("damage", [torn, zero_tail])
def test_marker_of_a_clean_stop_is_not_removed_unseen(tmp_path: Path, capsys, damage: Damage) -> None:
    """Without it the start cuts every damaged log of the log dir, not only the one of the finding."""
    healthy = Healthy(tmp_path / "data")
    damage(healthy)
    (finding,) = seen(capsys, healthy.log_dir)[1]
    assert "logcleaner verify" in finding["remedy"].partition(".kafka_cleanshutdown")[0]
    assert "cuts each one at its first damage" in finding["remedy"]


@pytest.mark.usefixtures("clock")
def test_full_disk_is_damage(tmp_path: Path, capsys, monkeypatch) -> None:
    healthy = Healthy(tmp_path / "data")

    def full(path: Path) -> tuple[FileSystemAccount, ...]:
        return (FileSystemAccount(Volume((str(path),), 1 << 30, 0, 1 << 30), UnlinkedFiles()),)

    monkeypatch.setattr("cleaner.engine.space.file_systems_of", lambda _: full(healthy.log_dir))
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"], finding["path"]) == (4, "DISK_FULL", str(healthy.log_dir))
    assert f"logcleaner free --log-dir {healthy.log_dir} --target SIZE" in finding["remedy"]


@pytest.mark.usefixtures("clock")
def test_deadline_of_compaction_that_was_missed(tmp_path: Path, capsys) -> None:
    configs = {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "3600000"}
    healthy = Healthy(tmp_path / "data", orders=configs)
    remade(healthy, "orders-0", at_ms=NOW_MS - DAY_MS)
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"], finding["kafka_issue"]) == (0, "LAG_MISSED", "KAFKA-7321")


@pytest.mark.usefixtures("clock")
def test_partition_in_two_log_dirs(tmp_path: Path, capsys) -> None:
    one, other = Healthy(tmp_path / "one"), tmp_path / "two"
    other.mkdir()
    (other / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (one.log_dir / "clicks-0").rename(other / "clicks-0")
    one.partition("clicks-0")
    one.stopped()
    status, findings = seen(capsys, one.log_dir, other)
    assert (status, [finding["code"] for finding in findings]) == (4, ["PARTITION_TWICE"])
    by_verify = seen(capsys, one.log_dir, other, command="verify")[1]
    assert [found["text"] for found in by_verify if found["code"] == "PARTITION_TWICE"] == [findings[0]["text"]]


@pytest.mark.usefixtures("clock")
def test_garbled_checkpoint_is_damage(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    (healthy.log_dir / RECOVERY_POINT_CHECKPOINT).write_text("nonsense")
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"]) == (4, "CHECKPOINT_CORRUPT")
    assert RECOVERY_POINT_CHECKPOINT in finding["text"]


@pytest.mark.usefixtures("clock")
def test_damaged_cluster_metadata_is_named_and_the_rest_is_looked_at(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    alter(healthy.log_dir, clicks={"retention.ms": "1"})
    data = bytearray(metadata_log(healthy.log_dir).read_bytes())
    data[70] ^= 1
    metadata_log(healthy.log_dir).write_bytes(bytes(data))
    padded(healthy)
    status, findings = seen(capsys, healthy.log_dir)
    assert (status, [one["code"] for one in findings]) == (4, ["TIME_INDEX_PADDED", "METADATA_UNREADABLE"])


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("recovery_point", "codes"), [(0, []), (1, []), (6, ["TIME_INDEX_PADDED"])])
def test_padded_index_that_a_recovery_rebuilds_is_none(
    tmp_path: Path, capsys, recovery_point: int, codes: list[str]
) -> None:
    healthy = Healthy(tmp_path / "data")
    padded(healthy)
    (healthy.log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    points = format_offset_checkpoint({TopicPartition("clicks", 0): recovery_point})
    (healthy.log_dir / RECOVERY_POINT_CHECKPOINT).write_bytes(points)
    assert [one["code"] for one in seen(capsys, healthy.log_dir)[1]] == codes


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("damage", [never_written, zero_tail, torn, swap])
def test_what_a_running_broker_leaves_so_is_none(tmp_path: Path, capsys, damage: Damage) -> None:
    healthy = Healthy(tmp_path / "data")
    damage(healthy)
    (healthy.log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    with LogDir(healthy.log_dir).lock(FileSystem()):
        assert seen(capsys, healthy.log_dir) == (0, [])


@pytest.mark.usefixtures("clock")
def test_topic_that_is_just_being_made_is_none_beside_a_broker(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    unowned(healthy)
    os.utime(healthy.log_dir / "gone-0", ns=((NOW_MS - 30_000) * 1_000_000,) * 2)
    with LogDir(healthy.log_dir).lock(FileSystem()):
        assert seen(capsys, healthy.log_dir) == (0, [])
    assert [one["code"] for one in seen(capsys, healthy.log_dir)[1]] == ["DIRECTORY_UNOWNED"]


@pytest.mark.usefixtures("clock")
def test_without_cluster_metadata_nothing_is_said_of_topics(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    without_id(healthy)
    unowned(healthy)
    shutil.rmtree(healthy.log_dir / "__cluster_metadata-0")
    assert seen(capsys, healthy.log_dir) == (0, [])


@pytest.mark.usefixtures("clock")
def test_aborted_data_behind_what_is_walked_takes_a_deep_look(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("cleaner.engine.doctor.walking.PARTITION_BYTES_MAX", 300)
    healthy = Healthy(tmp_path / "data")
    aborted(healthy)
    assert seen(capsys, healthy.log_dir) == (0, [])
    assert [one["code"] for one in seen(capsys, healthy.log_dir, options=("--deep",))[1]] == ["ABORTED_UNINDEXED"]


def test_each_code_has_a_section() -> None:
    text = (ROOT / "docs/doctor.md").read_text()
    sections = re.findall(r"^### (\w+)$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert sorted(code for code, _ in sections) == sorted(FindingCode)
    for code, said in sections:
        for part in ("Looks like", "What happens", "What to do"):
            assert said.count(f"- **{part}:** ") == 1, (code, part)
    issues = {issue for _, _, _, issue in SHAPES if issue}
    assert issues <= set(re.findall(r"KAFKA-\d+", text))


@pytest.mark.usefixtures("clock")
def test_partition_that_cannot_be_read_is_damage(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    healthy.file("clicks-0", ".timeindex").write_bytes(struct.pack(">qi", -5, -5))
    status, (finding,) = seen(capsys, healthy.log_dir)
    assert (status, finding["code"]) == (4, "PARTITION_UNREADABLE")


@pytest.mark.usefixtures("clock")
def test_partition_that_cannot_be_read_any_more_is_damage(tmp_path: Path, capsys, monkeypatch) -> None:
    log_dir = Healthy(tmp_path / "data").log_dir

    def failing(*_: object) -> None:
        raise UnreadableFile(log_dir / "orders-0", "Input/output error")

    monkeypatch.setattr("cleaner.engine.doctor.examining.walk", failing)
    status, found = seen(capsys, log_dir)
    assert (status, {one["code"] for one in found}, len(found)) == (4, {"PARTITION_UNREADABLE"}, len(TOPICS))
    told = f"The partition cannot be read as it is: {log_dir}/orders-0: cannot be read: Input/output error."
    assert found[0]["text"] == told


def test_file_without_a_name_that_a_process_keeps(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
    monkeypatch.setattr("cleaner.engine.space.LARGEST_MAX", 0)  # other processes may keep larger ones
    healthy = Healthy(tmp_path / "data")
    path = healthy.log_dir / "clicks-0" / f"{77:020d}.log"
    path.write_bytes(bytes(1 << 16))
    keeps = "import sys; kept = open(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", keeps, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        path.unlink()
        status, findings = seen(capsys, healthy.log_dir)
        process.communicate()
    assert (status, [finding["code"] for finding in findings]) == (0, ["UNLINKED_OPEN"])
    assert str(process.pid) in findings[0]["text"]


@pytest.mark.parametrize(("hours", "is_told"), [(0, False), (2, True)])
def test_file_that_a_broker_deleted_itself_is_told_once_no_garbage_collection_can_hold_it(
    tmp_path: Path, hours: int, is_told: bool
) -> None:
    name = str(tmp_path / "clicks-0" / f"{0:020d}.index.deleted")
    file = UnlinkedFile(name, 7, "java", 1, 4096, 4096, NOW_MS - hours * HOUR_MS)
    assert (unlinked_of(tmp_path, [file], NOW_MS) is not None) == is_told


@pytest.mark.usefixtures("clock")
def test_partition_that_changes_all_the_time_is_left_out(tmp_path: Path, capsys, monkeypatch) -> None:
    looks: list[object] = []

    def changed(*arguments: object) -> None:
        looks.append(arguments)
        raise PlanOutOfDate(tmp_path, "another size, time or file")

    monkeypatch.setattr("cleaner.engine.doctor.examining.walk", changed)
    assert seen(capsys, Healthy(tmp_path / "data").log_dir) == (0, [])
    assert len(looks) > 6


@pytest.mark.usefixtures("clock")
def test_with_topics_only_these_are_looked_at(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    padded(healthy)
    stray(healthy)
    assert seen(capsys, healthy.log_dir, options=("--topic", "orders")) == (0, [])
    assert [one["code"] for one in seen(capsys, healthy.log_dir, options=("--topic", "clicks-0"))[1]] == [
        "TIME_INDEX_PADDED"
    ]


@pytest.mark.usefixtures("clock")
def test_clock_that_is_a_little_ahead_is_none(tmp_path: Path, capsys) -> None:
    healthy = Healthy(tmp_path / "data")
    with healthy.log_of("clicks-0") as log:
        log.append_records([Record(0, NOW_MS + HOUR_MS // 2, b"f", b"v")], now_ms=NOW_MS, leader_epoch=2)
    healthy.stopped()
    assert seen(capsys, healthy.log_dir) == (0, [])


def test_a_sparse_tail_of_zeros_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"))
    size_bytes = made.log(0).stat().st_size
    os.truncate(made.log(0), 1 << 40)
    listing, read_bytes, pread = list_partition(made.path), 0, os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read_bytes
        read_bytes += count
        assert read_bytes < 1 << 24, "the hole is read"
        return pread(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", counting)
    (segment,) = Glanced.at(listing).listing.segments
    tail = tail_at_end(segment, (1 << 40) - size_bytes, 1)
    assert (tail.anomaly is Anomaly.ZERO_TAIL, tail.position) == (True, size_bytes)
