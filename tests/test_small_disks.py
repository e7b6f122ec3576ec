"""Full disks without root: a user namespace of our own may mount tmpfs, so the tests that need no more run in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_disks import KINDS, MOUNTED, a_small_disk, fill, free_bytes

ROOT = Path(__file__).parent.parent
MODULES = (
    "tests/cleaner/engine/test_full_disk.py",
    "tests/cleaner/engine/test_freeing.py",
    "tests/cleaner/cli/test_free.py",
)


@pytest.mark.skipif(os.geteuid() == 0, reason="root mounts them itself")
def test_full_disks_are_met_in_a_user_namespace(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("NOT RUN: no small disk can be mounted here, neither by this user nor in a user namespace")
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    done = subprocess.run(["unshare", "-rm", *pytest_, *MODULES], check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert " 0 of tmpfs" not in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_small_disk_is_filled_to_the_last_byte_and_gone_afterwards(tmp_path: Path, kind: str) -> None:
    count = getattr(MOUNTED, kind)
    with a_small_disk(kind, tmp_path) as disk:
        assert free_bytes(disk) > 1 << 20
        fill(disk)
        assert free_bytes(disk) == 0
        with pytest.raises(OSError, match="No space"):
            (disk / "another").write_bytes(b"x")
    assert not list((tmp_path / kind).iterdir())
    assert getattr(MOUNTED, kind) == count + 1
