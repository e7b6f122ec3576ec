"""A mount of the forgetting disk, for the time of a ``with``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
UNMOUNT_SECONDS_MAX: Final = 20.0


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
            _unmount(mountpoint, process)
    assert process.returncode == 0, "the disk broke"


def _unmount(mountpoint: Path, process: subprocess.Popen[bytes]) -> None:
    """A process that was killed, and a loop device, let go a moment later."""
    until_seconds = time.monotonic() + UNMOUNT_SECONDS_MAX
    while subprocess.run(["umount", mountpoint], check=False, capture_output=True).returncode:
        if not os.path.ismount(mountpoint):
            break
        if time.monotonic() > until_seconds:
            subprocess.run(["umount", "--lazy", mountpoint], check=False)
            break
        time.sleep(0.02)
    with suppress(subprocess.TimeoutExpired):
        process.wait(UNMOUNT_SECONDS_MAX)
    if process.poll() is None:
        process.kill()
