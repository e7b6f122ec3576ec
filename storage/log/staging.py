"""Staging: whole new segments of a log, written beside it, then put in behind its end.

Steps:      (of ``stage``) the batches of other logs go into files that mean nothing to a broker, numbered from the log
            end on; fsync of the files and of the directory.
            (of ``put_in``) for each file, by rising base offset: the log is sealed, as a roll does; the index files of
            an empty last segment go; one rename makes the file the last ``.log``; fsync of the directory; its index
            files and a producer snapshot are made.
Invariant:  a staged file is in the log once its name is gone, and not before: nothing else tells, so a compaction or a
            broker between two steps confuses nobody. A file is put in only behind the present log end. No file with
            records is replaced.
Assumes:    the caller holds the lock of the log dir.
Not chosen: ``.swap`` names, which a broker's start puts in as well: it deletes the ``.cleaned`` files of the other
            partitions then. Index files in the staging: a ``.log`` without them is whole, and a broker makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from storage.directory import entries
from storage.errors import CorruptBatch, LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.indexes import RELATIVE_OFFSET_MAX
from storage.log.config import LogConfig
from storage.log.end import LogEndsBeforeItsStart, next_offset_of
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log import Log
from storage.log.log_files import offset_of
from storage.log.recovery import ensure_whole, sound_batches
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SEGMENT_KINDS,
    FileKind,
    StagedName,
    parse_staged_name,
    segment_file_name,
)
from storage.records.v2 import number


class UnsoundEnd(LogCleanerError):
    """A log with damage that a broker's start would cut off, with all behind it."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; nothing was appended: start the broker once, it recovers the log"


class EndMoved(LogCleanerError):
    """A log whose end is no longer where its staged segments begin."""

    path: Path
    staged_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.path}: the staged segment begins at {self.staged_offset}, but the log ends at {self.end_offset}"


def log_end(fs: FileSystem, directory: Path, config: LogConfig, now_ms: int) -> int:
    """Return the log end, once the log is fit to be appended to: recovered, sealed, and without damage at its end.

    If the broker did not stop cleanly, all that its next start would check is read, because that start cuts a log off
    in front of the first damaged batch.

    Raises: UnsoundEnd, LogEndsBeforeItsStart; TornTail; what opening and closing a log raise.
    """
    log = _opened(fs, directory, config)
    if log.log_end_offset < log.log_start_offset:
        raise LogEndsBeforeItsStart(directory, log.log_end_offset, log.log_start_offset)
    if not (directory.parent / CLEAN_SHUTDOWN_FILE).exists():
        _ensure_checked(fs, log)
    log.settle(now_ms)
    return log.log_end_offset


def stage(
    fs: FileSystem, directory: Path, sources: Sequence[Path], start_offset: int, segment_bytes: int, tag: str
) -> int:
    """Write the batches of some ``.log`` files as new segments, and return the offset behind the last one.

    Args:
        fs: the disk.
        directory: of the partition.
        sources: logs with batches of version 2, in the order of their records.
        start_offset: the log end.
        segment_bytes: the size at which a segment is full.
        tag: of this staging.

    Raises: CorruptBatch, UnreadableFile, OutOfSpace, UnsafeOwner.
    """
    leader_epoch, next_offset = LeaderEpochs(fs, directory).to_write(None), start_offset
    file: NewFile | None = None
    base_offset = start_offset
    try:
        for batch in (one for path in sources for one in sound_batches(path)):
            data, last_offset = bytearray(batch.data), next_offset + batch.last_offset - batch.base_offset
            is_far = last_offset - base_offset > RELATIVE_OFFSET_MAX
            if file is not None and (file.size_bytes + len(data) > segment_bytes or is_far):
                file.fsync()
                file.close()
                file = None
            if file is None:
                base_offset = next_offset
                file = fs.create(directory / str(StagedName(base_offset, tag)), directory, Purpose.APPEND)
            number(data, 0, next_offset, leader_epoch)
            file.write(data)
            file.write_out()
            next_offset = last_offset + 1
        if file is not None:
            file.fsync()
    finally:
        if file is not None:
            file.close()
    fs.fsync_dir(directory, Purpose.APPEND)
    return next_offset


def put_in(fs: FileSystem, directory: Path, config: LogConfig, now_ms: int, tag: str) -> int:
    """Make all staged segments of a tag the last ones of the log, and return the log end behind them.

    Repeat it after a crash at any step.

    Raises: EndMoved: the other staged segments are not in; as ``log_end``.
    """
    end_offset = log_end(fs, directory, config, now_ms)
    for name in staged_names(directory, tag):
        if name.base_offset != end_offset:
            raise EndMoved(directory, name.base_offset, end_offset)
        epochs = LeaderEpochs(fs, directory)
        epochs.assign(epochs.to_write(None), end_offset)
        _take_place(fs, directory, name)
        log = _opened(fs, directory, config)
        log.settle(now_ms)
        end_offset = log.log_end_offset
    return end_offset


def staged_names(directory: Path, tag: str | None = None) -> list[StagedName]:
    """Return the names of the staged segments, ascending; of one tag, or of all. Raises: UnreadableFile."""
    with as_unreadable(directory), entries(directory) as found:
        parsed = [name for entry in found if (name := parse_staged_name(entry.name))]
    return sorted(name for name in parsed if tag in (None, name.tag))


def remove_staged(fs: FileSystem, directory: Path, kept: Collection[str] = ()) -> None:
    """Unlink the staged segments but those of some tags. Raises: UnreadableFile, OutOfSpace."""
    doomed = [name for name in staged_names(directory) if name.tag not in kept]
    for name in doomed:
        fs.unlink(directory / str(name), Purpose.REMOVE)
    if doomed:
        fs.fsync_dir(directory, Purpose.REMOVE)


def _opened(fs: FileSystem, directory: Path, config: LogConfig) -> Log:
    return Log.open(directory, config, fs, log_start_offset=offset_of(directory, LOG_START_OFFSET_CHECKPOINT))


def _ensure_checked(fs: FileSystem, log: Log) -> None:
    """Read the segments behind the recovery point, and make them last. Raises: UnsoundEnd, UnreadableFile."""
    checked_to = offset_of(log.directory, RECOVERY_POINT_CHECKPOINT) or 0
    for segment in log.segments:
        if next_offset_of(segment) > checked_to:
            try:
                ensure_whole(segment.log)
            except CorruptBatch as error:
                raise UnsoundEnd(log.directory, str(error)) from error
            with fs.open_to_write(segment.log.path, Purpose.APPEND) as file:
                file.fsync()


def _take_place(fs: FileSystem, directory: Path, name: StagedName) -> None:
    """Rename a staged segment to its plain name. An empty segment that begins there loses its index files first."""
    companions = [directory / segment_file_name(name.base_offset, kind) for kind in SEGMENT_KINDS[1:]]
    if present := [path for path in companions if path.exists()]:
        for path in present:
            fs.unlink(path, Purpose.ROLL)
        fs.fsync_dir(directory, Purpose.ROLL)
    plain = directory / segment_file_name(name.base_offset, FileKind.LOG)
    assert not plain.exists() or not plain.stat().st_size, f"{plain}: has records"
    fs.rename(directory / str(name), plain, Purpose.ROLL)
    fs.fsync_dir(directory, Purpose.ROLL)
