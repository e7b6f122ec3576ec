"""Arrays whose neighbours cannot be touched: a kernel that reads or writes a byte beside one ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Final

import numpy as np
import numpy.typing as npt

_PROT_NONE: Final = 0
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Guarded:
    """Memory between two pages that nobody may touch. One at a time is used of it, from either end."""

    def __init__(self, bytes_max: int) -> None:
        page_bytes = mmap.PAGESIZE
        self._room_bytes = -(-bytes_max // page_bytes) * page_bytes
        self._map = mmap.mmap(-1, self._room_bytes + 2 * page_bytes)
        self._memory: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        for page in (self._memory.ctypes.data, self._memory.ctypes.data + page_bytes + self._room_bytes):
            if _libc.mprotect(page, page_bytes, _PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")

    def of(self, data: bytes, *, at_end: bool) -> npt.NDArray[np.uint8]:
        """A copy of the bytes that ends, or begins, at a guard page."""
        room = self.room(len(data), at_end=at_end)
        room[:] = np.frombuffer(data, np.uint8)
        return room

    def room(self, size_bytes: int, *, at_end: bool) -> npt.NDArray[np.uint8]:
        """So many bytes, to be written."""
        first = mmap.PAGESIZE + (self._room_bytes - size_bytes if at_end else 0)
        return self._memory[first : first + size_bytes]
