"""The data ranges of a sparse file. Between them lie holes, which are read as zeros and take no space.

Not chosen: ``st_blocks``, which tells how much data there is, but not where, and too little on a disk that compresses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

from storage.directory import OpenFile

_UNKNOWN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
"""The errors of a file system or a kernel that cannot tell holes."""


def data_extents(descriptor: OpenFile, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Tell the data extents of an open file: positions of the first byte, and behind the last one.

    A file system that knows no holes has one extent: the whole file. So has a store.

    Args:
        descriptor: of the file; its own position is moved.
        size_bytes: how much of the file to look at.

    Raises: OSError.
    """
    if not isinstance(descriptor, int):
        yield 0, size_bytes
        return
    position = 0
    while position < size_bytes:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            if error.errno not in _UNKNOWN:
                raise
            start, end = position, size_bytes
        if start < size_bytes:
            yield start, min(end, size_bytes)
        position = end


def data_bytes(descriptor: OpenFile, size_bytes: int) -> int:
    """Return how many bytes of an open file are no hole. Arguments and errors as above."""
    return sum(end - start for start, end in data_extents(descriptor, size_bytes))
