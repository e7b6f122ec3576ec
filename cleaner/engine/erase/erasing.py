"""Plan an erasure, and carry it out: segment by segment, in ascending order, each by the swap of a compaction.

Order, each step safe to crash behind; a second run goes on where the first ended:
    1. every segment of the partition is read, with the checksums of all its batches. Damage ends the partition here;
    2. the journal's line, which names the segments and no key;
    3. the key filters of the partition go: their hashes would tell of the erased keys, and a second run behind a kill
       would find no record, and so no reason to take them;
    4. each segment that loses a record is written anew beside itself, and swapped in (``storage.log.swap``). The
       active segment, too: without a broker nobody appends to it, and it stays the active segment.
Invariant:  older segments come first, so that a tombstone never goes while an older value is left.
Not touched: checkpoints, leader epochs, producer snapshots, and every segment that loses nothing.
Not chosen: to roll the active segment first. Between roll and swap, a kill would leave a segment that is no longer the
            active one without the last entry of its time index, on which retention relies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cleaner.engine.beginning import recover_all
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.fates import ends_of
from cleaner.engine.compaction.filters import forget_filters
from cleaner.engine.compaction.passes import Horizons, OpenSpan, Span, Tombstones
from cleaner.engine.compaction.rewrite import Rewriter
from cleaner.engine.compaction.round import aborted_of, rewrite_group
from cleaner.engine.compaction.targets import Destination, InPlace, Nowhere, with_room_hint
from cleaner.engine.copy.manifest import sha256_of
from cleaner.engine.erase.marking import ErasureFates, KeyFinder, MarkedSegment, Stays, mark
from cleaner.engine.inventory import producer_state_of, whole_log
from cleaner.engine.journal import SOURCES, Journal, ensure_space
from cleaner.engine.means import Means, OpenLogDirs
from cleaner.engine.only_copies import ensure_no_copy_in_the_way
from cleaner.engine.prove_erased.wanted import WantedKey
from cleaner.engine.sole_replicas import being_moved
from cleaner.errors import told
from policies.erasure import ErasureBounds, RefusedErasure, refused_erasure
from policies.facts import PartitionFacts, UnreadablePartition
from policies.plan import LogDirPlan, PartitionPlan, Plan, Request
from policies.retain import ProducerEnd
from storage.errors import LogCleanerError, PlanOutOfDate, Stopped
from storage.filesystem import OutOfSpace
from storage.log.listing import Listing, list_partition
from storage.log_dir import LogDir, writable_bytes
from storage.names import FileIdentity, FileKind, FileState, TopicPartition
from storage.segment import Segment, ensure_changeable
from storage.stores.paths import path_of_text

STOPPED: Final = "stopped; the same command, run again, does the rest"


class ErasureRequest(NamedTuple):
    """The wishes of the user."""

    request: Request
    """With the globs over topics, and whether replaced files are unlinked at once."""
    keys: tuple[WantedKey, ...]
    with_tombstones: bool = False
    certified_as: str | None = None
    """The id of the request for which a certificate is written; None if none is."""
    output: Path | None = None
    """Where a copy without the records is to be; None if the log dirs themselves lose them."""


@dataclass(frozen=True, slots=True)
class ErasedSegment:
    """A segment that loses records of the keys."""

    base_offset: int
    identity: FileIdentity
    """The ``.log`` before."""
    records: int
    """The records that go."""
    tombstones: int
    """Those among them without a value."""
    first_offset: int
    last_offset: int
    links: int = 1
    """The most hard links of a file of the segment before; with more than one, the bytes stay under another name."""
    size_after: int | None = None
    """The size of the ``.log`` afterwards; None if it was not measured, or not written."""
    sha256: str | None = None
    """The SHA-256 of the ``.log`` before; None without a certificate."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The offsets of the records that go, each range with its end inclusive; none without a certificate."""


@dataclass(frozen=True, slots=True)
class ErasedPartition:
    """The erasure in one partition: planned, refused, failed or done."""

    topic_partition: TopicPartition
    log_dir: str
    segments: tuple[ErasedSegment, ...] = ()
    stays: tuple[Stays, ...] = ()
    records_read: int = 0
    bytes_read: int = 0
    segments_read: int = 0
    waiting: int = 0
    """The ``.deleted`` logs that waited there before. They were not read."""
    refused: RefusedErasure | None = None
    error: str | None = None
    done_segments: int = 0
    """The segments that were swapped in."""
    until_ms: int | None = None
    """Until when the replaced files wait as ``.deleted``, epoch ms; None if none waits."""

    @property
    def records(self) -> int:
        """The records that go."""
        return sum(segment.records for segment in self.segments)

    @property
    def asked(self) -> tuple[object, ...]:
        """The facts that a person is asked about. Another plan with the same facts erases the same records."""
        return self.topic_partition, self.log_dir, tuple((s.identity, s.records, s.tombstones) for s in self.segments)


@dataclass(frozen=True, slots=True)
class Erasure:
    """The erasure in all partitions that were named."""

    partitions: tuple[ErasedPartition, ...]
    errors: tuple[str, ...] = ()
    """Failures of whole log dirs."""
    time_ms: int = 0
    is_done: bool = False
    output: str | None = None
    """Where the copy lies; None if there is none."""
    only_certified: bool = False
    """Whether an earlier run finished the copy."""

    @property
    def records(self) -> int:
        """The records that go."""
        return sum(partition.records for partition in self.partitions)


class Certify(Protocol):
    """Makes the certificate of an erasure."""

    def begin(self) -> None:
        """Prepare for it: what was refused until now has left no file behind, and from now on records may go."""

    def take(self, opened: OpenLogDirs, done: Erasure) -> None:
        """Take the result, while the locks are still held."""


def plan_erasure(cleaner: Cleaner, asked: ErasureRequest, *, measured: bool = False) -> Erasure:
    """Read the logs, and return what an erasure would do. It takes no lock, and changes nothing.

    Args:
        cleaner: of the log dirs.
        asked: keys and topics.
        measured: whether to find out the sizes afterwards, which reads the segments with keys once more.

    Raises: Stopped.
    """
    eraser = Eraser(cleaner.opened(), cleaner.plan(asked.request), asked)
    return eraser.all_partitions(eraser.measured if measured else eraser.planned)


def erase(
    cleaner: Cleaner, asked: ErasureRequest, agreed: Erasure | None = None, certify: Certify | None = None
) -> Erasure:
    """Lock the log dirs, finish what a crash interrupted, read the logs, and erase.

    Args:
        cleaner: of the log dirs.
        asked: keys and topics.
        agreed: what the user agreed to. A partition where something else would go is left alone.
        certify: makes a certificate of it.

    Raises: LogDirLocked, UnreliableLock, UnsafeOwner, JournalFull.
    """
    with cleaner.locked() as opened:
        errors = list(recover_all(opened, asked.request))
        eraser = Eraser(opened, cleaner.plan(asked.request), asked, agreed)
        if certify is not None:
            certify.begin()
        found = eraser.all_partitions(eraser.erased, is_locked=True)
        done = replace(found, errors=(*errors, *found.errors), is_done=True)
        if certify is not None:
            certify.take(opened, done)
        return done


class ErasureWork(NamedTuple):
    """A partition that was read."""

    partition: PartitionPlan
    listing: Listing
    recovered: Listing
    """The files once a crash is repaired."""
    marked: tuple[MarkedSegment, ...]
    """The segments that lose records, ascending."""
    bounds: ErasureBounds
    producers: dict[int, ProducerEnd]
    found: ErasedPartition


class Eraser:
    """One run over some log dirs."""

    def __init__(
        self, opened: OpenLogDirs, planned: Plan, asked: ErasureRequest, agreed: Erasure | None = None
    ) -> None:
        self._means, self._plan, self._asked = opened.means, planned, asked
        self._finder = KeyFinder(asked.keys, opened.means.threads)
        self._moving = frozenset[TopicPartition]() if asked.output else being_moved(opened.log_dirs)
        self._has_replaced, self._taken_bytes = False, 0
        self._agreed = None if agreed is None else {partition.asked for partition in agreed.partitions}

    def all_partitions(self, act: _Act, *, is_locked: bool = False) -> Erasure:
        """Do something with each partition. A failure is a fact of its result, and stops no other partition."""
        errors = [error for log_dir in self._plan.log_dirs for error in log_dir.facts.errors]
        found = [
            self._attempt(log_dir, partition, act, is_locked=is_locked)
            for log_dir in self._plan.log_dirs
            if not log_dir.facts.errors
            for partition in log_dir.partitions
        ]
        return Erasure(tuple(found), tuple(errors), self._means.clock.now_ms())

    def planned(self, work: ErasureWork) -> ErasedPartition:
        """Return what was found."""
        return work.found

    def measured(self, work: ErasureWork) -> ErasedPartition:
        """Return what was found, with the sizes that the segments would have. Raises: JournalFull, OutOfSpace."""
        if not work.marked:
            return work.found
        log_dir, at_once = path_of_text(work.partition.facts.log_dir), self._asked.request.is_at_once
        ensure_space(log_dir)
        target = Nowhere(work.listing.directory, work.partition.policy.index_interval_bytes)
        sizes = [size for _, size in self.rewritten(work, target, is_locked=False)]
        for size, marked in zip(sizes, work.marked, strict=True):
            if size > writable_bytes(log_dir) - self._taken_bytes:
                full = OutOfSpace(marked.span.segment.log.path, size)
                raise with_room_hint(full, "erase", at_once=at_once, has_replaced=False)
            self._taken_bytes += size - marked.span.size_bytes if at_once else size
        segments = (replace(s, size_after=size) for s, size in zip(work.found.segments, sizes, strict=True))
        return replace(work.found, segments=tuple(segments))

    def erased(self, work: ErasureWork) -> ErasedPartition:
        """Swap in the segments without the records of the keys."""
        found, facts, listing, means = work.found, work.partition.facts, work.listing, self._means
        if not work.marked:
            return found
        directory = listing.directory
        if self._agreed is not None and found.asked not in self._agreed:
            raise PlanOutOfDate(directory, "other records would go than were shown")
        bases = [marked.span.base_offset for marked in work.marked]
        log_dir = LogDir(path_of_text(facts.log_dir))
        ensure_no_copy_in_the_way(log_dir, facts.topic_partition, listing, bases)
        ensure_changeable(directory, bases, and_readable=True)
        found = self.with_hashes(work)
        with closing(Journal(log_dir.path, means.fs, means.clock.boot())) as journal:
            now_ms, request = means.clock.now_ms(), self._asked.certified_as
            journal.record("erase", now_ms, partition=str(facts.topic_partition), **erase_entry(found, request))
        forget_filters(directory)
        at_once = self._asked.request.is_at_once
        interval_bytes = work.partition.policy.index_interval_bytes
        target = InPlace(listing, interval_bytes, means.fs, at_once=at_once, stopping=means.stopping)
        segments, done, error = list(found.segments), 0, None
        try:
            for done, (_, size) in enumerate(self.rewritten(work, target, is_locked=True), 1):
                segments[done - 1] = replace(segments[done - 1], size_after=size)
        except (LogCleanerError, OSError, MemoryError) as failure:
            has_replaced = self._has_replaced or done > 0
            hinted = with_room_hint(failure, "erase", at_once=at_once, has_replaced=has_replaced)
            error = STOPPED if isinstance(failure, Stopped) else told(hinted)
        self._has_replaced |= done > 0
        until_ms = means.clock.now_ms() + work.partition.policy.file_delete_delay_ms
        result = replace(
            found,
            segments=tuple(segments),
            done_segments=done,
            error=error,
            until_ms=until_ms if done and not at_once else None,
        )
        tell_erased(result, means)
        return result

    def with_hashes(self, work: ErasureWork) -> ErasedPartition:
        """Return what was found; for a certificate, with the hash of each segment that loses records, as it is now.

        Raises: UnreadableFile.
        """
        if self._asked.certified_as is None:
            return work.found
        pairs = zip(work.found.segments, work.marked, strict=True)
        hashed = (replace(s, sha256=sha256_of(marked.span.segment.log.path)) for s, marked in pairs)
        return replace(work.found, segments=tuple(hashed))

    def _attempt(
        self, log_dir: LogDirPlan, partition: PartitionPlan | UnreadablePartition, act: _Act, *, is_locked: bool
    ) -> ErasedPartition:
        if isinstance(partition, UnreadablePartition):
            return ErasedPartition(partition.topic_partition, partition.log_dir, error=partition.error)
        facts = partition.facts
        nothing = ErasedPartition(facts.topic_partition, facts.log_dir)
        if refused := self.refused(log_dir, partition):
            return replace(nothing, refused=refused)
        try:
            listing = list_partition(path_of_text(facts.log_dir) / str(facts.topic_partition))
            return act(self.read(partition, listing, is_locked=is_locked))
        except Stopped:
            if not is_locked:
                raise
            return replace(nothing, error=STOPPED)
        except (LogCleanerError, OSError, MemoryError) as error:
            return replace(nothing, error=told(error))

    def refused(self, log_dir: LogDirPlan, partition: PartitionPlan) -> RefusedErasure | None:
        """Return why nothing of a partition is erased; None if something may be."""
        if log_dir.guard is not None:
            return RefusedErasure(log_dir.guard.code, log_dir.guard.text)
        moves = partition.facts.topic_partition in self._moving
        return refused_erasure(partition.facts, partition.policy, moves=moves)

    def read(self, partition: PartitionPlan, listing: Listing, *, is_locked: bool) -> ErasureWork:
        """Read all segments of a partition. Raises: LogCleanerError."""
        facts, means = partition.facts, self._means
        recovered = whole_log(facts, listing, is_recovered=is_locked)
        state = producer_state_of(facts, recovered, self._asked.request.now_ms, means)
        assert facts.high_watermark is not None, "else it is refused"
        stable, end = state.last_stable_offset(facts.high_watermark), facts.log_end_offset
        bounds = ErasureBounds(stable, facts.high_watermark, end, self._asked.with_tombstones)
        producers = ends_of(state)
        marked = self._marked(facts, recovered.segments, ErasureFates(producers, bounds), bounds, is_locked=is_locked)
        losing = _losing(marked)
        found = ErasedPartition(
            facts.topic_partition,
            facts.log_dir,
            segments=tuple(_erased(one, with_ranges=self._asked.certified_as is not None) for one in losing),
            stays=Stays.total([stays for one in marked for stays in one.stays]),
            records_read=sum(one.walked.records for one in marked),
            bytes_read=sum(one.span.size_bytes for one in marked),
            segments_read=len(marked),
            waiting=sum(file.name.kind is FileKind.LOG for file in listing.in_state(FileState.DELETED)),
        )
        return ErasureWork(partition, listing, recovered, losing, bounds, producers, found)

    def _marked(
        self, facts: PartitionFacts, segments: Sequence[Segment], fates: ErasureFates, bounds: ErasureBounds, *,
        is_locked: bool,
    ) -> list[MarkedSegment]:  # fmt: skip
        uppers = [*(segment.base_offset for segment in segments[1:]), facts.log_end_offset]
        marked, pace = [], Pace(self._means)
        self._means.listener.expect(sum(segment.size_bytes for segment in segments))
        with Crew(self._means.threads) as crew:
            for segment, upper in zip(segments, uppers, strict=True):
                with ExitStack() as stack:
                    opened = OpenSpan.of(Span(segment, upper, is_alone=True), stack, is_locked=is_locked)
                    marked.append(mark(opened, self._finder, bounds, fates, crew, pace))
                    opened.reader.let_go()
        return marked

    def rewritten(
        self, work: ErasureWork, target: Destination, *, is_locked: bool
    ) -> Iterator[tuple[MarkedSegment, int]]:
        """Write each segment that loses records, and hand it to the destination. Yield it with its new size."""
        horizons = Horizons(self._asked.request.now_ms, None, 0)
        with Crew(self._means.threads) as crew:
            for one in work.marked:
                fates = ErasureFates(work.producers, work.bounds, aborted_of(one.span.segment))
                bitmap = one.bitmap()
                rewriter = Rewriter(
                    bitmap, horizons, Tombstones.DECIDED, fates, crew, Pace(self._means).spend,
                    upgrades=False, rebuilds_mixed=False,
                )  # fmt: skip
                with ExitStack() as stack:
                    opened = OpenSpan.of(one.span, stack, is_locked=is_locked)
                    size_bytes, _ = rewrite_group([(opened.reader, one.walked)], rewriter, target, None, bitmap)
                yield one, size_bytes


class _Act(Protocol):
    def __call__(self, work: ErasureWork) -> ErasedPartition: ...


def _losing(marked: Sequence[MarkedSegment]) -> tuple[MarkedSegment, ...]:
    """Return the segments that lose records, ascending: an older value goes before the tombstone behind it."""
    return tuple(one for one in marked if one.ordinals.size)


def _erased(marked: MarkedSegment, *, with_ranges: bool) -> ErasedSegment:
    segment = marked.span.segment
    return ErasedSegment(
        segment.base_offset,
        segment.log.identity,
        int(marked.ordinals.size),
        marked.tombstones,
        int(marked.offsets[0]),
        int(marked.offsets[-1]),
        segment.sizes.links,
        ranges=marked.ranges() if with_ranges else (),
    )


def erase_entry(found: ErasedPartition, request: str | None) -> dict[str, object]:
    """Return the fields of the journal's line. No key is among them, and no hash of a key.

    With the id of a request, a later run can still certify what this one did, if it ends before its certificate.
    """
    return {
        **({} if request is None else {"request": request}),
        "bytes": sum(segment.identity.size_bytes for segment in found.segments),
        "records": found.records,
        "first_offset": found.segments[0].first_offset,
        "last_offset": found.segments[-1].last_offset,
        "segments": [_listed(segment) for segment in found.segments],
        SOURCES: [[s.base_offset, s.identity.size_bytes, s.identity.mtime_ns] for s in found.segments],
    }


def _listed(segment: ErasedSegment) -> dict[str, object]:
    named: dict[str, object] = {"base_offset": segment.base_offset, "bytes": segment.identity.size_bytes}
    if segment.sha256 is not None:
        named |= {
            "sha256": segment.sha256,
            "records": segment.records,
            "tombstones": segment.tombstones,
            "first_offset": segment.first_offset,
            "last_offset": segment.last_offset,
        }
    return named


def tell_erased(result: ErasedPartition, means: Means) -> None:
    """Tell the listener what was done in a partition."""
    place = result.topic_partition._asdict()
    if result.done_segments:
        done = result.segments[: result.done_segments]
        means.listener.event("records_erased", **place, segments=len(done), records=sum(s.records for s in done))
    if result.error:
        means.listener.event("partition_failed", **place, error=result.error)
