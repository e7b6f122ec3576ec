"""A log dir whose lock may keep nobody out, by a crafted list of mounts: refused, unless the user confirms it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.lock import shared_type

COMMANDS = [("clean",), ("free", "--target", "100%"), ("restore", "--all"), ("restore", "--all", "--release")]
THAT_ASK_BEFORE = [
    ("delete-records", "clicks-0", "--before-offset", "1"),
    ("erase", "--topic", "clicks", "some-key"),
    ("doctor", "--sweep", "NAME"),
    ("import", "-", "new-0"),
    ("verify", "--repair"),
]


def tree(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")
    }


@pytest.fixture
def on_nfs(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    mount_info = tmp_path / "mountinfo"
    mount_info.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 0:41 / {tmp_path} rw - nfs4 filer:/export rw\n")
    monkeypatch.setattr("storage.log_dir.shared_type", partial(shared_type, mount_info=mount_info))
    return shutil.copytree(demo, tmp_path / "data")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_changes_things_is_refused_untouched(command, on_nfs, capsys):
    before = tree(on_nfs)
    assert main([*command, "--log-dir", str(on_nfs)]) == 5
    assert "lies on nfs4" in capsys.readouterr().err
    assert tree(on_nfs) == before


@pytest.mark.parametrize("command", [*COMMANDS, *THAT_ASK_BEFORE])
def test_force_lock_alone_is_refused_untouched_without_a_terminal(command, on_nfs, capsys):
    before = tree(on_nfs)
    assert main([*command, "--force-lock", "--log-dir", str(on_nfs)]) == 5
    assert "--force-lock goes on even if a broker runs" in capsys.readouterr().err
    assert tree(on_nfs) == before


@pytest.mark.parametrize("command", [("clean",), ("restore", "--all")])
def test_confirmed_force_lock_goes_on(command, on_nfs):
    assert main([*command, "--force-lock", "--yes", "--log-dir", str(on_nfs)]) == 0


@pytest.mark.parametrize("command", [("clean", "--dry-run"), ("topics",), ("restore",), ("history",)])
def test_what_changes_nothing_needs_no_lock(command, on_nfs):
    assert main([*command, "--log-dir", str(on_nfs)]) == 0
