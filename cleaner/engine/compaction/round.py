"""A round: find the survivors of all its segments, rewrite group by group, swap each group in, in ascending order.

Source: Kafka Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Final, NamedTuple

from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.compaction.fates import Fates, ends_of, resolve
from cleaner.engine.compaction.filters import Filters
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.legacy_rewrite import legacy_horizon_ms
from cleaner.engine.compaction.passes import Group, Horizons, OpenSpan, Span, Spared, Survivors, Walked
from cleaner.engine.compaction.rewrite import Rewriter
from cleaner.engine.compaction.survivors import Finder, is_dirty
from cleaner.engine.compaction.targets import Destination, InPlace, IntoCopy, Nowhere
from cleaner.engine.deletion import check_unchanged
from cleaner.engine.inventory import producer_state_of
from cleaner.engine.means import Means
from cleaner.engine.space import DiskFigures
from cleaner.engine.uncleanable import HeldBack
from policies.compaction import grouped
from policies.config.policy import TopicPolicy
from policies.facts import KeyCount
from policies.guards import unkeyed_guard, unless_confirmed
from policies.plan import Compaction, PartitionPlan, Request, path_of
from policies.reasons import Reason
from policies.retain import AbortedTransaction, new_delete_horizon_ms
from storage.arrays import Words
from storage.kernels.bitmap import count_bits
from storage.log.listing import Listing, ensure_plain_files
from storage.log.producer_state import ProducerState
from storage.log_dir import read_file
from storage.names import FileKind
from storage.segment import Segment, SegmentFile
from storage.txn_index import collect_aborted_txns, parse_txn_index

RUN_MS_MAX: Final = 3_600_000
"""The longest time between the moment of a run and its round for which ``delete.retention.ms`` counts from that moment,
as in Kafka.
"""


class Round(NamedTuple):
    """The subject of a compaction. The listing was read under the lock."""

    listing: Listing
    segments: tuple[Segment, ...]
    """The segments of all groups, ascending."""
    compaction: Compaction
    policy: TopicPolicy
    log_start_offset: int
    producers: ProducerState
    now_ms: int
    clock_ms: int
    """The wall clock, epoch ms. ``delete.retention.ms`` counts from it if ``--now`` lies far before it."""
    log_end_offset: int
    kept_end_offset: int
    """The batch that ends here stays, if need be empty: the high watermark."""
    is_at_once: bool = False
    """Whether the sources of each group are unlinked before the next group needs space."""
    guard_of: Callable[[KeyCount], Reason | None] = lambda _: None
    """Returns the objection of an unconfirmed guard rail against dropping the records without a key."""

    def check(self, count: KeyCount) -> None:
        """Refuse to write if a guard rail holds the round back. Raises: HeldBack."""
        if guard := self.guard_of(count):
            raise HeldBack(guard, count)


def round_of(
    partition: PartitionPlan, listing: Listing, request: Request, means: Means, log_start_offset: int | None = None
) -> Round:
    """Return the round that a plan asks for.

    Args:
        partition: with a compaction.
        listing: of its directory, as retention left it.
        request: states the moment of the run, and whether it unlinks at once.
        means: of the execution.
        log_start_offset: the planned one, where the deletion is only rehearsed; else as the facts have it.

    Raises: PlanOutOfDate where a segment is not as it was planned; UnseenSegment; as ``load_producer_state``.
    """
    facts, compaction = partition.facts, partition.compaction
    assert compaction is not None
    assert facts.high_watermark is not None, "without one, nothing is compacted"
    ensure_plain_files(listing)
    segments = tuple(check_unchanged(listing.segments, compaction.segments))
    producers = producer_state_of(facts, listing, request.now_ms, means)
    return Round(
        listing,
        segments,
        compaction,
        partition.policy,
        facts.log_start_offset if log_start_offset is None else log_start_offset,
        producers,
        request.now_ms,
        means.clock.now_ms(),
        facts.log_end_offset,
        compaction.round.end_offset if means.keeps_round_end else facts.high_watermark,
        request.is_at_once,
        partial(_guard_of, partition, request),
    )


def _guard_of(partition: PartitionPlan, request: Request, count: KeyCount) -> Reason | None:
    return unless_confirmed(unkeyed_guard(count, partition.policy), path_of(partition.facts), request)


class Compacted(NamedTuple):
    """The result of a round."""

    size_bytes: int
    """The size of all ``.log`` files of the round after it."""
    records_read: int
    records_kept: int
    unkeyed: int
    end_offset: int
    """The offset for the cleaner checkpoint: the first dirty offset of the next round."""
    freed_bytes: int = 0
    """The size of the files that the round replaced and unlinked."""
    space: DiskFigures = DiskFigures()
    """The change of the free space."""
    map_utilisation: float = 0.0
    """The used share of the offset map; 1 if the map could not hold all keys at once."""


def compact(round_: Round, means: Means) -> Compacted:
    """Carry a round out, under the lock. The caller writes the cleaner checkpoint once all swaps are durable.

    Raises:
        CorruptBatch, CorruptIndex, NotYetSupported, OutOfSpace, PlanOutOfDate, UnreadableFile: the partition is as it
            was, or some of its groups are swapped in whole: either is a valid log, and the round can be repeated.
        HeldBack: a guard rail holds the partition back; nothing was written.
        Stopped: asked to end; groups swapped in before stay.
    """
    interval_bytes = round_.policy.index_interval_bytes
    target = InPlace(round_.listing, interval_bytes, means.fs, at_once=round_.is_at_once, stopping=means.stopping)
    done = _run(round_, means, target, is_locked=True)
    return done._replace(freed_bytes=target.freed_bytes)


def measure(round_: Round, means: Means) -> Compacted:
    """Return what ``compact`` would leave, byte for byte, and write nothing. Needs no lock. Raises: as ``compact``."""
    target = Nowhere(round_.listing.directory, round_.policy.index_interval_bytes, at_once=round_.is_at_once)
    return _run(round_, means, target, is_locked=False)


def copy_compacted(round_: Round, means: Means, target: IntoCopy) -> Compacted:
    """Write what ``compact`` would leave into a copy. Raises: as ``compact``; the original is only read, unlocked."""
    return _run(round_, means, target, is_locked=False)


def _run(round_: Round, means: Means, target: Destination, *, is_locked: bool) -> Compacted:
    new_fates, pace = fates_maker(round_), Pace(means)
    with ExitStack() as mappings, Crew(means.threads) as crew:
        spans = [OpenSpan.of(span, mappings, is_locked=is_locked) for span in spans_of(round_)]
        horizons = horizons_of(round_)
        filters = mappings.enter_context(filters_of(round_, spans, horizons) if is_locked else nullcontext())
        walks: list[Fates] = []
        survivors = survivors_of(round_, spans, _noted(walks, new_fates), crew, means, pace, filters)
        resolve(walks, round_.listing.segments, round_.log_end_offset, pace.spend, is_locked=is_locked)
        try:
            round_.check(survivors.count)
        except HeldBack:
            means.listener.progress(round_.compaction.size_bytes)  # there is no second pass
            raise
        upgrades = round_.policy.compaction_upgrade_format
        rewriter = Rewriter(
            survivors.bitmap, horizons, survivors.tombstones, new_fates(), crew, pace, upgrades=upgrades
        )
        beyond = [opened.span.segment for opened in spans if opened.span.base_offset >= survivors.end_offset]
        size_bytes, kept, written_bytes = sum(segment.size_bytes for segment in beyond), 0, 0
        for group in _groups(round_, spans, survivors):
            pace.spend(written_bytes)
            if isinstance(group, Spared):
                means.listener.progress(2 * group.span.size_bytes)
                written_bytes, written_records = _keep(group, target)
            else:
                written_bytes, written_records = rewrite_group(group, rewriter, target, filters, survivors.bitmap)
            size_bytes += written_bytes
            kept += written_records
        for segment in beyond:
            target.keep(segment)
    return Compacted(
        size_bytes,
        survivors.records,
        kept,
        survivors.count.unkeyed,
        survivors.end_offset,
        space=target.space,
        map_utilisation=survivors.map_utilisation,
    )


def horizons_of(round_: Round) -> Horizons:
    """Return the moments that the round decides by."""
    retention_ms = round_.policy.delete_retention_ms
    horizon_ms = legacy_horizon_ms(round_.segments, round_.compaction.round.first_dirty_offset, retention_ms)
    met_ms = round_.clock_ms if round_.clock_ms - round_.now_ms > RUN_MS_MAX else round_.now_ms
    return Horizons(round_.now_ms, new_delete_horizon_ms(met_ms, retention_ms), horizon_ms)


def survivors_of(
    round_: Round,
    spans: Sequence[OpenSpan],
    new_fates: Callable[[], Fates],
    crew: Crew,
    means: Means,
    pace: Pace,
    filters: Filters | None,
) -> Survivors:
    """Find the survivors of a round: its first pass.

    ``tests.kafka_rounds`` replaces this function by Kafka's own pass.
    """
    first_dirty_offset = round_.compaction.round.first_dirty_offset
    map_bytes = means.broker.log_cleaner_dedupe_buffer_size // means.side_by_side
    budget = Budget(map_bytes, means.broker.log_cleaner_io_buffer_load_factor)
    dirty_bytes = sum(one.span.size_bytes for one in spans if is_dirty(one.span, first_dirty_offset))
    key_map = KeyMap(dirty_bytes, budget, crew.threads, filters.secret if filters else None)
    shares_rows = not round_.policy.compaction_upgrade_format
    finder = Finder(spans, first_dirty_offset, key_map, new_fates, crew, pace, pace.spend, filters, shares_rows)
    return finder.find()


def filters_of(round_: Round, spans: Sequence[OpenSpan], horizons: Horizons) -> AbstractContextManager[Filters | None]:
    """Return the key filters that earlier rounds wrote; None without any."""
    return Filters.opened(round_.listing.directory, [opened.span for opened in spans], horizons) or nullcontext()


def rewrite_group(
    group: Group, rewriter: Rewriter, target: Destination, filters: Filters | None, bitmap: Words
) -> tuple[int, int]:
    """Rewrite one group and hand it to the destination. Return its bytes and records afterwards."""
    spans = [walked for _, walked in group]
    first = spans[0].span.segment
    survivors = sum(count_bits(bitmap, one.first_ordinal, one.end_ordinal) for one in spans) if filters else 0
    cleaned = target.open(first.base_offset)
    try:
        if not rewriter.rewrite(group, cleaned):
            if filters:
                has_empty_batches = spans[0].has_empty_batches
                filters.settle(spans, first.log, spans[0].records, survivors, has_empty_batches=has_empty_batches)
            return _keep(spans[0], target)
        target.replace(group, cleaned)
    except BaseException:
        cleaned.discard()
        raise
    if filters:
        log = SegmentFile.at(first.directory, first.log.name)
        filters.settle(spans, log, cleaned.records, survivors, has_empty_batches=cleaned.has_empty_batches)
    return cleaned.size_bytes, cleaned.records


def _keep(kept: Walked | Spared, target: Destination) -> tuple[int, int]:
    target.keep(kept.span.segment)
    return kept.span.size_bytes, kept.records


def spans_of(round_: Round) -> list[Span]:
    """Return the segments of a round, each with the offset below which it ends."""
    planned = round_.compaction.round
    uppers = [segment.base_offset for segment in round_.segments[1:]] + [planned.end_offset]
    return [
        Span(segment, upper, is_alone=(segment.base_offset,) in planned.groups)
        for segment, upper in zip(round_.segments, uppers, strict=True)
    ]


def _groups(round_: Round, spans: Sequence[OpenSpan], survivors: Survivors) -> Iterator[Group | Spared]:
    """Yield the groups of the plan; new groups if the round ends early. A spared span is a group of its own."""
    planned, facts, end_offset = round_.compaction.round, round_.compaction.segments, survivors.end_offset
    is_whole = end_offset == planned.end_offset
    groups = planned.groups if is_whole else grouped(facts, round_.policy, end_offset, planned.end_offset)
    readers = {opened.span.base_offset: opened.reader for opened in spans}
    found = {one.span.base_offset: one for one in survivors.walked}
    for bases in groups:
        first = found[bases[0]]
        if isinstance(first, Spared):
            yield first
        else:
            yield [(readers[base], one) for base in bases if isinstance(one := found[base], Walked)]


def fates_maker(round_: Round) -> Callable[[], Fates]:
    """Return a function that makes the follower of transactions for one walk."""
    end_offset = round_.compaction.round.end_offset
    aborted = aborted_transactions(round_.listing, round_.log_start_offset, end_offset)
    producers = ends_of(round_.producers)
    return partial(Fates, aborted, producers, round_.kept_end_offset, round_.now_ms, round_.log_start_offset)


def _noted(walks: list[Fates], new_fates: Callable[[], Fates]) -> Callable[[], Fates]:
    """Make a follower with ``new_fates``, and keep it."""

    def make() -> Fates:
        walks.append(new_fates())
        return walks[-1]

    return make


def aborted_transactions(listing: Listing, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Yield aborted transactions that may have data in a range of offsets. A marker may lie in a later segment.

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


def aborted_of(segment: Segment) -> list[AbortedTransaction]:
    """Return the entries of a segment's transaction index. Raises: CorruptIndex, UnreadableFile."""
    file = segment.files.get(FileKind.TXN_INDEX)
    data = read_file(file.path) if file else None
    return [AbortedTransaction(*entry) for entry in parse_txn_index(data, file.path)] if file and data else []
