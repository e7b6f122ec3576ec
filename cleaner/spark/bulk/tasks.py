"""Run the engine's own parts on the executors, over segments on shared storage. This module does not use Spark.

Executors read files and do not map them: the driver holds the lock, an executor holds none.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.digests import Digester
from cleaner.engine.compaction.fates import Fates, resolve
from cleaner.engine.compaction.key_map import Secret
from cleaner.engine.compaction.passes import OpenSpan, Span, Tombstones, Walk
from cleaner.engine.compaction.rewrite import Rewriter
from cleaner.spark.bulk.scratch import new_suffix
from cleaner.spark.bulk.work import (
    PLACE_BITS,
    GroupWork,
    KeysFound,
    RewriteTask,
    Rewritten,
    Setting,
    SpanWork,
    Surveyed,
    SurveyTask,
)
from cleaner.spark.errors import UnseenLogDir
from policies.facts import KeyCount
from storage.arrays import Integers, Table, Words
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.kernels.bitmap import new_bitmap
from storage.names import FileState
from storage.scan.segments import SegmentReader, open_segment
from storage.scan.slices import Checksums

Flags = npt.NDArray[np.bool_]
FileSeen = tuple[Path, int, int]
"""The path, size and mtime (ns) of a file, as the driver sees them."""


def check_seen(files: list[FileSeen]) -> UnseenLogDir | None:
    """Return an error if this executor does not see the driver's files; else None.

    The error is returned and not raised, so that Spark does not retry the task.
    """
    for path, size_bytes, mtime_ns in files:
        try:
            status = path.stat()
        except OSError as error:
            return UnseenLogDir(path, socket.gethostname(), error.strerror or str(error))
        if (status.st_size, status.st_mtime_ns) != (size_bytes, mtime_ns):
            return UnseenLogDir(path, socket.gethostname(), "another size or time")
    return None


def survey(task: SurveyTask) -> list[list[Surveyed]] | LogCleanerError:
    """Count the records of every span, follow the transactions up to it, and check the checksums of all batches."""
    segments = [span.segment for unit in task.units for span in unit]
    if error := check_seen([(s.log.path, s.size_bytes, s.log.identity.mtime_ns) for s in segments]):
        return error
    fates = task.setting.new_fates()
    try:
        surveyed = [[_surveyed(span, fates) for span in unit] for unit in task.units]
        resolve([fates], task.log, task.log_end_offset, lambda _: None, is_locked=False)
    except LogCleanerError as error:
        return error
    return surveyed


def _surveyed(span: Span, fates: Fates) -> Surveyed:
    transactions, records = fates.transactions_until(span.upper_offset), 0
    for slice_ in _reader(span).slices(checksums=Checksums.DONE):
        slice_.verify(0, slice_.table.size)
        fates.dispose(slice_)
        records += int(slice_.table["record_count"].sum(dtype=np.int64))
    fates.take_retained()
    return Surveyed(records, transactions)


def _reader(span: Span) -> SegmentReader:
    return open_segment(span.segment, span.upper_offset, is_locked=False)


class SpanWalk:
    """A walk over the records of one span: it yields the keys, and ``found`` has its other findings."""

    def __init__(self, work: SpanWork, setting: Setting, unit: int, secret: Secret) -> None:
        self._work = work
        self._setting = setting
        self._unit = unit
        self._digester = Digester(secret, data_only=True, with_body=False)
        self._opened = OpenSpan(work.span, _reader(work.span))
        self._walk = Walk.of(self._opened, work.first_ordinal)
        self._records = self._unkeyed = 0

    @property
    def found(self) -> KeysFound:
        """The findings besides keys, once ``rows`` has ended."""
        return KeysFound(self._walk.walked, KeyCount(self._records, self._unkeyed))

    def rows(self) -> Iterator[tuple[Table, Integers, Flags]]:
        """Yield the digests of the records with a key, their places, and flags for those in the dirty section.

        Raises: LogCleanerError.
        """
        fates = self._setting.new_fates()
        fates.follow_on(self._work.transactions)
        for slice_ in self._opened.reader.slices(checksums=Checksums.BY_CALLER, start=self._walk.start):
            is_ordinary = fates.dispose(slice_)
            for run in self._digester.runs(slice_):
                digests = run.digests[run.digests["key_bytes"] >= 0]
                self._records += run.digests.size
                self._unkeyed += run.digests.size - digests.size
                places = digests["ordinal"] + (self._unit << PLACE_BITS)
                yield digests, places, digests["offset"] >= self._setting.first_dirty_offset
            self._walk.add(slice_, is_ordinary=is_ordinary)


class Bitmaps:
    """The survivors of some units, gathered from places in any order: one bit for each record of a unit."""

    def __init__(self, records_of: dict[int, int]) -> None:
        self._records_of = records_of
        self._bitmaps: dict[int, Words] = {}

    def add(self, places: Integers) -> None:
        """Set the bits of places."""
        units = places >> PLACE_BITS
        for unit in np.unique(units).tolist():
            bitmap = self._bitmaps.setdefault(unit, new_bitmap(self._records_of[unit]))
            ordinals = places[units == unit] & ((1 << PLACE_BITS) - 1)
            np.bitwise_or.at(bitmap, ordinals >> 6, np.uint64(1) << (ordinals & 63).astype(np.uint64))

    def write(self, directory_of: dict[int, Path], run: str) -> Iterator[tuple[int, str]]:
        """Write each bitmap to a scratch file. Yield the numbers of the units with the paths of their files."""
        for unit, bitmap in sorted(self._bitmaps.items()):
            path = directory_of[unit] / f"{unit}.bitmap{new_suffix(run)}"
            with FileSystem().create(path, path.parent, Purpose.CLEAN) as file:
                file.write(bitmap.data)
            yield unit, str(path)


def rewrite(task: RewriteTask, run: str) -> Rewritten | LogCleanerError:
    """Write a unit's segment with the local engine's rewriter: durable, and under the names of this attempt."""
    try:
        return _rewritten(task, run)
    except LogCleanerError as error:
        return error


def _rewritten(task: RewriteTask, run: str) -> Rewritten:
    unit, setting = task.unit, task.unit.setting
    group = [(_reader(walked.span), walked) for walked in task.walked]
    first, last = unit.spans[0].span.segment, unit.spans[-1].span.segment
    fates = setting.new_fates()
    fates.follow_on(unit.spans[0].transactions)
    cleaned = CleanedSegment(
        FileSystem(), setting.directory, first.base_offset, setting.index_interval_bytes,
        FileState.PLAIN, new_suffix(run),
    )  # fmt: skip
    try:
        with Crew(1) as crew:
            bitmap = _bitmap(task)
            rewriter = Rewriter(
                bitmap, setting.horizons, Tombstones.BY_HORIZON, fates, crew, lambda _: None, upgrades=setting.upgrades
            )
            if not rewriter.rewrite(group, cleaned):
                return Rewritten(None, first.size_bytes, unit.spans[0].records)
        segment = cleaned.seal(last.log.identity.mtime_ns, is_cold=True)
    except BaseException:
        cleaned.discard()
        raise
    return Rewritten(segment, cleaned.size_bytes, cleaned.records)


def _bitmap(task: RewriteTask) -> Words:
    if task.bitmap is None:
        return new_bitmap(task.unit.records)
    return np.fromfile(task.bitmap, np.uint64)


def units_by_number(units: Sequence[GroupWork]) -> tuple[dict[int, int], dict[int, Path]]:
    """Return the record count of each unit, and the output directory of each unit, by the unit's number."""
    return {u.number: u.records for u in units}, {u.number: u.setting.directory for u in units}
