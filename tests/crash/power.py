"""A disk that knows which of its bytes and names would outlast a power loss, and the states that a loss may leave.

Of a file, its bytes up to its last fsync; of a directory, its names as of its own last fsync. Of what came later, any
part may have reached the disk: any subset of a directory's changes, and of each file none of the newer bytes, half of
them, as many zeros, every other sector of them, or all. Orders are subsets, too: what another order leaves under a
name, the subset without the later change does.

``tests.disk`` forgets below the program, and more: there each sector, each size and each attribute has a fate of its
own, and directories are made and go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import product
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from storage.directory import OpenFile
from storage.filesystem import NewFile, Purpose
from storage.names import parse_topic_partition
from tests.crash.acts import Act
from tests.faults import SteppingFile, SteppingFileSystem

SECTOR_BYTES: Final = 512
EXHAUSTIVE_MAX: Final = 5
"""Of so many changes all subsets are made; of more, a sample."""


class Fate(Enum):
    """Of the bytes behind the last fsync."""

    LOST = auto()
    HALF = auto()
    ZEROS = auto()
    TORN = auto()
    KEPT = auto()


@dataclass(slots=True, eq=False)
class Inode:
    """A file, whatever its name."""

    durable: bytes
    content: bytes
    mtime_ns: int
    owner: tuple[int, int]
    """User and group, which a file has before it has a name."""
    durable_mtime_ns: int | None = None
    """The content as of the last fsync; None if it has not changed."""

    @property
    def is_durable(self) -> bool:
        return self.content is self.durable and self.durable_mtime_ns is None

    def mtime_after(self, fate: Fate) -> int:
        """Its time after a power loss, in ns."""
        is_old = fate is Fate.LOST and self.durable_mtime_ns is not None
        return self.durable_mtime_ns if is_old else self.mtime_ns  # type: ignore[return-value]

    def after(self, fate: Fate) -> bytes:
        """Its bytes after a power loss."""
        newer = self.content[len(self.durable) :]
        match fate:
            case Fate.LOST:
                return self.durable
            case Fate.HALF:
                return self.durable + newer[: len(newer) // 2]
            case Fate.ZEROS:
                return self.durable + bytes(len(newer))
            case Fate.TORN:
                old = self.durable.ljust(len(self.content), b"\0")
                sectors = range(0, len(self.content), SECTOR_BYTES)
                kept = (old if place // SECTOR_BYTES % 2 else self.content for place in sectors)
                return b"".join(of[place : place + SECTOR_BYTES] for of, place in zip(kept, sectors, strict=True))
            case Fate.KEPT:
                return self.content


@dataclass(frozen=True, slots=True)
class Change:
    """A file gets a name, another one, or (None) has none any more."""

    directory: Path
    inode: Inode | None
    """None if a directory is renamed, with all that lies in it."""
    target: Path | None
    source: Path | None = None
    """The directory that is renamed."""


class Kept(NamedTuple):
    """A file behind a power loss."""

    content: bytes
    mtime_ns: int
    owner: tuple[int, int]

    def put(self, path: Path) -> None:
        """Make the file at a path be so; what is so already stays untouched."""
        if not path.exists() or path.read_bytes() != self.content:
            path.write_bytes(self.content)
        if _owner(path.stat()) != self.owner:
            os.chown(path, *self.owner)
        if path.stat().st_mtime_ns != self.mtime_ns:
            os.utime(path, ns=(self.mtime_ns, self.mtime_ns))


def _owner(status: os.stat_result) -> tuple[int, int]:
    return status.st_uid, status.st_gid


Left = Mapping[Path, Kept]
"""What a power loss left, by path within the log dir."""


@dataclass(slots=True)
class Disk:
    """Names and bytes, durable or not."""

    names: dict[Path, Inode]
    """As the running process sees them."""
    durable: dict[Path, Inode]
    pending: list[Change] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    """Directories that are gone, until their own directory is fsynced."""

    @classmethod
    def of(cls, log_dir: Path) -> Disk:
        """Everything that is there lasts."""
        paths = [path for path in log_dir.rglob("*") if path.is_file()]
        inodes = {path: _inode(path, path.read_bytes()) for path in paths}
        return cls(dict(inodes), dict(inodes))

    def change(self, directory: Path, inode: Inode | None, target: Path | None, source: Path | None = None) -> None:
        """A create, a rename or an unlink."""
        change = Change(directory, inode, target, source)
        self.pending.append(change)
        apply(self.names, change)

    def fsync_dir(self, directory: Path) -> None:
        """Its changes last."""
        for change in self.pending:
            if change.directory == directory:
                apply(self.durable, change)
        gone = [path for path in self.removed if path.parent == directory]
        self.removed = [path for path in self.removed if path.parent != directory]
        self.pending = [change for change in self.pending if change.directory not in {directory, *gone}]
        self.durable = {p: inode for p, inode in self.durable.items() if not any(p.is_relative_to(g) for g in gone)}

    def after_power_loss(self, dice: Random) -> Iterator[Left]:
        """The states that it may leave: all where few changes are pending, else a sample; some come up twice.

        Files share a fate, or each has its own.
        """
        inodes = {*self.durable.values(), *(change.inode for change in self.pending if change.inode)}
        is_all_durable = all(inode.is_durable for inode in inodes)
        for survives in self._subsets(dice):
            names = dict(self.durable)
            for change, is_there in zip(self.pending, survives, strict=True):
                if is_there:
                    apply(names, change)
            for fate in (Fate.KEPT,) if is_all_durable else Fate:
                yield _left(names, dict.fromkeys(inodes, fate))
            if not is_all_durable:
                yield _left(names, {inode: dice.choice(list(Fate)) for inode in names.values()})

    def durable_alone(self) -> Left:
        """The state in which only what lasts is left."""
        inodes = dict.fromkeys(self.durable.values(), Fate.LOST)
        return _left(self.durable, inodes)

    def _subsets(self, dice: Random) -> list[Sequence[bool]]:
        count = len(self.pending)
        if count <= EXHAUSTIVE_MAX:
            return list(product((True, False), repeat=count))
        others = [[place == lone for place in range(count)] for lone in range(count)]
        others += [[not survives for survives in subset] for subset in others]
        others += [[dice.random() < 0.5 for _ in range(count)] for _ in range(2**EXHAUSTIVE_MAX)]
        return [[True] * count, [False] * count, *dice.sample(others, 2**EXHAUSTIVE_MAX - 2)]


def _inode(path: Path, content: bytes) -> Inode:
    status = path.stat()
    return Inode(content, content, status.st_mtime_ns, _owner(status))


def _left(names: Mapping[Path, Inode], fates: Mapping[Inode, Fate]) -> Left:
    return {
        path: Kept(inode.after(fates[inode]), inode.mtime_after(fates[inode]), inode.owner)
        for path, inode in names.items()
    }


def apply(names: dict[Path, Inode], change: Change) -> None:
    """A rename that survives takes its file from whatever name an earlier one, lost, would have given it."""
    if change.inode is None:
        assert change.source
        assert change.target
        for path in [path for path in names if path.is_relative_to(change.source)]:
            names[change.target / path.relative_to(change.source)] = names.pop(path)
        return
    for path in [path for path, inode in names.items() if inode is change.inode]:
        del names[path]
    if change.target:
        names[change.target] = change.inode


class RecordingFileSystem(SteppingFileSystem):
    """Does everything, and calls ``before_step`` with the disk as it is then."""

    def __init__(self, log_dir: Path, before_step: Callable[[Disk], None]) -> None:
        self.disk = Disk.of(log_dir)
        self._before_step = before_step

    def step(self, purpose: Purpose) -> None:
        self._before_step(self.disk)

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        opened = super().create(path, like, purpose)
        inode = _inode(path, b"")
        self.disk.change(path.parent, inode, path)
        return _RecordedFile(opened, self, purpose, inode)

    def open_to_append(self, path: Path, purpose: Purpose) -> NewFile:
        return _RecordedFile(super().open_to_append(path, purpose), self, purpose, self.disk.names[path])

    def open_to_write(self, path: Path, purpose: Purpose) -> NewFile:
        return _RecordedFile(super().open_to_write(path, purpose), self, purpose, self.disk.names[path])

    def move_dir(self, source: Path, target: Path, purpose: Purpose) -> None:
        super().move_dir(source, target, purpose)
        self.disk.change(target.parent, None, target, source)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        is_directory = source.is_dir()
        super().rename(source, target, purpose)
        if is_directory:
            self.disk.change(target.parent, None, target, source)
        else:
            self.disk.change(target.parent, self.disk.names[source], target)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        super().unlink(path, purpose)
        if path in self.disk.names:  # else it was not there, or is the lock
            self.disk.change(path.parent, self.disk.names[path], None)

    def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
        super().make_dir(path, like, purpose)
        self.disk.removed = [gone for gone in self.disk.removed if gone != path]

    def remove_dir(self, path: Path, purpose: Purpose) -> None:
        super().remove_dir(path, purpose)
        self.disk.removed.append(path)

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        super().fsync_dir(path, purpose)
        self.disk.fsync_dir(path)

    def fsync_file(self, inode: Inode) -> None:
        """The bytes of a file last."""
        inode.durable, inode.durable_mtime_ns = inode.content, None

    def truncate(self, path: Path, size_bytes: int, purpose: Purpose) -> None:
        super().truncate(path, size_bytes, purpose)
        inode = self.disk.names[path]
        inode.content = inode.content[:size_bytes]


class _RecordedFile(SteppingFile):
    def __init__(self, opened: NewFile, disk: RecordingFileSystem, purpose: Purpose, inode: Inode) -> None:
        super().__init__(opened, disk, purpose)
        self._recording, self._inode = disk, inode

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._inode.content += bytes(data)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        super().write_at(position, data)
        self._inode.content = self.path.read_bytes()

    def extend_to(self, size_bytes: int) -> None:
        super().extend_to(size_bytes)
        self._inode.content = self.path.read_bytes()

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        super().copy_from(source, offset_bytes, count_bytes)
        self._inode.content = self.path.read_bytes()

    def fsync(self) -> None:
        super().fsync()
        self._recording.fsync_file(self._inode)

    def set_mtime(self, mtime_ns: int) -> None:
        super().set_mtime(mtime_ns)
        if self._inode.durable_mtime_ns is None:
            self._inode.durable_mtime_ns = self._inode.mtime_ns
        self._inode.mtime_ns = mtime_ns


def lay_down(left: Left, log_dir: Path, scratch: Path) -> Path:
    """Write a state of ``log_dir`` to another place, in which nothing is."""
    directories = {path.parent.relative_to(log_dir) for path in left} | {
        path.relative_to(log_dir) for path in log_dir.iterdir() if path.is_dir() and parse_topic_partition(path.name)
    }
    for directory in directories:
        (scratch / directory).mkdir(parents=True, exist_ok=True)
    for path, kept in left.items():
        kept.put(scratch / path.relative_to(log_dir))
    return scratch


def power_losses(
    log_dir: Path, act: Act, states_at_a_step: int, dice: Random, disk: type[RecordingFileSystem] = RecordingFileSystem
) -> list[tuple[int, Left]]:
    """Act on a log dir, and tell what a power loss before each step may leave: at most so many states that no earlier
    step may, among them those where all and where nothing survives. Each comes with the number of its step."""
    found: dict[frozenset[tuple[Path, Kept]], tuple[int, Left]] = {}
    steps = 0

    def before_step(disk: Disk) -> None:
        nonlocal steps
        states = {frozenset(left.items()): (steps, left) for left in disk.after_power_loss(dice)}
        new = [state for state in states if state not in found]
        if len(new) > states_at_a_step:
            new = [new[0], new[-1], *dice.sample(new[1:-1], states_at_a_step - 2)]
        found.update((state, states[state]) for state in new)
        steps += 1

    act(log_dir, disk(log_dir, before_step))
    return list(found.values())
