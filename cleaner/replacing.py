"""Replacement of a file as a whole: a reader sees either the old content or the new one."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storage.errors import InvalidConfig

_MODE: Final = 0o644
"""The mode of the new file: other users must be able to read it."""
_LINKS_MAX: Final = 40
"""The most symbolic links that are followed, as many as the operating system follows."""
_KERNELS: Final = tuple(map(Path, ("/proc", "/sys")))
_DEVICES: Final = Path("/dev")


def target_of(path: Path) -> Path:
    """Return the file that a path leads to, symbolic links followed: a regular file, or a name without a file.

    A name in ``/dev`` counts as no file, though ``/dev/stdout`` may lead to one. A process that has that file open
    would lose it.

    Raises: OSError if the path means anything else.
    """
    for _ in range(_LINKS_MAX):
        parent = path.absolute().parent.resolve()
        if parent == _DEVICES or any(parent.is_relative_to(place) for place in _KERNELS):
            raise OSError(errno.EINVAL, "it is no regular file")
        path = parent / path.name
        if not path.is_symlink():
            break
        path = parent / path.readlink()
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    return path


def check_replaceable(key: str, path: Path, log_dirs: Iterable[Path], example: str) -> None:
    """Refuse a file that ``replace_file`` could not write, before anything is done.

    Args:
        key: the option or key that names the file.
        path: the file.
        log_dirs: no file is written into one of them.
        example: a name that such a file could have.

    Raises: InvalidConfig.
    """
    no_file = InvalidConfig(key, str(path), f"is no file; name the file to write, such as {example}")
    if str(path) in {"-", "."}:
        raise no_file
    try:
        target = target_of(path)
    except OSError:
        raise no_file from None
    parent = target.parent
    if not parent.is_dir():
        raise InvalidConfig(key, str(path), f"cannot be written, because there is no directory {parent}; make it")
    if not os.access(parent, os.W_OK):
        raise InvalidConfig(key, str(path), f"cannot be written, because this user may not write to {parent}")
    if target.exists() and not target.stat().st_mode & 0o222:
        raise InvalidConfig(key, str(path), "is write-protected; chmod u+w it, or name another file")
    for log_dir in log_dirs:
        if path.resolve().is_relative_to(log_dir.resolve()):
            raise InvalidConfig(key, str(path), f"lies in the log dir {log_dir}; name a file elsewhere")


def replace_file(path: Path, contents: bytes) -> None:
    """Write the new content beside the old file, and rename it over the old file.

    Symbolic links stay, and are followed.

    Raises: OSError; the old file is then as it was.
    """
    path = target_of(path)
    temporary = path.with_name(f".{path.name[-200:]}.{os.getpid()}.tmp")  # the longest name leaves no room for a suffix
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
