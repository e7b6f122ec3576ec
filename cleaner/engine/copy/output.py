"""The directory that a copy is written to: what it may be, and how it tells that a copy is whole.

Steps:      ``logcleaner-incomplete`` is written first; then everything of the copy, each file fsynced, each directory
            behind its files; then the original is looked at once more; then ``logcleaner-manifest.json``; then the
            first file goes.
Invariant:  a directory with a manifest is a whole copy; one without is none, whatever lies in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cleaner.engine.copy.moment import EntrySeen, SourceChanged
from cleaner.errors import UnusableOutput
from storage.errors import LogCleanerError, UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from storage.segment import open_to_read

_INCOMPLETE_TEXT: Final = (
    b"logcleaner is writing a copy here, or was interrupted: without a manifest it is worth nothing\n"
)
_ANOTHER: Final = "name another directory, or remove this one"


class CopyDoesNotFit(LogCleanerError):
    """The file system of a copy has less free than the copy may take. Nothing was written."""

    path: Path
    needed_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path}: a copy may take {self.needed_bytes} bytes, {self.free_bytes} are free; name a directory on "
            f"a file system with more space, or fewer topics with --topic"
        )


class OutputDir:
    """An empty directory that becomes a copy of a log dir."""

    def __init__(self, path: Path, fs: FileSystem) -> None:
        self.path = path
        self._fs = fs

    @classmethod
    def begin(cls, path: Path, original: LogDir, needed_bytes: int, fs: FileSystem) -> OutputDir:
        """Make the directory and mark it incomplete.

        Args:
            path: where the copy is to be.
            original: whose copy; a new directory takes its owner and mode.
            needed_bytes: what the copy takes at most.
            fs: the disk.

        Raises: UnusableOutput, CopyDoesNotFit before anything was written; OutOfSpace.
        """
        check_usable(path, original)
        parent = path if path.exists() else path.parent
        space = os.statvfs(parent)
        if needed_bytes > space.f_bavail * space.f_frsize:
            raise CopyDoesNotFit(path, needed_bytes, space.f_bavail * space.f_frsize)
        if not path.exists():
            fs.make_dir(path, original.path, Purpose.COPY)
            fs.fsync_dir(path.parent, Purpose.COPY)
        fs.replace_file(path / INCOMPLETE_FILE, _INCOMPLETE_TEXT, Purpose.COPY)
        return cls(path, fs)

    def make_dir(self, name: str) -> None:
        """Make a directory in the output, with the owner of the output."""
        self._fs.make_dir(self.path / name, self.path, Purpose.COPY)

    def empty(self, directory: Path) -> None:
        """Take away what a failure left in one of its directories."""
        for path in directory.iterdir():
            self._fs.unlink(path, Purpose.COPY)

    def copy(self, source: Path, planned: EntrySeen, target: Path) -> None:
        """Copy a file, its time and its holes too, within the kernel where that can be.

        Args:
            source: a plain file.
            planned: what it was when the plan was made.
            target: a new file, which gets the owner and mode of its directory.

        Raises: SourceChanged, UnreadableFile, OutOfSpace.
        """
        descriptor = _open(source)
        try:
            if (cause := planned.change_to(EntrySeen.of(os.fstat(descriptor)))) is not None:
                raise SourceChanged(source, cause)
            with self._fs.create(target, target.parent, Purpose.COPY) as file:
                file.copy_sparse(descriptor, planned.identity.size_bytes)
                file.fsync()
                file.set_mtime(planned.identity.mtime_ns)
            if planned.change_to(EntrySeen.of(os.fstat(descriptor))) is not None:
                raise SourceChanged(source, "it was written to while it was copied")
        except EOFError as error:
            raise SourceChanged(source, "it was truncated while it was copied") from error
        except OSError as error:
            raise UnreadableFile(source, f"copying it to {target} failed: {error.strerror or error}") from error
        finally:
            os.close(descriptor)

    def settle(self) -> None:
        """Make the names of all that was copied last; every file was fsynced before."""
        for directory in (*filter(Path.is_dir, sorted(self.path.iterdir())), self.path):
            self._fs.fsync_dir(directory, Purpose.COPY)

    def finish(self, manifest: bytes) -> None:
        """Make the copy a copy; it has settled."""
        self._fs.replace_file(self.path / MANIFEST_FILE, manifest, Purpose.COPY)
        self._fs.unlink(self.path / INCOMPLETE_FILE, Purpose.COPY)
        self._fs.fsync_dir(self.path, Purpose.COPY)


def _open(source: Path) -> int:
    try:
        return open_to_read(source)
    except UnreadableFile as error:
        if error.has_vanished:
            raise SourceChanged(source, "it is gone") from error
        raise


def check_usable(path: Path, original: LogDir) -> None:
    """Refuse what cannot become a copy of a log dir. Raises: UnusableOutput."""
    resolved, source = path.resolve(), original.path.resolve()
    if resolved == source or source in resolved.parents:
        raise UnusableOutput(path, f"lies in the log dir {original.path}", "name a directory outside it")
    if not path.exists():
        if not path.parent.is_dir():
            raise UnusableOutput(path, f"{path.parent} does not exist", "make it first")
        return
    if not path.is_dir():
        raise UnusableOutput(path, "is no directory", "name a new or an empty one")
    names = {entry.name for entry in path.iterdir()}
    if MANIFEST_FILE in names:
        raise UnusableOutput(path, "holds a finished copy already", _ANOTHER)
    if INCOMPLETE_FILE in names:
        raise UnusableOutput(path, "holds a copy that was interrupted and is incomplete", _ANOTHER)
    if names:
        raise UnusableOutput(path, "is not empty", "name a new or an empty one")
