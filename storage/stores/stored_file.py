"""One version of a file in a store, read in ranges.

Small reads:    blocks of 64 KiB; a small file as a whole. Blocks that follow each other grow to 1 MiB.
A long read:    windows of 8 MiB, four of which are on their way while one is in use: at most 48 MiB. Of files that are
                read one after the other, the next ones take the place of windows that the first one no longer needs.

Every range names the version. Where the file has another one by then, no byte of it is passed on.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, Self

from storage.stores.catalogue import catalogue_of
from storage.stores.errors import ObjectChanged
from storage.stores.paths import StoredPath
from storage.stores.store import Piece, version_number

WINDOW_BYTES: Final = 8 << 20
WINDOWS_AHEAD: Final = 4
BLOCK_BYTES: Final = 64 << 10
_BLOCK_BYTES_MAX: Final = 1 << 20
_BLOCKS_KEPT: Final = 4
_WHOLE_BYTES_MAX: Final = 256 << 10
"""A file of this size is read at once: a search in it would take more requests."""


class _Block(NamedTuple):
    start: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class StoredFile:
    """A file in a store, as it was listed, or as it is when it is first looked at. One thread reads it."""

    def __init__(self, path: StoredPath, size_bytes: int, version: str = "", inode: int | None = None) -> None:
        """Prepare to read; nothing is asked of the store yet.

        Args:
            path: of the file.
            size_bytes: its size, or the byte behind the last one to read.
            version: the one to read.
            inode: the number of that version, where the version itself is not known.
        """
        self.path, self.size_bytes = path, size_bytes
        self._catalogue, self._version = catalogue_of(path.place), version
        self.inode = version_number(version) if inode is None else inode
        """The number of its version, which stands for an inode."""
        self._blocks: deque[_Block] = deque(maxlen=_BLOCKS_KEPT)
        self._ahead: _Ahead | None = None

    @classmethod
    def open(cls, path: StoredPath) -> Self:
        """Look for the file. Raises: FileNotFoundError, IsADirectoryError, as ``Store``."""
        found = catalogue_of(path.place).entry(path.key)
        if found.is_directory:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return cls(path, found.size_bytes, found.version)

    def pread(self, size_bytes: int, position: int) -> memoryview:
        """Return some bytes from a position on; fewer where the file ends. Valid as long as somebody holds them.

        Raises: ObjectChanged, as ``Store``.
        """
        end = min(position + size_bytes, self.size_bytes)
        if end <= position:
            return memoryview(b"")
        if self._ahead is not None and (found := self._ahead.view(position, end)) is not None:
            return found
        for block in self._blocks:
            if block.start <= position and end <= block.end:
                return block.data[position - block.start : end - block.start]
        return self._fetch(position, end)

    def read_ahead(self, start: int, end: int) -> None:
        """Say that ``[start, end)`` is going to be read, ascending: the windows are on their way before."""
        if end - start > _WHOLE_BYTES_MAX:
            self._stop()
            self._ahead = _Ahead(self, start, min(end, self.size_bytes))

    def read_behind(self, before: Self, start: int, end: int) -> None:
        """Say that ``[start, end)`` is going to be read behind what another file reads ahead.

        Its windows are on their way as soon as those of the other file leave room for them.
        """
        self._stop()
        self._ahead = _Ahead(self, start, min(end, self.size_bytes))
        if before._ahead is not None:
            before._ahead.follower = self._ahead

    def range(self, start: int, end: int) -> Piece:
        """Read a range of this version. Raises: ObjectChanged, as ``Store``."""
        piece = self._catalogue.range(self.path.key, start, end, self._version or None)
        if version_number(piece.version) != self.inode:
            raise ObjectChanged(str(self.path))
        self._version = piece.version
        return piece

    def close(self) -> None:
        """Let go of the bytes, and of those on their way. Calling it again does nothing."""
        self._stop()
        self._blocks.clear()

    def _stop(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _fetch(self, position: int, end: int) -> memoryview:
        last = self._blocks[-1] if self._blocks else None
        start, wanted = position, BLOCK_BYTES
        if self.size_bytes <= _WHOLE_BYTES_MAX:
            start, wanted = 0, self.size_bytes
        elif last is not None and last.start <= position <= last.end:
            wanted = min(2 * len(last.data), _BLOCK_BYTES_MAX)
        elif self.size_bytes - position < BLOCK_BYTES:
            start = max(0, self.size_bytes - BLOCK_BYTES)  # of an end, what stands before it is wanted next
        until = min(max(end, start + wanted), self.size_bytes)
        block = _Block(start, self.range(start, until).data)
        self._blocks.append(block)
        return block.data[position - start : end - start]


class _Ahead:
    """The windows of a long read that are in use, and those on their way."""

    def __init__(self, file: StoredFile, start: int, end: int) -> None:
        self._file, self._end, self._next = file, end, start
        self._start = start
        self._threads = ThreadPoolExecutor(WINDOWS_AHEAD, "store")
        self._here: deque[_Block] = deque()
        self._coming: deque[tuple[int, Future[Piece]]] = deque()
        self.follower: _Ahead | None = None
        """What is read next."""

    def view(self, start: int, end: int) -> memoryview | None:
        """Return ``[start, end)``; None if it lies outside, or behind what was read."""
        first = self._here[0].start if self._here else self._start
        if start < first or end > self._end:
            return None
        while self._here and self._here[0].end <= start:
            self._here.popleft()
        self._order()
        while not self._here or self._here[-1].end < end:
            at, coming = self._coming.popleft()
            block = _Block(at, coming.result().data)
            self._order()
            if block.end > start:
                self._here.append(block)
            else:
                self._start = block.end
        if end <= self._here[0].end:
            return self._here[0].data[start - self._here[0].start : end - self._here[0].start]
        joined = bytearray(end - start)
        for block in self._here:
            low, high = max(start, block.start), min(end, block.end)
            if low < high:
                joined[low - start : high - start] = block.data[low - block.start : high - block.start]
        return memoryview(joined)

    def close(self) -> None:
        """Give up what is on its way."""
        for _, coming in self._coming:
            coming.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._coming.clear()
        self._here.clear()
        self.follower = None

    def _order(self, room: int = WINDOWS_AHEAD) -> None:
        while len(self._coming) < room and self._next < self._end:
            until = min(self._next + WINDOW_BYTES, self._end)
            self._coming.append((self._next, self._threads.submit(self._file.range, self._next, until)))
            self._next = until
        if self.follower is not None and len(self._coming) < room:
            self.follower._order(room - len(self._coming))
