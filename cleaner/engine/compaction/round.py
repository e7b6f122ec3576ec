"""A round: find the survivors of all its segments, rewrite group by group, swap each group in, in ascending order.

Source: Kafka Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.fates import Fates, ends_of
from cleaner.engine.compaction.filters import Filters
from cleaner.engine.compaction.kafka_rounds import KafkaFinder, keys_max_of
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.legacy_rewrite import legacy_horizon_ms
from cleaner.engine.compaction.resolve import resolve
from cleaner.engine.compaction.rewrite import Rewriter, Times
from cleaner.engine.compaction.sources import Source
from cleaner.engine.compaction.survivors import Finder, Survivors, dirty_sources
from cleaner.engine.compaction.targets import Destination, InPlace, IntoCopy, Nowhere
from cleaner.engine.deletion import check_unchanged
from cleaner.engine.inventory import producer_state_of
from cleaner.engine.means import Means
from policies.compaction import grouped
from policies.config.policy import TopicPolicy
from policies.plan import Compaction, PartitionPlan, Request
from policies.retain import AbortedTransaction, new_delete_horizon_ms
from storage.arrays import Words
from storage.kernels.bitmap import count_bits
from storage.log.listing import Listing
from storage.log.producer_state import ProducerState
from storage.log_dir import read_file
from storage.names import FileKind
from storage.segment import Segment, SegmentFile
from storage.txn_index import collect_aborted_txns, parse_txn_index

_BEFORE_ALL_MS: Final = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Round:
    """What a compaction is about; the listing was read under the lock."""

    listing: Listing
    segments: tuple[Segment, ...]
    """Those of the groups, ascending."""
    compaction: Compaction
    policy: TopicPolicy
    log_start_offset: int
    producers: ProducerState
    now_ms: int
    log_end_offset: int
    is_at_once: bool = False
    """Each group's sources are unlinked before the next group needs space."""


def round_of(
    partition: PartitionPlan, listing: Listing, request: Request, means: Means, log_start_offset: int | None = None
) -> Round:
    """The round that a plan asks for.

    Args:
        partition: with a compaction.
        listing: of its directory, as retention left it.
        request: states the moment of the run, and whether it unlinks at once.
        means: of the execution.
        log_start_offset: the planned one, where the deletion is only rehearsed; else as the facts have it.

    Raises: PlanOutOfDate where a segment is not as it was planned; as ``load_producer_state``.
    """
    facts, compaction = partition.facts, partition.compaction
    assert compaction is not None
    segments = tuple(check_unchanged(listing.segments, compaction.segments))
    producers = producer_state_of(facts, listing, request.now_ms, means)
    start, end = facts.log_start_offset if log_start_offset is None else log_start_offset, facts.log_end_offset
    asked = request.now_ms, end, request.is_at_once
    return Round(listing, segments, compaction, partition.policy, start, producers, *asked)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a round did."""

    size_bytes: int
    """Of all the round's ``.log`` files after it."""
    records_read: int
    records_kept: int
    unkeyed: int
    end_offset: int
    """What the cleaner checkpoint is to say: the next round's first dirty offset."""
    freed_bytes: int = 0
    """Of the files that the round replaced and unlinked."""
    map_utilisation: float = 0.0
    """Share of the offset map that was used; 1 where it did not suffice at once."""


def compact(round_: Round, means: Means) -> Compacted:
    """Carry a round out, under the lock. The cleaner checkpoint is the caller's, once all swaps last.

    Raises:
        CorruptBatch, CorruptIndex, NotYetSupported, OutOfSpace, PlanOutOfDate, UnreadableFile: the partition is as it
            was, or some of its groups are swapped in whole: either is a valid log, and the round can be repeated.
        Stopped: asked to end; groups swapped in before stay.
    """
    target = InPlace(round_.listing, round_.policy.index_interval_bytes, means.fs, at_once=round_.is_at_once)
    done = _run(round_, means, target, is_locked=True)
    return replace(done, freed_bytes=target.freed_bytes)


def measure(round_: Round, means: Means) -> Compacted:
    """What ``compact`` would leave, byte for byte, and nothing written. Raises: as ``compact``, and needs no lock."""
    target = Nowhere(round_.listing.directory, round_.policy.index_interval_bytes)
    return _run(round_, means, target, is_locked=False)


def copy_compacted(round_: Round, means: Means, target: IntoCopy) -> Compacted:
    """Write what ``compact`` would leave into a copy. Raises: as ``compact``; the original is only read, unlocked."""
    return _run(round_, means, target, is_locked=False)


def _run(round_: Round, means: Means, target: Destination, *, is_locked: bool) -> Compacted:
    new_fates, pace = fates_maker(round_), Pace(means)
    with ExitStack() as mappings, Crew(means.threads) as crew:
        sources = [mappings.enter_context(source) for source in _sources(round_, is_locked=is_locked)]
        times = times_of(round_)
        filters = mappings.enter_context(_filters(round_, sources, times) if is_locked else nullcontext())
        walks: list[Fates] = []
        survivors = _survivors(round_, sources, _noted(walks, new_fates), crew, times, means, pace, filters)
        resolve(walks, round_.listing.segments, round_.log_end_offset, pace.spend, is_locked=is_locked)
        if survivors.tombstones_are_decided:
            times = replace(times, now_ms=_BEFORE_ALL_MS, legacy_horizon_ms=_BEFORE_ALL_MS)
        upgrades = round_.policy.compaction_upgrade_format
        rewriter = Rewriter(survivors.bitmap, times, new_fates(), crew, pace, upgrades=upgrades)
        beyond = [source for source in sources if source.segment.base_offset >= survivors.end_offset]
        size_bytes, kept, written_bytes = sum(source.segment.size_bytes for source in beyond), 0, 0
        for group in _groups(round_, sources, survivors.end_offset):
            pace.spend(written_bytes)
            if group[0].is_passed_over:
                means.listener.progress(2 * group[0].segment.size_bytes)
                written_bytes, written_records = _keep(group[0], target)
            else:
                written_bytes, written_records = _rewrite_group(group, rewriter, target, filters, survivors.bitmap)
            size_bytes += written_bytes
            kept += written_records
        for source in beyond:
            target.keep(source.segment)
    read = sum(source.records for source in sources[: len(sources) - len(beyond)])
    utilisation = survivors.map_utilisation
    return Compacted(size_bytes, read, kept, survivors.unkeyed, survivors.end_offset, map_utilisation=utilisation)


def times_of(round_: Round) -> Times:
    """What the round goes by."""
    retention_ms = round_.policy.delete_retention_ms
    horizon_ms = legacy_horizon_ms(round_.segments, round_.compaction.round.first_dirty_offset, retention_ms)
    return Times(round_.now_ms, new_delete_horizon_ms(round_.now_ms, retention_ms), horizon_ms)


def _survivors(
    round_: Round,
    sources: Sequence[Source],
    new_fates: Callable[[], Fates],
    crew: Crew,
    times: Times,
    means: Means,
    pace: Pace,
    filters: Filters | None,
) -> Survivors:
    first_dirty_offset = round_.compaction.round.first_dirty_offset
    if round_.policy.compaction_rounds == "kafka":
        keys_max = keys_max_of(means.broker)
        return KafkaFinder(sources, first_dirty_offset, keys_max, new_fates, times, pace).find()
    map_bytes = means.broker.log_cleaner_dedupe_buffer_size // means.side_by_side
    budget = Budget(map_bytes, means.broker.log_cleaner_io_buffer_load_factor)
    dirty_bytes = sum(source.segment.size_bytes for source in dirty_sources(sources, first_dirty_offset))
    key_map = KeyMap(dirty_bytes, budget, crew.threads, filters.secret if filters else None)
    return Finder(sources, first_dirty_offset, key_map, new_fates, crew, pace, filters).find()


def _filters(round_: Round, sources: Sequence[Source], times: Times) -> AbstractContextManager[Filters | None]:
    """What earlier rounds noted of the segments' keys; Kafka rewrites them all, and so do its rounds."""
    if round_.policy.compaction_rounds == "kafka":
        return nullcontext()
    for source in sources:
        source.is_alone = (source.segment.base_offset,) in round_.compaction.round.groups
    return Filters.opened(round_.listing.directory, sources, times) or nullcontext()


def _rewrite_group(
    group: Sequence[Source], rewriter: Rewriter, target: Destination, filters: Filters | None, bitmap: Words
) -> tuple[int, int]:
    """Rewrite one group and hand it on; gives its bytes and records afterwards."""
    first = group[0].segment
    ordinals = [(source.first_ordinal, source.first_ordinal + source.records) for source in group]
    survivors = sum(count_bits(bitmap, *span) for span in ordinals) if filters else 0
    cleaned = target.open(first.base_offset)
    try:
        if not rewriter.rewrite(group, cleaned):
            if filters:
                has_empty_batches = group[0].has_empty_batches
                filters.settle(group, first.log, group[0].records, survivors, has_empty_batches=has_empty_batches)
            return _keep(group[0], target)
        target.replace(group, cleaned)
    except BaseException:
        cleaned.discard()
        raise
    if filters:
        log = SegmentFile.at(first.directory, first.log.name)
        filters.settle(group, log, cleaned.records, survivors, has_empty_batches=cleaned.has_empty_batches)
    return cleaned.size_bytes, cleaned.records


def _keep(source: Source, target: Destination) -> tuple[int, int]:
    target.keep(source.segment)
    return source.segment.size_bytes, source.records


def _sources(round_: Round, *, is_locked: bool) -> Iterator[Source]:
    for segment, upper_offset in spans_of(round_):
        yield Source(segment, upper_offset, is_locked=is_locked)


def spans_of(round_: Round) -> list[tuple[Segment, int]]:
    """Each segment of a round with the offset that it ends below."""
    bases = [segment.base_offset for segment in round_.segments[1:]] + [round_.compaction.round.end_offset]
    return list(zip(round_.segments, bases, strict=True))


def _groups(round_: Round, sources: Sequence[Source], end_offset: int) -> Iterator[list[Source]]:
    """As planned, or anew where the round ends early."""
    planned, facts = round_.compaction.round, round_.compaction.segments
    is_whole = end_offset == planned.end_offset
    groups = planned.groups if is_whole else grouped(facts, round_.policy, end_offset, planned.end_offset)
    by_base = {source.segment.base_offset: source for source in sources}
    for bases in groups:
        yield [by_base[base] for base in bases]


def fates_maker(round_: Round) -> Callable[[], Fates]:
    """Each walk over the batches follows the transactions anew."""
    end_offset = round_.compaction.round.end_offset
    aborted = aborted_transactions(round_.listing, round_.log_start_offset, end_offset)
    producers = ends_of(round_.producers)
    return lambda: Fates(aborted, producers, end_offset, round_.now_ms, round_.log_start_offset)


def _noted(walks: list[Fates], new_fates: Callable[[], Fates]) -> Callable[[], Fates]:
    """Makes what ``new_fates`` makes, and keeps it."""

    def make() -> Fates:
        walks.append(new_fates())
        return walks[-1]

    return make


def aborted_transactions(listing: Listing, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions that may have data in a range of offsets; a marker may lie in a later segment.

    Raises: CorruptIndex, UnreadableFile.
    """
    indexes = []
    for segment in listing.segments:
        file = segment.files.get(FileKind.TXN_INDEX)
        data = read_file(file.path) if file else None
        if file and data:
            indexes.append(parse_txn_index(data, file.path))
    found = collect_aborted_txns(indexes, start_offset, end_offset)
    return [AbortedTransaction(*entry) for entry in found]
