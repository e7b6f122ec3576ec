"""Explain the partition of a plan: observe it, then ask the policies.

Observed are timestamps, open transactions, delete horizons, waiting files and failed attempts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from cleaner.engine.explain.contents import located_in, stamped_batches
from cleaner.engine.inventory import ensure_sound_active
from cleaner.engine.journal import REPLACING, read_journal, sources_of
from cleaner.engine.leftovers import Leftovers
from cleaner.engine.means import Means
from cleaner.engine.outcome import Basis
from cleaner.engine.rehearsal.rehearsal import Rehearsal
from cleaner.engine.uncleanable import uncleanable_in
from cleaner.errors import told as told_error
from policies.explain.blockers import BlockerCode
from policies.explain.explanation import PartitionExplanation, explain
from policies.explain.observations import (
    NO_HORIZONS,
    UNUSED,
    ActiveUse,
    DeleteHorizons,
    FailedAttempts,
    Observations,
    OpenTransaction,
    RecordPlace,
    SegmentTimes,
    TopicHere,
    WaitingFiles,
)
from policies.facts import NO_TIMESTAMP, LogDirFacts, PartitionFacts
from policies.guards import compaction_held_back
from policies.plan import PartitionPlan, Plan, path_of
from storage.directory import opened_as_parent, status_of
from storage.errors import LogCleanerError, UnreadableFile, as_unreadable
from storage.indexes import TimeIndexEntry, sealed_time_index_end
from storage.log.end import SegmentEdges, edges_of
from storage.log.listing import Listing, list_partition
from storage.log.producer_state import ProducerState, load_producer_state
from storage.log.read import offset_entries, position_of, read_segment, time_entries
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, FileKind, FileState, TopicPartition
from storage.records import BatchHeader, LegacyHeader, iter_headers
from storage.records.v2 import OFFSET_MAX
from storage.schemas.coordinator import TRANSACTIONS_TOPIC
from storage.schemas.decoding import decode
from storage.segment import Segment, SegmentFile, reading
from storage.stores.paths import path_of_text

if TYPE_CHECKING:
    from storage.scan.small_segments import SmallLog, SmallSegments

_TIME_INDEX: Final = FileKind.TIME_INDEX
HORIZON_BYTES_MAX: Final = 1 << 30
"""The bytes of a log in which delete horizons are looked for, without ``--exact``: every byte of them is read."""
_T = TypeVar("_T")

TOPIC: Final = "__transaction_state"
READ_BYTES_MAX: Final = 64 << 20
"""The most bytes that are read for a transactional id, newest segments first: a producer that can still end a
transaction has written lately.
"""
_KEY: Final = TRANSACTIONS_TOPIC["TransactionLogKey"]
_TYPE_BYTES: Final = 2
"""A key begins with its type."""
_PRODUCER_ID: Final = struct.Struct(">hq")
"""The version and the producer id, with which a value of each version begins."""


def explanations(
    planned: Plan, wanted: TopicPartition, log_dirs: Sequence[LogDir], means: Means, *, exact: bool
) -> tuple[PartitionExplanation, ...]:
    """Explain a partition in each log dir of a plan that holds it.

    Args:
        planned: the plan of ``clean``.
        wanted: the partition.
        log_dirs: those of the command, in which the topic's partitions are counted and a transactional id is looked up.
        means: states what holds for all topics alike.
        exact: read everything that may hold delete horizons, and count the records without a key that a compaction
            drops.

    Raises: UnreadableFile, PartitionChanged.
    """
    topic, broker = topic_here(wanted.topic, log_dirs), means.broker
    look = Look(planned.request.now_ms, broker.producer_id_expiration_ms, exact)

    def explained(log_dir: LogDirFacts, partition: PartitionPlan) -> PartitionExplanation:
        seen = observe(log_dir, partition, topic, look)
        if exact and partition.compaction:
            partition, seen = _counted(partition, seen, Rehearsal(means, planned.request))
        found = explain(partition, seen, planned.request, broker)
        if not any(blocker.code is BlockerCode.OPEN_TRANSACTION for blocker in found.blockers):
            return found
        return explain(partition, with_transactional_id(seen, log_dirs), planned.request, broker)

    return tuple(
        explained(log_dir.facts, partition)
        for log_dir in planned.log_dirs
        for partition in log_dir.partitions
        if isinstance(partition, PartitionPlan) and partition.facts.topic_partition == wanted
    )


def with_transactional_id(seen: Observations, log_dirs: Iterable[LogDir]) -> Observations:
    """Return observations with the transactional id of the oldest open transaction, because that transaction blocks."""
    first, *others = seen.transactions
    found = first._replace(transactional_id=transactional_id_of(first.producer_id, log_dirs))
    return replace(seen, transactions=(found, *others))


def transactional_id_of(producer_id: int, log_dirs: Iterable[LogDir]) -> str | None:
    """Return the transactional id that a producer has by the newest records; None if none of them names it.

    The function passes over files that cannot be read, because a live broker may delete them meanwhile.
    """
    left_bytes = READ_BYTES_MAX
    for segment in _newest_first(log_dirs):
        left_bytes -= segment.size_bytes
        if left_bytes < 0:
            return None
        if found := _last_id_in(segment, producer_id):
            return found
    return None


def topic_here(topic: str, log_dirs: Iterable[LogDir]) -> TopicHere:
    """Return the number of a topic's partitions in some log dirs, and the size of their ``.log`` files."""
    partitions = size_bytes = 0
    for log_dir in log_dirs:
        for topic_partition, directory in log_dir.partitions():
            if topic_partition.topic == topic:
                with suppress(UnreadableFile):  # beside a live broker the directory may be gone
                    size_bytes += sum(segment.size_bytes for segment in list_partition(directory).segments)
                    partitions += 1
    return TopicHere(partitions, size_bytes)


def _high_watermark(log_dir: LogDir, topic_partition: TopicPartition, look: Look) -> int | None:
    known = look.high_watermarks
    return (log_dir.offsets(HIGH_WATERMARK_CHECKPOINT) if known is None else known).get(topic_partition)


class PartitionChanged(LogCleanerError):
    """A partition that lost segments to a broker during the look at it."""

    directory: Path

    def __str__(self) -> str:
        return f"{self.directory}: changed while it was looked at; run again"


@dataclass(frozen=True, slots=True)
class Look:
    """The manner in which a partition is observed.

    Attributes:
        now_ms: the moment of the explanation, epoch ms.
        producer_expiration_ms: ``producer.id.expiration.ms``.
        exact: read everything that may hold delete horizons.
        is_brief: leave out what takes long with thousands of partitions: delete horizons, entries of the active
            segment's index files, and facts that only the journal has.
        high_watermarks: of the log dir; None to read them.
    """

    now_ms: int
    producer_expiration_ms: int
    exact: bool = False
    is_brief: bool = False
    high_watermarks: Mapping[TopicPartition, int] | None = None


class Glanced(NamedTuple):
    """The files of a partition as a recovery leaves them, and the edges of its segments."""

    listing: Listing
    edges: tuple[SegmentEdges, ...]
    logs: Sequence[SmallLog | None]
    """The contents of the segments, as far as they are small, and somebody asked."""
    sealed: Sequence[TimeIndexEntry | None]
    """What ``sealed_time_index_end`` tells of the time indexes; None also without one, and in a store."""

    @staticmethod
    def at(listing: Listing, small: SmallSegments | None = None, *, with_keys: bool = False) -> Glanced:
        """Read the edges of all segments; the directory is opened once.

        Args:
            listing: of the partition.
            small: reads the contents of small segments, too; None if nobody asks for them.
            with_keys: as for ``SmallSegments.smallest``.

        Raises: UnreadableFile.
        """
        segments = listing.segments
        with as_unreadable(listing.directory), opened_as_parent(listing.directory) as parent:
            logs: Sequence[SmallLog | None] = [None] * len(segments)
            if small is not None:
                logs = small.smallest(segments, parent, with_keys=with_keys)
            pairs = zip(segments, logs, strict=True)
            edges = tuple([log.edges if log else edges_of(one, parent) for one, log in pairs])
            return Glanced(listing, edges, logs, [_sealed_end(one, parent) for one in segments])


def _sealed_end(segment: Segment, parent: int | None) -> TimeIndexEntry | None:
    index = segment.files.get(_TIME_INDEX)
    if index is None or parent is None:
        return None
    return sealed_time_index_end(index.file_name, index.identity.size_bytes, segment.base_offset, parent)


def observe(
    log_dir: LogDirFacts, planned: PartitionPlan, topic: TopicHere, look: Look, glanced: Glanced | None = None
) -> Observations:
    """Observe a partition. A file that cannot be read is left out, and named in ``problems``.

    Args:
        log_dir: that has it.
        planned: its plan.
        topic: the partitions of its topic in the log dirs.
        look: the manner.
        glanced: the edges of its segments; None if not read yet.

    Raises: LogCleanerError if the partition itself cannot be listed.
    """
    facts, problems = planned.facts, list[str]()
    directory = path_of_text(path_of(facts))
    listing = glanced.listing if glanced else plan_recovery(list_partition(directory)).listing
    by_base = {segment.base_offset: segment for segment in listing.segments}
    segments = [by_base[s.base_offset] for s in facts.segments if s.base_offset in by_base]
    if len(segments) < len(facts.segments):  # beside a live broker: the caller plans again
        raise PartitionChanged(directory)

    def told(read: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return read()
        except LogCleanerError as error:
            problems.append(told_error(error))
            return otherwise

    seen = told(lambda: glanced or Glanced.at(listing), None)
    edges = dict(zip(by_base, seen.edges, strict=True)) if seen else {}
    sealed = dict(zip(by_base, seen.sealed, strict=True)) if seen else {}
    times = told(lambda: _times(segments, edges, sealed), tuple(SegmentTimes() for _ in segments))
    state = told(lambda: _producers(facts, listing, look), ProducerState())
    at = LogDir(path_of_text(facts.log_dir))
    return Observations(
        times,
        UNUSED if look.is_brief else told(lambda: _use(segments, edges), UNUSED),
        told(lambda: _future(segments, times, look.now_ms), None),
        _last_stable_offset(facts, state),
        told(lambda: tuple(_transactions(state, segments)), ()),
        NO_HORIZONS if look.is_brief else told(lambda: _horizons(planned, segments, look), NO_HORIZONS),
        None if look.is_brief else told(lambda: waiting_files(planned), None),
        None if look.is_brief else told(lambda: failed_attempts(facts), None),
        topic,
        told(lambda: _high_watermark(at, facts.topic_partition, look), None),
        _file_time_ms(at.path / CLEANER_OFFSET_CHECKPOINT),
        log_dir.locked_by,
        problems=tuple(dict.fromkeys(problems)),
    )


def first_timestamp(header: BatchHeader | LegacyHeader) -> int:
    """Return the timestamp of a batch's first record; the largest timestamp of the batch if the header has no other."""
    is_told = isinstance(header, BatchHeader) and not (header.has_delete_horizon or header.is_log_append_time)
    if is_told and isinstance(header, BatchHeader) and header.base_timestamp_ms >= 0:
        return header.base_timestamp_ms
    return header.max_timestamp_ms


def failed_attempts(facts: PartitionFacts) -> FailedAttempts | None:
    """Return the failures since the last success; None if the last attempt did not fail.

    Raises: UnreadableFile.
    """
    name = str(facts.topic_partition)
    entries = [entry for entry in read_journal(path_of_text(facts.log_dir)) if entry.get("partition") == name]
    failing = failing_since(entries)
    noted = uncleanable_in(entries).get(name)
    if failing is None or noted is None:
        return None
    changed = noted.may_retry(list_partition(path_of_text(path_of(facts))))
    return FailedAttempts(*failing, noted.cause, changed)


def failing_since(entries: Iterable[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the times of the first and of the last failure in a row, epoch ms; None if the last attempt succeeded.

    A ``compact`` line begins an attempt, which succeeded if no ``failed`` line follows.

    Args:
        entries: of one partition, oldest first.
    """
    since_ms = last_ms = None
    is_begun = False
    for entry in entries:
        match entry:
            case {"what": "compact"}:
                since_ms = None if is_begun else since_ms
                is_begun = True
            case {"what": "failed", "time_ms": int(time_ms)}:
                since_ms, last_ms, is_begun = since_ms or time_ms, time_ms, False
    return None if since_ms is None or last_ms is None or is_begun else (since_ms, last_ms)


def waiting_files(planned: PartitionPlan) -> WaitingFiles | None:
    """Return the ``.deleted`` files of a partition that may go; None if there are none. Raises: UnreadableFile."""
    facts = planned.facts
    listing = list_partition(path_of_text(path_of(facts)))
    if not listing.in_state(FileState.DELETED):
        return None
    left = Leftovers.of(planned, listing, planned.policy.file_delete_delay_ms)
    files = left.waiting
    if not files:
        return None
    due_ms = [left.due_ms(file) for file in files]
    replaced_ms = _replaced_ms(facts)
    return WaitingFiles(
        len(files),
        sum(file.size_bytes for file in files),
        sum(file.disk_bytes for file in files),
        sum(not left.is_journalled(file) and not _is_replaced(file, replaced_ms) for file in files),
        min(due_ms),
        max(due_ms),
    )


def _counted(partition: PartitionPlan, seen: Observations, rehearsal: Rehearsal) -> tuple[PartitionPlan, Observations]:
    """Count the records without a key. If a guard rail then holds the compaction back, return the plan without it."""
    found = rehearsal.result(partition, exact=True)
    if found.guard is not None:
        return compaction_held_back(partition, found.guard), seen
    if found.error is not None or found.basis is Basis.ESTIMATE:
        why = found.error or f"{partition.facts.topic_partition} changed while it was read"
        problem = f"the records without a key: {why}"
        return partition, replace(seen, problems=(*seen.problems, problem))
    return partition, replace(seen, records_unkeyed=found.records_unkeyed)


def _newest_first(log_dirs: Iterable[LogDir]) -> list[Segment]:
    segments: list[Segment] = []
    for log_dir in log_dirs:
        for topic_partition, directory in log_dir.partitions():
            if topic_partition.topic == TOPIC:
                with suppress(LogCleanerError):
                    segments += list_partition(directory).segments
    return sorted(segments, key=lambda segment: segment.mtime_ms, reverse=True)


def _last_id_in(segment: Segment, producer_id: int) -> str | None:
    """Return the transactional id that the last record of a segment gives a producer."""
    found: str | None = None
    with suppress(LogCleanerError):
        for batch in read_segment(segment, segment.base_offset, OFFSET_MAX):
            for record in batch.records():
                key, value = record.key, record.value
                if key is None or value is None or len(value) < _PRODUCER_ID.size:
                    continue
                if _PRODUCER_ID.unpack_from(value)[1] == producer_id:  # few records are worth decoding
                    found = decode(_KEY, 0, key, _TYPE_BYTES)["transactionalId"]
    return found


def _last_stable_offset(facts: PartitionFacts, state: ProducerState) -> int | None:
    if facts.last_stable_offset is not None or facts.high_watermark is None:
        return facts.last_stable_offset
    return state.last_stable_offset(facts.high_watermark)


def _file_time_ms(path: Path) -> int | None:
    with suppress(OSError):
        return status_of(path).st_mtime_ns // 1_000_000
    return None


def _times(
    segments: Sequence[Segment], edges: Mapping[int, SegmentEdges], sealed: Mapping[int, TimeIndexEntry | None]
) -> tuple[SegmentTimes, ...]:
    if not edges:
        return tuple(SegmentTimes() for _ in segments)
    directory = segments[0].directory
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        return tuple(
            [
                _segment_times(sealed[one.base_offset] or one.newest_entry(parent), edges[one.base_offset])
                for one in segments
            ]
        )


def _segment_times(entry: TimeIndexEntry | None, edges: SegmentEdges) -> SegmentTimes:
    indexed_ms = entry.timestamp_ms if entry else NO_TIMESTAMP
    newest_ms = max(indexed_ms, edges.largest_ms)
    offset = entry.offset if entry and newest_ms == indexed_ms else None
    return SegmentTimes(first_timestamp(edges.first) if edges.first else NO_TIMESTAMP, newest_ms, offset)


def _producers(facts: PartitionFacts, listing: Listing, look: Look) -> ProducerState:
    was_looked_at = facts.last_stable_offset is not None  # by the inventory
    if facts.segments and not was_looked_at and listing.segments[-1].base_offset == facts.active.base_offset:
        ensure_sound_active(listing.segments[-1], facts.torn_tail_bytes)
    return load_producer_state(
        listing.snapshots,
        listing.segments,
        facts.log_start_offset,
        facts.log_end_offset,
        look.now_ms,
        look.producer_expiration_ms,
    )


def _use(segments: Sequence[Segment], edges: Mapping[int, SegmentEdges]) -> ActiveUse:
    if not segments or not edges:
        return UNUSED
    active = segments[-1]
    header = edges[active.base_offset].first
    first_ms = header.max_timestamp_ms if header else NO_TIMESTAMP
    return ActiveUse(first_ms, len(offset_entries(active)), len(time_entries(active)))


def _future(segments: Sequence[Segment], times: Sequence[SegmentTimes], now_ms: int) -> RecordPlace | None:
    """Find the record with the greatest timestamp of the first segment that reaches into the future."""
    for segment, found in zip(segments, times, strict=True):
        if found.newest_ms > now_ms:
            return _record_of(segment, found) if found.newest_offset is not None else None
    return None


def _record_of(segment: Segment, times: SegmentTimes) -> RecordPlace | None:
    """Find the first record with the newest timestamp, in the batch that the time index names."""
    from storage.kernels.layout import OFFSET, TIMESTAMP  # noqa: PLC0415 - it loads numpy

    last_offset = times.newest_offset or 0
    with reading(segment.log.path) as descriptor:
        headers = iter_headers(descriptor, segment.log.path, position_of(descriptor, segment, last_offset))
        batch = next((found for found in headers if found.header.last_offset >= last_offset), None)
    if batch is None:
        return None
    for located in located_in(segment, batch.position, batch.position + batch.header.size_bytes, with_control=True):
        for place in (located[TIMESTAMP] == times.newest_ms).nonzero()[0][:1].tolist():
            return RecordPlace(int(located[OFFSET][place]), times.newest_ms)
    return None


def _transactions(state: ProducerState, segments: Sequence[Segment]) -> Iterator[OpenTransaction]:
    open_ = [(p.open_txn_first_offset, p) for p in state.producers.values() if p.open_txn_first_offset is not None]
    for offset, producer in sorted(open_, key=lambda pair: pair[0]):
        since_ms = _first_batch_ms(segments, offset)
        yield OpenTransaction(producer.producer_id, producer.epoch, offset, since_ms)


def _first_batch_ms(segments: Sequence[Segment], offset: int) -> int | None:
    """Return the timestamp of the batch that begins at an offset, epoch ms; None if there is none."""
    below = [segment for segment in segments if segment.base_offset <= offset]
    for batch in read_segment(below[-1], offset, offset + 1) if below else ():
        if (first_ms := first_timestamp(batch.header)) >= 0:
            return first_ms
    return None


def _horizons(planned: PartitionPlan, segments: Sequence[Segment], look: Look) -> DeleteHorizons:
    """Look for delete horizons in the compacted segments, the oldest first, as far as the bound allows."""
    section = planned.section
    if section is None or section.is_first:
        return NO_HORIZONS
    clean = [segment for segment in segments if segment.base_offset < section.first_dirty_offset]
    left_bytes, read = HORIZON_BYTES_MAX, list[Segment]()
    for segment in clean:
        left_bytes -= segment.size_bytes
        if left_bytes >= 0 or look.exact:
            read.append(segment)
    unread_bytes = sum(segment.size_bytes for segment in clean) - sum(segment.size_bytes for segment in read)
    return stamped_batches(read)._replace(unread_bytes=unread_bytes)


def _replaced_ms(facts: PartitionFacts) -> dict[int, int]:
    """Return when a compaction, erasure or repacking of ours last began to replace the segment of each base offset,
    epoch ms.
    """
    replaced_ms: dict[int, int] = {}
    for entry in read_journal(path_of_text(facts.log_dir)):
        match entry:
            case {"what": str(what), "partition": name, "time_ms": int(time_ms)} if what in REPLACING:
                if name == str(facts.topic_partition):
                    of_sources = (source.base_offset for source in sources_of(entry))
                    replaced_ms.update(dict.fromkeys((*_bases_of_groups(entry), *of_sources), time_ms))
    return replaced_ms


def _bases_of_groups(entry: Mapping[str, Any]) -> Iterator[int]:
    """Yield what a line of an older version has alone."""
    groups = entry.get("groups")
    yield from (
        (base for group in groups if isinstance(group, list) for base in group) if isinstance(groups, list) else ()
    )


def _is_replaced(file: SegmentFile, replaced_ms: dict[int, int]) -> bool:
    began_ms = replaced_ms.get(file.name.base_offset)
    return began_ms is not None and began_ms <= file.changed_ns // 1_000_000
