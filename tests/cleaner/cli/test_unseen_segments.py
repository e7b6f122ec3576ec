"""A segment that is no plain file is never read, so nothing is decided over the partition that it lies in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cleaner.cli.main import main


def _link(path: Path) -> None:
    target = path.parents[2] / "elsewhere.log"
    path.rename(target)
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


KINDS = {"a symlink": _link, "a named pipe": _pipe, "a directory": _directory}
CHANGING = [
    ("clean",),
    ("clean", "--dry-run"),
    ("free", "--target", "1TiB"),
    ("free", "--target", "1TiB", "--dry-run"),
    ("run", "--once"),
]
READING = [
    ("lookup", "orders-0", "--offset", "0"),
    ("lookup", "orders-0", "--timestamp", "0"),
    ("explain", "orders-0"),
    ("export", "orders-0", "--to", "jsonl", "-"),
    ("doctor",),
    ("topics",),
]


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    copy = shutil.copytree(demo, tmp_path / "data")
    (copy / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    return copy


def _unseen(log_dir: Path, change: Callable[[Path], None] = _link) -> Path:
    path = sorted((log_dir / "orders-0").glob("*.log"))[1]
    change(path)
    return path


def _names(log_dir: Path) -> list[str]:
    return sorted(path.name for path in (log_dir / "orders-0").iterdir())


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    """What a command wrote, its lines not broken."""
    told = capsys.readouterr()
    return " ".join((told.out + told.err).split())


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_the_partition_fails_and_stays_as_it_is(
    command: tuple[str, ...], what: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _unseen(log_dir, KINDS[what])
    held = _names(log_dir)
    assert main([*command, "--log-dir", str(log_dir)]) == 1
    told = _told(capsys)
    assert f"{path}: is {what}, " in told
    assert "put the segment itself in its place" in told
    assert _names(log_dir) == held


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_every_command_that_reads_the_log_says_so(
    command: tuple[str, ...], log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _unseen(log_dir)
    assert main([*command, "--log-dir", str(log_dir)]) != 0
    assert f"{path}: is a symlink" in _told(capsys)


def test_so_does_diff(log_dir: Path, demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _unseen(log_dir)
    assert main(["diff", str(demo), str(log_dir)]) != 0
    assert f"{path}: is a symlink" in _told(capsys)


def test_a_restore_leaves_it_alone(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean", "--log-dir", str(log_dir)]) == 0
    clicks = log_dir / "clicks-0"
    assert list(clicks.glob("*.log.deleted"))
    path = sorted(clicks.glob("*.log"))[0]
    _link(path)
    held = sorted(entry.name for entry in clicks.iterdir())
    assert main(["restore", "clicks-0", "--yes", "--log-dir", str(log_dir)]) == 1
    assert f"{path}: is a symlink" in _told(capsys)
    assert sorted(entry.name for entry in clicks.iterdir()) == held


def _unseen_file(log_dir: Path, suffix: str) -> Path:
    path = sorted((log_dir / "orders-0").glob("*.log"))[1].with_suffix(suffix)
    path.touch()
    _link(path)
    return path


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_so_does_one_with_an_index_or_a_snapshot_that_is_no_plain_file(
    command: tuple[str, ...], suffix: str, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the time index the file time would count for retention; a broker, which follows it, goes by records."""
    path = _unseen_file(log_dir, suffix)
    held = _names(log_dir)
    assert main([*command, "--log-dir", str(log_dir)]) == 1
    assert f"{path}: is a symlink, and it is not read; the partition is left alone" in _told(capsys)
    assert _names(log_dir) == held


def test_no_repair_makes_anew_what_a_broker_finds_behind_a_symlink(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _unseen_file(log_dir, ".timeindex")
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"garbage")
    assert main(["verify", "--repair", "--yes", "--log-dir", str(log_dir)]) == 4
    told = _told(capsys)
    assert f"{path.name} is no plain file, so nobody knows what a broker finds there" in told
    assert "INDEX_MISSING" not in told
    assert path.is_symlink()
