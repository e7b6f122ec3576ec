"""Plan a repacking, and carry it out: segment by segment, in ascending order, each by the swap of a compaction.

Order, each step safe to crash behind:
    1. the headers of the whole log are read: they tell the last batches of each producer, which stay as they are;
    2. a segment is written anew beside itself (``.cleaned``); one that would not get smaller is not replaced;
    3. the journal's line, with the sizes;
    4. the swap (``storage.log.swap``), and the replaced files wait as ``.deleted``.
Invariant:  every record stays, with offset, timestamp, sequence and headers. A killed run leaves some segments
            repacked, and the same command does the others.
Not touched: the active segment, checkpoints, leader epochs, producer snapshots, transaction indexes.
Not chosen: to merge segments. Compaction does that already, and a delete log keeps its borders for retention.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from cleaner.engine.beginning import recover_all
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.filters import forget_filters
from cleaner.engine.compaction.passes import OpenSpan, Span, Walk
from cleaner.engine.compaction.round import aborted_of
from cleaner.engine.compaction.targets import Destination, InPlace, Nowhere, with_room_hint
from cleaner.engine.inventory import producer_state_of, whole_log
from cleaner.engine.journal import SOURCES, Journal, ensure_space
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.only_copies import ensure_no_copy_in_the_way
from cleaner.engine.repack.merging import AskedCodec, Merged, Merger
from cleaner.engine.sole_replicas import being_moved, placed
from cleaner.errors import told
from policies.facts import PartitionFacts, UnreadablePartition
from policies.plan import LogDirPlan, PartitionPlan, Plan, Request
from policies.repacking import (
    PRODUCER_BATCHES,
    RefusedRepack,
    RepackBounds,
    batch_bytes_max,
    refused_anywhere,
    refused_repack,
)
from storage.errors import LogCleanerError, Stopped
from storage.kernels.layout import CONTROL
from storage.log.listing import Listing, list_partition
from storage.log_dir import LogDir
from storage.names import TopicPartition, is_named
from storage.scan.slices import Checksums
from storage.segment import Segment, ensure_changeable
from storage.stores.paths import path_of_text

_Note: TypeAlias = Callable[[Segment, Merged], None]
_STOPPED: Final = "stopped; the same command, run again, does the rest"


class RepackRequest(NamedTuple):
    """The wishes of the user."""

    request: Request
    codec: AskedCodec | None = None
    """None keeps the codec of each batch."""


@dataclass(frozen=True, slots=True)
class RepackedSegment:
    """A segment that was written anew, or would be."""

    base_offset: int
    size_before: int
    """The size of the ``.log``."""
    merged: Merged


@dataclass(frozen=True, slots=True)
class RepackedPartition:
    """The repacking of one partition: planned, refused, failed or done."""

    topic_partition: TopicPartition
    log_dir: str
    bytes_before: int = 0
    """The size of all ``.log`` files."""
    segments: tuple[RepackedSegment, ...] = ()
    refused: RefusedRepack | None = None
    error: str | None = None
    is_estimate: bool = False
    """Whether the run compacts the partition first, so that these figures of the log as it lies there are a guess."""
    until_ms: int | None = None
    """Until when the replaced files wait as ``.deleted``, epoch ms; None if none waits."""

    @property
    def bytes_after(self) -> int:
        """The size of all ``.log`` files afterwards."""
        return self.bytes_before - sum(one.size_before - one.merged.size_bytes for one in self.segments)


@dataclass(frozen=True, slots=True)
class Repacking:
    """The repacking of all partitions."""

    partitions: tuple[RepackedPartition, ...]
    errors: tuple[str, ...] = ()
    """Failures of whole log dirs."""
    is_done: bool = False


def plan_repack(
    cleaner: Cleaner, asked: RepackRequest, planned: Plan | None = None, *, is_freed: bool = False
) -> Repacking:
    """Return what a repacking would do, to the byte: the batches are merged, and nothing is written.

    Args:
        cleaner: of the log dirs.
        asked: topics and codec.
        planned: what the run would do first. Segments that it deletes are left out.
        is_freed: whether the run unlinks files first, which makes space on a full disk.

    Raises: Stopped.
    """
    found = cleaner.plan(_calm(asked.request))
    return _Repacker(cleaner.opened(), found, asked, planned, needs_space=not is_freed).all_partitions(None)


def repack(cleaner: Cleaner, asked: RepackRequest) -> Repacking:
    """Lock the log dirs, finish what a crash interrupted, and repack.

    Raises: LogDirLocked, UnreliableLock, UnsafeOwner, JournalFull.
    """
    with cleaner.locked() as opened:
        errors = list(recover_all(opened, asked.request))
        repacker = _Repacker(opened, cleaner.plan(_calm(asked.request)), asked, None)
        found = repacker.all_partitions(opened.means)
        return replace(found, errors=(*errors, *found.errors), is_done=True)


class CopyRepacking:
    """Repacks the partitions of a copy that is being written, where no broker reads and a crash leaves no copy."""

    def __init__(self, asked: RepackRequest) -> None:
        """Prepare to repack what was asked for."""
        self._asked = asked
        self._found: list[RepackedPartition] = []

    def __call__(self, partition: PartitionPlan, directory: Path, means: Means) -> None:
        """Write one partition anew, of which all files are in the copy. Raises: LogCleanerError, OSError."""
        facts, policy, done = partition.facts, partition.policy, list[RepackedSegment]()
        listing = list_partition(directory)
        found = RepackedPartition(
            facts.topic_partition, facts.log_dir, sum(segment.size_bytes for segment in listing.segments)
        )
        if refused := refused_anywhere(facts, policy):
            self._found.append(replace(found, refused=refused))
            return
        target = InPlace(listing, policy.index_interval_bytes, means.fs, at_once=True, stopping=means.stopping)
        _repacked(partition, listing, self._asked, means, target, done, is_locked=False)
        self._found.append(replace(found, segments=tuple(done)))
        _tell(self._found[-1], means)

    @property
    def result(self) -> Repacking:
        """The outcome in all partitions so far."""
        return Repacking(tuple(self._found), is_done=True)


class _Repacker:
    """One run over some log dirs."""

    def __init__(
        self, opened: OpenLogDirs, plan: Plan, asked: RepackRequest, planned: Plan | None, *, needs_space: bool = False
    ) -> None:
        self._means, self._plan, self._asked = opened.means, plan, asked
        self._moving, self._has_replaced = being_moved(opened.log_dirs), False
        metadata_log_dir = opened.means.broker.metadata_log_dir
        self._placed = placed(opened.log_dirs, lambda name: is_named(name, asked.request.topics), metadata_log_dir)
        self._needs_space = needs_space
        partitions = planned.partitions if planned else ()
        self._first = {one.key: one for one in partitions}

    def all_partitions(self, changing: Means | None) -> Repacking:
        """Change each partition, or measure it if there is nothing to change with. A failure stops no other one."""
        errors = [error for log_dir in self._plan.log_dirs for error in log_dir.facts.errors]
        found = [
            self._attempt(log_dir, partition, changing)
            for log_dir in self._plan.log_dirs
            if not log_dir.facts.errors
            for partition in log_dir.partitions
        ]
        return Repacking(tuple(found), tuple(errors))

    def _attempt(
        self, log_dir: LogDirPlan, partition: PartitionPlan | UnreadablePartition, changing: Means | None
    ) -> RepackedPartition:
        if isinstance(partition, UnreadablePartition):
            return RepackedPartition(partition.topic_partition, partition.log_dir, error=partition.error)
        facts, done = partition.facts, list[RepackedSegment]()
        found = RepackedPartition(facts.topic_partition, facts.log_dir)
        at_once = self._asked.request.is_at_once
        try:
            directory = path_of_text(facts.log_dir) / str(facts.topic_partition)
            refused = self._refused(log_dir, partition)
            is_recovered = changing is not None and refused is None
            listing = whole_log(facts, list_partition(directory), is_recovered=is_recovered)
            found = replace(found, bytes_before=sum(segment.size_bytes for segment in listing.segments))
            if refused:
                return replace(found, refused=refused)
            if changing is None:
                return self._measured(partition, listing, found)
            error = self._changed(partition, listing, done)
        except Stopped:
            if changing is None:
                raise
            error = _STOPPED
        except (LogCleanerError, OSError, MemoryError) as failure:
            has_replaced = self._has_replaced or bool(done)
            error = told(with_room_hint(failure, "clean --repack", at_once=at_once, has_replaced=has_replaced))
        self._has_replaced |= bool(done)
        until_ms = self._means.clock.now_ms() + partition.policy.file_delete_delay_ms
        result = replace(
            found, segments=tuple(done), error=error, until_ms=until_ms if done and not at_once else None
        )  # fmt: skip
        _tell(result, self._means)
        return result

    def _refused(self, log_dir: LogDirPlan, partition: PartitionPlan) -> RefusedRepack | None:
        if log_dir.guard is not None:
            return RefusedRepack(log_dir.guard.code, log_dir.guard.text)
        name, placed_here = partition.facts.topic_partition, self._placed
        known = placed_here.assigned.get(name) if placed_here else None
        others = None if known is None or placed_here is None else tuple(set(known.replicas) - {placed_here.node_id})
        return refused_repack(partition.facts, partition.policy, others, moves=name in self._moving)

    def _measured(self, partition: PartitionPlan, listing: Listing, found: RepackedPartition) -> RepackedPartition:
        """Return what repacking would leave, without the segments that the run deletes first."""
        first = self._first.get(partition.key)
        gone = first.deletion.base_offsets if first is not None and first.deletion else set[int]()
        target, done = Nowhere(listing.directory, partition.policy.index_interval_bytes), list[RepackedSegment]()
        _repacked(partition, listing, self._asked, self._means, target, done, without=gone, is_locked=False)
        if done and self._needs_space:
            ensure_space(path_of_text(partition.facts.log_dir))
        left = sum(segment.size_bytes for segment in listing.segments if segment.base_offset not in gone)
        is_estimate = first is not None and first.compaction is not None
        return replace(found, bytes_before=left, segments=tuple(done), is_estimate=is_estimate)

    def _changed(self, partition: PartitionPlan, listing: Listing, done: list[RepackedSegment]) -> str | None:
        """Write a partition anew in its place; ``done`` takes each segment that was swapped in."""
        facts, means = partition.facts, self._means
        log_dir = LogDir(path_of_text(facts.log_dir))
        bases = [segment.base_offset for segment in listing.segments[:-1]]
        if not bases:
            return None
        ensure_no_copy_in_the_way(log_dir, facts.topic_partition, listing, bases)
        ensure_changeable(listing.directory, bases, and_readable=True)
        with closing(Journal(log_dir.path, means.fs, means.clock.boot())) as journal:

            def note(segment: Segment, merged: Merged) -> None:
                entry = _entry(facts.topic_partition, segment, merged)
                journal.record("repack", means.clock.now_ms(), **entry)

            target = InPlace(
                listing, partition.policy.index_interval_bytes, means.fs, at_once=self._asked.request.is_at_once,
                stopping=means.stopping,
            )  # fmt: skip
            try:
                _repacked(partition, listing, self._asked, means, target, done, note, is_locked=True)
            finally:
                if done:
                    forget_filters(listing.directory)
        return None


def _repacked(
    partition: PartitionPlan, listing: Listing, asked: RepackRequest, means: Means, target: Destination,
    done: list[RepackedSegment], note: _Note = lambda _segment, _merged: None, *,
    without: set[int] | frozenset[int] = frozenset(), is_locked: bool,
) -> None:  # fmt: skip
    """Write each sealed segment of a partition anew, and hand it to the destination, which ``done`` tells.

    Raises: LogCleanerError; what is done until then stays.
    """
    facts, segments = partition.facts, listing.segments
    uppers = [*(segment.base_offset for segment in segments[1:]), facts.log_end_offset]
    spans = [
        Span(segment, upper, is_alone=True)
        for segment, upper in zip(segments, uppers, strict=True)
        if segment.base_offset not in without
    ]
    sealed = [span for span in spans if span.segment is not segments[-1]]
    if not sealed:
        return
    means.listener.expect(sum(span.size_bytes for span in (*spans, *sealed)) // 2)  # it counts on two passes
    pace = Pace(means)
    bounds = RepackBounds(
        _stable_offset(facts, listing, asked.request, means),
        _last_bases(spans, pace, is_locked=is_locked),
        batch_bytes_max(partition.policy),
    )
    with Crew(means.threads) as crew:
        merger = Merger(bounds, asked.codec, crew, pace)
        for span in sealed:
            if merged := _one_segment(span, merger, target, note, is_locked=is_locked):
                done.append(RepackedSegment(span.base_offset, span.size_bytes, merged))


def _one_segment(span: Span, merger: Merger, target: Destination, note: _Note, *, is_locked: bool) -> Merged | None:
    cleaned = target.open(span.base_offset)
    try:
        with ExitStack() as stack:
            opened = OpenSpan.of(span, stack, is_locked=is_locked)
            merged = merger.merge(opened, cleaned)
            if merged is None:
                target.keep(span.segment)
                return None
            cleaned.append_aborted(aborted_of(span.segment))
            note(span.segment, merged)
            target.replace([(opened.reader, Walk.of(opened, 0).walked)], cleaned)
    except BaseException:
        cleaned.discard()
        raise
    return merged


def _last_bases(spans: Sequence[Span], pace: Pace, *, is_locked: bool) -> frozenset[int]:
    """Return the base offsets of the last batches of each producer, by the headers of a log.

    Raises: CorruptBatch, PlanOutOfDate, UnreadableFile, Stopped.
    """
    last: dict[int, deque[int]] = {}
    for span in spans:
        with ExitStack() as stack:
            opened = OpenSpan.of(span, stack, is_locked=is_locked)
            for slice_ in opened.reader.slices(checksums=Checksums.BY_CALLER):
                table = slice_.table
                rows = np.flatnonzero((table["producer_id"] >= 0) & ((table["attributes"] & CONTROL) == 0))
                if slice_.is_legacy:
                    rows = rows[:0]
                for producer_id, base in zip(
                    table["producer_id"][rows].tolist(), table["base_offset"][rows].tolist(), strict=True
                ):
                    last.setdefault(producer_id, deque(maxlen=PRODUCER_BATCHES)).append(base)
                pace(slice_.size_bytes)
    return frozenset(base for bases in last.values() for base in bases)


def _stable_offset(facts: PartitionFacts, listing: Listing, request: Request, means: Means) -> int:
    """Return the last stable offset, at most the high watermark. Raises: as ``load_producer_state``."""
    assert facts.high_watermark is not None, "else it is refused"
    return producer_state_of(facts, listing, request.now_ms, means).last_stable_offset(facts.high_watermark)


def _calm(request: Request) -> Request:
    """Return the request of a plan that is asked for facts and guard rails alone."""
    return replace(request, force_compaction=False, in_place=True)


def _entry(topic_partition: TopicPartition, segment: Segment, merged: Merged) -> dict[str, object]:
    """Return the fields of the journal's line about one segment."""
    source = segment.log.identity
    return {
        "partition": str(topic_partition),
        "bytes": source.size_bytes,
        "bytes_after": merged.size_bytes,
        "segments": [{"base_offset": segment.base_offset, "bytes": source.size_bytes}],
        SOURCES: [[segment.base_offset, source.size_bytes, source.mtime_ns]],
    }


def _tell(result: RepackedPartition, means: Means) -> None:
    place = result.topic_partition._asdict()
    if result.segments:
        sizes = {"bytes_before": result.bytes_before, "bytes_after": result.bytes_after}
        means.listener.event("segments_repacked", **place, segments=len(result.segments), **sizes)
    if result.error:
        means.listener.event("partition_failed", **place, error=result.error)
