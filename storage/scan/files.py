"""The bytes of one ``.log``, window by window: mapped under the lock of its log dir, else read into memory.

A file in a store is read ahead, and never a mixture of two versions.

A mapped file's pages are populated before anybody touches them: a file that was truncated, or a disk that does not give
it, is an error there, not a SIGBUS in a kernel.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Final

import numpy as np

from storage.arrays import Bytes
from storage.errors import LogCleanerError, PlanOutOfDate, UnreadableFile, as_unreadable
from storage.names import FileState
from storage.scan.page_cache import Range, absent_ranges, is_resident, let_go, populate, unmap_pages
from storage.segment import Segment, open_here, reading_here
from storage.stores.paths import StoredPath

if TYPE_CHECKING:
    from storage.directory import OpenFile
    from storage.scan.extents import Extent

READ_AHEAD_BYTES: Final = 16 << 20
"""The most bytes that the system reads ahead: twice its setting, which is seldom above 8 MiB."""

AHEAD_BYTES: Final = 32 << 20
"""The bytes that are brought in ahead of a walk over a file that was not in the page cache."""

STEP_BYTES: Final = 4 << 20
"""The bytes that are brought in at once. The end of a walk waits for them."""

_FILES_AHEAD: Final = 4
"""As many files as there are windows on their way: a small file is one window."""


class SegmentGone(LogCleanerError):
    """A segment that has gone since a read was planned: retention deleted it, or a compaction replaced it."""

    path: Path

    def __str__(self) -> str:
        return (
            f"{self.path}: deleted or compacted away since the read was planned; read again, or set failOnDataLoss to "
            f"false to go on without it"
        )


class Buffer:
    """The memory into which windows of files are read, one after the other."""

    def __init__(self, size_bytes: int = 0) -> None:
        """Take an amount of memory; it grows when a window needs more."""
        self._room: Bytes = np.empty(size_bytes, np.uint8)

    def read(self, descriptor: OpenFile, start: int, end: int) -> Bytes:
        """Return ``[start, end)`` of a file, or less if the file ends before, valid until the next call. Raises:
        OSError.
        """
        if not isinstance(descriptor, int):
            return np.frombuffer(descriptor.pread(end - start, start), np.uint8)
        if self._room.size < end - start:
            self._room = np.empty(end - start, np.uint8)
        buf, done = self._room[: end - start], 0
        while done < buf.size and (count := os.preadv(descriptor, [buf[done:].data], start + done)):
            done += count
        return buf[:done]


class FileBytes:
    """The bytes of one file. By default there is nothing to let go of."""

    @property
    def absent_bytes(self) -> int:
        """The number of bytes that were not in the page cache before they were read; 0 if nobody looks."""
        return 0

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Return a buffer that holds ``[start, end)`` of the file, and the position in the file of its first byte.

        Raises: PlanOutOfDate, UnreadableFile.
        """
        raise NotImplementedError

    def leave(self, start: int, end: int) -> None:
        """Say that nobody touches a stretch of the file any more."""

    def let_go(self) -> None:
        """Leave the page cache as it was found. No window is in use."""

    def close(self) -> None:
        """Let the file go, so that unlinking it gives its space back. Calling it again does nothing."""


class _Absent:
    """The pages of a file that were not in the page cache before the first walk."""

    def __init__(self, path: Path, size_bytes: int, mapped: Bytes | None = None) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self.mapped = mapped
        self._ranges: list[Range] = []
        self.noted_to = 0

    @property
    def size_bytes(self) -> int:
        """The size of these pages."""
        return sum(end - start for start, end in self._ranges)

    def note(self, window_end: int) -> None:
        """Note the absent pages of a window, before the system reads ahead of it.

        If there are some, note those of the whole file: nobody can tell how far ahead the system will read.
        """
        end = min(window_end + READ_AHEAD_BYTES, self._size_bytes)
        if self.noted_to >= self._size_bytes:
            return
        found = self._absent(self.noted_to, end)
        if found and end < self._size_bytes:
            found += self._absent(end, self._size_bytes)
            end = self._size_bytes
        self._ranges += found
        self.noted_to = end

    def _absent(self, start: int, end: int) -> list[Range]:
        if self.mapped is not None:
            return absent_ranges(self.mapped, start, end)
        with reading_here(self._path) as file:
            return absent_ranges(file, start, end)

    def reach_beyond(self, position: int) -> bool:
        """Return whether a page from there on was absent."""
        return bool(self._ranges) and self._ranges[-1][1] > position

    def let_go(self) -> None:
        """Take the pages out of the page cache again."""
        if self._ranges:
            with reading_here(self._path) as file:
                let_go(file, self._ranges)


class _Ahead:
    """A thread that brings in the pages of a mapping ahead of a walk, so that the disk is busy while the cores work."""

    def __init__(self, buf: Bytes, position: int) -> None:
        """Begin at a byte of the mapping."""
        self._buf = buf
        self._walked_to = position
        self._is_stopped = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, args=(position,), name="read-ahead", daemon=True)
        self._thread.start()

    def go_on(self, position: int) -> None:
        """Say how far the walk is."""
        with self._changed:
            self._walked_to = max(self._walked_to, position)
            self._changed.notify()

    def stop(self) -> None:
        """End the thread, and wait for its end."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self, position: int) -> None:
        while position < self._buf.size:
            with self._changed:
                while not self._is_stopped and position >= self._walked_to + AHEAD_BYTES:
                    self._changed.wait()
                if self._is_stopped:
                    return
                start = max(position, self._walked_to)
            position = min(start + STEP_BYTES, self._buf.size)
            try:
                populate(self._buf, start - start % mmap.PAGESIZE, position)
            except OSError:
                return  # the walk meets the error, too, and tells it


class MappedFile(FileBytes):
    """A file that is mapped as a whole. The first walk over it is one thread's; later several may read it again."""

    def __init__(self, segment: Segment) -> None:
        """Map the ``.log``. Raises: UnreadableFile, PlanOutOfDate if the file has another size than was listed."""
        self._path = segment.log.path
        self._size_bytes = segment.size_bytes
        self._map = _mapped(segment)
        self._buf: Bytes | None = np.frombuffer(self._map, np.uint8) if self._map else None
        self._absent = _Absent(self._path, self._size_bytes, self._buf)
        self._populated_to = 0
        self._walked_to = 0
        self._ahead: _Ahead | None = None
        self._beginning = Lock()
        self._asks = True
        """Whether a window's absent pages must be asked for before they are brought in.

        To ask takes half as long as to bring them in, so the reader asks for the first windows, and again once a window
        had to be read from disk unasked; that window stays in memory.
        """

    @property
    def absent_bytes(self) -> int:
        """The number of bytes that were not in the page cache before they were read."""
        return self._absent.size_bytes

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Return the whole file, of which ``[start, end)`` is in memory. Raises: PlanOutOfDate, UnreadableFile."""
        assert self._buf is not None
        if self._asks:
            self._absent.note(end)
        if self._absent.reach_beyond(end):
            self._bring_ahead(self._buf, end)
        had_to_read = self._populate(self._buf, start, end)
        if end > self._walked_to:
            self._asks = had_to_read or (self._asks and start > 0)
            self._walked_to, self._absent.noted_to = end, max(end, self._absent.noted_to)
        return self._buf, 0

    def leave(self, start: int, end: int) -> None:
        """Take the pages that lie in a stretch of the file in full out of the mapping."""
        if self._buf is not None:
            unmap_pages(self._buf, start + -start % mmap.PAGESIZE, end - end % mmap.PAGESIZE)

    def let_go(self) -> None:
        """Leave the page cache as it was found. No window is in use."""
        self._stop_ahead()
        if self._buf is not None:
            unmap_pages(self._buf, 0, self._size_bytes)
            self._populated_to = 0
        self._absent.let_go()

    def close(self) -> None:
        """Let the file go, so that unlinking it gives its space back. Calling it again does nothing."""
        self._stop_ahead()
        self._buf = self._absent.mapped = None
        if self._map is not None:
            with suppress(BufferError):  # an error that is being raised still holds a view; the map goes with the error
                self._map.close()

    def _bring_ahead(self, buf: Bytes, position: int) -> None:
        with self._beginning:
            if self._ahead is None:
                self._ahead = _Ahead(buf, position)
        self._ahead.go_on(position)

    def _stop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None

    def _populate(self, buf: Bytes, start: int, end: int) -> bool:
        """Bring in the pages of a window. Return whether some may have been read from disk.

        A file that is opened again loses its pages on NFS and FUSE, and under pressure any file does: so the pages of
        an earlier walk are looked for, too.
        """
        first, known = start, min(end, self._populated_to)
        if start < known and is_resident(buf, start - start % mmap.PAGESIZE, known):
            first = known
        if end <= first:
            return False
        try:
            had_to_read = populate(buf, first - first % mmap.PAGESIZE, end)
        except OSError as error:
            if error.errno == errno.EINVAL:  # before Linux 5.14: pages come in as they are touched
                return True
            with reading_here(self._path) as descriptor:
                if os.fstat(descriptor).st_size < self._size_bytes:
                    raise PlanOutOfDate(self._path, "it was truncated while it was read") from error
            raise UnreadableFile(self._path, os.strerror(errno.EIO)) from error
        if start <= self._populated_to < end:
            self._populated_to = end
        return had_to_read


class ReadFile(FileBytes):
    """A file of which every window is read into a buffer of its own."""

    def __init__(self, segment: Segment) -> None:
        """Note where the ``.log`` is; it is opened for each window."""
        self._path = segment.log.path
        self._absent = _Absent(self._path, segment.size_bytes)

    @property
    def absent_bytes(self) -> int:
        """The number of bytes that were not in the page cache before they were read."""
        return self._absent.size_bytes

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Read ``[start, end)`` of the file. Raises: PlanOutOfDate, UnreadableFile."""
        self._absent.note(end)
        with reading_here(self._path) as descriptor:
            buf = Buffer().read(descriptor, start, end)
        if buf.size < end - start:
            raise PlanOutOfDate(self._path, "it was truncated while it was read")
        return buf, start

    def let_go(self) -> None:
        """Leave the page cache as it was found."""
        self._absent.let_go()


class StoredLog(FileBytes):
    """The bytes of one version of a ``.log`` in a store, read ahead. Several threads may read it again.

    If another version lies there, this raises an error and reads nothing.
    """

    def __init__(self, path: StoredPath, inode: int, start: int, end: int, *, before: StoredLog | None = None) -> None:
        """Prepare to read ``[start, end)`` of one version, behind another file if one is given.

        The store is not asked yet.
        """
        from storage.stores.stored_file import StoredFile  # noqa: PLC0415 - who reads no URL does without

        self._path, self._lock = path, Lock()
        self._file = StoredFile(path, end, inode=inode)
        if before is None:
            self._file.read_ahead(start, end)
        else:
            self._file.read_behind(before._file, start, end)

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Read ``[start, end)`` of the file. Raises: SegmentGone; as ``Store``."""
        try:
            with self._lock:
                buf = np.frombuffer(self._file.pread(end - start, start), np.uint8)
        except FileNotFoundError as error:
            raise SegmentGone(self._path) from error
        return buf, start

    def close(self) -> None:
        """Let go of the requests under way. Calling it again does nothing."""
        self._file.close()


def file_to_read(segment: Segment) -> FileBytes:
    """Return the bytes of a ``.log`` that nobody locks. Raises: as the class that reads it."""
    log = segment.log
    if isinstance(log.path, StoredPath):
        return StoredLog(log.path, log.identity.inode, 0, log.size_bytes)
    return ReadFile(segment)


def file_of(extent: Extent) -> FileBytes:
    """Return the bytes of the file of an extent. Raises: SegmentGone, UnreadableFile."""
    return _stored(extent) or ExtentFile(extent)


def read_in_turn(extents: Iterable[Extent]) -> Iterator[tuple[Extent, FileBytes | None]]:
    """Yield extents that are read one after the other, each with its file if that lies in a store.

    While the reader of one file works, the next ones are on their way.
    """
    left = iter(extents)
    files: deque[tuple[Extent, StoredLog | None]] = deque()
    try:
        while True:
            while len(files) <= _FILES_AHEAD and (extent := next(left, None)) is not None:
                files.append((extent, _stored(extent, files[-1][1] if files else None)))
            if not files:
                return
            yield files[0]
            files.popleft()
    finally:
        for _, file in files:
            if file is not None:
                file.close()


def _stored(extent: Extent, before: StoredLog | None = None) -> StoredLog | None:
    if not isinstance(extent.path, StoredPath):
        return None
    return StoredLog(extent.path, extent.inode, extent.start, extent.end, before=before)


class ExtentFile(FileBytes):
    """The file of an extent, as it was when a read was planned, read into one buffer again and again.

    If a compaction has put another file in its place, this raises an error and reads nothing. A file that retention
    renamed is read under its new name, as long as it is there.
    """

    def __init__(self, extent: Extent) -> None:
        """Open the file. Raises: SegmentGone, UnreadableFile."""
        self._path = extent.path
        self._descriptor: int | None = _open_planned(extent)
        self._buffer = Buffer()

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Read ``[start, end)`` of the file. The buffer is valid until the next window is read.

        Raises: UnreadableFile, also if the file is shorter.
        """
        assert self._descriptor is not None
        with as_unreadable(self._path):
            buf = self._buffer.read(self._descriptor, start, end)
        if buf.size < end - start:
            raise UnreadableFile(self._path, "it was cut off while it was read")
        return buf, start

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open_planned(extent: Extent) -> int:
    renamed = extent.path.with_name(extent.path.name + FileState.DELETED)
    for path in (extent.path, renamed):
        try:
            descriptor = open_here(path)
        except UnreadableFile as error:
            if error.has_vanished:
                continue
            raise
        if os.fstat(descriptor).st_ino == extent.inode:
            return descriptor
        os.close(descriptor)
    raise SegmentGone(extent.path)


def _mapped(segment: Segment) -> mmap.mmap | None:
    """Map the whole ``.log``. Return None for an empty one."""
    with reading_here(segment.log.path) as descriptor:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes != segment.size_bytes:
            raise PlanOutOfDate(segment.log.path, f"{size_bytes} bytes instead of {segment.size_bytes}")
        return mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ) if size_bytes else None
