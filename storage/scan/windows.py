"""The bytes of a slice, read window by window into one reused buffer. No file is mapped: no lock is held.

A file that is no longer the one that was planned is told, never read: a compaction puts another in its place. One that
retention renamed is read under its new name, as long as that lasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from storage.arrays import Bytes
from storage.errors import UnreadableFile
from storage.names import FileState
from storage.scan.extents import Extent, SegmentGone
from storage.segment import open_to_read

WINDOW_BYTES: Final = 1 << 20
"""What is read at once, small enough to stay in the cache: a batch of Arrow comes of it. A larger record batch gets a
larger window."""


class Window:
    """A stretch of a file in memory, valid until the next one is read."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        self._buf = np.empty(0, np.uint8)

    def read(self, start: int, end: int) -> Bytes:
        """Bytes ``[start, end)`` of the file. Raises: UnreadableFile, also where it is shorter."""
        if self._buf.size < end - start:
            self._buf = np.empty(max(end - start, WINDOW_BYTES), np.uint8)
        buf, filled = self._buf[: end - start], 0
        while filled < buf.size:
            try:
                count = os.preadv(self._descriptor, [buf[filled:].data], start + filled)
            except OSError as error:
                raise UnreadableFile(self._path, error.strerror or str(error)) from error
            if count == 0:
                raise UnreadableFile(self._path, "it was cut off while it was read")
            filled += count
        return buf


@contextmanager
def open_window(slice_: Extent) -> Iterator[Window]:
    """The file of a slice, closed in the end. Raises: SegmentGone, UnreadableFile."""
    descriptor = _open_planned(slice_)
    try:
        yield Window(descriptor, slice_.path)
    finally:
        os.close(descriptor)


def _open_planned(slice_: Extent) -> int:
    renamed = slice_.path.with_name(slice_.path.name + FileState.DELETED)
    for path in (slice_.path, renamed):
        try:
            descriptor = open_to_read(path)
        except UnreadableFile as error:
            if isinstance(error.__cause__, FileNotFoundError):
                continue
            raise
        if os.fstat(descriptor).st_ino == slice_.inode:
            return descriptor
        os.close(descriptor)
    raise SegmentGone(slice_.path)
