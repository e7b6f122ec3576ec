"""A dry run exits as its run would, on a full disk, too; and it changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from tests.cleaner.cli.test_erase import KEY
from tests.small_disks import a_small_disk, fill

CLEAN = ("clean", "--kafka-defaults", "--log-dir", "DIR")
ERASE = ("erase", "--topic", "orders", KEY, "--log-dir", "DIR")
COMMANDS = {
    "clean": (CLEAN, 1),
    "clean --only compaction": ((*CLEAN, "--only", "compaction"), 1),
    "clean --only retention": ((*CLEAN, "--only", "retention"), 1),
    "clean --delete-delay 0": ((*CLEAN, "--delete-delay", "0"), 0),
    "clean with nothing to do": ((*CLEAN, "--topic", "empty"), 0),
    "clean --repack": ((*CLEAN, "--topic", "orders", "--only", "retention", "--repack", "--codec", "zstd:9"), 1),
    "free": (("free", "--target", "1MiB", "--kafka-defaults", "--log-dir", "DIR"), 0),
    "delete-records": (("delete-records", "clicks-0", "--before-offset", "100", "--log-dir", "DIR"), 1),
    "erase": (ERASE, 1),
    "erase --delete-delay 0": ((*ERASE, "--delete-delay", "0"), 1),
    "restore": (("restore", "--all", "--log-dir", "DIR"), 1),
    "restore with nothing to do": (("restore", "--repairs", "--all", "--log-dir", "DIR"), 0),
    "verify --repair": (("verify", "--repair", "DIR"), 1),
}
LEFT_OUT = shutil.ignore_patterns("[!ceo_]*-[0-9]", "orders-[!0]", "__[!c]*-*")


def a_log_dir(demo: Path, path: Path, name: str) -> Path:
    """Make a log dir with work for a command."""
    shutil.copytree(demo, path, ignore=LEFT_OUT)
    if name == "restore":
        delay = ("--set", "file.delete.delay.ms=1d")
        assert main(["clean", "--log-dir", str(path), "--topic", "clicks", *delay, "-q"]) == 0
    if name == "verify --repair":
        (path / "orders-0" / "00000000000000000000.timeindex").write_bytes(b"x" * 24)
    return path


def content(log_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_a_dry_run_on_a_full_disk_exits_as_its_run(demo: Path, tmp_path: Path, kind: str, name: str) -> None:
    words, expected = COMMANDS[name]
    with a_small_disk(kind, tmp_path, 24 << 20) as disk:
        log_dir = a_log_dir(demo, disk / "data", name)
        command = [str(log_dir) if word == "DIR" else word for word in words]
        fill(disk)
        before = content(log_dir)
        assert main([*command, "--dry-run"]) == expected
        assert content(log_dir) == before
        assert main([*command, "--yes"]) == expected


@pytest.mark.parametrize("room_bytes", [0, 1 << 18, 5 << 18, 6 << 20])
@pytest.mark.parametrize("words", [(), ("--delete-delay", "0")])
def test_a_dry_run_of_an_erasure_knows_the_space_of_each_segment(
    demo: Path, tmp_path: Path, room_bytes: int, words: tuple[str, ...]
) -> None:
    with a_small_disk("tmpfs", tmp_path, 24 << 20) as disk:
        log_dir = a_log_dir(demo, disk / "data", "erase")
        command = [*(str(log_dir) if word == "DIR" else word for word in ERASE), *words]
        (disk / "room").write_bytes(b"x" * room_bytes)
        fill(disk)
        (disk / "room").unlink()
        assert main([*command, "--dry-run"]) == main([*command, "--yes"])
