"""A round: find the survivors of all its segments, rewrite group by group, swap each group in, in ascending order.

Source: Kafka Cleaner.doClean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from cleaner.engine.compaction.cleaned import CleanedSegment
from cleaner.engine.compaction.crew import Crew
from cleaner.engine.compaction.fates import Fates, ends_of
from cleaner.engine.compaction.kafka_rounds import KafkaFinder, keys_max_of
from cleaner.engine.compaction.key_map import Budget, KeyMap
from cleaner.engine.compaction.legacy import legacy_horizon_ms
from cleaner.engine.compaction.pace import Pace
from cleaner.engine.compaction.resolve import resolve
from cleaner.engine.compaction.rewrite import Rewriter, Times
from cleaner.engine.compaction.sources import Source
from cleaner.engine.compaction.survivors import Finder, Survivors, dirty_sources
from cleaner.engine.deletion import retire_snapshots
from cleaner.engine.means import Means
from policies.compaction import grouped
from policies.config import TopicPolicy
from policies.plan import Compaction
from policies.retain import AbortedTransaction
from storage.filesystem import Unwritten
from storage.log.listing import Listing
from storage.log_dir import read_file
from storage.names import FileKind
from storage.producer_state import ProducerState
from storage.segment import Segment
from storage.swap import remove_retired, swap_in
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

    freed_bytes = 0

    def swap(group: Sequence[Source], cleaned: CleanedSegment) -> None:
        nonlocal freed_bytes
        segments = [source.segment for source in group]
        is_cold = 2 * sum(source.absent_bytes for source in group) > sum(segment.size_bytes for segment in segments)
        swap_in(means.fs, cleaned.seal(segments[-1].log.identity.mtime_ns, is_cold=is_cold), segments)
        retire_snapshots(means.fs, round_.listing, segments[1:])  # of bases that the group's segment took in
        if means.delete_delay_ms == 0:  # the next group may need the space
            for source in group:
                source.close()
            freed_bytes += remove_retired(means.fs, segments)

    done = _run(round_, means, swap, is_locked=True)
    return replace(done, freed_bytes=freed_bytes)


def measure(round_: Round, means: Means) -> Compacted:
    """What ``compact`` would leave, byte for byte, and nothing written. Raises: as ``compact``, and needs no lock."""
    return _run(round_, replace(means, fs=Unwritten()), lambda _group, _cleaned: None, is_locked=False)


Finish = Callable[[Sequence[Source], CleanedSegment], None]


def _run(round_: Round, means: Means, finish: Finish, *, is_locked: bool) -> Compacted:
    new_fates, pace = _fates_maker(round_), Pace(means)
    with ExitStack() as mappings, Crew(means.threads) as crew:
        sources = [mappings.enter_context(source) for source in _sources(round_, is_locked=is_locked)]
        times = _times(round_)
        walks: list[Fates] = []
        survivors = _survivors(round_, sources, _noted(walks, new_fates), crew, times, means, pace)
        resolve(walks, round_.listing.segments, round_.log_end_offset, pace.spend, is_locked=is_locked)
        if survivors.tombstones_are_decided:
            times = replace(times, now_ms=_BEFORE_ALL_MS, legacy_horizon_ms=_BEFORE_ALL_MS)
        upgrades = round_.policy.compaction_upgrade_format
        rewriter = Rewriter(survivors.bitmap, times, new_fates(), crew, pace, upgrades=upgrades)
        beyond = [source for source in sources if source.segment.base_offset >= survivors.end_offset]
        size_bytes, kept, written_bytes = sum(source.segment.size_bytes for source in beyond), 0, 0
        for group in _groups(round_, sources, survivors.end_offset):
            pace.spend(written_bytes)
            written_bytes, written_records = _rewrite_group(round_, group, rewriter, means, finish)
            size_bytes += written_bytes
            kept += written_records
    read = sum(source.records for source in sources[: len(sources) - len(beyond)])
    utilisation = survivors.map_utilisation
    return Compacted(size_bytes, read, kept, survivors.unkeyed, survivors.end_offset, map_utilisation=utilisation)


def _times(round_: Round) -> Times:
    retention_ms = round_.policy.delete_retention_ms
    horizon_ms = legacy_horizon_ms(round_.segments, round_.compaction.round.first_dirty_offset, retention_ms)
    return Times(round_.now_ms, round_.now_ms + retention_ms, horizon_ms)


def _survivors(
    round_: Round,
    sources: Sequence[Source],
    new_fates: Callable[[], Fates],
    crew: Crew,
    times: Times,
    means: Means,
    pace: Pace,
) -> Survivors:
    first_dirty_offset = round_.compaction.round.first_dirty_offset
    if round_.policy.compaction_rounds == "kafka":
        keys_max = keys_max_of(means.broker)
        return KafkaFinder(sources, first_dirty_offset, keys_max, new_fates, times, pace).find()
    map_bytes = means.broker.log_cleaner_dedupe_buffer_size // means.side_by_side
    budget = Budget(map_bytes, means.broker.log_cleaner_io_buffer_load_factor)
    dirty_bytes = sum(source.segment.size_bytes for source in dirty_sources(sources, first_dirty_offset))
    key_map = KeyMap(dirty_bytes, budget, crew.threads)
    return Finder(sources, first_dirty_offset, key_map, new_fates, crew, pace).find()


def _rewrite_group(
    round_: Round, group: Sequence[Source], rewriter: Rewriter, means: Means, finish: Finish
) -> tuple[int, int]:
    """Rewrite one group and finish it; gives its bytes and records afterwards."""
    first = group[0].segment
    cleaned = CleanedSegment(means.fs, first.directory, first.base_offset, round_.policy.index_interval_bytes)
    try:
        if not rewriter.rewrite(group, cleaned):
            return first.size_bytes, group[0].records
        finish(group, cleaned)
    except BaseException:
        cleaned.discard()
        raise
    return cleaned.size_bytes, cleaned.records


def _sources(round_: Round, *, is_locked: bool) -> Iterator[Source]:
    bases = [segment.base_offset for segment in round_.segments[1:]] + [round_.compaction.round.end_offset]
    for segment, upper_offset in zip(round_.segments, bases, strict=True):
        yield Source(segment, upper_offset, is_locked=is_locked)


def _groups(round_: Round, sources: Sequence[Source], end_offset: int) -> Iterator[list[Source]]:
    """As planned, or anew where the round ends early."""
    planned, facts = round_.compaction.round, round_.compaction.segments
    is_whole = end_offset == planned.end_offset
    groups = planned.groups if is_whole else grouped(facts, round_.policy, end_offset, planned.end_offset)
    by_base = {source.segment.base_offset: source for source in sources}
    for bases in groups:
        yield [by_base[base] for base in bases]


def _fates_maker(round_: Round) -> Callable[[], Fates]:
    """Each walk over the batches follows the transactions anew."""
    aborted = _aborted(round_)
    producers = ends_of(round_.producers)
    end_offset, log_start_offset = round_.compaction.round.end_offset, round_.log_start_offset
    return lambda: Fates(aborted, producers, end_offset, round_.now_ms, log_start_offset)


def _noted(walks: list[Fates], new_fates: Callable[[], Fates]) -> Callable[[], Fates]:
    """Makes what ``new_fates`` makes, and keeps it."""

    def make() -> Fates:
        walks.append(new_fates())
        return walks[-1]

    return make


def _aborted(round_: Round) -> list[AbortedTransaction]:
    """Aborted transactions that may have data in the round's range; a marker may lie in a later segment."""
    indexes = []
    for segment in round_.listing.segments:
        file = segment.files.get(FileKind.TXN_INDEX)
        data = read_file(file.path) if file else None
        if file and data:
            indexes.append(parse_txn_index(data, file.path))
    found = collect_aborted_txns(indexes, round_.log_start_offset, round_.compaction.round.end_offset)
    return [AbortedTransaction(*entry) for entry in found]
