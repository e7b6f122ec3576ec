"""Run the engine's own parts on the executors, over segments on shared storage. This module does not use Spark.

Executors read files and do not map them: the driver holds the lock, an executor holds none. Tasks and their answers are
plain values that travel between processes.

Nouns: a *span* is a segment of a round, with the offset that it ends below. A *unit* is a group of spans, and becomes
one segment. A record's *place* is ``unit << PLACE_BITS | ordinal``; the ordinal counts from the unit's first record.
Within a round, places ascend as offsets do.

In a store nothing can be renamed: a segment of a copy goes there under its plain names at once, and every attempt
writes the same bytes. A directory without a manifest is no copy, and the manifest is not written unless all that lies
there is what the driver was told of.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.digests import Digester
from cleaner.engine.compaction.fates import Fates, resolve
from cleaner.engine.compaction.key_map import Secret
from cleaner.engine.compaction.passes import Horizons, OpenSpan, Span, Tombstones, Walk
from cleaner.engine.compaction.rewrite import Rewriter
from cleaner.spark.bulk.scratch import (
    new_suffix,
    read_bitmap,
    read_facts,
    read_walk,
    write_bitmap,
    write_facts,
    write_walk,
)
from cleaner.spark.errors import TooLargeForCluster, UnseenLogDir
from policies.facts import KeyCount
from policies.retain import BatchFacts, TransactionFates
from storage.arrays import Integers, Table, Words
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.kernels.bitmap import new_bitmap
from storage.names import FileState
from storage.scan.segments import SegmentReader, open_segment
from storage.scan.slices import Checksums
from storage.segment import Segment, SegmentFile
from storage.stores.paths import StoredPath
from storage.uploads import Sent, SharedUploads

PLACE_BITS: Final = 40
UNITS_MAX: Final = 1 << (63 - PLACE_BITS)
RECORDS_MAX: Final = 1 << PLACE_BITS

Flags = npt.NDArray[np.bool_]
FileSeen = tuple[Path, int, int]
"""The path and size of a file, and what tells it from another one, as the driver sees them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts that hold for a whole round."""

    round: int
    """The number of the round in the run."""
    new_fates: Callable[[], Fates]
    """Makes the follower of transactions for one walk."""
    first_dirty_offset: int
    horizons: Horizons
    index_interval_bytes: int
    upgrades: bool
    directory: Path
    """The directory of the output."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """The task of walking over a span's headers."""

    setting: Setting
    number: int
    """The number of the span in the run."""
    span: Span


@dataclass(frozen=True, slots=True)
class Scanned:
    """The findings of a walk over a span's headers."""

    records: int
    end_offset: int | None
    """The offset behind the last batch; None if there is no batch."""
    facts: Path | None = None
    """The scratch file of the facts on which transactions depend; None if there are none."""
    facts_count: int = 0


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """The task of following the transactions of a round."""

    setting: Setting
    spans: tuple[Span, ...]
    scanned: tuple[Scanned, ...]
    """One for each span."""
    log: tuple[Segment, ...]
    """All segments of the log: markers behind the round end transactions within it."""
    log_end_offset: int

    @property
    def is_trivial(self) -> bool:
        """Return whether no transaction depends on any batch, so that nothing is read."""
        return all(scanned.facts is None for scanned in self.scanned)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The record count of a span, and the state of transactions as the walk comes to the span."""

    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class SpanWork:
    """A span with the facts that its tasks need."""

    number: int
    """The number of the span in the run."""
    span: Span
    first_ordinal: int
    """The ordinal of the span's first record within its unit."""
    records: int
    transactions: TransactionFates


@dataclass(frozen=True, slots=True)
class GroupWork:
    """A unit: spans that become one segment."""

    number: int
    """The number of the unit in the run."""
    setting: Setting
    spans: tuple[SpanWork, ...]

    @property
    def records(self) -> int:
        """The record count of all spans."""
        return sum(span.records for span in self.spans)

    @property
    def size_bytes(self) -> int:
        """The size of all spans."""
        return sum(work.span.size_bytes for work in self.spans)

    def ensure_countable(self) -> None:
        """Check that each record has a place. Raises: TooLargeForCluster."""
        if self.number >= UNITS_MAX or self.records > RECORDS_MAX:
            raise TooLargeForCluster(self.spans[0].span.segment.log.path, self.number, self.records)


@dataclass(frozen=True, slots=True)
class KeysFound:
    """The findings of a walk over a span's records, apart from keys."""

    walk: Path
    """The scratch file of the walk."""
    count: KeyCount


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The task of writing a unit's segment."""

    unit: GroupWork
    bitmap: Path | None
    """The bitmap file of the unit's survivors; None if no record survives."""
    walks: tuple[Path, ...]
    """The files of the walks over the unit's spans."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A unit's segment, written and fsynced under scratch names."""

    segment: Segment | None
    """The written segment; None if the unit is one segment that keeps every record, so that nothing was written."""
    size_bytes: int
    records: int
    sent: tuple[Sent, ...] = ()
    """The files of the segment, if they lie in a store: there they have their names."""


def scan(task: ScanTask, run: str) -> Scanned | LogCleanerError:
    """Count the records of a span, check the checksums of all batches, and write the facts about special ones."""
    if error := check_seen([_seen(task.span.segment.log)]):
        return error
    fates, facts = task.setting.new_fates(), list[BatchFacts]()
    records, end_offset = 0, None
    try:
        for slice_ in _reader(task.span).slices(checksums=Checksums.DONE):
            slice_.verify(0, slice_.table.size)
            records += int(slice_.table["record_count"].sum(dtype=np.int64))
            end_offset = int(slice_.table["last_offset"][-1]) + 1
            facts += fates.facts_in(slice_)
        path = write_facts(facts, task.number, task.setting.directory, run) if facts else None
    except LogCleanerError as error:
        return error
    return Scanned(records, end_offset, path, len(facts))


def survey(task: SurveyTask) -> list[Surveyed] | LogCleanerError:
    """Follow the transactions up to every span, by the facts that were found in it."""
    fates = task.setting.new_fates()
    try:
        surveyed = [_surveyed(*each, fates) for each in zip(task.spans, task.scanned, strict=True)]
        resolve([fates], task.log, task.log_end_offset, lambda _: None, is_locked=False)
    except LogCleanerError as error:
        return error
    return surveyed


def rewrite(task: RewriteTask, run: str) -> Rewritten | LogCleanerError:
    """Write a unit's segment with the local engine's rewriter: durable, and under the names of this attempt."""
    try:
        return _rewritten(task, run)
    except LogCleanerError as error:
        return error


def units_by_number(units: Sequence[GroupWork]) -> tuple[dict[int, int], dict[int, Path]]:
    """Return the record count of each unit, and the output directory of each unit, by the unit's number."""
    return {u.number: u.records for u in units}, {u.number: u.setting.directory for u in units}


def check_seen(files: list[FileSeen]) -> UnseenLogDir | None:
    """Return an error if this executor does not see the driver's files; else None.

    The error is returned and not raised, so that Spark does not retry the task.
    """
    for path, size_bytes, mark in files:
        try:
            status = path.stat()
        except OSError as error:
            return UnseenLogDir(path, socket.gethostname(), error.strerror or str(error))
        except LogCleanerError as error:
            return UnseenLogDir(path, socket.gethostname(), str(error))
        if (status.st_size, mark_of(path, status.st_ino, status.st_mtime_ns)) != (size_bytes, mark):
            return UnseenLogDir(path, socket.gethostname(), "another size or time")
    return None


def mark_of(path: Path, inode: int, mtime_ns: int) -> int:
    """Return what tells a file from another one on every machine: its version in a store, else its time."""
    return inode if isinstance(path, StoredPath) else mtime_ns


def _seen(log: SegmentFile) -> FileSeen:
    return log.path, log.size_bytes, mark_of(log.path, log.identity.inode, log.identity.mtime_ns)


class SpanWalk:
    """A walk over the records of one span: it yields the keys; ``found`` writes and returns its other findings."""

    def __init__(self, work: SpanWork, setting: Setting, unit: int, secret: Secret) -> None:
        self._work = work
        self._setting = setting
        self._unit = unit
        self._digester = Digester(secret, data_only=True, with_body=False)
        self._opened = OpenSpan(work.span, _reader(work.span))
        self._walk = Walk.of(self._opened, work.first_ordinal)
        self._records = self._unkeyed = 0

    def found(self, run: str) -> KeysFound:
        """Return the findings besides keys, once ``rows`` has ended. Raises: OutOfSpace."""
        walk = write_walk(self._walk.walked, self._walk.start, self._work.number, self._setting.directory, run)
        return KeysFound(walk, KeyCount(self._records, self._unkeyed))

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
            yield unit, str(write_bitmap(bitmap, unit, directory_of[unit], run))


def _surveyed(span: Span, scanned: Scanned, fates: Fates) -> Surveyed:
    transactions = fates.transactions_until(span.upper_offset)
    for facts in read_facts(scanned.facts, scanned.facts_count) if scanned.facts else ():
        fates.feed(facts, span.segment.log.path)
    fates.walked_to = scanned.end_offset or fates.walked_to
    fates.take_retained()
    return Surveyed(scanned.records, transactions)


def _reader(span: Span) -> SegmentReader:
    return open_segment(span.segment, span.upper_offset, is_locked=False)


def _rewritten(task: RewriteTask, run: str) -> Rewritten:
    unit, setting = task.unit, task.unit.setting
    walks = [read_walk(path, work.span) for path, work in zip(task.walks, unit.spans, strict=True)]
    group = [(_reader(walked.span), walked) for walked in walks]
    first, *_ = sources = [surveyed.span.segment for surveyed in unit.spans]
    fates = setting.new_fates()
    fates.follow_on(unit.spans[0].transactions)
    fs, suffix = FileSystem(), new_suffix(run)
    if isinstance(setting.directory, StoredPath):  # nothing is renamed there: no directory counts before its manifest
        fs, suffix = SharedUploads(), ""
        fs.make_dir(setting.directory, setting.directory, Purpose.CLEAN)
    cleaned = CleanedSegment(
        fs, setting.directory, first.base_offset, setting.index_interval_bytes, FileState.PLAIN, suffix
    )
    try:
        with Crew(1) as crew:
            bitmap = read_bitmap(task.bitmap, unit.records) if task.bitmap else new_bitmap(unit.records)
            rewriter = Rewriter(
                bitmap, setting.horizons, Tombstones.BY_HORIZON, fates, crew, lambda _: None, upgrades=setting.upgrades
            )
            if not rewriter.rewrite(group, cleaned):
                return Rewritten(None, first.size_bytes, unit.spans[0].records)
        segment = cleaned.seal(sources, is_cold=True)
    except BaseException:
        cleaned.discard()
        raise
    return Rewritten(segment, cleaned.size_bytes, cleaned.records, fs.sent() if isinstance(fs, SharedUploads) else ())
