"""The page cache: which bytes of a file are in it, and how to drop the bytes that a reading brought in.

Other programs keep their hot pages only if a walk over cold terabytes does not push them out.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes

Range = tuple[int, int]
"""First byte, and the byte behind the last."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_IS_RESIDENT: Final = 1
_MADV_POPULATE_READ: Final = 22


def absent_ranges(file: int | Bytes, start: int, end: int) -> list[Range]:
    """Return the parts of a stretch of a file, open or mapped, that are not in the page cache, by whole pages.

    Return nothing where the system does not tell: of the files of other users, or without ``mincore``. (cachestat
    answers four times as fast, but a systemd that does not know it, as Debian 12's, cannot allow it in a unit and kills
    the caller.)
    """
    start -= start % mmap.PAGESIZE
    if not isinstance(file, int):
        return _absent(file, start, end)
    try:
        window = mmap.mmap(file, end - start, prot=mmap.PROT_READ, offset=start)
    except (OSError, ValueError):  # the file is shorter by now; the reading will raise the error
        return []
    view = np.frombuffer(window, np.uint8)
    found = _absent(view, 0, view.size)
    del view
    window.close()
    return [(first + start, last + start) for first, last in found]


def _absent(mapped: Bytes, start: int, end: int) -> list[Range]:
    resident = _resident(mapped, start, end)
    if resident.all():
        return []
    is_absent = np.concatenate(([False], ~resident, [False]))
    edges = np.flatnonzero(is_absent[1:] != is_absent[:-1]) * mmap.PAGESIZE + start
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def is_resident(mapped: Bytes, start: int, end: int) -> bool:
    """Return whether all pages of a stretch of a mapping are in the page cache; the stretch begins on a page.

    Pages that are mapped are told at a tenth of what it takes to populate them again.
    """
    return bool(_resident(mapped, start, end).all())


def _resident(mapped: Bytes, start: int, end: int) -> npt.NDArray[np.bool_]:
    """Return of each page whether it is in the page cache; all are where the system does not tell."""
    pages = np.zeros(-(-(end - start) // mmap.PAGESIZE), np.uint8)
    address, size = ctypes.c_void_p(mapped.ctypes.data + start), ctypes.c_size_t(end - start)
    if _LIBC.mincore(address, size, ctypes.c_void_p(pages.ctypes.data)):
        return np.ones(pages.size, np.bool_)
    return (pages & _IS_RESIDENT).astype(np.bool_)


def populate(mapped: Bytes, start: int, end: int) -> bool:
    """Bring in the pages of a stretch of a mapping; the stretch begins on a page.

    Returns:
        Whether some pages may have been read from disk; if not, all were in the page cache.

    Raises: OSError: EFAULT if the file is shorter by now or the disk does not give it, EINVAL before Linux 5.14.
    """
    before = _major_faults()
    _madvise(mapped, start, end, _MADV_POPULATE_READ)
    return _major_faults() > before


def unmap_pages(mapped: Bytes, start: int, end: int) -> None:
    """Take the pages of a stretch, which begins on a page, out of a mapping; the next access brings them in anew."""
    if end > start:
        _madvise(mapped, start, end, mmap.MADV_DONTNEED)


def _madvise(mapped: Bytes, start: int, end: int, advice: int) -> None:
    """Call ``madvise``. ``mmap.madvise`` would keep the other threads from running meanwhile."""
    address, size = ctypes.c_void_p(mapped.ctypes.data + start), ctypes.c_size_t(end - start)
    if _LIBC.madvise(address, size, advice):
        raise OSError(ctypes.get_errno(), "madvise")


def _major_faults() -> int:
    """Return the major page faults of this thread so far."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


def let_go(descriptor: int, ranges: Iterable[Range]) -> None:
    """Take stretches of a file out of the page cache; pages that are mapped, or not yet on disk, stay."""
    for start, end in ranges:
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def available_bytes() -> int:
    """Return the memory that is available without swapping; 0 if the system does not tell."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    except OSError:
        return 0
