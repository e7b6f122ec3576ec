"""The process that serves a forgetting disk: each call goes to a backing directory at once, and is recorded.

``python -m tests.disk.server BACKING MOUNTPOINT RECORDING FAULTS READY`` serves until it is unmounted. FAULTS is a JSON
list of ``Fault``; READY a descriptor that gets a byte once the mount is there. One thread serves: the order of the
recording is that of the calls. A power cut ends the session that called, and all that is asked later fails.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH115, PTH208 - a file system speaks in calls

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.disk.recording import (
    Attributed,
    Linked,
    Made,
    Moved,
    Operation,
    Synced,
    Truncated,
    Unlinked,
    Wrote,
    attributes_of,
    beginning_of,
)

BLOCKS: Final = 1 << 18
"""The size that the disk tells, in blocks."""
BLOCK_BYTES: Final = 4096
SYNCS: Final = ("fsync", "fsyncdir")
CHANGES: Final = (*SYNCS, "write", "create", "mkdir", "rename", "unlink", "rmdir", "link", "truncate", "attributes")
"""The calls that are counted for a power cut."""
UNCHANGED: Final = (1 << 32) - 1
"""In the place of a user or a group."""
CUT: Final = "cut"
SHORT: Final = "short"
SLEEP: Final = "sleep"


class Fault(NamedTuple):
    """What goes wrong at the ``at``-th of some calls, counted from 0, and at ``count`` of them (-1: all later ones)."""

    calls: tuple[str, ...]
    what: str
    """Name of an error, ``short``, ``sleep`` or ``cut``."""
    at: int
    count: int = 1
    seconds: float = 0.0


def serve(backing: str, mountpoint: str, recording: str, faults: str, ready: str) -> None:
    """Mount, and serve until unmounted."""
    import mfusepy

    class Disk(Recorder, mfusepy.Operations):  # type: ignore[misc]
        use_ns = True
        flag_nopath = flag_nullpath_ok = True

        def caller(self) -> int:
            return int(mfusepy.fuse_get_context()[2])

        def init(self, path: str) -> None:
            os.write(int(ready), b"1")

    class Fuse(mfusepy.FUSE):  # type: ignore[misc]
        """Hands on the open file of what may have no name any more: mfusepy drops it."""

        def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
            return self.operations.truncate(_decoded(path), length, _opened(fip))

        def chmod_fuse_3(self, path: bytes | None, mode: int, fip: Any) -> int:
            return self.operations.chmod(_decoded(path), mode, _opened(fip))

        def chown_fuse_3(self, path: bytes | None, uid: int, gid: int, fip: Any) -> int:
            given = (-1 if number == UNCHANGED else number for number in (uid, gid))
            return self.operations.chown(_decoded(path), *given, _opened(fip))

        def utimens_fuse_3(self, path: bytes | None, buf: Any, fip: Any) -> int:
            times = (buf.contents.actime, buf.contents.modtime)
            told = tuple(mfusepy.time_of_timespec(time, use_ns=True) for time in times) if buf else None
            return self.operations.utimens(_decoded(path), told, _opened(fip))

    os.umask(0)
    with Path(recording).open("wb", buffering=0) as file:
        pickle.dump(beginning_of(Path(backing)), file)
        disk = Disk(backing, file, [Fault(tuple(calls), *rest) for calls, *rest in json.loads(faults)])
        options: dict[str, Any] = {"hard_remove": True, "use_ino": True, "attr_timeout": 3600, "entry_timeout": 3600}
        Fuse(
            disk,
            mountpoint,
            foreground=True,
            nothreads=True,
            allow_other=True,
            default_permissions=True,
            fsname="forgetting",
            **options,
        )


def _decoded(path: bytes | None) -> str | None:
    return None if path is None else path.decode()


def _opened(fip: Any) -> int | None:
    return int(fip.contents.fh) if fip else None


def end_session(pid: int) -> None:
    """Kill a process, and all of its session, as the end of the power does; not the session of the tests."""
    with suppress(ProcessLookupError):
        session = os.getsid(pid)
        if pid and session != os.getsid(0):
            for entry in filter(str.isdigit, os.listdir("/proc")):
                with suppress(ProcessLookupError):
                    if os.getsid(int(entry)) == session:
                        os.kill(int(entry), signal.SIGKILL)


class Recorder:
    """The calls of the file system."""

    def __init__(self, backing: str, recording: Any, faults: Sequence[Fault] = (), *, is_real: bool = False) -> None:
        """Begin.

        Args:
            backing: directory that is served.
            recording: file that gets the operations.
            faults: what goes wrong.
            is_real: whether the backing directory, too, gets each fsync, and writes past the page cache.
        """
        self._root, self._recording, self._faults = backing, recording, faults
        self._met = [0] * len(faults)
        self._open: dict[int, bool] = {}
        """Descriptors, and whether their writes go past the page cache."""
        self._is_dead = False
        self._is_real = is_real
        self._given: dict[int, int] = {}

    def caller(self) -> int:
        """Process id of who asks."""
        raise NotImplementedError

    # ---- faults ----------------------------------------------------------------------------------------------------

    def _fault(self, call: str) -> Fault | None:
        """Called first of all by each call. Raises: OSError, where it is to fail so."""
        if self._is_dead:
            raise OSError(errno.EIO, "the power is off")
        for place, fault in enumerate(self._faults):
            if call in fault.calls:
                number = self._met[place] = self._met[place] + 1
                if number - 1 >= fault.at and (fault.count < 0 or number - 1 < fault.at + fault.count):
                    return self._strike(call, fault)
        return None

    def _strike(self, call: str, fault: Fault) -> Fault | None:
        if fault.what == CUT:
            self._is_dead = True
            pid = self.caller()
            end_session(pid)
            raise OSError(errno.EIO, "the power is off")
        if fault.what == SLEEP:
            time.sleep(fault.seconds)
            return None
        if fault.what == SHORT:
            return fault
        raise OSError(getattr(errno, fault.what), "the disk says no")

    def _record(self, operation: Operation) -> None:
        pickle.dump((operation, time.monotonic_ns()), self._recording)

    def _path(self, path: str) -> str:
        return self._root + path

    def _place(self, path: str) -> tuple[int, str]:
        """The inode of a directory, and the name in it."""
        parent, _, name = path.rpartition("/")
        return self._number(os.lstat(self._path(parent))), name

    def _number(self, status: os.stat_result) -> int:
        """A file's inode, and how often a file system has given that number again."""
        return self._given.get(status.st_ino, 0) << 48 | status.st_ino

    # ---- looking ---------------------------------------------------------------------------------------------------

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        self._fault("getattr")
        status = os.fstat(fh) if fh is not None else os.lstat(self._path(path or ""))
        keys = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino", "st_blocks", "st_blksize")
        told = {key: getattr(status, key) for key in keys}
        return told | {f"st_{t}time": getattr(status, f"st_{t}time_ns") for t in "amc"}

    def readdir(self, path: str | None, fh: int) -> list[tuple[str, dict[str, int], int]]:
        self._fault("readdir")
        names = (".", "..", *os.listdir(fh))
        found = ((name, os.stat(name, dir_fd=fh, follow_symlinks=False)) for name in names)
        return [(name, {"st_ino": status.st_ino, "st_mode": status.st_mode}, 0) for name, status in found]

    def opendir(self, path: str) -> int:
        self._fault("opendir")
        return os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY)

    def releasedir(self, path: str | None, fh: int) -> int:
        os.close(fh)
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(self._path(path))

    def statfs(self, path: str) -> dict[str, int]:
        used = sum(entry.lstat().st_blocks for entry in Path(self._root).rglob("*")) * 512 // BLOCK_BYTES
        free = {"f_bfree": BLOCKS - used, "f_bavail": BLOCKS - used, "f_ffree": 1 << 20, "f_favail": 1 << 20}
        return {
            "f_bsize": BLOCK_BYTES,
            "f_frsize": BLOCK_BYTES,
            "f_blocks": BLOCKS,
            "f_files": 1 << 21,
            "f_namemax": 255,
            **free,
        }

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        fault = self._fault("read")
        return os.pread(fh, size // 2 if fault else size, offset)

    # ---- files -----------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int) -> int:
        self._fault("open")
        return self._opened(path, flags)

    def _opened(self, path: str, flags: int) -> int:
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        direct = flags & os.O_DIRECT if self._is_real else 0
        fh = os.open(self._path(path), (os.O_RDWR if writes else os.O_RDONLY) | direct)
        self._open[fh] = bool(flags & os.O_DIRECT)
        if flags & os.O_TRUNC and writes:
            self._truncate(fh, 0)
        return fh

    def create(self, path: str, mode: int, flags: int) -> int:
        self._fault("create")
        os.close(os.open(self._path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
        self._made(path, is_directory=False)
        return self._opened(path, flags & ~os.O_TRUNC)

    def _made(self, path: str, *, is_directory: bool) -> None:
        status = os.lstat(self._path(path))
        self._given[status.st_ino] = self._given.get(status.st_ino, 0) + 1
        self._record(Made(*self._place(path), self._number(status), is_directory, attributes_of(status)))

    def release(self, path: str | None, fh: int) -> int:
        self._open.pop(fh)
        os.close(fh)
        return 0

    def write(self, path: str | None, data: bytes | mmap, offset: int, fh: int) -> int:
        if self._fault("write"):
            data = data[: max(len(data) // 2, 1)]
        os.pwrite(fh, data, offset)
        status = os.fstat(fh)
        self._record(Wrote(self._number(status), offset, bytes(data), self._open[fh], status.st_mtime_ns))
        return len(data)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        self._fault("truncate")
        if fh is not None:
            self._truncate(fh, length)
            return 0
        opened = os.open(self._path(path or ""), os.O_RDWR)
        try:
            self._truncate(opened, length)
        finally:
            os.close(opened)
        return 0

    def _truncate(self, fh: int, length: int) -> None:
        os.ftruncate(fh, length)
        status = os.fstat(fh)
        self._record(Truncated(self._number(status), length, status.st_mtime_ns))

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        return self._sync("fsync", fh)

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
        return self._sync("fsyncdir", fh)

    def _sync(self, call: str, fh: int) -> int:
        inode = self._number(os.fstat(fh))
        try:
            self._fault(call)
        except OSError:
            if not self._is_dead:
                self._record(Synced(inode, has_failed=True))
            raise
        if self._is_real:
            os.fsync(fh)
        self._record(Synced(inode))
        return 0

    # ---- names -----------------------------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int) -> int:
        self._fault("mkdir")
        os.mkdir(self._path(path), mode)
        self._made(path, is_directory=True)
        return 0

    def rename(self, old: str, new: str) -> int:
        self._fault("rename")
        inode = self._number(os.lstat(self._path(old)))
        os.rename(self._path(old), self._path(new))
        if old != new:
            self._record(Moved(*self._place(new), inode, *self._place(old)))
        return 0

    def link(self, target: str, source: str) -> int:
        self._fault("link")
        os.link(self._path(source), self._path(target))
        self._record(Linked(*self._place(target), self._number(os.lstat(self._path(target)))))
        return 0

    def unlink(self, path: str) -> int:
        self._fault("unlink")
        inode = self._number(os.lstat(self._path(path)))
        os.unlink(self._path(path))
        self._record(Unlinked(*self._place(path), inode))
        return 0

    def rmdir(self, path: str) -> int:
        self._fault("rmdir")
        inode = self._number(os.lstat(self._path(path)))
        os.rmdir(self._path(path))
        self._record(Unlinked(*self._place(path), inode))
        return 0

    # ---- attributes ------------------------------------------------------------------------------------------------

    def chmod(self, path: str | None, mode: int, fh: int | None = None) -> int:
        self._fault("attributes")
        os.chmod(self._path(path or "") if fh is None else fh, stat.S_IMODE(mode))
        return self._attributed(path, fh)

    def chown(self, path: str | None, uid: int, gid: int, fh: int | None = None) -> int:
        self._fault("attributes")
        os.chown(self._path(path or "") if fh is None else fh, uid, gid)
        return self._attributed(path, fh)

    def utimens(self, path: str | None, times: tuple[int, int] | None = None, fh: int | None = None) -> int:
        self._fault("attributes")
        os.utime(self._path(path or "") if fh is None else fh, ns=times)
        return self._attributed(path, fh)

    def _attributed(self, path: str | None, fh: int | None) -> int:
        status = os.lstat(self._path(path or "")) if fh is None else os.fstat(fh)
        self._record(Attributed(self._number(status), attributes_of(status)))
        return 0


if __name__ == "__main__":
    serve(*sys.argv[1:])
