"""Real file systems of a few MiB that can be filled to the last byte; skipped aloud where none can be mounted."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

SIZE_BYTES: Final = 8 << 20
FILLINGS_MAX: Final = 20
NAMES_MAX: Final = 1000
KINDS: Final = ("ext4", "tmpfs")


@dataclass(slots=True)
class Mounted:
    """How many disks of each kind tests ran on in this process; for the test summary."""

    ext4: int = 0
    tmpfs: int = 0

    def __str__(self) -> str:
        return f"small disks filled or limited: {self.ext4} of ext4, {self.tmpfs} of tmpfs"


MOUNTED: Final = Mounted()


@contextmanager
def a_small_disk(kind: str, directory: Path, size_bytes: int = SIZE_BYTES) -> Iterator[Path]:
    """Mount an empty file system below ``directory``: ext4 with blocks of 1 KiB and none reserved, or tmpfs.

    A test that looks at the space which ``free`` gains needs a disk that no other test writes to.
    """
    mounted = directory / kind
    mounted.mkdir()
    tmpfs = ("-t", "tmpfs", "-o", f"size={size_bytes}", "none")
    _run("mount", *_ext4(directory, size_bytes) if kind == "ext4" else tmpfs, mounted)
    try:
        setattr(MOUNTED, kind, getattr(MOUNTED, kind) + 1)
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


def _ext4(directory: Path, size_bytes: int) -> tuple[str | Path, ...]:
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(size_bytes)
    _run("mkfs.ext4", "-q", "-b", "1024", "-m", "0", "-N", "4096", image)
    return "-o", "loop", image


def _run(*command: str | Path) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"NOT RUN: there is no {error.filename} here")
    if done.returncode:
        reason = done.stderr.strip().partition("\n")[0]
        pytest.skip(f"NOT RUN: {command[0]} does not work here (it needs root): {reason}")


def fill(disk: Path) -> None:
    """Take every byte that is left, by files that a broker ignores."""
    for number in range(FILLINGS_MAX):
        descriptor = os.open(disk / f"filler-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for piece in (b"x" * 65_536, b"x" * 1024, b"x"):
                _write_until_full(descriptor, piece)
        finally:
            os.close(descriptor)
        # what was reserved for the delayed allocation of blocks, and not needed, comes back
        subprocess.run(["sync", "--file-system", disk], check=True)
        if free_bytes(disk) == 0:
            return
    raise AssertionError(f"{free_bytes(disk)} bytes do not go")


def fill_names(directory: Path) -> None:
    """Take what room a full disk has left in a directory, by empty files that a broker ignores."""
    for digits in (200, 40, 4):
        number = 0
        while number < NAMES_MAX and not _is_full(lambda name=f"{number:0{digits}d}": (directory / name).touch()):
            number += 1


def _write_until_full(descriptor: int, piece: bytes) -> None:
    while not _is_full(lambda: os.write(descriptor, piece)):
        pass


def _is_full(write: Callable[[], object]) -> bool:
    try:
        write()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    return False


def free_bytes(disk: Path) -> int:
    """For an ordinary user."""
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize
