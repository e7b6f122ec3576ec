"""A directory that no other user can change, opened level by level and used by its descriptor.

logcleaner believes the files in the user's cache, and removes old ones. HOME, XDG_CACHE_HOME or CACHE_DIRECTORY name
the cache, and may lead into a directory of another user (``sudo`` can keep HOME), who can put a symlink or other
content there at any moment. So each level is opened by a descriptor of the level above, and checked as it was opened.
The levels above the cache belong to this user or to root, and no other user may write to them, but for sticky ones such
as ``/tmp``; the cache and the levels below it belong to this user alone. A symlink is followed only if it lies above or
at the cache, in a directory that passed this check.

Not chosen: a check of the last level alone. The owner of a level above can mount a file system there that states any
            owner.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final, Self

UNFINISHED_SUFFIX: Final = ".unfinished"
_WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags for a level that is only passed through, and need not be readable."""
_LEVEL: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE_BY_OTHERS: Final = 0o022
_SYMLINKS_MAX: Final = 40


def cache_root() -> Path:
    """Return ``$CACHE_DIRECTORY`` (systemd), else ``logcleaner`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        RuntimeError: the user has no home directory.
    """
    by_systemd = os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    if by_systemd:
        return Path(by_systemd)
    by_user = os.environ.get("XDG_CACHE_HOME")
    return (Path(by_user) if by_user else Path.home() / ".cache") / "logcleaner"


class PrivateDirectory:
    """An open directory, with the few operations that a cache needs, all of them relative to its descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over a descriptor. Raises: PermissionError unless the directory is this user's alone."""
        self.path, self.descriptor = path, descriptor
        try:
            _check(descriptor, path, is_on_the_way=False)
        except OSError:
            self.close()
            raise

    @classmethod
    def open(cls, root: Path, *names: str) -> Self:
        """Open ``root/NAME/NAME``, and make the levels that are missing.

        Args:
            root: of the cache.
            names: of the levels below it.

        Raises: PermissionError where another user could change a level, OSError where one is no directory.
        """
        opened = cls(root, _open_following(root))
        for name in names:
            with opened as parent:
                opened = parent.level(name)
        return opened

    def level(self, name: str) -> Self:
        """Open the directory of that name, and make it if it is missing. Raises: as ``open``; symlinks are refused."""
        return type(self)(self.path / name, _opened_or_made(name, self.descriptor, _LEVEL))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; calling it again does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def names(self, *suffixes: str) -> list[str]:
        """Return the names of the entries with one of the suffixes; of all entries if no suffix is given."""
        found = os.listdir(self.descriptor)  # noqa: PTH208 - of a descriptor
        return [name for name in found if not suffixes or name.endswith(suffixes)]

    def open_to_read(self, name: str) -> IO[bytes]:
        """Open a plain file of this user, unbuffered. Raises: OSError, PermissionError for a file of another user."""
        descriptor = os.open(name, _READ, dir_fd=self.descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
            os.close(descriptor)
            raise PermissionError(f"{self.path / name} is no plain file of this user alone")
        return os.fdopen(descriptor, "rb", buffering=0)

    def write(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a file whole or not at all; a crash leaves a file of another name. Raises: OSError."""
        unfinished = f"{os.urandom(8).hex()}{UNFINISHED_SUFFIX}"
        descriptor = os.open(unfinished, _NEW | os.O_WRONLY, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as made:
                for part in parts:
                    made.write(part)
            os.rename(unfinished, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.remove(unfinished)
            raise

    def remove(self, name: str) -> None:
        """Unlink a file. A missing entry is passed over, and so is one that is no file."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def temporary(self) -> IO[bytes]:
        """Make a file without a name, which is gone once it is closed. Raises: OSError."""
        try:
            descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self.descriptor)
        except OSError:  # not every file system has files without a name
            name = f"{os.urandom(8).hex()}{UNFINISHED_SUFFIX}"
            descriptor = os.open(name, _NEW | os.O_RDWR, 0o600, dir_fd=self.descriptor)
            self.remove(name)
        return os.fdopen(descriptor, "w+b")


def _open_following(path: Path) -> int:
    """Open a directory as the head of this module says; the caller checks the last level."""
    found: int | str = os.path.normpath(path.absolute())
    for _ in range(_SYMLINKS_MAX):
        if isinstance(found, int):
            return found
        found = _descended(PurePosixPath(found).parts)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _descended(parts: tuple[str, ...]) -> int | str:
    """Return a descriptor of the last level; if a symlink is met, the path with which to go on."""
    at = os.open(parts[0], _LEVEL)
    for place, name in enumerate(parts[1:], 1):
        way = os.path.join(*parts[:place])  # noqa: PTH118 - of text
        try:
            _check(at, Path(way), is_on_the_way=True)
            if target := _target(name, at):
                return os.path.normpath(os.path.join(way, target, *parts[place + 1 :]))  # noqa: PTH118 - as above
            below = _opened_or_made(name, at, _LEVEL if place == len(parts) - 1 else _WAY)
        finally:
            os.close(at)
        at = below
    return at


def _target(name: str, parent: int) -> str | None:
    """Return the target of a symlink; None if the entry is no symlink."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        return None


def _opened_or_made(name: str, parent: int, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)


def _check(descriptor: int, path: Path, *, is_on_the_way: bool) -> None:
    status, user = os.fstat(descriptor), os.geteuid()
    if status.st_uid != user and not (is_on_the_way and status.st_uid == 0):
        raise PermissionError(f"{path} belongs to another user; set XDG_CACHE_HOME to a directory of your own")
    is_sticky = is_on_the_way and status.st_mode & stat.S_ISVTX
    if status.st_mode & _WRITABLE_BY_OTHERS and not is_sticky:
        raise PermissionError(f"{path} can be written by another user; chmod go-w it, or set XDG_CACHE_HOME elsewhere")
