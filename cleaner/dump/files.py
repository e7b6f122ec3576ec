"""The kinds of files in a log dir, told by their names, and the files that a directory stands for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
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
from storage.scan.selected import RecordSelection

BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
_PARTIAL_SNAPSHOT: Final = ".part"
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_BASE_OFFSET: Final = re.compile(r"\d{1,20}", re.ASCII)
_STATES: Final = tuple(state.value for state in FileState if state.value)


class DumpedKind(Enum):
    """The kinds of files, in the order in which the files of a partition are shown."""

    LOG = auto()
    SNAPSHOT_LOG = auto()
    """A snapshot of a KRaft metadata log: record batches as in a log."""
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
        return self in (DumpedKind.LOG, DumpedKind.SNAPSHOT_LOG)


_BY_SUFFIX: Final = {
    ".log": DumpedKind.LOG,
    ".checkpoint": DumpedKind.SNAPSHOT_LOG,
    ".index": DumpedKind.OFFSET_INDEX,
    ".timeindex": DumpedKind.TIME_INDEX,
    ".txnindex": DumpedKind.TXN_INDEX,
    ".snapshot": DumpedKind.PRODUCER_SNAPSHOT,
}
_BY_NAME: Final = {
    LEADER_EPOCH_CHECKPOINT: DumpedKind.LEADER_EPOCHS,
    PARTITION_METADATA_FILE: DumpedKind.PARTITION_METADATA,
    META_PROPERTIES_FILE: DumpedKind.META_PROPERTIES,
    **dict.fromkeys(
        (
            RECOVERY_POINT_CHECKPOINT,
            HIGH_WATERMARK_CHECKPOINT,
            LOG_START_OFFSET_CHECKPOINT,
            CLEANER_OFFSET_CHECKPOINT,
        ),
        DumpedKind.OFFSET_CHECKPOINT,
    ),
}


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file whose name says what it holds."""

    path: Path
    """The path as the user wrote it."""
    location: Path
    """The same file, without a symlink on the way."""
    kind: DumpedKind
    state: str
    """``.deleted``, ``.swap``, ``.cleaned``, ``.part``, or nothing."""

    @property
    def base_offset(self) -> int | None:
        """The offset that the name begins with; None for a file that somebody gave another name."""
        stem = self.path.name.partition(".")[0]
        return int(stem) if _BASE_OFFSET.fullmatch(stem) else None

    @property
    def is_finished(self) -> bool:
        """Return whether nobody appends to the file: it was written whole, so that its end must be whole, too."""
        if self.kind is not DumpedKind.LOG or self.state:
            return self.state in ("", FileState.DELETED, FileState.SWAP)
        base_offset = self.base_offset
        logs = (recognised(path, path) for path in self.location.parent.iterdir() if path.suffix == ".log")
        bases = [log.base_offset for log in logs if log and log.base_offset is not None]
        return base_offset is not None and any(base > base_offset for base in bases)

    @property
    def snapshot_id(self) -> tuple[int, int] | None:
        """The end offset and the epoch of a metadata snapshot, as its name says them."""
        found = _SNAPSHOT.match(self.path.name)
        return (int(found[1]), int(found[2])) if found else None

    def sibling(self, suffix: str) -> Path:
        """Return the path of the segment's file of another kind, in the same state."""
        return self.location.with_name(f"{self.path.name.partition('.')[0]}{suffix}{self.state}")


def recognised(path: Path, location: Path | None = None) -> DumpedFile | None:
    """Return a file with its kind; None if the name tells no kind. Without a location, symlinks are followed."""
    name, state = path.name, ""
    for ending in (*_STATES, _PARTIAL_SNAPSHOT):
        if name.endswith(ending):
            name, state = name.removesuffix(ending), ending
            break
    kind = _BY_NAME.get(name) or _BY_SUFFIX.get(Path(name).suffix)
    return None if kind is None else DumpedFile(path, location or path.resolve(), kind, state)


def files_in(directory: Path, *, only_batches: bool) -> list[DumpedFile]:
    """Return the files of a directory, by base offset and kind; its subdirectories are left out.

    Args:
        directory: of a partition, or a log dir.
        only_batches: leave out files without record batches.

    Raises: OSError.
    """
    location = directory.resolve()
    found = (recognised(path, location / path.name) for path in directory.iterdir() if not path.is_dir())
    return sorted((file for file in found if file and (file.kind.holds_batches or not only_batches)), key=_order)


def within(files: Sequence[DumpedFile], selection: RecordSelection) -> Iterator[DumpedFile]:
    """Leave out the segments of a log that begin behind the selected offsets, or end before them."""
    segments = [file.base_offset for file in files if _is_segment(file)]
    ends = dict(pairwise(segments))
    for file in files:
        if _is_segment(file):
            base_offset, end = file.base_offset, ends.get(file.base_offset)
            is_behind = base_offset is not None and base_offset > selection.last_offset
            if is_behind or (end is not None and end <= selection.first_offset):
                continue
        yield file


def without_controls(text: str) -> str:
    """Escape control characters alone: for output that is compared with that of Kafka's own tools."""
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cc" else c for c in text)


def _is_segment(file: DumpedFile) -> bool:
    return file.kind is DumpedKind.LOG and not file.state and file.base_offset is not None


def _order(file: DumpedFile) -> tuple[bool, int, int, str]:
    base_offset = file.base_offset
    return base_offset is None, base_offset or 0, file.kind.value, file.path.name
