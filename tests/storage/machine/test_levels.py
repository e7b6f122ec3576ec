"""The kernels of every level that this CPU has do the same."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storage.machine import library

ROOT = Path(__file__).parents[3]
TWINS = ("tests/storage/kernels", "tests/storage/codecs", "tests/storage/log/writing/test_building.py")


def usable_levels() -> list[str]:
    """Return the levels of this CPU, lowest first."""
    levels = library.LEVELS[platform.machine()]
    return list(levels[1 : levels.index(library.level_name()) + 1]) if len(levels) > 1 else list(levels)


def run(level: str, *command: str) -> str:
    environment = {**os.environ, library.LEVEL_VARIABLE: level}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("level", usable_levels()[:-1])  # all other tests run the highest
def test_the_twins_agree_with_each_lower_level(level: str) -> None:
    out = run(level, "pytest", "-q", "-p", "no:cacheprovider", *TWINS)
    assert " passed" in out


def test_every_level_compacts_to_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    now_ms = str(int(time.time() * 1000))  # the horizons of tombstones hold the time of the compaction
    found = {}
    for level in usable_levels():
        log_dir = tmp_path / level
        subprocess.run(["cp", "-a", demo, log_dir], check=True)
        run(level, "cleaner", "clean", "--log-dir", str(log_dir), "--delete-delay", "0", "--yes", "--now", now_ms)
        found[level] = {
            path.relative_to(log_dir): path.read_bytes()
            for path in log_dir.rglob("*")
            if path.suffix in {".log", ".index"}
        }
    highest = found[usable_levels()[-1]]
    assert len(highest) > 10
    assert any(highest[path] != (demo / path).read_bytes() for path in highest if (demo / path).exists())
    assert all(files == highest for files in found.values())
