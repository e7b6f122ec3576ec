"""A file system that writes into a store: where a log dir is copied to, or an export goes.

A file is there once ``fsync`` completed it, whole, and never before. What is closed without that leaves nothing behind.
Small files take one request; larger ones go in parts of 8 MiB, of which a few are on their way at a time. A copy of
many small files would wait for each answer: there ``fsync`` hands a small file to a thread, and ``fsync_dir`` and
``settle`` wait for those on their way, and raise what went wrong.

What was written is known from then on (``Catalogue.note``), so looking at it asks nothing, and reading it reads that
version. ``settle`` lists the whole tree and compares: a file that another process wrote there ends the writing.

Assumes:    who writes there agreed on a file that only one of them can create (``create``), and looks whether it still
            is the own one, since some stores know no such condition.
Not chosen: a rename behind each upload, which a bucket copies byte by byte.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.directory import OpenFile
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.stores.catalogue import catalogue_of
from storage.stores.errors import StoreError
from storage.stores.paths import StoredPath
from storage.stores.store import StoredEntry, Upload

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from _typeshed import ReadableBuffer

_SMALL_BYTES_MAX: Final = 8 << 20
_ZEROS: Final = bytes(1 << 20)
_PIECE_BYTES: Final = 1 << 20
_UNDER_WAY_BYTES_MAX: Final = 16 << 20
FILES_AT_ONCE: Final = 8
"""So many small files of a copy are sent or moved at a time."""


class OtherWriter(LogCleanerError):
    """Another process that writes to the same place of a store."""

    url: str
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.url}: {self.cause}: another process writes there, too; nothing there is whole, name another place"
        )


class UploadedFile(NewFile):
    """A file being written into a store."""

    def __init__(
        self,
        path: StoredPath,
        go_on: Callable[[], None],
        digests: dict[Path, str],
        under_way: _UnderWay,
        *,
        is_new: bool = True,
    ) -> None:
        """Send nothing yet.

        Args:
            path: of the file.
            go_on: asked between two pieces; it raises if the run is to end.
            digests: gets the SHA-256 of the file.
            under_way: takes the file if it is small.
            is_new: refuse to replace a file.
        """
        super().__init__(path, -1)
        self._at, self._go_on, self._digests, self._is_new = path, go_on, digests, is_new
        self._under_way = under_way
        self._catalogue = catalogue_of(path.place)
        self._head = bytearray()
        """The bytes of a file that may turn out to be small."""
        self._upload: Upload | None = None
        self._sha256 = hashlib.sha256()
        self._entry: StoredEntry | None = None
        self._mtime_ns: int | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append all of ``data``. Raises: as ``Upload``; as ``go_on``."""
        whole = memoryview(data).cast("B")
        for start in range(0, len(whole), _PIECE_BYTES):
            self._go_on()
            piece = whole[start : start + _PIECE_BYTES]
            self._sha256.update(piece)
            self.size_bytes += len(piece)
            if self._upload is None and self.size_bytes > _SMALL_BYTES_MAX:
                self._upload = self._catalogue.store.upload(self._at.key)
                self._upload.write(self._head)
                self._head = bytearray()
            if self._upload is None:
                self._head += piece
            else:
                self._upload.write(piece)

    def copy_from(self, source: OpenFile, offset_bytes: int, count_bytes: int) -> None:
        """Append bytes of an open file. Arguments as of ``NewFile``; errors also as of ``write``."""
        self._copy_by_reading(source, offset_bytes, count_bytes)

    def extend_to(self, size_bytes: int) -> None:
        """Append zeros up to a size. Raises: as ``write``."""
        while self.size_bytes < size_bytes:
            self.write(_ZEROS[: size_bytes - self.size_bytes])

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Refuse: a file in a store is written once, from its beginning to its end."""
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE), str(self.path))

    def write_out(self) -> None:
        """Do nothing: full parts are on their way."""

    def found_bytes(self) -> int:
        """Return how much was written."""
        return self.size_bytes

    def fsync(self) -> None:
        """Have the file there, whole, or on its way. Raises: OtherWriter if one is there already; as ``Upload``."""
        if self._entry is not None:
            return
        self._entry = StoredEntry(self._at.name, self.size_bytes)
        if self._upload is None:
            self._note(self._entry)  # who takes the file over looks at it
            self._under_way.take(self._at, self._put, len(self._head))
        else:
            if self._is_new:
                self._ensure_new()
            self._note(self._upload.finish())
            self._upload = None
        self._digests[self.path] = self._sha256.hexdigest()

    def _put(self) -> None:
        try:
            entry = self._catalogue.store.put(self._at.key, self._head, is_new=self._is_new)
        except FileExistsError as error:
            raise OtherWriter(str(self._at), "it is there already") from error
        self._note(entry)

    def _note(self, entry: StoredEntry) -> None:
        known = entry if self._mtime_ns is None else entry._replace(mtime_ns=self._mtime_ns)
        self._catalogue.note(self._at.key, known)

    def _ensure_new(self) -> None:
        """Look for the last time: the end of an upload knows no condition. Raises: OtherWriter; as ``Store``."""
        with suppress(FileNotFoundError):
            self._catalogue.store.look(self._at.key)
            raise OtherWriter(str(self._at), "it is there already")

    def let_go(self) -> None:
        """Do nothing: no page of this machine holds it."""

    def set_mtime(self, mtime_ns: int) -> None:
        """Remember the time that the listing of this run says; a store has times of its own."""
        assert self._entry is None, "the file is there already"
        self._mtime_ns = mtime_ns

    def close(self) -> None:
        """Take away what was sent, unless the file is there; calling it again does nothing."""
        if self._upload is not None:
            self._upload.abort()
            self._upload = None


class UploadStream(io.RawIOBase):
    """A file being written into a store, for a library that writes to a binary stream. Closing it does nothing."""

    def __init__(self, file: NewFile) -> None:
        """Write to ``file``, which its opener completes."""
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Append all of ``data``. Raises: as ``UploadedFile.write``."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        return len(view)

    def tell(self) -> int:
        """Return how much was written."""
        return self._file.size_bytes


class _UnderWay:
    """Small files that threads send while the next ones are written."""

    def __init__(self, files_max: int) -> None:
        self._files_max = files_max
        self._threads: ThreadPoolExecutor | None = None
        self._coming: dict[StoredPath, tuple[int, Future[None]]] = {}
        """Of each file on its way its size and its sending; the oldest first."""

    def take(self, at: StoredPath, put: Callable[[], None], size_bytes: int) -> None:
        """Send a file, behind the oldest ones if too much is on its way. Raises: what sending one of them raises."""
        if not self._files_max:
            put()
            return
        while self._coming and not self._has_room(size_bytes):
            self.wait_for(next(iter(self._coming)))
        if self._threads is None:
            from concurrent import futures  # noqa: PLC0415 - loads logging, and few runs send files

            self._threads = futures.ThreadPoolExecutor(self._files_max, "upload")
        self._coming[at] = size_bytes, self._threads.submit(put)
        catalogue_of(at.place).under_way[at.key] = self._coming[at][1]

    def wait_for(self, at: StoredPath) -> None:
        """Wait for a file if it is on its way. Raises: what sending it raises."""
        if at in self._coming:
            catalogue_of(at.place).under_way.pop(at.key, None)
            self._coming.pop(at)[1].result()

    def wait(self) -> None:
        """Wait until nothing is on its way. Raises: what sending the first file that failed raised."""
        for at in list(self._coming):
            self.wait_for(at)

    def _has_room(self, size_bytes: int) -> bool:
        under_way_bytes = sum(size for size, _ in self._coming.values())
        return len(self._coming) < self._files_max and under_way_bytes + size_bytes <= _UNDER_WAY_BYTES_MAX


class Uploads(FileSystem):
    """Writes new files into a store, and removes them again. What lies there is not changed."""

    def __init__(
        self, go_on: Callable[[], None] = lambda: None, *, at_once: int = 0, passing_over: str | None = None
    ) -> None:
        """Write nothing yet.

        Args:
            go_on: asked between two pieces of a file; it raises if the run is to end.
            at_once: the most small files that are on their way behind their ``fsync``; 0 if it waits for each.
            passing_over: a text in the paths of scratch files, of which ``settle`` takes no notice.
        """
        self._go_on, self._passing_over = go_on, passing_over
        self._digests: dict[Path, str] = {}
        self._under_way = _UnderWay(at_once)

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        """Begin to write a file, which must not exist. Of ``like`` a store can take nothing.

        Raises: FileExistsError; as ``Store``.
        """
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        return UploadedFile(_in_store(path), self._go_on, self._digests, self._under_way)

    def make_dir(self, path: Path, like: Path, purpose: Purpose) -> None:
        """Know of a directory in which nothing lies yet. A bucket has it once a file does."""
        at = _in_store(path)
        catalogue_of(at.place).note(at.key, StoredEntry(at.name, is_directory=True))

    def unlink(self, path: Path, purpose: Purpose) -> None:
        """Remove a file. A missing one is as wanted. Raises: as ``Store``."""
        at = _in_store(path)
        self._under_way.wait_for(at)
        if at.exists():
            catalogue = catalogue_of(at.place)
            catalogue.store.delete(at.key)
            catalogue.note_removed(at.key)
        self._digests.pop(path, None)

    def remove_all(self, directory: Path) -> None:
        """Remove a directory with all that lies in it, whoever wrote it. Raises: as ``Store``."""
        at = _in_store(directory)
        catalogue = catalogue_of(at.place)
        for key in [f"{holder}/{entry.name}" for holder, entry in catalogue.store.walk(at.key)]:
            catalogue.store.delete(key)
            catalogue.note_removed(key)
            self._digests.pop(StoredPath(at.place, *key.split("/")), None)
        if catalogue.store.has_empty_directories:
            catalogue.store.delete(at.key)
        catalogue.note_removed(at.key)

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        """Give a directory that was written here another name, file by file, in a store that ``moves_files``.

        Raises: as ``Store``; some files have their new name then.
        """
        at, to = _in_store(source), _in_store(target)
        catalogue = catalogue_of(at.place)
        self.make_dir(to, at, purpose)

        def move(entry: StoredEntry) -> None:
            old, new = at / entry.name, to / entry.name
            moved = catalogue.store.move(old.key, new.key, entry.size_bytes)
            catalogue.note(new.key, moved._replace(mtime_ns=entry.mtime_ns))
            catalogue.note_removed(old.key)
            self._digests[new] = self._digests.pop(old)

        from concurrent import futures  # noqa: PLC0415 - as above

        with futures.ThreadPoolExecutor(FILES_AT_ONCE) as threads:
            for _ in threads.map(move, catalogue.entries(at.key)):
                pass

    def fsync_dir(self, path: Path, purpose: Purpose) -> None:
        """Wait for what is on its way, wherever it goes. Raises: as ``UploadedFile.fsync``."""
        self._under_way.wait()

    def replace_file(self, path: Path, data: bytes, purpose: Purpose) -> None:
        """Write a file, in the place of another one if need be. Raises: as ``Store``."""
        at = _in_store(path)
        self._under_way.wait_for(at)
        catalogue = catalogue_of(at.place)
        catalogue.note(at.key, catalogue.store.put(at.key, data, is_new=False))
        self._digests[path] = hashlib.sha256(data).hexdigest()

    def settle(self, root: Path, purpose: Purpose) -> None:
        """List all below a directory, and compare it with what was written. Raises: OtherWriter; as ``Store``."""
        self._under_way.wait()
        at = _in_store(root)
        catalogue = catalogue_of(at.place)
        written = {key: (entry.size_bytes, entry.version) for key, entry in catalogue.known_below(at.key).items()}
        found = {
            f"{holder}/{entry.name}": (entry.size_bytes, entry.version)
            for holder, entry in catalogue.store.walk(at.key)
        }
        for key in sorted(written.keys() | found.keys()):
            is_scratch = self._passing_over is not None and self._passing_over in key
            if written.get(key) != found.get(key) and not is_scratch:
                cause = "it is gone" if key not in found else "it was not written here"
                raise OtherWriter(f"{at.place}/{key}", cause)

    def sha256_of(self, path: Path) -> str:
        """Return the SHA-256 of a file that was written, as it was sent: nothing is read back."""
        return self._digests[path]

    def adopt(self, files: Iterable[Sent]) -> None:
        """Know of files that another process sent for this one."""
        for file in files:
            at = _in_store(file.path)
            catalogue_of(at.place).note(at.key, file.entry)
            self._digests[file.path] = file.sha256

    def sent(self) -> tuple[Sent, ...]:
        """Return the files that were completed here or adopted, and not removed."""
        found = {path: _in_store(path) for path in self._digests}
        return tuple(
            Sent(path, catalogue_of(at.place).entry(at.key), self._digests[path]) for path, at in found.items()
        )


class Sent(NamedTuple):
    """A file that a process sent, for the process that takes it over."""

    path: Path
    entry: StoredEntry
    sha256: str


class SharedUploads(Uploads):
    """Writes files that other attempts at the same task write, too, with the same bytes.

    The last one stays. So no file is refused because it is there, and only what this attempt completed is removed.
    """

    def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
        """Begin to write a file, in the place of another one if need be."""
        return UploadedFile(_in_store(path), self._go_on, self._digests, self._under_way, is_new=False)

    def unlink(self, path: Path, purpose: Purpose) -> None:
        """Remove a file that was completed here. Raises: as ``Store``."""
        if path in self._digests:
            super().unlink(path, purpose)


def is_of_writing(error: BaseException) -> bool:
    """Return whether an error is about the place in a store that is written to, and not about what is read."""
    return isinstance(error, OtherWriter) or (isinstance(error, StoreError) and error.is_writing)


def writing_to(path: Path, fs: FileSystem, go_on: Callable[[], None], *, at_once: int = 0) -> FileSystem:
    """Return the file system for what is written to a path: ``fs``, or one that writes into its store.

    Arguments: ``go_on`` and ``at_once`` as of ``Uploads``.
    """
    return Uploads(go_on, at_once=at_once) if isinstance(path, StoredPath) else fs


def _in_store(path: Path) -> StoredPath:
    assert isinstance(path, StoredPath), path
    return path
