"""Log dirs in, facts out: this module makes the facts that every plan rests on. Cost: O(files), not O(bytes)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cleaner.engine.clock import Clock
from cleaner.engine.journal import read_last_run
from cleaner.engine.means import Means
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.repair.kept import kept_others
from cleaner.engine.uncleanable import CountedFiles, counts_in
from cleaner.errors import told
from policies.config.config_layers import ConfigLayers
from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP, ClockFacts, LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from policies.restore import belongs_to_another_topic
from storage.directory import despite_vanishing, opened_as_parent, pread
from storage.errors import LogCleanerError, NotRecovered, Stopped, UnreadableFile, as_unreadable
from storage.indexes import TimeIndexEntry
from storage.log.end import LogEndsBeforeItsStart, ensure_headers_parse, find_end, largest_unindexed_timestamp
from storage.log.leader_epochs import read_leader_epochs, read_topic_id, topic_id_if_readable
from storage.log.listing import Listing, list_partition
from storage.log.producer_state import ProducerState, load_producer_state
from storage.log.recovery import plan_recovery
from storage.log_dir import Checkpoints, LogDir, Offsets
from storage.names import MANIFEST_FILE, FileState, TopicPartition, is_named
from storage.segment import Segment, reading
from storage.stores.paths import StoredPath

if TYPE_CHECKING:
    from policies.rescue import Volume

_FIRST_BATCH_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_NEVER_MS = (1 << 63) - 1


Wanted = Callable[[TopicPartition], bool]
Listed = Callable[[Listing], object]
"""A function that is called with the listing of each partition, whether or not facts could be made of it."""


class Needs(NamedTuple):
    """The facts of a partition that are read only where its policy needs them.

    Attributes:
        ends_before_ms: time retention would delete a segment whose time index ends before this, epoch ms. The batches
            behind its last entry are then read, too. None if time deletes nothing.
        first_batches: ``SegmentFacts.first_batch_ms``.
        last_stable_offset: ``PartitionFacts.last_stable_offset``, and a sound active segment (``ensure_sound_active``).
    """

    ends_before_ms: int | None
    first_batches: bool
    last_stable_offset: bool

    @classmethod
    def of(cls, policy: TopicPolicy, now_ms: int) -> Needs:
        """Return what a policy needs."""
        return cls(
            now_ms - policy.retention_ms if policy.cleanup_delete and policy.retention_ms >= 0 else None,
            policy.cleanup_compact and policy.max_compaction_lag_ms < _NEVER_MS,
            policy.cleanup_compact and not policy.unknown,
        )


class ForeignTopicId(LogCleanerError):
    """A partition directory of another topic that had the same name."""

    path: Path
    topic_id: str
    known_id: str

    def __str__(self) -> str:
        return (
            f"{self.path}: belongs to topic id {self.topic_id}, but the cluster metadata gives that name the id "
            f"{self.known_id}: a topic that was deleted and made again; a broker would set it aside as -stray"
        )


def everything(_: TopicPartition) -> bool:
    """Return True: every partition is wanted."""
    return True


def unheard(_: Listing) -> None:
    """Ignore the listings."""


class Survey(NamedTuple):
    """The input of an inventory, besides the directory."""

    layers: ConfigLayers
    now_ms: int
    producer_expiration_ms: int
    topics: tuple[str, ...] = ()
    """Globs; empty means all."""
    wanted: Wanted = everything
    """A predicate, asked about each partition that the globs name, just before it is read."""
    listed: Listed = unheard
    is_glance: bool = False
    """Whether only figures are wanted: then two files that alone stop a broker are not read in a store, where none
    starts, since each would be a request for each partition.
    """

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition is wanted, and a glob names it or its topic."""
        return is_named(topic_partition, self.topics) and self.wanted(topic_partition)

    def policy_of(self, topic_partition: TopicPartition, cleaned: Offsets) -> TopicPolicy:
        """Return the configuration of a partition.

        A default alone never turns a compacted partition into an uncompacted one.
        """
        return self.layers.policy_for(topic_partition.topic, compacted_before=topic_partition in cleaned)


def survey_log_dir(log_dir: LogDir, survey: Survey) -> LogDirFacts:
    """Read the facts of a log dir.

    An unreadable partition is part of the result. A garbled checkpoint is an error of the whole log dir, and so is a
    disk that does not answer.
    """
    locked_by, free_bytes = None, 0
    try:
        locked_by, free_bytes = log_dir.locked_by(), log_dir.space().free_bytes
        checkpoints = log_dir.checkpoints()
        found, counts = list(log_dir.partitions()), counts_in(log_dir.path)
    except Stopped:
        raise
    except LogCleanerError as error:
        return LogDirFacts(str(log_dir.path), locked_by, free_bytes, 0, (), (str(error),))
    rule = OnlyCopies(log_dir)
    surveyed = (
        _survey_partition(log_dir, tp, path, checkpoints, survey, counts.get(tp), rule)
        for tp, path in found
        if survey.wants(tp)
    )
    partitions = tuple(partition for partition in surveyed if partition is not None)
    size_bytes = sum(
        p.size_bytes
        if isinstance(p, UnreadablePartition)
        else sum(s.size_bytes + s.companions_bytes for s in p.segments)
        for p in partitions
    )
    disk_bytes = sum(partition.disk_bytes for partition in partitions)
    lost = lost_since_the_copy(log_dir, survey.wants)
    errors = () if lost is None else (str(lost),)
    return LogDirFacts(str(log_dir.path), locked_by, free_bytes, size_bytes, partitions, errors, disk_bytes=disk_bytes)


def lost_since_the_copy(log_dir: LogDir, wants: Wanted) -> LogCleanerError | None:
    """Return an error if the log dir is a finished copy that lost segments of the wanted partitions."""
    try:
        ensure_whole_copy(log_dir, wants)
    except LogCleanerError as error:
        return error
    return None


def ensure_whole_copy(log_dir: LogDir, wants: Wanted) -> None:
    """Refuse a finished copy that lost segments of the wanted partitions, also one that is read together with a tier.

    Raises: as ``ensure_whole``.
    """
    paths: tuple[Path, ...] = (log_dir.path,)
    if isinstance(log_dir.path, StoredPath):
        from storage.tiers.view import log_dirs_behind  # noqa: PLC0415 - hardly any run reads a tier

        paths = log_dirs_behind(log_dir.path)
    for path in paths:
        with as_unreadable(path):
            is_finished_copy = (path / MANIFEST_FILE).exists()
        if is_finished_copy:
            from cleaner.engine.copy.manifest import ensure_whole  # noqa: PLC0415 - hardly any log dir is a copy

            ensure_whole(path, wants)


def volumes_of(log_dirs: Sequence[LogDir]) -> tuple[Volume, ...]:
    """Return the file systems of log dirs, in their present state; a store is none."""
    from policies.rescue import Volume  # noqa: PLC0415 - only ``free`` and dry runs ask

    spaces = {log_dir: log_dir.space() for log_dir in log_dirs if not isinstance(log_dir.path, StoredPath)}
    by_device = sorted(spaces, key=lambda log_dir: spaces[log_dir].device)
    volumes = []
    for _, group in groupby(by_device, key=lambda log_dir: spaces[log_dir].device):
        together = tuple(group)
        space = spaces[together[0]]
        paths = tuple(str(log_dir.path) for log_dir in together)
        volumes.append(Volume(paths, space.size_bytes, space.free_bytes, space.used_bytes))
    return tuple(volumes)


def survey_again(
    log_dir: LogDir, known: PartitionFacts | UnreadablePartition, checkpoints: Checkpoints, survey: Survey
) -> PartitionFacts | UnreadablePartition | None:
    """Read the facts of a known partition for another survey; None if a live broker has deleted it meanwhile."""
    path = log_dir.path / str(known.topic_partition)
    found = _survey_partition(log_dir, known.topic_partition, path, checkpoints, survey, None, OnlyCopies(log_dir))
    if isinstance(known, PartitionFacts) and isinstance(found, PartitionFacts):
        return replace(found, counted=known.counted)  # the survey has no configuration
    return found


def survey_clock(log_dir: LogDir, clock: Clock, jump_max_ms: int) -> ClockFacts:
    """Return the facts that show whether the wall clock can be believed. They do not depend on ``--now``.

    Args:
        log_dir: the log dir, in which this run has changed nothing yet.
        clock: the machine's.
        jump_max_ms: ``clock.jump.max``: segments are read only if every other file is older than that.

    Raises: UnreadableFile.
    """
    now_ms = clock.now_ms()
    newest_ms = log_dir.newest_change_ms()
    if newest_ms is not None and newest_ms < now_ms - jump_max_ms:
        newest_ms = max((_newest_file_ms(path) for _, path in log_dir.partitions()), default=newest_ms)
    return ClockFacts(now_ms, clock.boot(), read_last_run(log_dir.path), newest_ms)


def _newest_file_ms(partition: Path) -> int:
    """Return the newest modification time of the files, epoch ms; 0 if the partition cannot be read."""
    try:
        return max((file.identity.mtime_ms for file in list_partition(partition).files), default=0)
    except LogCleanerError:
        return 0


def _survey_partition(
    log_dir: LogDir,
    topic_partition: TopicPartition,
    path: Path,
    checkpoints: Checkpoints,
    survey: Survey,
    counted: CountedFiles | None,
    rule: OnlyCopies,
) -> PartitionFacts | UnreadablePartition | None:
    """Return the facts of a partition, or why it cannot be read; None if a live broker has deleted it meanwhile."""
    listing: Listing | None = None

    def survey_now() -> PartitionFacts:
        nonlocal listing
        listing = list_partition(path)
        facts = survey_partition(log_dir, topic_partition, listing, checkpoints, survey, rule)
        return replace(facts, counted=counted.of(listing)) if counted else facts

    try:
        found: PartitionFacts | UnreadablePartition = despite_vanishing(survey_now)
    except Stopped:
        raise
    except LogCleanerError as error:
        if isinstance(error, UnreadableFile) and error.has_vanished and not path.exists():
            return None
        files = listing.files if listing else ()
        size_bytes, disk_bytes = sum(file.size_bytes for file in files), sum(file.disk_bytes for file in files)
        found = UnreadablePartition(topic_partition, str(log_dir.path), told(error), size_bytes, disk_bytes)
    if listing:
        survey.listed(listing)
    return found


def survey_partition(
    log_dir: LogDir,
    topic_partition: TopicPartition,
    listing: Listing,
    checkpoints: Checkpoints,
    survey: Survey,
    rule: OnlyCopies,
) -> PartitionFacts:
    """Read the facts of one partition, as if the leftovers of a crash were recovered. Raises: LogCleanerError."""
    policy = survey.policy_of(topic_partition, checkpoints.cleaned)
    in_tier = _read_from_tier(listing, topic_partition, policy, checkpoints)
    if not (survey.is_glance and isinstance(listing.directory, StoredPath)):
        _check_topic_id(listing.directory, topic_partition.topic, survey.layers.topic_ids)
        read_leader_epochs(listing.directory)  # a garbled file stops a broker, so report it now
    recovery = plan_recovery(listing)
    recovered = recovery.listing
    segments = recovered.segments
    needs = Needs.of(policy, survey.now_ms)
    log_start, log_end, torn_bytes = _offsets(segments, checkpoints.log_starts.get(topic_partition, 0), checkpoints)
    if needs.last_stable_offset and checkpoints.clean_shutdown and segments:
        ensure_sound_active(segments[-1], torn_bytes)
    high_watermark = _high_watermark(checkpoints.high_watermarks.get(topic_partition), log_start, log_end)
    return PartitionFacts(
        topic_partition,
        str(log_dir.path),
        _facts_of_segments(segments, listing.directory, needs),
        log_start,
        log_end,
        high_watermark,
        _last_stable_offset(recovered, log_start, log_end, high_watermark, survey)
        if needs.last_stable_offset
        else None,
        checkpoints.cleaned.get(topic_partition),
        torn_bytes,
        len(listing.in_state(FileState.DELETED)) + len(kept_others(listing.others)),
        tuple(file.file_name for file in recovery.evidence),
        rule.missing(topic_partition, listing, recovery),
        _held_since_ms(listing.directory, topic_partition, checkpoints),
        in_tier=in_tier,
    )


def _read_from_tier(
    listing: Listing, topic_partition: TopicPartition, policy: TopicPolicy, checkpoints: Checkpoints
) -> frozenset[int]:
    """Return which segments of a log are read from a tier; none unless it is to be cleaned together with a tier.

    Raises: TierLacksOffsets if neither the tier nor a log dir has offsets that somebody names.
    """
    if not isinstance(listing.directory, StoredPath):
        return frozenset()
    from storage.tiers.errors import TierLacksOffsets  # noqa: PLC0415 - hardly any run reads a tier
    from storage.tiers.view import view_at  # noqa: PLC0415 - as above

    view = view_at(listing.directory)
    if view is None or view.restored is None:
        return frozenset()
    joined, missing = view.joined(topic_partition), view.missing(topic_partition)
    start = checkpoints.log_starts.get(topic_partition, 0)
    if joined is None and policy.remote_storage_enable and listing.segments and start < listing.segments[0].base_offset:
        missing = ((start, listing.segments[0].base_offset),)
    if missing:
        raise TierLacksOffsets(str(topic_partition), missing[0][0], missing[0][1] - 1, len(missing))
    return joined.in_tier if joined else frozenset()


def _held_since_ms(directory: Path, topic_partition: TopicPartition, checkpoints: Checkpoints) -> int | None:
    """Return since when a partition is on hold. A hold on an earlier topic of that name has lapsed."""
    since_ms, noted_id = checkpoints.holds.get(topic_partition), checkpoints.hold_ids.get(topic_partition)
    if noted_id and belongs_to_another_topic(noted_id, topic_id_if_readable(directory)):
        return None
    return since_ms


def _check_topic_id(directory: Path, topic: str, topic_ids: Mapping[str, str] | None) -> None:
    """Refuse the directory of an earlier topic of that name: it is not under the policy of the present topic."""
    known = (topic_ids or {}).get(topic)
    found = read_topic_id(directory) if known else None
    if known and found and found != known:
        raise ForeignTopicId(directory, found, known)


def _offsets(segments: Sequence[Segment], checkpointed_start: int, checkpoints: Checkpoints) -> tuple[int, int, int]:
    """Return log start offset, log end offset and the number of torn bytes."""
    if not segments:
        return checkpointed_start, checkpointed_start, 0
    end = find_end(segments[-1], trust_index=checkpoints.clean_shutdown)
    if end.next_offset < checkpointed_start:
        raise LogEndsBeforeItsStart(segments[-1].directory, end.next_offset, checkpointed_start)
    return max(checkpointed_start, segments[0].base_offset), end.next_offset, end.torn_bytes


def ensure_sound_active(active: Segment, torn_bytes: int) -> None:
    """Fail a partition with damage in its active segment: damage there fails its partition, as in any other segment.

    Behind a clean stop nobody else looks. The search for the log end begins at the last indexed batch, and the state of
    the producers lies in the snapshot at the log end, so that Kafka reads no batch. A compaction reads the segments
    below alone, and would go on. Behind an unclean stop the search reads all headers: there the log ends at the damage.

    Only headers are read: ``verify`` compares checksums.

    Args:
        active: the active segment.
        torn_bytes: the bytes behind the log end.

    Raises: CorruptBatch, UnreadableFile.
    """
    ensure_headers_parse(active, torn_bytes)


def _high_watermark(checkpointed: int | None, log_start: int, log_end: int) -> int | None:
    return None if checkpointed is None else max(min(checkpointed, log_end), log_start)


def _facts_of_segments(segments: Sequence[Segment], directory: Path, needs: Needs) -> tuple[SegmentFacts, ...]:
    """Read the facts of segments. Their directory is opened once for all reads."""
    with as_unreadable(directory), opened_as_parent(directory) as parent:
        return tuple([_segment_facts(segment, parent, needs) for segment in segments])


def _segment_facts(segment: Segment, parent: int | None, needs: Needs) -> SegmentFacts:
    newest = _newest_entry(segment, parent, needs.ends_before_ms)
    sizes = segment.sizes
    return SegmentFacts(
        segment.base_offset,
        sizes.identity.size_bytes,
        sizes.companions_bytes,
        sizes.index_bytes,
        sizes.time_index_bytes,
        sizes.identity.mtime_ms,
        newest.timestamp_ms if newest else NO_TIMESTAMP,
        sizes.identity,
        _first_batch_ms(segment, parent) if needs.first_batches else NO_TIMESTAMP,
        sizes.companions_identity,
        newest.offset if newest else None,
        sizes.disk_bytes,
        sizes.links,
    )


def _newest_entry(segment: Segment, parent: int | None, expires_before_ms: int | None) -> TimeIndexEntry | None:
    """Read the last entry of the time index. If that entry lets time retention delete the segment, read the log, too.

    No checksum covers an index. An index that was cut short or altered must not make a segment older.
    """
    newest = segment.newest_entry(parent)
    if expires_before_ms is None or (newest and newest.timestamp_ms >= expires_before_ms):
        return newest
    largest_ms = largest_unindexed_timestamp(segment, parent)
    indexed_ms = newest.timestamp_ms if newest else NO_TIMESTAMP
    return TimeIndexEntry(largest_ms, segment.base_offset) if largest_ms > indexed_ms else newest


def _first_batch_ms(segment: Segment, parent: int | None) -> int:
    """Return the largest timestamp of the first batch (v2); NO_TIMESTAMP if it has none."""
    with reading(segment.log.path, parent) as descriptor:
        data = pread(descriptor, _FIRST_BATCH_MAX_TIMESTAMP.size, _MAX_TIMESTAMP_POSITION)
    return _FIRST_BATCH_MAX_TIMESTAMP.unpack(data)[0] if len(data) == _FIRST_BATCH_MAX_TIMESTAMP.size else NO_TIMESTAMP


def _last_stable_offset(
    recovered: Listing,
    log_start: int,
    log_end: int,
    high_watermark: int | None,
    survey: Survey,
) -> int:
    """Return the last stable offset, which takes a replay of the newest batches."""
    bound = log_end if high_watermark is None else high_watermark
    state = load_producer_state(
        recovered.snapshots,
        recovered.segments,
        log_start,
        log_end,
        survey.now_ms,
        survey.producer_expiration_ms,
    )
    return state.last_stable_offset(bound)


def whole_log(facts: PartitionFacts, listing: Listing, *, is_recovered: bool) -> Listing:
    """Return the files of a log as they are once recovered, for a run that reads all of it and writes it anew.

    Args:
        facts: of the partition.
        listing: of its directory.
        is_recovered: the run recovered it, so what still waits could not be, and nothing of it may be replaced.

    Raises: NotRecovered; TornTail if the log ends within a batch; as ``plan_recovery``.
    """
    recovery = plan_recovery(listing)
    if is_recovered and recovery.is_needed:
        raise NotRecovered(listing.directory / recovery.names[0])
    recovered = recovery.listing
    if facts.torn_tail_bytes:
        from storage.log.active import TornTail  # noqa: PLC0415 - it loads what appends to logs

        log = recovered.segments[-1].log
        raise TornTail(log.path, log.size_bytes - facts.torn_tail_bytes, facts.torn_tail_bytes)
    return recovered


def producer_state_of(facts: PartitionFacts, listing: Listing, now_ms: int, means: Means) -> ProducerState:
    """Return the producer state at the end of a log, replayed from its newest snapshot.

    A new snapshot holds it, and a compaction keeps the last batch of each of its producers.
    Raises: as ``load_producer_state``.
    """
    return load_producer_state(
        listing.snapshots, listing.segments, facts.log_start_offset, facts.log_end_offset,
        now_ms, means.broker.producer_id_expiration_ms,
    )  # fmt: skip
