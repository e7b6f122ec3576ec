"""Programs of Debian packages for the tests: the installed ones, else fetched and unpacked without being installed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

DOWNLOAD_SECONDS_MAX: Final = 300


@cache
def program(name: str, package: str, *, below: str = "usr/bin") -> Path:
    """Path of a program; the test is skipped aloud where it cannot be had."""
    if found := shutil.which(name):
        return Path(found)
    found_in = unpacked(package) / below / name
    if not found_in.exists():
        pytest.skip(f"NOT RUN: package {package} has no {below}/{name}")
    return found_in


@cache
def unpacked(package: str) -> Path:
    """The package's files; fetched once, then from the user's cache."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache_home / "logcleaner-tests" / platform.machine() / package
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
            _fetch(package, Path(scratch))
            (Path(scratch) / "files").rename(directory)
    return directory


def _fetch(package: str, scratch: Path) -> None:
    try:
        _run(scratch, "apt-get", "download", "-q", package)
        (deb,) = scratch.glob("*.deb")
        _run(scratch, "dpkg-deb", "--extract", deb.name, "files")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        pytest.skip(f"NOT RUN: Debian's package {package} is not installed and cannot be fetched: {error}")


def _run(directory: Path, *command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=directory, timeout=DOWNLOAD_SECONDS_MAX)
