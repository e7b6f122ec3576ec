"""Swap cleaned segments in.

Steps:      the caller wrote and fsynced every ``.cleaned`` file;
            1. ``.cleaned`` to ``.swap``, new segments in descending order; fsync the directory;
            2. the sources to ``.deleted``, ascending; fsync the directory;
            3. ``.swap`` to the plain name, the ``.log`` first; fsync the directory after the ``.log`` and after the
               others: while there is a ``.log.swap``, recovery takes plain indexes of its range for those of the
               sources.
Invariant:  after every step, one complete copy of each survivor has a name that recovery, ours and Kafka's, accepts: no
            source is renamed before every ``.swap`` name is durable, and a ``.swap`` is only made of complete files.
Uncovered:  recovery deletes the sources up to the swap's next offset. Sources above this offset lost every record. A
crash in step 2 may bring them back, but only the last ones, because each goes durably before the next. Otherwise the
source with a tombstone could be gone, and the source with the value that it deleted be there. Full disk:  a longer name
may find no room. Step 1 undoes its renames, and the partition is as it was; from
            step 2 on the swap is complete and durable, so a source that cannot be renamed is unlinked, as recovery
            would do.
Assumes:    ``storage.filesystem``: between two fsyncs of a directory its renames may survive in any order. Kafka
            fsyncs the directory once, at the end, and can lose records there.
Not chosen: hard links: a broker's recovery knows suffixes only. Price: twice the group's bytes until ``.deleted``
            goes.

Source: Kafka LocalLog.replaceSegments, LogSegment.changeFileSuffixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storage.directory import ensure_named, is_there
from storage.errors import LogCleanerError, NotRecovered
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log.end import next_offset_of
from storage.names import SEGMENT_KINDS, FileKind, FileState, segment_file_name
from storage.segment import Segment


def swap_in(fs: FileSystem, cleaned: Segment, sources: Sequence[Segment]) -> None:
    """Put one cleaned segment in the place of its sources, which end as ``.deleted``.

    Args:
        fs: the disk.
        cleaned: its files carry ``.cleaned``, are complete and fsynced; its base offset is the first source's.
        sources: ascending; all in the same directory.

    Raises: before the first step PlanOutOfDate, where a source is not as it was listed, NotRecovered, where a swap
        waits; OutOfSpace; and the cleaned files are gone then; in step 3 the next recovery finishes the swap.
    """
    assert cleaned.base_offset == sources[0].base_offset
    directory, covered_to = cleaned.directory, next_offset_of(cleaned) if len(sources) > 1 else None
    _expose(fs, cleaned, sources)
    for place, segment in enumerate(sources):
        _supersede(fs, segment)
        if covered_to is not None and segment.base_offset >= covered_to and place + 1 < len(sources):
            fs.fsync_dir(directory, Purpose.RETIRE)
    fs.fsync_dir(directory, Purpose.RETIRE)
    for kind in SEGMENT_KINDS:
        if kind in cleaned.files:
            swap, plain = (
                directory / segment_file_name(cleaned.base_offset, kind, s) for s in (FileState.SWAP, FileState.PLAIN)
            )
            fs.rename(swap, plain, Purpose.SWAP_IN)
        if kind is FileKind.LOG:
            fs.fsync_dir(directory, Purpose.SWAP_IN)
    fs.fsync_dir(directory, Purpose.SWAP_IN)


def _expose(fs: FileSystem, cleaned: Segment, sources: Sequence[Segment]) -> None:
    """Step 1.

    The step is undone from the ``.swap`` names on: while there is a ``.cleaned`` file, recovery ignores ``.swap``
    files.
    """
    names, exposed = cleaned.names(FileState.SWAP), list[Path]()
    try:
        ensure_named(cleaned.directory)
        for segment in sources:
            segment.ensure_as_listed()
        if waiting := [target for _, target in names if is_there(target)]:
            raise NotRecovered(waiting[0])  # it may be the only copy of its records
        for source, target in names:
            exposed.append(target)
            fs.rename(source, target, Purpose.SWAP_IN)
    except (LogCleanerError, OSError):
        for doomed in (exposed, [source for source, _ in names]):
            for path in doomed:
                fs.unlink(path, Purpose.SWAP_IN)
            fs.fsync_dir(cleaned.directory, Purpose.SWAP_IN)
        raise
    fs.fsync_dir(cleaned.directory, Purpose.SWAP_IN)


def _supersede(fs: FileSystem, segment: Segment) -> None:
    """Take a source out of the log: rename it, or unlink it if the longer name finds no room."""
    for source, target in segment.names(FileState.DELETED):
        try:
            fs.rename(source, target, Purpose.RETIRE)
        except OutOfSpace:
            fs.unlink(source, Purpose.RETIRE)


def remove_retired(fs: FileSystem, segments: Sequence[Segment]) -> int:
    """Unlink the ``.deleted`` files that ``swap_in`` left, all in one directory. Return their bytes."""
    for segment in segments:
        for _, path in segment.names(FileState.DELETED):
            fs.unlink(path, Purpose.REMOVE)
    fs.fsync_dir(segments[0].directory, Purpose.REMOVE)
    return sum(segment.size_bytes + segment.companions_bytes for segment in segments)
