"""Take repairs back: a replaced file that still waits becomes the file again.

The content that a repair made can be made again.

Each step is one rename over the present file, behind a line in the journal; cut zeros come back as a hole. So a crash
leaves either the repaired file or the old one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cleaner.engine.inventory import Wanted
from cleaner.engine.journal import Journal, partition_of, read_journal
from cleaner.engine.means import Means
from cleaner.engine.repair.kept import kept_name, tail_name
from cleaner.errors import told
from policies.findings.repairs import (
    CUTS,
    Content,
    FoundContent,
    RepairKind,
    RepairNote,
    RevertCode,
    RevertVerdict,
    kind_of,
    revert_verdicts,
)
from storage.directory import open_sized
from storage.errors import LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir, read_file
from storage.names import TopicPartition

_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The repairs of one partition whose replaced files still wait, and the result of each repair."""

    topic_partition: TopicPartition
    log_dir: str
    verdicts: tuple[RevertVerdict, ...]
    is_done: bool = False
    """Whether the repairs that can be taken back were taken back."""
    error: str | None = None

    @property
    def revertible(self) -> tuple[RevertVerdict, ...]:
        """The repairs that can be taken back."""
        return tuple(verdict for verdict in self.verdicts if verdict.code is RevertCode.REVERTIBLE)


def survey_reverts(log_dir: LogDir, wanted: Wanted) -> list[RevertResult]:
    """Return the wanted partitions with repairs whose replaced files still wait. Raises: UnreadableFile."""
    notes = _notes(log_dir.path)
    found = ((tp, path) for tp, path in log_dir.partitions() if tp in notes and wanted(tp))
    results = (RevertResult(tp, str(log_dir.path), _verdicts(path, notes[tp].values())) for tp, path in found)
    return [result for result in results if result.verdicts]


def revert_in(log_dir: LogDir, wanted: Wanted, means: Means) -> Iterator[RevertResult]:
    """Take repairs back. The caller holds the lock of the log dir. Raises: UnreadableFile."""
    with closing(Journal(log_dir.path, means.fs, means.clock.boot())) as journal:
        for result in survey_reverts(log_dir, wanted):
            yield _attempt(log_dir, result, journal, means)


def _attempt(log_dir: LogDir, result: RevertResult, journal: Journal, means: Means) -> RevertResult:
    """Take the repairs of one partition back. A failure becomes the result, and the other partitions go on."""
    place = result.topic_partition._asdict()
    try:
        for verdict in result.revertible:
            fields = {"partition": str(result.topic_partition), "file": verdict.note.file_name}
            journal.record("revert", means.clock.now_ms(), **fields, kind=verdict.note.kind)
            _revert(means.fs, log_dir.path / str(result.topic_partition) / verdict.note.file_name, verdict.note)
            means.listener.event("repair_reverted", **place, path=verdict.note.file_name)
    except (LogCleanerError, OSError) as error:
        means.listener.event("partition_failed", **place, error=told(error))
        return replace(result, error=told(error))
    return replace(result, is_done=True)


def _revert(fs: FileSystem, path: Path, note: RepairNote) -> None:
    if note.tail is not None:
        with fs.open_to_append(path, Purpose.RESTORE) as file:
            file.write(read_file(path.with_name(note.tail_name)) or b"")
            file.fsync()
        return
    if note.cut_from is not None:
        fs.truncate(path, note.cut_from, Purpose.RESTORE)
        with fs.open_to_append(path, Purpose.RESTORE) as file:
            file.fsync()
        return
    fs.rename(path.with_name(kept_name(path.name)), path, Purpose.RESTORE)
    fs.fsync_dir(path.parent, Purpose.RESTORE)


def _notes(log_dir: Path) -> Mapping[TopicPartition, dict[str, RepairNote]]:
    """Return the newest repair of each file that the journal tells of."""
    found: dict[TopicPartition, dict[str, RepairNote]] = {}
    for entry in read_journal(log_dir):
        topic_partition = partition_of(entry)
        if topic_partition and entry["what"] == "repair" and (note := _note(entry)):
            found.setdefault(topic_partition, {})[note.file_name] = note
    return found


def _note(entry: Mapping[str, Any]) -> RepairNote | None:
    """Return the repair of a journal line.

    If the line holds something unexpected, return None, so that nobody acts on it.
    """
    try:
        kind = RepairKind(entry["kind"])
        name = str(entry["file"])
        if kind_of(name) is not (RepairKind.ZERO_TAIL if kind in CUTS else kind) or "/" in name:
            return None
        undo = entry["undo"]
        tail = undo.get("tail")
        kept, made = undo.get("kept"), undo.get("made")
        cut_from, cut_to = (undo["cut_from"], entry["bytes"]) if made is None else (None, None)
        return RepairNote(
            entry["time_ms"],
            name,
            kind.value,
            Content(_whole(kept[0]), _whole(kept[2])) if kept else None,
            Content(_whole(made[0]), _whole(made[1])) if made else None,
            None if made else _whole(cut_from),
            None if made else _whole(cut_to),
            Content(_whole(tail[0]), _whole(tail[1])) if tail else None,
            tail_name(name, _whole(cut_to)) if tail else "",
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def _whole(number: object) -> int:
    if type(number) is not int or number < 0:
        raise TypeError(number)
    return number


def _verdicts(directory: Path, notes: Iterable[RepairNote]) -> tuple[RevertVerdict, ...]:
    return revert_verdicts((note, _found(directory / note.file_name, note)) for note in notes)


def _found(path: Path, note: RepairNote) -> FoundContent:
    if note.made is None:  # the size of a .log is enough, and reading the file may take long
        with suppress(FileNotFoundError):
            waiting = _content(path.with_name(note.tail_name)) if note.tail else None
            return FoundContent(Content(path.lstat().st_size, 0), waiting)
        return FoundContent(None, None)
    waiting = _content(path.with_name(kept_name(path.name)))
    return FoundContent(_content(path) if waiting else None, waiting)


def _content(path: Path) -> Content | None:
    with as_unreadable(path), suppress(FileNotFoundError):
        descriptor, size_bytes = open_sized(path)
        with os.fdopen(descriptor, "rb") as file:
            crc = 0
            while piece := file.read(_PIECE_BYTES):
                crc = zlib.crc32(piece, crc)
        return Content(size_bytes, crc)
    return None
