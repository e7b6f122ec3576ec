"""Scratch files of a run, on their way between tasks and the driver: facts, walks, bitmaps, and segments.

They lie in partition directories, under meaningless names. A broker, and our own listing, look at the last suffix:
``00000000000000000042.log.RUN-ATTEMPT.logcleaner`` is no segment file to either. Every attempt of a task has names of
its own. Files that no result names belong to nobody.

A *walk* is what pass 1 found in the slices of one span: four bytes a batch, which no driver could hold for a large run.
*Facts* are of the batches on which transactions depend. A file is arrays of numbers, in the machine's byte order: a log
dir is no place to unpickle from. What a file lacks would be records lost, so its length is checked, and it is durable
before anybody hears of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np

from cleaner.engine.compaction.passes import Span, Walk, Walked, WalkedSlice
from policies.retain import BatchFacts, Marker
from storage.arrays import Words
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, Purpose
from storage.kernels.bitmap import new_bitmap
from storage.log.listing import list_partition
from storage.log.recovery import cluster_scratch
from storage.names import SCRATCH_SUFFIX, is_cluster_scratch
from storage.scan.slices import Position
from storage.stores.opening import store_of
from storage.stores.paths import StoredPath
from storage.uploads import writing_to

_ROW: Final = np.dtype([(name, "i8") for name in (*Position._fields, "is_ordinary", "batches")])
"""The end of a slice, and what was found in it. The first row is the start of the walk."""
_HEAD: Final = np.dtype([("rows", "i8"), ("has_empty_batches", "i8"), ("quiet_until_ms", "i8")])
_FACTS: Final = np.dtype([(name, "i8") for name in (*BatchFacts._fields[:5], "has_horizon", "delete_horizon_ms")])
_MARKERS: Final = (None, *Marker)
_TOMBSTONES: Final = np.dtype(np.int32)


def new_suffix(run: str) -> str:
    """Return a new suffix for the files of one attempt of one task."""
    return f".{run}-{secrets.token_hex(8)}{SCRATCH_SUFFIX}"


def write_bitmap(bitmap: Words, unit: int, directory: Path, run: str) -> Path:
    """Write the survivors of a unit, and return the path. Raises: OutOfSpace."""
    return _written(bitmap.tobytes(), f"{unit}.bitmap", directory, run)


def read_bitmap(path: Path, records: int) -> Words:
    """Read the survivors of a unit, one bit for each of so many records. Raises: UnreadableFile."""
    bitmap, expected = np.frombuffer(_bytes_of(path), np.uint64), new_bitmap(records)
    if bitmap.size != expected.size:
        raise UnreadableFile(path, f"{bitmap.size} words, not {expected.size}")
    return bitmap


def write_walk(walked: Walked, start: Position, span: int, directory: Path, run: str) -> Path:
    """Write a walk, and return the path. Raises: OutOfSpace."""
    slices = walked.slices
    rows = [(*start, True, 0), *((*one.end, one.is_ordinary, one.tombstones.size) for one in slices)]
    head = np.array([(len(rows), walked.has_empty_batches, walked.quiet_until_ms)], _HEAD)
    parts = (head, np.array(rows, _ROW), *(one.tombstones.astype(_TOMBSTONES, copy=False) for one in slices))
    return _written(b"".join(part.tobytes() for part in parts), f"{span}.walk", directory, run)


def read_walk(path: Path, span: Span) -> Walked:
    """Read a walk over a span. Raises: UnreadableFile."""
    data = _bytes_of(path)
    try:
        ((count, has_empty_batches, quiet_until_ms),) = np.frombuffer(data, _HEAD, 1).tolist()
        rows = np.frombuffer(data, _ROW, count, _HEAD.itemsize).tolist()
        tombstones = np.frombuffer(data, _TOMBSTONES, -1, _HEAD.itemsize + count * _ROW.itemsize)
    except ValueError as error:
        raise UnreadableFile(path, f"cut short: {error}") from error
    ends = list(accumulate(row[-1] for row in rows))
    if not rows or ends[-1] != tombstones.size:
        raise UnreadableFile(path, "cut short")
    places = [Position(*row[:4]) for row in rows]
    slices = [
        WalkedSlice(start, end, bool(row[4]), tombstones[first:last])
        for (start, end), row, (first, last) in zip(pairwise(places), rows[1:], pairwise(ends), strict=True)
    ]
    return Walk(span, places[0], quiet_until_ms, bool(has_empty_batches), slices).walked


def write_facts(facts: Sequence[BatchFacts], span: int, directory: Path, run: str) -> Path:
    """Write the facts about some batches of a span, and return the path. Raises: OutOfSpace."""
    rows = [
        (*one[:4], _MARKERS.index(one.marker), one.delete_horizon_ms is not None, one.delete_horizon_ms or 0)
        for one in facts
    ]
    return _written(np.array(rows, _FACTS).tobytes(), f"{span}.facts", directory, run)


def read_facts(path: Path, count: int) -> Iterator[BatchFacts]:
    """Yield the facts about so many batches. Raises: UnreadableFile."""
    data = _bytes_of(path)
    if len(data) != count * _FACTS.itemsize:
        raise UnreadableFile(path, "cut short")
    for last_offset, producer_id, epoch, is_transactional, marker, has_horizon, horizon_ms in np.frombuffer(
        data, _FACTS
    ).tolist():
        yield BatchFacts(
            last_offset,
            producer_id,
            epoch,
            bool(is_transactional),
            _MARKERS[marker],
            horizon_ms if has_horizon else None,
        )


def sweep(directories: Iterable[Path], fs: FileSystem) -> int:
    """Remove the scratch files of all runs, and return their number. We hold the lock, so no other run is active.

    What a repair left under our suffix stays: it is evidence.
    """
    swept = 0
    for directory in directories:
        found = sorted(_names_in(directory))
        for name in found:
            if isinstance(directory, StoredPath):
                store_of(directory.place).delete((directory / name).key)
            else:
                fs.unlink(directory / name, Purpose.CLEAN)
        swept += len(found)
    return swept


def _written(data: bytes, name: str, directory: Path, run: str) -> Path:
    path = directory / f"{name}{new_suffix(run)}"
    with writing_to(path, FileSystem(), lambda: None).create(path, directory, Purpose.CLEAN) as file:
        file.write(data)
        file.fsync()  # in a store a file that is not completed does not exist
    return path


def _bytes_of(path: Path) -> bytes:
    if isinstance(path, StoredPath):
        return bytes(store_of(path.place).whole(path.key, None).data)
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFile(path, error.strerror or str(error)) from error


def _names_in(directory: Path) -> list[str]:
    """Return the names of plain scratch files; none if the directory is gone, or if a symlink replaced it."""
    if isinstance(directory, StoredPath):  # other processes wrote them: what this one knows of names does not count
        listed = store_of(directory.place).list(directory.key)
        return [entry.name for entry in listed if is_cluster_scratch(entry.name)]
    with suppress(UnreadableFile):
        return cluster_scratch(list_partition(directory))
    return []
