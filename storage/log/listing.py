"""One listing of a partition directory: segments, snapshots and the leftovers of an interrupted run."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storage.errors import UnreadableFile
from storage.names import (
    SEGMENT_KINDS,
    FileIdentity,
    FileKind,
    FileState,
    SegmentFileName,
    parse_segment_file_name,
)
from storage.segment import Segment, SegmentFile, identity_of


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A segment file or snapshot in any state."""

    path: Path
    name: SegmentFileName
    identity: FileIdentity
    changed_ns: int
    """``ctime``: a rename sets it, so it tells since when a ``.deleted`` file waits."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What one ``scandir`` of a partition directory found; files that are no segment files are left out."""

    directory: Path
    files: tuple[ListedFile, ...]

    def in_state(self, state: FileState) -> tuple[ListedFile, ...]:
        """Files with one suffix state, ascending by base offset, snapshots among them."""
        return tuple(file for file in self.files if file.name.state is state)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments that have a plain ``.log``, ascending."""
        return segments_of(self.directory, self.in_state(FileState.PLAIN))

    @property
    def snapshots(self) -> tuple[ListedFile, ...]:
        """Producer snapshots, ascending by offset."""
        return tuple(f for f in self.in_state(FileState.PLAIN) if f.name.kind is FileKind.SNAPSHOT)

    @property
    def needs_recovery(self) -> bool:
        """Whether a swap or a compaction was interrupted."""
        return any(file.name.state in (FileState.CLEANED, FileState.SWAP) for file in self.files)


def list_partition(directory: Path) -> Listing:
    """List a partition directory. Symlinks, devices and foreign names are not ours and are left out.

    Raises: UnreadableFile.
    """
    found: list[ListedFile] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = parse_segment_file_name(entry.name)
                if name is None:
                    continue
                status = _status(entry)
                if status is not None and stat.S_ISREG(status.st_mode):
                    found.append(ListedFile(Path(entry.path), name, identity_of(status), status.st_ctime_ns))
    except OSError as error:
        raise UnreadableFile(directory, error.strerror or str(error)) from error
    found.sort(key=lambda file: file.path.name)
    return Listing(directory, tuple(found))


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """None for a file that went between the listing and now: beside a live broker files vanish."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def segments_of(directory: Path, files: Iterable[ListedFile]) -> tuple[Segment, ...]:
    """Group files by base offset; an index without its ``.log`` is nothing (a broker deletes it at start)."""
    by_base: defaultdict[int, dict[FileKind, SegmentFile]] = defaultdict(dict)
    for file in files:
        if file.name.kind in SEGMENT_KINDS:
            by_base[file.name.base_offset][file.name.kind] = SegmentFile(file.path, file.name.kind, file.identity)
    return tuple(Segment(directory, base, kinds) for base, kinds in sorted(by_base.items()) if FileKind.LOG in kinds)
