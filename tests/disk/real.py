"""Real file systems that lose power: ext4 and xfs on a loop device, over a forgetting disk that has every write.

A kernel may lack ``dm-log-writes``. A loop device over a FUSE file does the same: each write of a sector and each
flush comes to the file, in order. An image of any moment is the writes before the last flush, and some later ones.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from mmap import mmap
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from tests.debian_packages import unpacked
from tests.disk.cuts import ORDERED, WRITEBACK, XFS, Disk
from tests.disk.mount import mounted
from tests.disk.recording import Recording, Synced, Wrote, beginning_of
from tests.disk.server import Recorder

SECTOR_BYTES: Final = 512
SUPERBLOCK_BYTES: Final = 4096
SYNC_FILE_RANGE_WRITE: Final = 2
XFS_PACKAGES: Final = (
    "xfsprogs",
    "libinih1",
    "liburcu8t64",
    "liburcu8",
    "libicu76",
    "libicu72",
    "libedit2",
    "libdevmapper1.02.1",
)


class Kind(NamedTuple):
    """Of a file system."""

    make: tuple[str, ...]
    options: str
    size_bytes: int


FILE_SYSTEMS: Final[Mapping[str, Kind]] = {
    ORDERED: Kind(
        ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", "-J", "size=1"), "data=ordered", 12 << 20
    ),
    WRITEBACK: Kind(
        ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0", "-J", "size=1"), "data=writeback", 12 << 20
    ),
    XFS: Kind(("mkfs.xfs", "-q", "-f", "-K", "-m", "rmapbt=0,reflink=0"), "nouuid", 300 << 20),
}


def _program(name: str) -> tuple[str, dict[str, str]]:
    """Path of a program, and the environment in which it finds its libraries; without such a program the test is
    skipped aloud.
    """
    if found := shutil.which(name):
        return found, {}
    places = []
    for package in XFS_PACKAGES:
        with suppress(pytest.skip.Exception):
            places.append(unpacked(package))
    libraries = {str(path.parent) for place in places for path in place.rglob("*.so.*")}
    for place in places:
        for path in place.rglob(name):
            return str(path), {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}
    pytest.skip(f"NOT RUN: there is no {name} here, and Debian's package cannot be fetched")


def made(kind: str, image: Path) -> Path:
    """Make an empty file system in a file."""
    file_system = FILE_SYSTEMS[kind]
    with image.open("wb") as file:
        file.truncate(file_system.size_bytes)
    program, environment = _program(file_system.make[0])
    done = subprocess.run(
        [program, *file_system.make[1:], image],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"NOT RUN: {program} does not work here: {done.stderr.strip()}")
    return image


@contextmanager
def looped(kind: str, image: Path, place: Path) -> Iterator[Path]:
    """Mount an image by a loop device."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-o", f"loop,{FILE_SYSTEMS[kind].options}", image, place], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{image} cannot be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


class Lived(NamedTuple):
    """What was done to a file system, by calls and by blocks."""

    calls: Recording
    blocks: Recording


def lived(kind: str, seed: int, steps: int, scratch: Path) -> Lived:
    """Have a file system live through random calls; the empty one stays as ``scratch / "empty"``."""
    backing = scratch / "backing"
    backing.mkdir(parents=True)
    made(kind, backing / "image")
    subprocess.run(["cp", "--sparse=always", backing / "image", scratch / "empty"], check=True)
    with mounted(backing, scratch / "disk", scratch / "blocks") as disk:
        live_on(disk / "image", kind, seed, steps, scratch)
    return Lived(Recording.read(scratch / "calls"), Recording.read(scratch / "blocks"))


def live_on(image: Path, kind: str, seed: int, steps: int, scratch: Path) -> None:
    with looped(kind, image, scratch / "live") as live, (scratch / "calls").open("wb", buffering=0) as calls:
        shutil.rmtree(live / "lost+found", ignore_errors=True)
        Life(live, calls, Random(seed)).live(steps)


class Life:
    """Random calls, as a program makes them that forgets fsyncs."""

    def __init__(self, root: Path, calls: object, dice: Random) -> None:
        import pickle

        for name in ("one", "two"):
            (root / name).mkdir()
            with (root / name / "old").open("wb") as file:
                file.write(dice.randbytes(dice.randrange(9000)))
        os.sync()
        pickle.dump(beginning_of(root), calls)  # type: ignore[arg-type]
        self._root, self._dice = root, dice
        self._recorder = Recorder(str(root), calls, is_real=True)
        self._sync_range = ctypes.CDLL(None, use_errno=True).sync_file_range

    def live(self, steps: int) -> None:
        """Make so many."""
        choices = (self._create, self._append, self._append, self._overwrite, self._truncate, self._rename, self._move)
        choices += (self._unlink, self._sync, self._sync, self._sync_dir, self._begin_writing, self._attribute)
        choices += (self._write_past_the_cache,)
        for _ in range(steps):
            self._dice.choice(choices)()

    def _files(self) -> list[str]:
        return sorted(str(path)[len(str(self._root)) :] for path in self._root.glob("*/*"))

    def _path(self) -> str:
        return f"/{self._dice.choice(('one', 'two'))}/{self._dice.choice('abcdef')}"

    def _create(self) -> None:
        path = self._path()
        if not (self._root / path[1:]).exists():
            self._recorder.release(None, self._recorder.create(path, 0o100644, os.O_WRONLY))

    def _with_file(self, flags: int = 0) -> Iterator[tuple[str, int, int]]:
        if files := self._files():
            path = self._dice.choice(files)
            fh = self._recorder.open(path, os.O_WRONLY | flags)
            yield path, fh, os.fstat(fh).st_size
            self._recorder.release(None, fh)

    def _append(self) -> None:
        for _, fh, size in self._with_file():
            self._recorder.write(None, self._dice.randbytes(self._dice.choice((100, 512, 3000, 4096, 9000))), size, fh)

    def _overwrite(self) -> None:
        for _, fh, size in self._with_file():
            if size:
                self._recorder.write(None, self._dice.randbytes(min(size, 700)), self._dice.randrange(size), fh)

    def _write_past_the_cache(self) -> None:
        """Whole sectors, over what is there or behind it; an anonymous mapping is aligned as they must be."""
        for _, fh, size in self._with_file(os.O_DIRECT):
            with mmap(-1, self._dice.choice((1, 3, 8, 16)) * SECTOR_BYTES) as data:
                data.write(self._dice.randbytes(len(data)))
                self._recorder.write(None, data, self._dice.randint(0, size // SECTOR_BYTES) * SECTOR_BYTES, fh)

    def _truncate(self) -> None:
        for _, fh, size in self._with_file():
            self._recorder.truncate(None, self._dice.randrange(size + 2000), fh)

    def _rename(self) -> None:
        if files := self._files():
            path = self._dice.choice(files)
            self._recorder.rename(path, f"{path[:5]}{self._dice.choice('abcdef')}")

    def _move(self) -> None:
        if files := self._files():
            self._recorder.rename(self._dice.choice(files), self._path())

    def _unlink(self) -> None:
        if files := self._files():
            self._recorder.unlink(self._dice.choice(files))

    def _sync(self) -> None:
        for _, fh, _ in self._with_file():
            self._recorder.fsync(None, 0, fh)

    def _sync_dir(self) -> None:
        path = self._dice.choice(("/one", "/two", "/"))
        fh = self._recorder.opendir(path)
        self._recorder.fsyncdir(path, 0, fh)
        self._recorder.releasedir(path, fh)

    def _begin_writing(self) -> None:
        """As ``write_out`` does: the disk begins, and nothing is durable by that."""
        for _, fh, _ in self._with_file():
            self._sync_range(fh, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)

    def _attribute(self) -> None:
        for path, fh, _ in self._with_file():
            self._recorder.chmod(path, self._dice.choice((0o600, 0o644)), fh)


def images(life: Lived, scratch: Path, count: int, dice: Random) -> Iterator[tuple[int, Path]]:
    """Images that a cut of power may leave, each with the number of calls that were done before.

    A device keeps what it wrote before its last flush, and of what came later any sectors.
    """
    (began_ns,) = life.calls.times_ns[:1]
    blocks = list(zip(life.blocks.operations, life.blocks.times_ns, strict=True))
    first = next(place for place, (_, time_ns) in enumerate(blocks) if time_ns >= began_ns)
    for _ in range(count):
        at = dice.randrange(first, len(blocks))
        flushed = max((place for place in range(at) if isinstance(blocks[place][0], Synced)), default=0)
        image = scratch / "cut"
        subprocess.run(["cp", "--sparse=always", scratch / "empty", image], check=True)
        share = dice.choice((0.0, 0.5, 0.9, 1.0))
        with image.open("r+b") as file:
            for place, (operation, _) in enumerate(blocks[:at]):
                if isinstance(operation, Wrote):
                    for start in range(0, len(operation.data), SECTOR_BYTES):
                        is_whole = operation.offset + start < SUPERBLOCK_BYTES  # no file system survives half of one
                        if place < flushed or is_whole or dice.random() < share:
                            file.seek(operation.offset + start)
                            file.write(operation.data[start : start + SECTOR_BYTES])
        done = sum(time_ns <= blocks[at][1] for time_ns in life.calls.times_ns)
        yield done, image


def found_in(place: Path) -> dict[str, bytes | None]:
    """Content of all that is there, by path."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() if path.is_file() else None
        for path in place.rglob("*")
        if path.name != "lost+found"
    }


def check_against(kind: str, life: Lived, scratch: Path, count: int, dice: Random) -> tuple[int, list[str]]:
    """Mount images of cuts, and see whether the model allows what is in them.

    Returns: how many different ones there were, and what the model does not allow.
    """
    met, wrong = set(), []
    for done, image in images(life, scratch, count, dice):
        with looped(kind, image, scratch / "looked-at") as place:
            found = found_in(place)
        met.add(frozenset(found.items()))
        reasons = []
        for at in (done, min(done + 1, len(life.calls.operations))):
            disk = Disk(life.calls)
            disk.play(at)
            reasons.append(disk.why_not(kind, found))
        if all(reasons):
            wrong.append(f"cut at call {done}: {reasons[0]}")
    return len(met), wrong
