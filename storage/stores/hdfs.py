"""HDFS, by hdfs-native: a client without a JVM. What the cluster is, ``HADOOP_CONF_DIR`` says, or the URL.

HDFS has no ETag. A file that is written anew has another time, and its status is asked for behind each read: so no
read mixes two versions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from storage.errors import LogCleanerError
from storage.stores.asking import answer_to
from storage.stores.errors import (
    ClientMissing,
    ForbiddenStore,
    ObjectChanged,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
    not_there,
)
from storage.stores.store import Piece, StoredEntry, Upload

if TYPE_CHECKING:
    from hdfs_native import FileStatus, FileWriter

_NS_A_MS: Final = 1_000_000
_FORBIDDING: Final = ("AccessControlException", "Permission denied", "GSSAPI", "SASL")
_OF_THE_NETWORK: Final = ("onnection", "timed out", "StandbyException", "SafeMode", "resolve", "IO error")
_FULL: Final = ("QuotaExceeded", "could only be written to 0 of the")
_UNFINISHED_SUFFIX: Final = ".unfinished"
_T = TypeVar("_T")


class Hdfs:
    """An HDFS, as a ``Store``."""

    has_empty_directories: ClassVar = True
    moves_files = True

    def __init__(self, place: str, config: Mapping[str, Any]) -> None:
        """Prepare to read; nothing is asked of the cluster yet.

        Args:
            place: its URL.
            config: Hadoop's keys, over what the files of ``HADOOP_CONF_DIR`` say.

        Raises: ClientMissing, StoreFailed.
        """
        try:
            from hdfs_native import Client  # noqa: PLC0415 - an extra, and for URLs alone
        except ImportError as error:
            raise ClientMissing(place, "hdfs-native") from error
        self.place = place
        try:
            self.client = Client(place, config=dict(config))
        except Exception as error:  # RuntimeError, ValueError: it has no errors of its own
            raise StoreFailed(place, str(error)) from error

    def list(self, directory: str) -> list[StoredEntry]:
        """Return the names in a directory. Raises: as ``Store``."""
        return [_entry(status) for status in self._statuses(directory, recursive=False)]

    def walk(self, directory: str) -> Iterator[tuple[str, StoredEntry]]:
        """Yield every file below a directory, each with the directory that holds it. Raises: as ``Store``."""
        for status in self._statuses(directory, recursive=True):
            if not status.isdir:
                yield _key(status).rpartition("/")[0], _entry(status)

    def look(self, name: str) -> StoredEntry:
        """Return the entry of a file. Raises: as ``Store``."""
        return _entry(self.asked(name, lambda: self.client.get_file_info(f"/{name}")))

    def range(self, name: str, start: int, end: int, version: str | None) -> Piece:
        """Read ``[start, end)`` of a file. Arguments and errors as of ``Store.range``."""
        return self._read(name, start, end, version)

    def whole(self, name: str, version: str | None) -> Piece:
        """Read a whole file. Arguments and errors as of ``range``."""
        return self._read(name, 0, None, version)

    def put(self, name: str, data: bytes | bytearray, *, is_new: bool) -> StoredEntry:
        """Write a whole file. Arguments and errors as of ``Store.put``."""
        upload = _Writing(self, name, is_new=is_new)
        try:
            upload.write(data)
            return upload.finish()
        finally:
            upload.abort()

    def upload(self, name: str) -> Upload:
        """Begin to write a file. Errors as of ``Store.upload``."""
        return _Writing(self, name, is_new=True)

    def move(self, name: str, target: str, size_bytes: int) -> StoredEntry:
        """Rename a file. Arguments and errors as of ``Store.move``."""
        parent = target.rpartition("/")[0]
        self.asked(target, lambda: self.client.mkdirs(f"/{parent}", create_parent=True), is_writing=True)
        self.asked(name, lambda: self.client.rename(f"/{name}", f"/{target}", overwrite=False), is_writing=True)
        moved = self.look(target)
        if moved.size_bytes != size_bytes:
            cause = f"{moved.size_bytes} bytes lie there behind the renaming of {size_bytes}"
            raise StoreFailed(self._url(target), cause, is_writing=True)
        return moved

    def delete(self, name: str) -> None:
        """Remove a file. Raises: as ``Store``."""
        with suppress(FileNotFoundError):
            self.asked(name, lambda: self.client.delete(f"/{name}"), is_writing=True)

    def _read(self, name: str, start: int, end: int | None, version: str | None) -> Piece:
        wanted = version or self.look(name).version

        def read() -> tuple[bytes, int]:
            file = self.client.read(f"/{name}")
            size_bytes = len(file)
            until = size_bytes if end is None else min(end, size_bytes)
            return (file.read_range(start, until - start) if until > start else b""), size_bytes

        data, size_bytes = self.asked(name, read)
        if self.look(name).version != wanted:
            raise ObjectChanged(self._url(name))
        if len(data) != (size_bytes if end is None else min(end, size_bytes)) - start:
            raise StoreFailed(self._url(name), f"{len(data)} bytes came of [{start}, {end})")
        return Piece(memoryview(data), wanted, size_bytes)

    def _statuses(self, directory: str, *, recursive: bool) -> Iterator[FileStatus]:
        found = iter(self.client.list_status(f"/{directory}", recursive))
        while (status := self.asked(directory, lambda: next(found, None))) is not None:
            if _key(status) != directory:  # of a file, its own status is all that is listed
                yield status

    def _url(self, name: str) -> str:
        return f"{self.place}/{name}"

    def asked(self, name: str, ask: Callable[[], _T], *, is_writing: bool = False) -> _T:
        """Return what the cluster answers to one request. Raises: as ``Store``."""
        try:
            return answer_to(ask, self.place)
        except FileNotFoundError as error:
            raise not_there(self._url(name)) from error
        except (RuntimeError, OSError, ValueError) as error:
            raise self._told(name, error, is_writing=is_writing) from error

    def _told(self, name: str, error: Exception, *, is_writing: bool) -> LogCleanerError | OSError:
        """Return the error of ours for an error of hdfs-native's, which says in words what is wrong."""
        url, text = self._url(name), (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "FileNotFound" in text or "not found" in text:
            return not_there(url)
        if "exists" in text:
            return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), url)
        if any(sign in text for sign in _FULL):
            return StoreFull(url, text, is_writing)
        if any(sign in text for sign in _FORBIDDING):
            return ForbiddenStore(url, text, is_writing)
        if isinstance(error, OSError) or any(sign in text for sign in _OF_THE_NETWORK):
            return StoreUnreachable(url, text, is_writing)
        return StoreFailed(url, text, is_writing)


class _Writing:
    """A file that is written under another name, and renamed when it is whole: readers of HDFS see what is written."""

    def __init__(self, hdfs: Hdfs, name: str, *, is_new: bool) -> None:
        from hdfs_native import WriteOptions  # noqa: PLC0415 - as in ``Hdfs``

        self._hdfs, self._name, self._is_new = hdfs, name, is_new
        self._aside = f"{name}{_UNFINISHED_SUFFIX}"
        options = WriteOptions(overwrite=not is_new, create_parent=True)
        self._file: FileWriter | None = self._asked(lambda: hdfs.client.create(f"/{self._aside}", options))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes. Raises: as ``Upload``."""
        file = self._file
        assert file is not None, "written to behind its end"
        self._asked(lambda: file.write(bytes(data)))

    def finish(self) -> StoredEntry:
        """Close the file, and give it its name. Raises: FileExistsError; as ``Upload``."""
        assert self._file is not None, "finished twice"
        self._asked(self._file.close)
        self._asked(lambda: self._hdfs.client.rename(f"/{self._aside}", f"/{self._name}", overwrite=not self._is_new))
        self._file = None
        return self._hdfs.look(self._name)

    def abort(self) -> None:
        """Remove what was written, if the file has not got its name."""
        if self._file is not None:
            with suppress(Exception):  # nobody can be reached, or it was closed already
                answer_to(self._file.close, self._hdfs.place)
            with suppress(LogCleanerError, OSError):
                self._hdfs.delete(self._aside)
            self._file = None

    def _asked(self, ask: Callable[[], _T]) -> _T:
        return self._hdfs.asked(self._name, ask, is_writing=True)


def _key(status: FileStatus) -> str:
    """Return the key of a status, whose path may be a URL."""
    path = status.path
    return (path.partition("://")[2].partition("/")[2] if "://" in path else path).strip("/")


def _entry(status: FileStatus) -> StoredEntry:
    name, changed_ms = _key(status).rpartition("/")[2], status.modification_time
    if status.isdir:
        return StoredEntry(name, mtime_ns=changed_ms * _NS_A_MS, is_directory=True)
    return StoredEntry(name, status.length, f"{changed_ms} {status.length}", changed_ms * _NS_A_MS)
