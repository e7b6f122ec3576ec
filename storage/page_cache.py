"""Which bytes of a file are in the page cache, and letting go of those that were not before they were read.

Whoever shares the machine keeps its hot pages only if a walk over cold terabytes does not push them out.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from storage.kernels.signatures import Bytes

Range = tuple[int, int]
"""First byte, and the byte behind the last."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_IS_RESIDENT: Final = 1
_MADV_POPULATE_READ: Final = 22


def absent_ranges(descriptor: int, start: int, end: int) -> list[Range]:
    """What of a stretch of a file is not in the page cache, by whole pages.

    Nothing where the system does not tell: of the files of others, or without ``mincore``. (cachestat answers four
    times as fast, but a systemd that does not know it, as Debian 12's, cannot allow it in a unit and kills the caller.)
    """
    start -= start % mmap.PAGESIZE
    try:
        window = mmap.mmap(descriptor, end - start, prot=mmap.PROT_READ, offset=start)
    except (OSError, ValueError):  # shorter by now; who reads it will say so
        return []
    pages = np.zeros(-(-(end - start) // mmap.PAGESIZE), np.uint8)
    view = np.frombuffer(window, np.uint8)
    address, size = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(view.size)
    failed = _LIBC.mincore(address, size, ctypes.c_void_p(pages.ctypes.data))
    del view
    window.close()
    if failed:
        return []
    is_absent = np.concatenate(([False], (pages & _IS_RESIDENT) == 0, [False]))
    edges = np.flatnonzero(is_absent[1:] != is_absent[:-1]) * mmap.PAGESIZE + start
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def populate(mapped: Bytes, start: int, end: int) -> None:
    """Bring the pages of a stretch of a mapping in, which begins on a page.

    ``mmap.madvise`` would keep the other threads from running meanwhile.

    Raises: OSError: EFAULT where the file is shorter by now, EINVAL before Linux 5.14.
    """
    address, size = ctypes.c_void_p(mapped.ctypes.data + start), ctypes.c_size_t(end - start)
    if _LIBC.madvise(address, size, _MADV_POPULATE_READ):
        raise OSError(ctypes.get_errno(), "madvise")


def let_go(descriptor: int, ranges: Iterable[Range]) -> None:
    """Take stretches out of the page cache; pages that are mapped, or not yet on disk, stay."""
    for start, end in ranges:
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def available_bytes() -> int:
    """Memory that can be had without swapping; 0 where the system does not tell."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    except OSError:
        return 0
