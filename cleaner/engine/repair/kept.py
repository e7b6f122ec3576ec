"""The names of replaced files, which wait as ``.deleted``, as deleted segments do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage.log_dir import read_file
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, SCRATCH_SUFFIX, FileState

_OTHERS: Final = frozenset(
    name + FileState.DELETED.value for name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE)
)


def kept_name(name: str) -> str:
    """Return the name under which a replaced file waits."""
    return name + FileState.DELETED.value


def tail_name(name: str, start: int) -> str:
    """Return the name for the bytes that were cut off a ``.log``. A broker ignores files of this name."""
    return f"{name}.from-{start}{SCRATCH_SUFFIX}"


def is_kept_other(name: str) -> bool:
    """Return whether a repair replaced the file, and the file is no segment file."""
    return name in _OTHERS


def kept_others(names: Iterable[str]) -> list[str]:
    """Return the replaced files among names that are no segment files."""
    return sorted(_OTHERS.intersection(names))


def is_kept_already(path: Path, present: bytes) -> bool:
    """Return whether an interrupted repair has kept the present content of a file. Raises: UnreadableFile."""
    with suppress(FileNotFoundError):
        return read_file(path.with_name(kept_name(path.name))) == present
    return False
