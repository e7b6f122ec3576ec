"""What runs on the executors: no Spark in here, the engine's own parts on segments that lie on shared storage.

Files are read, not mapped: an executor holds no lock, the driver does.
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
from cleaner.engine.compaction.fates import Fates
from cleaner.engine.compaction.key_map import Secret
from cleaner.engine.compaction.resolve import resolve
from cleaner.engine.compaction.rewrite import Rewriter
from cleaner.engine.compaction.sources import Source
from cleaner.spark.bulk.scratch import new_suffix
from cleaner.spark.bulk.work import (
    PLACE_BITS,
    GroupWork,
    RewriteTask,
    Rewritten,
    Setting,
    Span,
    Surveyed,
    SurveyTask,
    Walked,
)
from cleaner.spark.errors import UnseenLogDir
from storage.arrays import Integers, Table, Words
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.kernels.bitmap import new_bitmap
from storage.names import FileState
from storage.segment import Segment

Flags = npt.NDArray[np.bool_]
FileSeen = tuple[Path, int, int]
"""Path, size and mtime (ns), as the driver sees them."""


def check_seen(files: list[FileSeen]) -> UnseenLogDir | None:
    """Whether this executor sees what the driver sees; the error is an answer, so that no task is tried again."""
    for path, size_bytes, mtime_ns in files:
        try:
            status = path.stat()
        except OSError as error:
            return UnseenLogDir(path, socket.gethostname(), error.strerror or str(error))
        if (status.st_size, status.st_mtime_ns) != (size_bytes, mtime_ns):
            return UnseenLogDir(path, socket.gethostname(), "another size or time")
    return None


def survey(task: SurveyTask) -> list[list[Surveyed]] | LogCleanerError:
    """Count the records of every span, and follow the transactions to it; checks all checksums of batches."""
    spans = [span for unit in task.units for span in unit]
    if error := check_seen([(s.log.path, s.size_bytes, s.log.identity.mtime_ns) for s, _ in spans]):
        return error
    fates = _fates(task.setting)
    try:
        surveyed = [[_surveyed(segment, upper, fates) for segment, upper in unit] for unit in task.units]
        resolve([fates], task.log, task.log_end_offset, lambda _: None, is_locked=False)
    except LogCleanerError as error:
        return error
    return surveyed


def _surveyed(segment: Segment, upper_offset: int, fates: Fates) -> Surveyed:
    transactions = fates.transactions_until(upper_offset)
    source = Source(segment, upper_offset, is_locked=False)
    source.first_ordinal = 0
    for slice_ in source.slices(verify=False):
        slice_.verify(0, slice_.table.size)
        fates.dispose(slice_)
    fates.take_retained()
    return Surveyed(source.records, transactions)


def _fates(setting: Setting) -> Fates:
    now_ms = setting.times.now_ms
    return Fates(list(setting.aborted), setting.producers, setting.end_offset, now_ms, setting.log_start_offset)


class SpanWalk:
    """The keys of one span, and what else the walk over its records finds."""

    def __init__(self, span: Span, setting: Setting, unit: int, secret: Secret) -> None:
        self._span = span
        self._setting = setting
        self._unit = unit
        self._digester = Digester(secret, data_only=True, with_body=False)
        self.walked = Walked([], 0)

    def rows(self) -> Iterator[tuple[Table, Integers, Flags]]:
        """Digests of the records with a key, their places, and whether they lie in the dirty section.

        ``walked`` is complete at the end. Raises: LogCleanerError.
        """
        source, tombstones, unkeyed = opened(self._span), [], 0
        fates = _fates(self._setting)
        fates.follow_on(self._span.transactions)
        for slice_ in source.slices(verify=True):
            fates.dispose(slice_)
            for run in self._digester.runs(slice_):
                digests = run.digests[run.digests["key_bytes"] >= 0]
                unkeyed += run.digests.size - digests.size
                places = digests["ordinal"] + (self._unit << PLACE_BITS)
                yield digests, places, digests["offset"] >= self._setting.first_dirty_offset
            tombstones.append(slice_.table["tombstones"].copy())
        self.walked = Walked(tombstones, unkeyed)


def opened(span: Span) -> Source:
    """A span to read; its ordinals count from its unit's first record."""
    source = Source(span.segment, span.upper_offset, is_locked=False)
    source.first_ordinal = span.first_ordinal
    return source


class Bitmaps:
    """Survivors of some units, gathered from places in any order: one bit for each of their records."""

    def __init__(self, records_of: dict[int, int]) -> None:
        self._records_of = records_of
        self._bitmaps: dict[int, Words] = {}

    def add(self, places: Integers) -> None:
        """Set their bits."""
        units = places >> PLACE_BITS
        for unit in np.unique(units).tolist():
            bitmap = self._bitmaps.setdefault(unit, new_bitmap(self._records_of[unit]))
            ordinals = places[units == unit] & ((1 << PLACE_BITS) - 1)
            np.bitwise_or.at(bitmap, ordinals >> 6, np.uint64(1) << (ordinals & 63).astype(np.uint64))

    def write(self, directory_of: dict[int, Path], run: str) -> Iterator[tuple[int, str]]:
        """Write each to a scratch file; gives units and paths."""
        for unit, bitmap in sorted(self._bitmaps.items()):
            path = directory_of[unit] / f"{unit}.bitmap{new_suffix(run)}"
            with FileSystem().create(path, path.parent, Purpose.CLEAN) as file:
                file.write(bitmap.data)
            yield unit, str(path)


def rewrite(task: RewriteTask, run: str) -> Rewritten | LogCleanerError:
    """Write a unit's segment by the local engine's rewriter, durable, under the names of this attempt."""
    try:
        return _rewritten(task, run)
    except LogCleanerError as error:
        return error


def _rewritten(task: RewriteTask, run: str) -> Rewritten:
    unit, setting = task.unit, task.unit.setting
    sources = []
    for span, tombstones in zip(unit.spans, task.tombstones, strict=True):
        source = opened(span)
        source.tombstones, source.records = tombstones, span.records
        sources.append(source)
    fates = _fates(setting)
    fates.follow_on(unit.spans[0].transactions)
    cleaned = CleanedSegment(
        FileSystem(), setting.directory, unit.spans[0].segment.base_offset, setting.index_interval_bytes,
        FileState.PLAIN, new_suffix(run),
    )  # fmt: skip
    try:
        with Crew(1) as crew:
            bitmap = _bitmap(task)
            rewriter = Rewriter(bitmap, setting.times, fates, crew, lambda _: None, upgrades=setting.upgrades)
            if not rewriter.rewrite(sources, cleaned):
                return Rewritten(None, sources[0].segment.size_bytes, sources[0].records)
        segment = cleaned.seal(sources[-1].segment.log.identity.mtime_ns, is_cold=True)
    except BaseException:
        cleaned.discard()
        raise
    return Rewritten(segment, cleaned.size_bytes, cleaned.records)


def _bitmap(task: RewriteTask) -> Words:
    if task.bitmap is None:
        return new_bitmap(task.unit.records)
    return np.fromfile(task.bitmap, np.uint64)


def units_by_number(units: Sequence[GroupWork]) -> tuple[dict[int, int], dict[int, Path]]:
    """Records and output directory of each unit."""
    return {u.number: u.records for u in units}, {u.number: u.setting.directory for u in units}
