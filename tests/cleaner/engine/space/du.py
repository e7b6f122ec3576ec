"""What ``du`` says of a directory."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any


def du(path: Path, **options: Any) -> tuple[int, int]:
    """The disk size and the apparent size of a directory, in bytes, directories included in both."""
    disk_bytes, apparent_bytes = (_du(path, *choice, **options) for choice in ((), ("--apparent-size",)))
    return disk_bytes, apparent_bytes + (0 if _counts_directories() else _directories_bytes(path))


def _du(path: Path, *choice: str, **options: Any) -> int:
    done = subprocess.run(
        ["du", "-s", "--block-size=1", *choice, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, check=False, **options,
    )  # fmt: skip
    return int(done.stdout.split()[0])


@functools.cache
def _counts_directories() -> bool:
    """Whether this ``du`` gives directories an apparent size: it did up to coreutils 9.1."""
    with tempfile.TemporaryDirectory() as place:
        return _du(Path(place), "--apparent-size") > 0


def _directories_bytes(path: Path) -> int:
    return sum(os.lstat(directory).st_size for directory, _, _ in os.walk(path))
