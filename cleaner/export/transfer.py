"""Transfer a partition's records to a writer chunk by chunk: the memory taken does not grow with the partition.

Steps:      write a hidden file beside the target, fsync it, rename it.
Invariant:  under its name the file is whole, or not there; it replaces no file. Only a kill leaves the hidden file
behind.
Not chosen: a hard link in place of the rename. It would also refuse a file that appears in the last moment, but many
            disks that receive exports (FAT, network) have no hard links.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from cleaner.errors import UnusableOutput, as_unwritable
from storage.directory import despite_vanishing, is_stored, is_there
from storage.errors import UnreadableFile
from storage.filesystem import Purpose
from storage.scan.chunks import Chunk, chunks
from storage.scan.extents import UNCUT_BYTES, Extent, Wanted, cut_partition
from storage.scan.files import FileBytes, SegmentGone, read_in_turn
from storage.scan.partitions import FoundPartition, OffsetRange, readable_end
from storage.scan.segments import open_extent
from storage.scan.selected import EVERY_RECORD, INT64_MIN, RecordSelection
from storage.scan.slices import Damage
from storage.stores.paths import StoredPath
from storage.uploads import Uploads, UploadStream


class Writer(Protocol):
    """A writer of one format to one file."""

    def write(self, chunk: Chunk, extent: Extent) -> None:
        """Take the records of a chunk of this extent."""

    def finish(self) -> None:
        """Write the buffered records, and the end that the format needs."""

    def abandon(self) -> None:
        """Stop writing: the export failed, and leaves no file."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The offsets, files and lengths to read of a partition, as of one moment."""

    partition: FoundPartition
    selection: RecordSelection
    offsets: OffsetRange
    extents: tuple[Extent, ...]
    held_back: OffsetRange | None = None
    """The wanted offsets behind the last stable offset, which the export leaves out; None if there are none."""


def plan_reading(
    partition: FoundPartition, *, read_committed: bool, now_ms: int, selection: RecordSelection = EVERY_RECORD
) -> Reading:
    """Fix the offsets, files and lengths to read.

    Args:
        partition: the partition, with its place.
        read_committed: leave out aborted records, and records behind the last stable offset.
        now_ms: epoch ms, for the expiry of producers.
        selection: the records that are wanted.

    Raises: CorruptBatch, CorruptIndex of a transaction index, UnreadableFile.
    """
    return despite_vanishing(partial(_plan, partition, read_committed, now_ms, selection))


def transfer(reading: Reading, writer: Writer, *, with_control: bool, advance: Callable[[int], None]) -> int:
    """Hand every record to the writer, in the order of offsets.

    Args:
        reading: the planned reading.
        writer: is finished in the end, or abandoned after an error.
        with_control: True to hand over control records, too.
        advance: hears the number of bytes read since the last call.

        Returns: the number of records.
        Raises: CorruptBatch; UnreadableFile, also for a file that is gone by now.
    """
    records = 0
    try:
        for extent, file in read_in_turn(reading.extents):
            position = extent.start
            for found in _chunks(extent, file, with_control=with_control):
                chunk = _selected(found, reading.selection)
                writer.write(chunk, extent)
                records += int(chunk.located.shape[1])
                advance(found.end_position - position)
                position = found.end_position
            advance(extent.end - position)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    return records


@contextmanager
def new_file(path: Path, log_dir: Path) -> Iterator[BinaryIO]:
    """Open a file to write. It gets its name at the end of the ``with``; if that ends with an error, the file goes.

    In a store it is there at the end of the ``with``, and not before.

    Args:
        path: must not exist; its parent must exist.
        log_dir: no file may be written in this directory.

    Raises: UnusableOutput; UnwritableFile, also for an OSError within the ``with``; OtherWriter, as of a store.
    """
    check_new_file(path, log_dir)
    if isinstance(path, StoredPath):
        with Uploads().create(path, path.parent, Purpose.COPY) as uploaded:
            yield cast("BinaryIO", UploadStream(uploaded))
            uploaded.fsync()
        return
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


def _plan(partition: FoundPartition, read_committed: bool, now_ms: int, selection: RecordSelection) -> Reading:
    log = partition.open()
    end = readable_end(log, read_committed=read_committed, now_ms=now_ms)
    wanted_end = min(log.log_end_offset, selection.last_offset + 1)
    held_back = OffsetRange(end, wanted_end) if end < wanted_end else None
    end = min(end, wanted_end)
    offsets = OffsetRange(min(max(log.log_start_offset, selection.first_offset), end), end)
    since_ms = None if selection.since_ms == INT64_MIN else selection.since_ms
    wanted = Wanted(offsets, since_ms, UNCUT_BYTES, read_committed)
    extents = tuple(cut_partition(partition.topic_partition, log.segments, wanted))
    return Reading(partition, selection, offsets, extents, held_back)


def _chunks(extent: Extent, file: FileBytes | None, *, with_control: bool) -> Iterator[Chunk]:
    try:
        with open_extent(extent, file) as reader:
            for found in chunks(reader, extent, with_control=with_control):
                if isinstance(found, Damage):
                    raise found.error
                yield found
    except SegmentGone as error:
        cause = "deleted or compacted away since the export began; run it again"
        raise UnreadableFile(extent.path, cause) from error


def _selected(chunk: Chunk, selection: RecordSelection) -> Chunk:
    """Leave out the records that are not wanted."""
    if selection.takes_all:
        return chunk
    is_taken = selection.records_taken(chunk.buf, chunk.located)
    return replace(chunk, located=np.ascontiguousarray(chunk.located[:, is_taken]))


def check_new_file(path: Path, log_dir: Path) -> None:
    """Refuse a path where ``new_file`` could not write. Raises: UnusableOutput."""
    _check_absent(path)
    if not is_stored(path) and not path.parent.is_dir():
        raise UnusableOutput(path, f"{path.parent} is no directory", "make it first")
    if log_dir.resolve() in path.resolve().parents:
        raise UnusableOutput(path, f"lies in the log dir {log_dir}", "name a file outside it")


def _check_absent(path: Path) -> None:
    if is_there(path):
        raise UnusableOutput(path, "is there already, and is not replaced", "name another file, or remove it")
