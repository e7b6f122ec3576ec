"""The output file of an export.

Steps:      write a hidden file beside the target, fsync it, rename it.
Invariant:  under its name the file is whole, or not there; it replaces no file. Only a kill leaves the hidden file.
Not chosen: a hard link in place of the rename. It would also refuse a file that appears in the last moment, but many
            disks that receive exports (FAT, network) have no hard links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cleaner.errors import UnusableOutput, as_unwritable


@contextmanager
def new_file(path: Path, log_dir: Path) -> Iterator[BinaryIO]:
    """Open a file to write. It gets its name at the end of the ``with``; if that ends with an error, the file goes.

    Args:
        path: must not exist; its parent must exist.
        log_dir: no file may be written in this directory.

    Raises: UnusableOutput; UnwritableFile, also for an OSError within the ``with``.
    """
    _check_usable(path, log_dir)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with as_unwritable(path):
            with hidden.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _check_absent(path)
            hidden.rename(path)
    finally:
        hidden.unlink(missing_ok=True)


def _check_usable(path: Path, log_dir: Path) -> None:
    _check_absent(path)
    if not path.parent.is_dir():
        raise UnusableOutput(path, f"{path.parent} is no directory", "make it first")
    if log_dir.resolve() in path.resolve().parents:
        raise UnusableOutput(path, f"lies in the log dir {log_dir}", "name a file outside it")


def _check_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise UnusableOutput(path, "is there already, and is not replaced", "name another file, or remove it")
