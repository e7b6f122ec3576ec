"""``free``: words and exit statuses on the demo, and a real disk with 0 bytes free."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.cleaner import Cleaner
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from tests.partition_dirs import PartitionDir, committed, keyed, records_in
from tests.small_disks import a_small_disk, fill, free_bytes

DAY_MS = 86_400_000
SEGMENTS, EXPIRED = 30, 20
DEMO_DISK_BYTES = 256 << 20


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A log dir on a full disk; two thirds of its one topic are past a retention of a day."""
    with a_small_disk("tmpfs", tmp_path) as disk:
        now_ms = time.time_ns() // 1_000_000
        log_dir = disk / "data"
        made = PartitionDir(log_dir, "clicks-0")
        for base in range(SEGMENTS):
            age_ms = 2 * DAY_MS if base < EXPIRED else 0
            made.segment(base, keyed(base, "x=" + "v" * 50_000, timestamp_ms=now_ms - age_ms))
        committed(log_dir, made)
        fill(disk)
        yield log_dir


def free(log_dir: Path, *options: str) -> int:
    retention = ("--set", "cleanup.policy=delete", "--set", "retention.ms=1d")
    return main(["free", "--log-dir", str(log_dir), *retention, *options])


def offsets(log_dir: Path) -> list[int]:
    return [record.offset for record in records_in(log_dir / "clicks-0")]


def files_of(log_dir: Path) -> dict[str, int]:
    return {str(p.relative_to(log_dir)): p.stat().st_mtime_ns for p in log_dir.rglob("*") if p.is_file()}


def test_full_disk_has_as_much_free_as_was_asked(full: Path, capsys) -> None:
    assert free(full, "--target", "500000B") == 0
    assert 500_000 <= free_bytes(full) < 600_000
    said, told = capsys.readouterr()
    assert f"{full}: " in said
    assert "more than before; target 488.3 KiB met" in said
    assert "TARGET_MET" in said
    assert "journal_waits" in told
    assert free(full, "--target", "500000B") == 0
    assert offsets(full) == list(range(offsets(full)[0], SEGMENTS))


def test_percentage_is_one_of_the_file_system(full: Path) -> None:
    assert free(full, "--target", "10%") == 0
    status = os.statvfs(full)
    assert status.f_bavail * 100 // status.f_blocks == 10


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_target_that_policy_does_not_allow_is_one_line_and_status_1(full: Path, capsys, dry_run) -> None:
    assert free(full, "--target", "80%", *dry_run) == 1
    said, told = capsys.readouterr()
    (line,) = [x for x in told.splitlines() if x.startswith("logcleaner: ") and not x.startswith("logcleaner: --set")]
    assert f"{full}: " in line
    assert "short of 6.4 MiB: policy allows no more; lower a retention, or add --compact" in line
    assert "target 6.4 MiB missed by" in said
    assert offsets(full) == list(range(0 if dry_run else EXPIRED, SEGMENTS))


def test_dry_run_changes_nothing_and_says_what_would_go(full: Path, capsys) -> None:
    before = files_of(full)
    assert free(full, "--target", "500000B", "--dry-run") == 0
    assert files_of(full) == before
    said = capsys.readouterr().out
    assert "would delete" in said
    assert re.search(r"KiB would be free, [\d.]+ KiB more than now; target 488.3 KiB met", said)
    assert "free unlinks files at once: restore cannot bring them back" in said


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--dry-run",), "Would unlink {} after that, restore cannot take these deletions back"),
        ((), "Unlinked {} restore can no longer take these deletions back"),
    ],
)
@pytest.mark.parametrize("command", ["free", "clean"])
def test_end_of_what_restore_could_take_back_is_said(log_dir: Path, capsys, command, options, told) -> None:
    assert main(["clean", "--log-dir", str(log_dir)]) == 0
    assert main(["restore", "--log-dir", str(log_dir)]) == 0
    assert "Nothing to restore" not in capsys.readouterr().out
    at_once = ("--target", "100%") if command == "free" else ("--delete-delay", "0")
    main([command, "--log-dir", str(log_dir), *at_once, *options])
    said = " ".join(capsys.readouterr().out.split())
    before, after = told.split("{}")
    assert re.search(f"{before}.*? in .deleted files of earlier runs:{after}", said)
    assert command == "clean" or "free unlinks files at once: restore cannot bring them back" in said


def test_target_that_is_met_needs_no_lock_and_reads_no_log(log_dir: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Cleaner, "plan", None)
    with LogDirLock.acquire(log_dir, FileSystem()):
        before = files_of(log_dir)
        assert free(log_dir, "--target", "1B") == 0
        assert files_of(log_dir) == before
    assert "target 1 byte met" in capsys.readouterr().out


def test_broker_that_runs_is_left_alone(log_dir: Path, capsys, monkeypatch) -> None:
    with LogDirLock.acquire(log_dir, FileSystem()):
        before = files_of(log_dir)
        monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.3)
        assert free(log_dir, "--target", "100%") == 3
        assert files_of(log_dir) == before
    assert "held by" in capsys.readouterr().err


def test_document_is_that_of_clean(full: Path, capsys) -> None:
    assert free(full, "--target", "500000B", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "logcleaner.plan/1"
    (partition,) = document["partitions"]
    result = partition["result"]
    assert result["freed_bytes"] == result["deleted_bytes"] > 450_000
    codes = {segment["reason"]["code"] for segment in partition["segments"]}
    assert codes == {"RETENTION_TIME", "TARGET_MET", "TIME_NOT_REACHED"}
    assert free(full, "--target", "500000B", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["partitions"][0]["result"] is None


def test_topic_nobody_speaks_of_is_named_as_the_cause(full: Path, capsys) -> None:
    assert main(["free", "--log-dir", str(full), "--target", "500000B"]) == 5
    told = capsys.readouterr().err
    assert "the cleanup policy of 1 partition is unknown; name its directory with metadata.log.dir" in told
    assert 'else state cleanup.policy under [topics."clicks"]' in told
    assert offsets(full) == list(range(SEGMENTS))


def test_partition_that_cannot_be_read_is_told_as_the_cause(full: Path, capsys) -> None:
    (full / "clicks-1" / f"{0:020d}.log").mkdir(parents=True)
    assert free(full, "--target", "80%", "--dry-run") == 1
    told = capsys.readouterr().err
    assert "is a directory" in told
    assert "short of 6.4 MiB: 1 partition failed; the lines before say why" in told


def test_without_compact_no_log_is_compacted(demo: Path, tmp_path: Path, capsys) -> None:
    with a_small_disk("tmpfs", tmp_path, DEMO_DISK_BYTES) as disk:
        _compacts_only_with_compact(shutil.copytree(demo, disk / "data"), capsys)


def _compacts_only_with_compact(log_dir: Path, capsys) -> None:
    logs = {path: path.stat().st_size for path in log_dir.glob("orders-*/*.log")}
    assert main(["free", "--log-dir", str(log_dir), "--target", "100%"]) == 1
    assert {path: path.stat().st_size for path in logs} == logs
    capsys.readouterr()
    assert main(["free", "--log-dir", str(log_dir), "--target", "100%", "--compact", "--dry-run"]) == 1
    assert (
        "a dry run does not know what compaction would free; 4 partitions would be compacted" in capsys.readouterr().err
    )
    assert main(["free", "--log-dir", str(log_dir), "--target", "100%", "--compact"]) == 1
    assert sum(path.stat().st_size for path in log_dir.glob("orders-*/*.log")) < sum(logs.values())
    assert "policy allows no more; lower a retention; clean --dry-run" in capsys.readouterr().err


def test_signal_ends_it_between_two_steps(full: Path, monkeypatch) -> None:
    plan = Cleaner.plan

    def interrupted(self: Cleaner, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return plan(self, *arguments)

    monkeypatch.setattr(Cleaner, "plan", interrupted)
    assert free(full, "--target", "500000B") == 143
    assert offsets(full) == list(range(SEGMENTS))


@pytest.mark.parametrize("options", [(), ("--target", "0"), ("--target", "lots")])
def test_wrong_usage(log_dir: Path, options: tuple[str, ...], capsys) -> None:
    assert free(log_dir, *options) == 2
    assert "--target" in capsys.readouterr().err


def test_what_was_measured_is_told(full: Path, capsys) -> None:
    assert free(full, "--target", "500000B") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if ": measured: " in line]
    assert line.startswith(f"{full}: measured: the deleted files took ")
    assert ", and unused space grew by " in line


def test_hard_linked_segment_is_named_and_the_cause_told(full: Path, capsys) -> None:
    log = full / "clicks-0" / f"{7:020d}.log"
    (full.parent / "backup").hardlink_to(log)
    for dry_run in (("--dry-run",), ()):
        assert free(full, "--target", "80%", *dry_run) == 1
        said, told = capsys.readouterr()
        assert "NO_GAIN" in said
        assert "a file of it has 2 hard links: deleting it would free nothing" in said
        assert "deleting from 1 partition would free nothing (NO_GAIN); remove the hard links" in told
    assert offsets(full) == list(range(7, SEGMENTS))
    assert free(full, "--target", "80%", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    codes = [segment["reason"]["code"] for segment in document["partitions"][0]["segments"]]
    assert codes[:2] == ["NO_GAIN", "BEHIND_KEPT_SEGMENT"]


def test_partition_that_gives_too_little_back_is_told_with_figures(tmp_path: Path, capsys) -> None:
    with a_small_disk("tmpfs", tmp_path) as disk:
        made = PartitionDir(disk / "data", "clicks-0")
        for base in range(5):
            timestamp_ms = time.time_ns() // 1_000_000 - (2 * DAY_MS if base < 4 else 0)
            made.segment(base, keyed(base, "x=" + "v" * 600_000, timestamp_ms=timestamp_ms))
        log_dir = committed(disk / "data", made)
        with made.log(0).open("rb"), made.log(1).open("rb"):
            assert free(log_dir, "--target", "100%") == 1
        assert offsets(log_dir) == [2, 3, 4]
    said, told = capsys.readouterr()
    (line,) = [line for line in said.splitlines() if line.startswith(f"{log_dir}/clicks-0: measured")]
    assert "deleting 1.2 MiB freed" in line
    assert "so nothing else of this partition was deleted: a snapshot" in line
    assert "NO_GAIN" in told
