"""The bytes of a file, with the SHA-256 of all bytes that were read: evidence of a search.

The size is fixed when the file is opened: what a broker appends meanwhile is neither read nor hashed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from storage.arrays import Bytes
from storage.directory import OpenFile, close, read_ahead, size_of
from storage.errors import UnreadableFile, as_unreadable
from storage.scan.files import Buffer, FileBytes
from storage.segment import open_to_read

_BLOCK_BYTES: Final = 1 << 20


class WitnessFile(FileBytes):
    """A file that is read into one buffer again and again, each byte hashed once, in order."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises: UnreadableFile, also for what is no plain file."""
        self.path = path
        self._descriptor: OpenFile | None = (opened := open_to_read(path))
        self.size_bytes = size_of(opened)
        read_ahead(opened, 0, self.size_bytes)
        self._buffer, self._block = Buffer(), Buffer()
        self._hash = hashlib.sha256()
        self._hashed_to = 0

    def window(self, start: int, end: int) -> tuple[Bytes, int]:
        """Read ``[start, end)`` of the file. The buffer is valid until the next window is read.

        Raises: UnreadableFile, also if the file is shorter by now.
        """
        self._hash_to(start)
        buf = self._read(self._buffer, start, end)
        if end > self._hashed_to:
            self._hash.update(buf[self._hashed_to - start :].data)
            self._hashed_to = end
        return buf, start

    def sha256(self) -> str:
        """Return the hash of the whole file, in hexadecimal digits. Raises: as ``window``."""
        self._hash_to(self.size_bytes)
        return self._hash.hexdigest()

    def is_zero_from(self, position: int) -> bool:
        """Return whether nothing but zeros follows: what a broker preallocated. Raises: as ``window``."""
        for start in range(position, self.size_bytes, _BLOCK_BYTES):
            if self._read(self._block, start, min(start + _BLOCK_BYTES, self.size_bytes)).any():
                return False
        return True

    def close(self) -> None:
        """Close the file. Calling it again does nothing."""
        if self._descriptor is not None:
            close(self._descriptor)
            self._descriptor = None

    def _hash_to(self, position: int) -> None:
        """Hash what nobody read."""
        for start in range(self._hashed_to, position, _BLOCK_BYTES):
            self._hash.update(self._read(self._block, start, min(start + _BLOCK_BYTES, position)).data)
        self._hashed_to = max(position, self._hashed_to)

    def _read(self, buffer: Buffer, start: int, end: int) -> Bytes:
        assert self._descriptor is not None
        with as_unreadable(self.path):
            buf = buffer.read(self._descriptor, start, end)
        if buf.size < end - start:
            raise UnreadableFile(self.path, "it was cut off while it was read")
        return buf
