"""Replacement of a file as a whole: a reader sees the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MODE: Final = 0o644
"""Other users must be able to read the file."""


def replace_file(path: Path, contents: bytes) -> None:
    """Write a file anew beside its old one, and put it in the place of that.

    Raises: OSError; the old file is then as it was.
    """
    temporary = path.with_name(f".{path.name[-200:]}.{os.getpid()}.tmp")  # the longest name leaves no room for a suffix
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
