"""``erase`` on a disk without space: whole segments, before or afterwards, and the same command does the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from tests.cleaner.cli.test_erase import KEY, keys
from tests.small_disks import a_small_disk, fill

SEGMENT_BYTES = 1 << 20


@pytest.mark.parametrize(
    ("room_bytes", "words", "changed"),
    [
        (0, (), 0),
        (0, ("--delete-delay", "0"), 0),
        (SEGMENT_BYTES // 4, (), 0),
        (SEGMENT_BYTES * 5 // 4, (), 1),
        (SEGMENT_BYTES * 5 // 4, ("--delete-delay", "0"), 4),
    ],
)
@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_a_full_disk_leaves_whole_segments_and_the_same_command_does_the_rest(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, room_bytes: int,
    words: tuple[str, ...], changed: int,
) -> None:  # fmt: skip
    certificate = tmp_path / "cert.json"
    command = ["erase", "--topic", "orders", KEY, "--yes", "--certificate", str(certificate), "--log-dir"]
    with a_small_disk(kind, tmp_path, 12 << 20) as disk:
        log_dir = disk / "data"
        log_dir.mkdir()
        for path in (demo / "orders-0", *(path for path in demo.iterdir() if path.is_file())):
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, log_dir / path.name)
        before = {path: path.read_bytes() for path in (log_dir / "orders-0").glob("*.log")}
        (disk / "room").write_bytes(b"x" * room_bytes)
        fill(disk)
        (disk / "room").unlink()
        assert main([*command, str(log_dir), *words]) == (1 if changed < len(before) else 0)
        told = capsys.readouterr().err
        assert ("no space for" in told) == (changed < len(before))
        hint = "then erase with --delete-delay 0, which needs the space of one segment"
        assert (hint in told) == (not words and ".cleaned: no space" in told)  # of the journal another hint is right
        assert ("the replaced segments wait there: clean --delete-delay 0 unlinks them" in told) == (changed == 1)
        assert [path.read_bytes() != data for path, data in sorted(before.items())].count(True) == changed
        assert not list((log_dir / "orders-0").glob("*.cleaned")) + list((log_dir / "orders-0").glob("*.swap"))
        assert main(["verify", str(log_dir / "orders-0")]) == 0
        (partition,) = json.loads(certificate.read_bytes())["partitions"]
        assert partition["outcome"] == ("FAILED" if changed < len(before) else "ERASED")
        certificate.unlink()
        for filler in disk.glob("filler*"):
            filler.unlink()
        assert main([*command, str(log_dir), "--delete-delay", "0"]) == 0
        (partition,) = json.loads(certificate.read_bytes())["partitions"]
        assert (partition["outcome"], partition["records"]) == ("ERASED", 70)
        assert KEY.encode() not in keys(log_dir)


def test_the_hint_about_a_full_disk_makes_the_room_that_the_rest_needs(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["erase", "--topic", "orders", KEY, "--yes", "--log-dir"]
    with a_small_disk("ext4", tmp_path, 12 << 20) as disk:
        log_dir = disk / "data"
        shutil.copytree(demo, log_dir, ignore=shutil.ignore_patterns("[!o_]*-[0-9]", "orders-[!0]", "__[!c]*-*"))
        (disk / "room").write_bytes(b"x" * (SEGMENT_BYTES * 5 // 4))
        fill(disk)
        (disk / "room").unlink()
        assert main([*command, str(log_dir)]) == 1
        told = capsys.readouterr().err
        assert "clean --delete-delay 0 unlinks them; then erase with --delete-delay 0" in told
        assert main([*command, str(log_dir), "--delete-delay", "0"]) == 1
        assert main(["clean", "--delete-delay", "0", "--log-dir", str(log_dir)]) == 0
        assert main([*command, str(log_dir), "--delete-delay", "0"]) == 0
        assert KEY.encode() not in keys(log_dir)
