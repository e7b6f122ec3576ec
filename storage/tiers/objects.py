"""The files of a tier, listed and read by range, on this machine or in a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from storage.directory import close, entries, open_plain, pread, read_whole
from storage.errors import UnreadableFile
from storage.stores.errors import ObjectChanged, not_there
from storage.stores.paths import StoredPath
from storage.stores.store import StoredEntry
from storage.stores.stored_file import StoredFile
from storage.tiers.segments import StoredObject


def listed(directory: Path) -> Iterator[tuple[str, StoredObject | None]]:
    """Yield the names in a directory, with the file of each; None for a directory. Raises: OSError, as a store."""
    with entries(directory) as found:
        for entry in found:
            if entry.is_dir():
                yield entry.name, None
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                version = (
                    entry.version if isinstance(entry, StoredEntry) else _version(status.st_ino, status.st_mtime_ns)
                )
                path, mtime_ms = directory / entry.name, status.st_mtime_ns // 1_000_000
                yield entry.name, StoredObject(path, status.st_size, mtime_ms, version)


def read_range(found: StoredObject, start: int, end: int) -> memoryview:
    """Read ``[start, end)`` of a file as it was listed, by one request.

    Raises: ObjectChanged, FileNotFoundError, UnreadableFile, as a store.
    """
    end = min(end, found.size_bytes)
    if end <= start:
        return memoryview(b"")
    if isinstance(found.path, StoredPath):
        return StoredFile(found.path, found.size_bytes, found.version).range(start, end).data
    try:
        file = open_plain(found.path)
        try:
            data, status = memoryview(pread(file, end - start, start)), os.fstat(file)
        finally:
            close(file)
    except FileNotFoundError as error:
        raise not_there(str(found.path)) from error
    except OSError as error:
        raise UnreadableFile(found.path, error.strerror or str(error)) from error
    if len(data) != end - start or _version(status.st_ino, status.st_mtime_ns) != found.version:
        raise ObjectChanged(str(found.path))
    return data


def read_all(found: StoredObject) -> bytes:
    """Read a small file. Raises: OSError, as a store."""
    return read_whole(found.path)


def _version(inode: int, mtime_ns: int) -> str:
    return f"{inode}-{mtime_ns}"
