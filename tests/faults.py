"""File systems that fail: a power cut before any step, and a disk that is full for some steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

from storage.errors import OutOfSpace
from storage.filesystem import FileSystem, NewFile, Purpose

SUBSETS_MAX = 6


class PowerCut(BaseException):
    """Not an ``Exception``: nothing may catch it and carry on."""


class CrashingFileSystem(FileSystem):
    """Does ``steps`` mutations, then none. Knows which renames are not durable at that moment."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.unsynced: list[tuple[Path, Path]] = []

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        self._step(purpose)
        return super().create(path, like, purpose)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        self._step(purpose)
        return super().open_to_append(path, purpose)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        self._step(purpose)
        super().rename(source, target, purpose)
        self.unsynced.append((source, target))

    def unlink(self, path: Path, purpose: Purpose) -> None:
        self._step(purpose)
        super().unlink(path, purpose)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        self._step(purpose)
        super().fsync_dir(path, purpose)
        self.unsynced = [pair for pair in self.unsynced if pair[0].parent != path]

    def _step(self, purpose: Purpose) -> None:
        if purpose is Purpose.LOCK:
            return  # a dead process holds no lock
        if self.left <= 0:
            raise PowerCut
        self.left -= 1


def crashes(act: Callable[[CrashingFileSystem], object]) -> Iterator[CrashingFileSystem]:
    """Run ``act`` with a power cut before its first step, its second one, and so on; ends when it gets through.

    The caller draws a fresh directory in ``act``; each disk is yielded as the crash left it, the last one whole.
    """
    for steps in range(1000):
        disk = CrashingFileSystem(steps)
        try:
            act(disk)
        except PowerCut:
            yield disk
        else:
            yield disk
            return
    raise AssertionError("it never gets through")


def lost_renames(directory: Path, disk: CrashingFileSystem, scratch: Path) -> Iterator[Path]:
    """Copies of ``directory`` as a power cut may leave it: any subset of the renames since the last fsync is undone."""
    pairs = disk.unsynced
    sizes = range(len(pairs) + 1) if len(pairs) <= SUBSETS_MAX else (0, 1, len(pairs) - 1, len(pairs))
    for size in sizes:
        for lost in combinations(pairs, size):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(directory, scratch)
            for source, target in reversed(lost):
                (scratch / target.name).rename(scratch / source.name)
            yield scratch


class FullDisk(FileSystem):
    """Refuses steps that need space, from the ``free_steps``-th on."""

    def __init__(self, free_steps: int, purposes: frozenset[Purpose]) -> None:
        self.left = free_steps
        self.purposes = purposes
        self.refused = 0

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        self.need_space(path, purpose)
        opened = super().create(path, like, purpose)
        return _NarrowFile(opened, self, purpose)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        if len(target.name) > len(source.name):
            self.need_space(target, purpose)
        super().rename(source, target, purpose)

    def need_space(self, path: Path, purpose: Purpose) -> None:
        if purpose not in self.purposes:
            return
        if self.left <= 0:
            self.refused += 1
            raise OutOfSpace(path, 0)
        self.left -= 1


class _NarrowFile(NewFile):
    def __init__(self, opened: NewFile, disk: FullDisk, purpose: Purpose) -> None:
        super().__init__(opened.path, opened._descriptor)
        self._disk, self._purpose = disk, purpose

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().write(data)

    def copy_from(self, source: int, offset_bytes: int, count_bytes: int) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().copy_from(source, offset_bytes, count_bytes)

    def fsync(self) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().fsync()
