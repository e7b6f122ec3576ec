"""File systems that fail: a power cut before any step, and a disk that is full for some steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from storage.directory import OpenFile
from storage.filesystem import FileSystem, NewFile, OutOfSpace, Purpose

SUBSETS_MAX = 6


class PowerCut(BaseException):
    """Not an ``Exception``: nothing may catch it and carry on."""


@dataclass(frozen=True, slots=True)
class Change:
    """A rename, or an unlink, that its directory's fsync has not made durable."""

    path: Path
    target: Path | None
    content: bytes

    def undo(self, directory: Path) -> None:
        """Bring the old name back in a copy of the directory."""
        if self.target:
            (directory / self.target.name).rename(directory / self.path.name)
        else:
            (directory / self.path.name).write_bytes(self.content)


class SteppingFileSystem(FileSystem):
    """The real disk, which tells ``step`` of every mutation before it is made, those of open files too."""

    def step(self, purpose: Purpose) -> None:
        """Called before each mutation; what it raises takes the mutation's place."""

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        self.step(purpose)
        return SteppingFile(super().create(path, like, purpose), self, purpose)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        self.step(purpose)
        return SteppingFile(super().open_to_append(path, purpose), self, purpose)

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        self.step(purpose)
        return SteppingFile(super().open_to_write(path, purpose), self, purpose)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().rename(source, target, purpose)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().unlink(path, purpose)

    def move_dir(self, source: Path, target: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().move_dir(source, target, purpose)

    def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().make_dir(path, like, purpose)

    def remove_dir(self, path: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().remove_dir(path, purpose)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        self.step(purpose)
        super().fsync_dir(path, purpose)

    def truncate(self, path: Path, size_bytes: int, purpose: Purpose) -> None:
        self.step(purpose)
        super().truncate(path, size_bytes, purpose)


class SteppingFile(NewFile):
    """Takes an opened file over."""

    def __init__(self, opened: NewFile, disk: SteppingFileSystem, purpose: Purpose) -> None:
        super().__init__(opened.path, opened.descriptor)
        self.size_bytes = opened.size_bytes
        self.disk, self.purpose = disk, purpose

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.disk.step(self.purpose)
        super().write(data)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self.disk.step(self.purpose)
        super().write_at(position, data)

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        self.disk.step(self.purpose)
        super().copy_from(source, offset_bytes, count_bytes)

    def extend_to(self, size_bytes: int) -> None:
        if size_bytes != self.size_bytes:
            self.disk.step(self.purpose)
        super().extend_to(size_bytes)

    def fsync(self) -> None:
        self.disk.step(self.purpose)
        super().fsync()

    def set_mtime(self, mtime_ns: int) -> None:
        self.disk.step(self.purpose)
        super().set_mtime(mtime_ns)


class CrashingFileSystem(SteppingFileSystem):
    """Does ``steps`` mutations, then none. Knows which of them are not durable at that moment."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.unsynced: list[Change] = []

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        super().rename(source, target, purpose)
        self.unsynced.append(Change(source, target, b""))

    def unlink(self, path: Path, purpose: Purpose) -> None:
        content = path.read_bytes() if path.exists() else None
        super().unlink(path, purpose)
        if content is not None and purpose is not Purpose.LOCK:
            self.unsynced.append(Change(path, None, content))

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        super().fsync_dir(path, purpose)
        self.unsynced = [change for change in self.unsynced if change.path.parent != path]

    def step(self, purpose: Purpose) -> None:
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


def after_power_loss(directory: Path, disk: CrashingFileSystem, scratch: Path) -> Iterator[Path]:
    """Copies of ``directory`` as a power cut may leave it: any subset of what no fsync made durable is undone."""
    changes = disk.unsynced
    sizes = range(len(changes) + 1) if len(changes) <= SUBSETS_MAX else (0, 1, len(changes) - 1, len(changes))
    for size in sizes:
        for lost in combinations(changes, size):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(directory, scratch)
            for change in reversed(lost):
                change.undo(scratch)
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

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        return _NarrowFile(super().open_to_append(path, purpose), self, purpose)

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        return _NarrowFile(super().open_to_write(path, purpose), self, purpose)

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
        super().__init__(opened.path, opened.descriptor)
        self.size_bytes = opened.size_bytes
        self._disk, self._purpose = disk, purpose

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().write(data)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().write_at(position, data)

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().copy_from(source, offset_bytes, count_bytes)

    def fsync(self) -> None:
        self._disk.need_space(self.path, self._purpose)
        super().fsync()
