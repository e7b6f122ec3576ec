"""A mount of the forgetting disk, for the time of a ``with``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.debian_packages import unpacked
from tests.disk.server import Fault
from tests.mutants.suite import ROOT

PACKAGES: Final = ("libfuse3-4", "libfuse3-3")
"""Debian's libfuse, of 13 and of 12."""


@cache
def libfuse() -> str:
    """Path of the library; the test is skipped aloud where it cannot be had."""
    if found := find_library("fuse3"):
        return found
    told = ""
    for package in PACKAGES:
        try:
            return str(next(unpacked(package).rglob("libfuse3.so.*")))
        except pytest.skip.Exception as skipped:
            told = str(skipped)
    pytest.skip(told)


@contextmanager
def mounted(backing: Path, mountpoint: Path, recording: Path, faults: Sequence[Fault] = ()) -> Iterator[Path]:
    """Serve a directory at another place, and record what is done there, until the end of the ``with``."""
    if not Path("/dev/fuse").exists() or os.geteuid() != 0:
        pytest.skip("NOT RUN: a FUSE mount needs root and /dev/fuse")
    mountpoint.mkdir(parents=True, exist_ok=True)
    reading, ready = os.pipe()
    command = [
        sys.executable,
        "-m",
        "tests.disk.server",
        backing,
        mountpoint,
        recording,
        json.dumps(faults),
        str(ready),
    ]
    environment = {**os.environ, "FUSE_LIBRARY_PATH": libfuse()}
    with subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=(ready,), stderr=subprocess.PIPE) as process:
        os.close(ready)
        try:
            if not os.read(reading, 1):
                _, told = process.communicate()
                raise AssertionError(f"the disk was not mounted: {told.decode()}")
            yield mountpoint
        finally:
            os.close(reading)
            subprocess.run(["umount", mountpoint], check=False) if os.path.ismount(mountpoint) else None
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                subprocess.run(["umount", "--lazy", mountpoint], check=False)
                process.kill()
    assert process.returncode == 0, "the disk broke"
