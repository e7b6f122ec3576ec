"""What a file of a log dir is, by its name, and which files a directory stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    FileState,
)

BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
_PARTIAL_SNAPSHOT: Final = ".part"
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_BASE_OFFSET: Final = re.compile(r"\d{1,19}", re.ASCII)
_STATES: Final = tuple(state.value for state in FileState if state.value)


class FileType(Enum):
    """What a file holds, in the order in which the files of a partition are shown."""

    LOG = auto()
    SNAPSHOT_LOG = auto()
    """Of a KRaft metadata log: record batches as in a log."""
    OFFSET_INDEX = auto()
    TIME_INDEX = auto()
    TXN_INDEX = auto()
    PRODUCER_SNAPSHOT = auto()
    LEADER_EPOCHS = auto()
    PARTITION_METADATA = auto()
    OFFSET_CHECKPOINT = auto()
    META_PROPERTIES = auto()

    @property
    def holds_batches(self) -> bool:
        """Return whether the file is made of record batches."""
        return self in (FileType.LOG, FileType.SNAPSHOT_LOG)


_BY_SUFFIX: Final = {
    ".log": FileType.LOG,
    ".checkpoint": FileType.SNAPSHOT_LOG,
    ".index": FileType.OFFSET_INDEX,
    ".timeindex": FileType.TIME_INDEX,
    ".txnindex": FileType.TXN_INDEX,
    ".snapshot": FileType.PRODUCER_SNAPSHOT,
}
_BY_NAME: Final = {
    LEADER_EPOCH_CHECKPOINT: FileType.LEADER_EPOCHS,
    PARTITION_METADATA_FILE: FileType.PARTITION_METADATA,
    META_PROPERTIES_FILE: FileType.META_PROPERTIES,
    **dict.fromkeys(
        (
            RECOVERY_POINT_CHECKPOINT,
            HIGH_WATERMARK_CHECKPOINT,
            LOG_START_OFFSET_CHECKPOINT,
            CLEANER_OFFSET_CHECKPOINT,
        ),
        FileType.OFFSET_CHECKPOINT,
    ),
}


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file whose name says what it holds."""

    path: Path
    type: FileType
    state: str
    """``.deleted``, ``.swap``, ``.cleaned``, ``.part``, or nothing."""

    @property
    def base_offset(self) -> int | None:
        """The offset that the name begins with; None for a file that somebody gave another name."""
        stem = self.path.name.partition(".")[0]
        return int(stem) if _BASE_OFFSET.fullmatch(stem) else None

    @property
    def snapshot_id(self) -> tuple[int, int] | None:
        """The end offset and the epoch of a metadata snapshot, as its name says them."""
        found = _SNAPSHOT.match(self.path.name)
        return (int(found[1]), int(found[2])) if found else None

    def sibling(self, suffix: str) -> Path:
        """Return the path of the segment's file of another kind, in the same state."""
        return self.path.with_name(f"{self.path.name.partition('.')[0]}{suffix}{self.state}")


def recognised(path: Path) -> DumpedFile | None:
    """Return what a file is; None for a name that says nothing."""
    name, state = path.name, ""
    for ending in (*_STATES, _PARTIAL_SNAPSHOT):
        if name.endswith(ending):
            name, state = name.removesuffix(ending), ending
            break
    kind = _BY_NAME.get(name) or _BY_SUFFIX.get(Path(name).suffix)
    return None if kind is None else DumpedFile(path, kind, state)


def files_in(directory: Path, *, only_batches: bool) -> list[DumpedFile]:
    """Return the files of a directory, by base offset and kind; its subdirectories are left out.

    Args:
        directory: of a partition, or a log dir.
        only_batches: leave out what holds no record batches.

    Raises: OSError.
    """
    found = (recognised(path) for path in directory.iterdir() if not path.is_dir() or path.is_symlink())
    files = [file for file in found if file and (file.type.holds_batches or not only_batches)]
    return sorted(files, key=lambda file: (file.base_offset is None, file.base_offset or 0, file.type.value, file.path.name))
