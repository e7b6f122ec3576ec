"""What a cut of power keeps of a recording: a pure model, of dice and of four kinds of disks.

Durable are the bytes, size and attributes of a file as of its last fsync, and the names of a directory as of its own.
Of what came later a kind of disk keeps:

- ``posix``: any subset of the names, whatever their order; of each file any size that it had or reached on the way, and
  each sector of 512 bytes old, new, or zeros.
- ``ordered`` (ext4, ``data=ordered``): the names up to some moment, since one journal has them all; and an fsync takes
  with it what the journal had before the last change of that file or directory. Of files the same as ``posix``: a
  size may come without its data here, too, as zeros, since blocks are given out as unwritten.
- ``writeback`` (ext4, ``data=writeback``): the same.
- ``xfs``: the names as ``ordered``; and no size comes without its data, but one that was set (``ftruncate``), or that a
  write past the page cache reached: what the page cache holds below it may come later.

What was written past the page cache (``O_DIRECT``) is on the disk as far as the disk says so: it keeps that or not, as
all else before the fsync. An fsync that fails takes the pages that it should have written for clean: no later one
writes them, and each of them may be on the disk or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.disk.recording import (
    Attributed,
    Attributes,
    Begun,
    Change,
    Linked,
    Made,
    Moved,
    Operation,
    Recording,
    Synced,
    Truncated,
    Unlinked,
    Wrote,
)

SECTOR_BYTES: Final = 512
POSIX: Final = "posix"
ORDERED: Final = "ordered"
WRITEBACK: Final = "writeback"
XFS: Final = "xfs"
KINDS: Final = (POSIX, ORDERED, WRITEBACK, XFS)
Names = dict[int, dict[str, int]]
"""Of each directory: inodes by name."""


@dataclass(slots=True, eq=False)
class File:
    """A file or a directory, whatever its name."""

    is_directory: bool
    memory: bytearray
    disk: bytearray
    """What an fsync has made last."""
    attributes: Attributes
    dirty: dict[int, list[bytes]] = field(default_factory=dict)
    """By sector: what it held since the last fsync, the newest last."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Since the last fsync: number of the operation, and the size behind it."""
    truncations: list[tuple[int, int]] = field(default_factory=list)
    growths: list[tuple[int, int, int]] = field(default_factory=list)
    """Of what was written behind the end: number of the operation, and the sizes before and behind it."""
    direct_ends: list[int] = field(default_factory=list)
    """Where writes past the page cache ended, since the last fsync."""
    attributes_since: list[tuple[int, Attributes]] = field(default_factory=list)
    lasting: Attributes | None = None
    """Attributes as of the last fsync; None of a file that never had one."""
    first: Attributes = field(init=False)
    """Attributes with which it was made."""
    has_failed: bool = False
    """Whether an fsync failed, so that the disk may never get what memory holds."""
    doubtful: dict[int, list[bytes]] = field(default_factory=dict)
    """By sector: what an fsync that failed may have written, or not."""
    doubtful_sizes: list[int] = field(default_factory=list)
    changed_at: int = -1
    """The last operation that the journal of a file system knows of."""

    def __post_init__(self) -> None:
        self.first = self.attributes

    def write(self, number: int, offset: int, data: bytes) -> None:
        """Put bytes somewhere; a gap before them is zeros."""
        end = offset + len(data)
        if end > len(self.memory):
            self.growths.append((number, len(self.memory), end))
            self._touch(len(self.memory), offset)
            self.memory.extend(bytes(end - len(self.memory)))
            self.sizes.append((number, end))
            self.changed_at = number
        self.memory[offset:end] = data
        self._keep(offset, end)

    def truncate(self, number: int, size: int) -> None:
        """End elsewhere."""
        before = len(self.memory)
        if size < before:
            del self.memory[size:]
        else:
            self.memory.extend(bytes(size - before))
        known = max(len(self.disk), max(self.dirty, default=0) * SECTOR_BYTES, before) + SECTOR_BYTES
        self._keep(min(size, before), min(max(size, before), known))  # a hole behind that is zeros, whatever is kept
        self.sizes.append((number, size))
        self.truncations.append((number, size))
        self.changed_at = number

    def _touch(self, start: int, end: int) -> None:
        if start < end:
            self.memory.extend(bytes(end - start))
            self._keep(start, end)

    def _keep(self, start: int, end: int) -> None:
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            held = bytes(self.memory[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
            self.dirty.setdefault(sector, []).append(held)

    def sync(self, *, has_failed: bool) -> None:
        """Make all last; or leave open for ever what was written before, and what no later fsync writes."""
        self.has_failed |= has_failed
        if has_failed:
            for sector, held in self.dirty.items():
                self.doubtful.setdefault(sector, []).extend(held)
            self.doubtful_sizes += [len(self.disk), *(size for _, size in self.sizes)]
        else:
            if self.sizes or not self.doubtful_sizes:
                self.doubtful_sizes.clear()
                del self.disk[len(self.memory) :]
                self.disk.extend(bytes(len(self.memory) - len(self.disk)))
            for sector in self.dirty:
                self.doubtful.pop(sector, None)
                start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, len(self.disk))
                self.disk[start:end] = self.memory[start:end]
            self.lasting = self.attributes
            self.attributes_since.clear()
        self.dirty.clear()
        self.sizes.clear()
        self.truncations.clear()
        self.growths.clear()
        self.direct_ends.clear()

    def old(self, sector: int) -> bytes:
        """A sector as of the last fsync; zeros where the file did not reach."""
        return bytes(self.disk[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")

    @property
    def is_durable(self) -> bool:
        return not (self.dirty or self.sizes or self.attributes_since or self.has_failed) and self.lasting is not None


@dataclass(frozen=True, slots=True)
class Kept:
    """Of one file."""

    content: bytes
    attributes: Attributes
    told: str = "all of it"


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of power before an operation: what the disk did not keep."""

    kind: str
    at: int
    lost: frozenset[int]
    """Changes of directories, by the number of their operation."""
    files: Mapping[int, Kept]
    """Those that are not as the process left them."""


class Disk:
    """Names and files while a recording is played."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.at = 0
        self.files: dict[int, File] = {}
        self.durable: Names = {}
        self.pending: list[tuple[int, Change]] = []
        self._changes: list[tuple[int, Change]] = []
        self.committed = -1
        """The last operation that the journal of a file system has on the disk."""
        self.root = recording.beginning[0].inode
        inodes = {begun.path: begun.inode for begun in recording.beginning}
        for begun in recording.beginning:
            self._begin(begun, inodes)
        self._begun = {inode: dict(names) for inode, names in self.durable.items()}

    def _begin(self, begun: Begun, inodes: Mapping[str, int]) -> None:
        content = begun.content or b""
        file = File(begun.content is None, bytearray(content), bytearray(content), begun.attributes)
        file.lasting = begun.attributes
        self.files[begun.inode] = file
        if begun.content is None:
            self.durable[begun.inode] = {}
        if begun.path != ".":
            parent, _, name = begun.path.rpartition("/")
            self.durable[inodes[parent or "."]][name] = begun.inode

    def play(self, until: int) -> None:
        """Do what the recording did before an operation."""
        for number in range(self.at, until):
            self._do(number, self._recording.operations[number])
        self.at = max(self.at, until)

    def _do(self, number: int, operation: Operation) -> None:
        match operation:
            case Made(inode=inode, is_directory=is_directory, attributes=attributes):
                self.files[inode] = File(is_directory, bytearray(), bytearray(), attributes)
                self._change(number, operation)
            case Linked() | Moved() | Unlinked():
                self._change(number, operation)
            case Wrote(inode, offset, data, is_direct, mtime_ns):
                file = self.files[inode]
                file.write(number, offset, data)
                if is_direct:
                    file.direct_ends.append(offset + len(data))
                self._attribute(number, inode, file.attributes._replace(mtime_ns=mtime_ns))
            case Truncated(inode, size, mtime_ns):
                file = self.files[inode]
                file.truncate(number, size)
                self._attribute(number, inode, file.attributes._replace(mtime_ns=mtime_ns))
            case Attributed(inode, attributes):
                self._attribute(number, inode, attributes)
                self.files[inode].changed_at = number
            case Synced(inode, has_failed):
                self._sync(inode, has_failed=has_failed)

    def _change(self, number: int, change: Change) -> None:
        self.pending.append((number, change))
        self._changes.append((number, change))
        for inode in (change.inode, *directories_of(change)):
            self.files[inode].changed_at = number

    def _attribute(self, number: int, inode: int, attributes: Attributes) -> None:
        file = self.files[inode]
        file.attributes = attributes
        file.attributes_since.append((number, attributes))

    def _sync(self, inode: int, *, has_failed: bool) -> None:
        file = self.files[inode]
        if not has_failed:
            self.committed = max(self.committed, file.changed_at)
        if not file.is_directory:
            file.sync(has_failed=has_failed)
        elif not has_failed:
            file.lasting = file.attributes
            file.attributes_since.clear()
            waiting = []
            moved_in = {change.inode: number for number, change in self.pending if change.directory == inode}
            for number, change in self.pending:  # where a file comes from, it has left
                if change.directory == inode or number < moved_in.get(change.inode, -1):
                    apply(self.durable, change)
                else:
                    waiting.append((number, change))
            self.pending = waiting

    # ---- what may be kept ------------------------------------------------------------------------------------------

    def cut(self, kind: str, dice: Random) -> Cut:
        """Draw what a disk does not keep at this moment."""
        lost, moment = self._lost(kind, dice)
        kept = {}
        mood = dice.choice(("all", "none", "own", "own"))
        for inode, file in self.files.items():
            if not file.is_durable:
                found = draw(file, kind, mood, moment, dice)
                if found.content != file.memory or found.attributes != file.attributes:
                    kept[inode] = found
        return Cut(kind, self.at, lost, kept)

    def _lost(self, kind: str, dice: Random) -> tuple[frozenset[int], int]:
        """Changes of directories that are lost, and the moment up to which a journal has all."""
        numbers = [number for number, _ in self.pending]
        if kind == POSIX:
            return frozenset(_some_of(numbers, self._of_one(dice), dice)), -1
        first = self.committed + 1
        moment = dice.choice((first, self.at, dice.randint(first, max(first, self.at))))
        return frozenset(number for number in numbers if number >= moment), moment

    def _of_one(self, dice: Random) -> list[int]:
        """The changes of one directory."""
        directories = sorted({inode for _, change in self.pending for inode in directories_of(change)})
        chosen = dice.choice(directories) if directories else 0
        return [number for number, change in self.pending if chosen in directories_of(change)]

    def names_after(self, cut: Cut) -> Names:
        """Names of each directory that a cut leaves."""
        is_any = cut.kind == POSIX
        names = {inode: dict(entries) for inode, entries in (self.durable if is_any else self._begun).items()}
        for number, change in self.pending if is_any else self._changes:
            if number not in cut.lost:
                apply(names, change)
        return names

    def left(self, cut: Cut) -> dict[str, tuple[bool, Kept]]:
        """What is there after a cut, by path: whether it is a directory, its bytes and attributes."""
        found: dict[str, tuple[bool, Kept]] = {}
        names = self.names_after(cut)

        def walk(inode: int, path: str) -> None:
            for name, child in names.get(inode, {}).items():
                file = self.files[child]
                kept = cut.files.get(child) or Kept(bytes(file.memory), file.attributes)
                found[path + name] = file.is_directory, kept
                if file.is_directory:
                    walk(child, f"{path}{name}/")

        walk(self.root, "")
        return found

    def why_not(self, kind: str, found: Mapping[str, bytes | None]) -> str | None:
        """Tell why a disk with a journal could not have left this, or None if it could.

        Args:
            kind: of the disk, other than ``posix``.
            found: content by path, None of a directory.
        """
        reasons = []
        for moment in dict.fromkeys((self.committed + 1, *self._moments(), self.at)):
            lost = frozenset(number for number, _ in self.pending if number >= moment)
            left = self.left(Cut(kind, self.at, lost, {}))
            inodes = self._inodes(lost)
            if left.keys() != found.keys():
                reasons.append(f"up to {moment}: names differ by {left.keys() ^ found.keys()}")
                continue
            wrong = (
                why_not(self.files[inodes[path]], kind, moment, content)
                for path, content in found.items()
                if content is not None
            )
            if not (told := next(filter(None, wrong), None)):
                return None
            reasons.append(f"up to {moment}: {told}")
        return "; ".join(reasons)

    def _moments(self) -> Iterator[int]:
        """Behind each operation that a journal has of its own."""
        yield from (number + 1 for number, _ in self.pending if number > self.committed)
        for file in self.files.values():
            yield from (number + 1 for number, _ in file.truncations if number > self.committed)

    def _inodes(self, lost: frozenset[int]) -> dict[str, int]:
        names = self.names_after(Cut(ORDERED, self.at, lost, {}))
        found: dict[str, int] = {}

        def walk(inode: int, path: str) -> None:
            for name, child in names.get(inode, {}).items():
                found[path + name] = child
                walk(child, f"{path}{name}/")

        walk(self.root, "")
        return found

    def told(self, cut: Cut) -> list[str]:
        """What the disk did not keep, a line each."""
        number_of = dict(self.pending)
        names = {inode: name for entries in self.durable.values() for name, inode in entries.items()}
        names |= {change.inode: change.name for _, change in self.pending}
        lines = [f"  lost   {told(number_of[number], names)} (operation {number})" for number in sorted(cut.lost)]
        lines += [f"  kept   {names.get(inode, inode)}: {kept.told}" for inode, kept in cut.files.items()]
        return [f"{cut.kind}, cut before operation {cut.at} of {len(self._recording.operations)}:", *lines]


def directories_of(change: Change) -> set[int]:
    """Those whose names it changes."""
    return {change.directory, change.source_directory} if isinstance(change, Moved) else {change.directory}


def apply(names: Names, change: Change) -> None:
    """Make one change; a rename that survives takes its file from whatever name an earlier one, lost, would have given
    it."""
    match change:
        case Made(directory, name, inode, is_directory, _):
            if is_directory:
                names.setdefault(inode, {})
            names.setdefault(directory, {})[name] = inode
        case Linked(directory, name, inode):
            names.setdefault(directory, {})[name] = inode
        case Moved(directory, name, inode, source_directory, source_name):
            if names.setdefault(source_directory, {}).get(source_name) == inode:
                del names[source_directory][source_name]  # a second name of the file stays
            else:
                for place in (source_directory, directory):
                    entries = names.setdefault(place, {})
                    for old in [old for old, found in entries.items() if found == inode]:
                        del entries[old]
            names.setdefault(directory, {})[name] = inode
        case Unlinked(directory, name, inode):
            entries = names.setdefault(directory, {})
            if entries.get(name) == inode:
                del entries[name]
            else:
                for old in [old for old, found in entries.items() if found == inode]:
                    del entries[old]


def told(change: Change, names: Mapping[int, str]) -> str:
    where = names.get(change.directory, ".")
    match change:
        case Made(is_directory=True):
            return f"mkdir {where}/{change.name}"
        case Made() | Linked():
            return f"name {where}/{change.name}"
        case Moved():
            return f"rename {names.get(change.source_directory, '.')}/{change.source_name} -> {where}/{change.name}"
        case _:
            return f"unlink {where}/{change.name}"


def _some_of(numbers: Sequence[int], of_one: Sequence[int], dice: Random) -> list[int]:
    """Return a subset of a kind that breaks something soon: all, none, one, all but one, the latest, any."""
    if not numbers:
        return []
    place = dice.randrange(len(numbers))
    subsets: tuple[Sequence[int], ...] = (
        numbers,
        (),
        numbers[place : place + 1],
        (*numbers[:place], *numbers[place + 1 :]),
        numbers[place:],
        numbers[: place + 1],
        of_one,
        [number for number in numbers if dice.random() < 0.5],
    )
    return list(dice.choice(subsets))


def draw(file: File, kind: str, mood: str, moment: int, dice: Random) -> Kept:
    """What is kept of one file.

    Args:
        file: that was changed since its last fsync.
        kind: of the disk.
        mood: ``all`` or ``none`` is kept of every file, or each has its ``own`` fate.
        moment: up to which a journal has all; -1 where none has.
        dice: which decide.
    """
    attributes = _attributes(file, mood, moment, dice)
    if file.is_directory:
        return Kept(b"", attributes)
    sizes = sizes_of(file, kind, moment)
    fate = mood if mood != "own" else dice.choice(("all", "none", "torn", "torn", "sizes"))
    match fate:
        case "all":
            size = len(file.memory)
        case "none":
            size = sizes[0]
        case _:
            size = dice.choice((sizes[-1], dice.choice(sizes), _on_the_way(file, sizes, dice)))
    share = {"all": 1.0, "none": 0.0, "sizes": 0.0}.get(fate, dice.choice((0.1, 0.5, 0.9)))
    content, new, zeros = file.disk[:size].ljust(size, b"\0"), 0, 0
    for sector in sorted(sector for sector in {*file.dirty, *file.doubtful} if sector * SECTOR_BYTES < size):
        choices = versions_of(file, kind, sector, size)
        chosen = choices[-1] if dice.random() < share else choices[0] if dice.random() < 0.8 else dice.choice(choices)
        new += chosen is choices[-1]
        zeros += not any(chosen)
        content[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = chosen.ljust(SECTOR_BYTES, b"\0")
    del content[size:]
    of = f"{size} of {len(file.memory)} bytes, {new} of {len(file.dirty)} sectors new, {zeros} zeros"
    return Kept(bytes(content), attributes, of)


def _attributes(file: File, mood: str, moment: int, dice: Random) -> Attributes:
    old = file.lasting or file.first
    known = [attributes for number, attributes in file.attributes_since if number < moment]
    choices = [
        known[-1] if known else old,
        *(attributes for number, attributes in file.attributes_since if number >= moment),
    ]
    return choices[0] if mood == "none" else choices[-1] if mood == "all" else dice.choice(choices)


def sizes_of(file: File, kind: str, moment: int) -> list[int]:
    """The sizes that a file may have, the oldest first. A journal that has a truncation has no size of before."""
    sizes = [*file.doubtful_sizes, len(file.disk), *(size for _, size in file.sizes)]
    if kind != POSIX:
        journalled = [
            place
            for place, (number, size) in enumerate(file.sizes)
            if (number, size) in file.truncations and number < moment
        ]
        if journalled:
            sizes = sizes[len(file.doubtful_sizes) + journalled[-1] + 1 :]
    return sizes


def _on_the_way(file: File, sizes: Sequence[int], dice: Random) -> int:
    """Within what was written behind the end, where a sector ends."""
    growths = [(low, high) for _, low, high in file.growths if high in sizes]
    if not growths:
        return dice.choice(sizes)
    low, high = dice.choice(growths)
    return max(low, dice.randint(low, high) // SECTOR_BYTES * SECTOR_BYTES)


def versions_of(file: File, kind: str, sector: int, size: int) -> list[bytes]:
    """What a sector of a file of some size may hold: the oldest first, the newest last."""
    start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, size)
    since = [*file.doubtful.get(sector, ()), *file.dirty.get(sector, ())]
    set_to = max((*(size for _, size in file.truncations), *file.direct_ends), default=0)
    if kind == XFS and since and end > max(len(file.disk), set_to):
        return [held for held in since if len(held) >= end - start] or since[-1:]
    return [file.old(sector), *since]


def why_not(file: File, kind: str, moment: int, content: bytes) -> str | None:
    """Tell why a disk could not have left this content of a file, or None if it could."""
    size, sizes = len(content), sizes_of(file, kind, moment)
    is_on_the_way = size % SECTOR_BYTES == 0 and any(
        low <= size <= high for _, low, high in file.growths if high in sizes
    )
    if size not in sizes and not is_on_the_way:
        return f"{size} bytes, not {sizes}"
    for sector in range(-(-size // SECTOR_BYTES)):
        start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, size)
        versions = versions_of(file, kind, sector, size)
        if content[start:end] not in [held.ljust(SECTOR_BYTES, b"\0")[: end - start] for held in versions]:
            return f"sector {sector} of {size} bytes is none of {len(versions)} that it may be"
    return None


def lay_down(left: Mapping[str, tuple[bool, Kept]], target: Path) -> Path:
    """Write what a cut left to a place at which nothing is."""
    target.mkdir(parents=True)
    for path, (is_directory, kept) in left.items():
        place = target / path
        if is_directory:
            place.mkdir()
        else:
            place.write_bytes(kept.content)
            os.utime(place, ns=(kept.attributes.mtime_ns,) * 2)
        place.chmod(kept.attributes.mode & 0o7777)
        os.chown(place, kept.attributes.uid, kept.attributes.gid)
    return target
