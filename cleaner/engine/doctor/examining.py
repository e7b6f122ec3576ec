"""Examine log dirs: a plan's facts, a glance at every segment, a walk within its budget, and what lies around.

No lock is taken, nothing is changed. Beside a live broker files vanish and grow: a partition that changes while it is
looked at is looked at again, and left out if it is gone.

Reads what ``__remote_log_metadata`` says of segments in remote storage, and keeps segments whose events do not add
up.

Source: Kafka BytesApiMessageSerde, RemoteLogSegmentState, RemoteLogMetadataCache.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from cleaner.engine.doctor.glancing import LogEnd
from cleaner.engine.doctor.missing import loss_symptoms
from cleaner.engine.doctor.walking import WalkBudget, walk
from cleaner.engine.explain.explaining import Glanced, Look, PartitionChanged, observe
from cleaner.engine.leftovers import Leftovers
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.space import FileSystemAccount, UnlinkedFile, account_of
from cleaner.engine.verify.hollow import hollow_swap_facts, names_in, newest_snapshot, recovered, strange_logs
from cleaner.engine.verify.log_dir_files import (
    CheckpointFiles,
    read_copy,
    read_entries,
    read_epochs_of,
    read_id_of,
    read_identity,
)
from cleaner.engine.verify.set_aside import lost_in, sole_copies_in
from cleaner.errors import told
from policies.config.config_layers import ConfigLayers
from policies.config.policy import BrokerPolicy
from policies.explain.explanation import PartitionExplanation, in_brief
from policies.explain.observations import TopicHere
from policies.facts import UnreadablePartition
from policies.findings.diagnosis import Diagnosis, diagnose
from policies.findings.findings import NOT_WALKED, HeaderWalk, SegmentHistory
from policies.findings.of_history import NO_EPOCHS, ReadEpochs
from policies.findings.of_log_dir import PartitionNames, TopicId
from policies.findings.of_tiering import COPY_STARTED, DELETE_STARTED, UNKNOWN_START
from policies.findings.symptoms import (
    NO_NAMES,
    DamagedMetadata,
    EntryKind,
    EntrySymptoms,
    LogDirSymptoms,
    PartitionSymptoms,
    RemoteCopy,
    RemoteMetadata,
    TieredTotals,
    TopicIdentity,
    UnlinkedSymptoms,
)
from policies.plan import LogDirPlan, PartitionPlan, Plan
from policies.preflight.lost import LostPartition, SetAside
from policies.preflight.metadata import METADATA_DIR
from storage.directory import despite_vanishing, entries, status_of
from storage.errors import Corrupt, LogCleanerError, PlanOutOfDate, UnreadableFile, as_unreadable
from storage.log.end import find_end
from storage.log.listing import Listing, list_partition
from storage.log.read import read_batches
from storage.log_dir import LogDir
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    IMPORT_SUFFIX,
    MOVE_SUFFIX,
    REMOTE_INDEX_CACHE,
    DirState,
    FileState,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
    parse_segment_file_name,
    parse_topic_partition,
)
from storage.segment import Segment
from storage.stores.paths import path_of_text
from storage.tiers.metadata import SegmentReplay, events_of
from storage.tiers.segments import SegmentState

COLLECTED_WITHIN_MS: Final = 3_600_000
"""A broker lets go of what it deleted itself within this time."""
_KINDS: Final = {DirState.STRAY: EntryKind.STRAY, DirState.DELETE: EntryKind.DELETE}


def entries_of(
    log_dir: Path, layers: ConfigLayers, now_ms: int, sole_copies: Mapping[str, SetAside]
) -> Iterator[EntrySymptoms]:
    """Yield the directories that are no live partition, by name.

    Args:
        log_dir: its path.
        layers: state the delays.
        now_ms: the moment of the look, epoch ms.
        sole_copies: the directories that hold the only copy of a partition that belongs here, by name.

    Raises: UnreadableFile.
    """
    found: list[tuple[str, os.stat_result]] = []
    with as_unreadable(log_dir), entries(log_dir) as listed:
        for entry in listed:
            with suppress(FileNotFoundError):
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    for name, status in sorted(found, key=lambda pair: pair[0]):
        if not stat.S_ISDIR(status.st_mode):
            continue
        kind, topic = _kind_of(name)
        if kind is not None:
            delay_ms = layers.policy_for(topic).file_delete_delay_ms if topic else 0
            size_bytes = account_of(log_dir / name).total.disk_bytes
            age_ms = max(now_ms - status.st_ctime_ns // 1_000_000, 0)
            yield EntrySymptoms(str(log_dir / name), kind, size_bytes, age_ms, delay_ms, sole_copies.get(name))


def _is_kept(file: UnlinkedFile, now_ms: int) -> bool:
    name = parse_segment_file_name(Path(file.path).name)
    if name is None:
        return False
    return name.state is not FileState.DELETED or now_ms - file.unlinked_ms > COLLECTED_WITHIN_MS


def _kind_of(name: str) -> tuple[EntryKind | None, str]:
    """Return the kind of a directory, and its topic; None for one that is live, or moving, or of no partition."""
    if name == REMOTE_INDEX_CACHE:
        return EntryKind.INDEX_CACHE, ""
    for suffix, kind in ((IMPORT_SUFFIX, EntryKind.IMPORT), (MOVE_SUFFIX, EntryKind.MOVE)):
        if name.endswith(suffix) and parse_topic_partition(name.removesuffix(suffix)):
            return kind, ""
    parsed = parse_partition_dir_name(name)
    return (_KINDS.get(parsed.state), parsed.topic_partition.topic) if parsed else (None, "")


def unlinked_of(log_dir: Path, files: Iterable[UnlinkedFile], now_ms: int) -> UnlinkedSymptoms | None:
    """Return the files of a log dir that have no name any more; None if there are none.

    A broker that deletes a segment itself keeps its index files mapped until its next garbage collections.

    Args:
        log_dir: its path.
        files: the unlinked files of its file system, the largest first.
        now_ms: the moment of the look, epoch ms.
    """
    own = [file for file in files if path_of_text(file.path).is_relative_to(log_dir) and _is_kept(file, now_ms)]
    if not own:
        return None
    largest = own[0]
    return UnlinkedSymptoms(len(own), sum(file.disk_bytes for file in own), largest.path, largest.pid, largest.command)


TOPIC: Final = "__remote_log_metadata"
BYTES_MAX: Final = 64 << 20
"""A larger partition is read only if all is asked for."""
_UNFINISHED: Final = {
    SegmentState.COPY_SEGMENT_STARTED: COPY_STARTED,
    SegmentState.DELETE_SEGMENT_STARTED: DELETE_STARTED,
}


def remote_metadata(
    path: str, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int
) -> RemoteMetadata:
    """Return the segments whose events do not add up: begun and never ended, or without their first event.

    Where one event is of a later Kafka, nothing is known to be missing.

    Raises: CorruptBatch, UnreadableFile.
    """
    replay = SegmentReplay()
    for _, event in events_of(read_batches(segments, log_start_offset, log_end_offset)):
        replay.take(event)
    if replay.unknown:
        return RemoteMetadata(path, 0, ())
    here = [segment for found in replay.segments.values() for segment in found.values()]
    copies = [
        RemoteCopy(_UNFINISHED[segment.state], str(segment.partition), segment.event_ms or 0)
        for segment in here
        if segment.state in _UNFINISHED
    ]
    finished = [segment for segment in here if segment.state is SegmentState.COPY_SEGMENT_FINISHED]
    held_bytes = sum(segment.size_bytes or 0 for segment in finished)
    tiered = TieredTotals(len({segment.partition for segment in finished}), len(finished), held_bytes, len(copies))
    unfounded = [event for found in replay.unfounded.values() for event in found.values()]
    copies += [RemoteCopy(UNKNOWN_START, str(event.partition), event.event_ms) for event in unfounded]
    known = len(here) + len(unfounded) + sum(map(len, replay.deleted.values()))
    return RemoteMetadata(path, known, tuple(copies), tiered)


Progress = Callable[[int], object]
"""Hears the size of each partition that was looked at."""
_TRIES: Final = 3


@dataclass(frozen=True)  # no slots: it keeps what it was asked for
class Examination:
    """The means of an examination: the plan, the configuration, and how much may be read."""

    plan: Plan
    layers: ConfigLayers
    broker: BrokerPolicy
    budget: WalkBudget
    walks: Mapping[str, HeaderWalk] | None = None
    """What the headers tell of partitions, by the paths of their directories, where a check read all of them already;
    None if nobody did."""
    file_systems: Sequence[FileSystemAccount] = ()
    is_heard: Progress = lambda _bytes: None

    @property
    def now_ms(self) -> int:
        """The moment of the plan."""
        return self.plan.request.now_ms

    def diagnosis(self, damage: Corrupt | None = None) -> Diagnosis:
        """Look at everything, and return what is wrong.

        Args:
            damage: the error for which the cluster metadata could not be read; None if it could.
        """
        broken = DamagedMetadata(str(getattr(damage, "path", "")), told(damage)) if damage else None
        return diagnose([self._log_dir(planned) for planned in self.plan.log_dirs], self.now_ms, broken)

    def _log_dir(self, planned: LogDirPlan) -> LogDirSymptoms:
        path, unread = path_of_text(planned.facts.path), list[str]()
        checkpoints = CheckpointFiles.read(path, lambda error: unread.append(str(error)))
        garbled = [one.path for one in checkpoints.files if one.error is not None]
        errors = [error for error in planned.facts.errors if not any(one in error for one in garbled)]
        is_live, rule = planned.facts.locked_by is not None, OnlyCopies(LogDir(path))
        partitions: list[PartitionSymptoms] = []
        remote: list[RemoteMetadata] = []
        for one in planned.partitions:
            eyes = _Eyes(self, planned, one, checkpoints, rule, is_live=is_live)
            seen = eyes.symptoms()
            if seen is not None:
                partitions.append(seen)
                remote += eyes.remote()
            self.is_heard(one.facts.size_bytes if isinstance(one, PartitionPlan) else 0)
        volumes = [fs.volume for fs in self.file_systems]
        unlinked = [
            file for fs in self.file_systems if planned.facts.path in fs.volume.log_dirs for file in fs.unlinked.files
        ]
        topics, note = self.plan.request.topics, lambda error: unread.append(str(error))
        copy = read_copy(path, lambda name: is_named(name, topics), note, is_whole=not topics)
        return LogDirSymptoms(
            planned.facts.path,
            is_live,
            tuple(partitions),
            () if self.plan.request.topics else tuple(self._entries(planned)),
            () if self.plan.request.topics else tuple(read_entries(path)),
            None if self.plan.request.topics else unlinked_of(path, unlinked, self.now_ms),
            tuple(remote),
            tuple(dict.fromkeys((*errors, *unread))),
            checkpoints.files,
            self._tiered(),
            () if is_live or self.plan.request.topics else tuple(self._lost(planned, checkpoints)),
            read_identity(path),
            (path / METADATA_DIR).is_dir(),
            next((v.free_bytes for v in volumes if v.log_dirs[0] == planned.facts.path), None),
            copy,
        )

    def _lost(self, planned: LogDirPlan, checkpoints: CheckpointFiles) -> Iterator[LostPartition]:
        known = self.layers.topic_ids if self.is_known(planned) else None
        yield from lost_in(checkpoints.offsets, self.present, known, is_clean=checkpoints.was_clean)

    def _entries(self, planned: LogDirPlan) -> Iterator[EntrySymptoms]:
        log_dirs = [LogDir(path_of_text(one.facts.path)) for one in self.plan.log_dirs]
        own, is_known = LogDir(path_of_text(planned.facts.path)), self.is_known(planned)
        sole = sole_copies_in(own, log_dirs, self.broker.metadata_log_dir, asks_metadata=is_known)
        return entries_of(own.path, self.layers, self.now_ms, sole)

    @cached_property
    def present(self) -> set[TopicPartition]:
        """The partitions with a directory in any of the log dirs, whatever its suffix."""
        names = [entry.name for planned in self.plan.log_dirs for entry in path_of_text(planned.facts.path).iterdir()]
        return {found.topic_partition for name in names if (found := parse_partition_dir_name(name))}

    def _tiered(self) -> Mapping[str, bool]:
        plans = self.plan.partitions
        return {p.policy.topic: p.policy.remote_storage_enable for p in plans if not p.policy.unknown}

    def is_known(self, planned: LogDirPlan) -> bool:
        """Return whether the cluster metadata that was read is that of the cluster of a log dir."""
        config = planned.facts.config
        ids = (config.metadata_cluster_id, config.own_cluster_id) if config else (None, None)
        return self.layers.topic_ids is not None and (None in ids or ids[0] == ids[1])

    @cached_property
    def topics(self) -> Mapping[str, TopicHere]:
        """The number of partitions of each topic, and their size."""
        found: dict[str, TopicHere] = {}
        for facts in (planned.facts for planned in self.plan.partitions):
            before = found.get(facts.topic_partition.topic, TopicHere(0, 0))
            here = TopicHere(before.partitions + 1, before.size_bytes + facts.size_bytes)
            found[facts.topic_partition.topic] = here
        return found


class _Eyes:
    """The eyes on one partition."""

    def __init__(
        self,
        examination: Examination,
        log_dir: LogDirPlan,
        planned: PartitionPlan | UnreadablePartition,
        checkpoints: CheckpointFiles,
        rule: OnlyCopies,
        *,
        is_live: bool,
    ) -> None:
        self._with, self._log_dir, self._checkpoints, self._is_live = examination, log_dir, checkpoints, is_live
        self._rule = rule
        self._planned: PartitionPlan | None
        self._error: str | None
        self.topic_partition: TopicPartition
        if isinstance(planned, PartitionPlan):
            self._planned, self._error, self.topic_partition = planned, None, planned.facts.topic_partition
        else:
            self._planned, self._error, self.topic_partition = None, planned.error, planned.topic_partition
        self.path = path_of_text(log_dir.facts.path) / str(self.topic_partition)

    def symptoms(self) -> PartitionSymptoms | None:
        """Look at the partition; again if a file vanishes. None if it is gone, or never stays the same for a look."""
        error = self._error
        for _ in range(_TRIES):
            try:
                return despite_vanishing(self._look)
            except (PartitionChanged, PlanOutOfDate):
                continue
            except LogCleanerError as raised:
                if not self.path.exists():
                    return None
                error = error or str(raised)
                break
        return None if error is None else self._unread(error)

    def _unread(self, error: str | None, age_ms: int = 0, names: PartitionNames = NO_NAMES) -> PartitionSymptoms:
        """Return the symptoms of a partition whose segments nobody looked at."""
        was_clean, identity = self._checkpoints.was_clean, self._identity()
        return PartitionSymptoms(
            self.topic_partition, str(self.path), self._is_live, was_clean, age_ms, error=error, identity=identity,
            epochs=self._epochs(), names=names,
        )  # fmt: skip

    def _look(self) -> PartitionSymptoms:
        now_ms = self._with.now_ms
        listing = list_partition(self.path)
        age_ms = max(now_ms - status_of(self.path).st_mtime_ns // 1_000_000, 0)
        names = names_in(listing)
        if self._error is not None:  # it tells of the name
            names = names._replace(others=tuple(name for name in names.others if f"/{name}" not in self._error))
        if strange_logs(listing):  # nobody knows which batches are not here
            return self._unread(self._error, age_ms, names)
        planned, small = self._planned, self._with.budget.small_segments if self._planned else None
        with_keys = planned is not None and planned.policy.cleanup_compact
        glanced = Glanced.at(recovered(listing), small, with_keys=with_keys)
        segments, explained = glanced.listing.segments, self._explained(glanced)
        noted = self._checkpoints.noted(self.topic_partition)
        end = self._end(segments, explained, (*noted[:3], newest_snapshot(listing)))
        is_compact = explained is not None and explained.intended.policy.cleanup_compact
        due = self._due(listing)
        losses = loss_symptoms(
            self._rule,
            self.topic_partition,
            listing,
            glanced,
            noted,
            end,
            is_live=self._is_live,
            was_clean=self._checkpoints.was_clean,
            keys=small if is_compact else None,
        )
        walked, log = NOT_WALKED, losses.log
        if self._with.walks is not None:
            walked = self._with.walks.get(str(self.path), NOT_WALKED)
        elif explained:
            logs = _without_tail(segments, end.torn_bytes)
            facts, count = walk(logs, [one.facts for one in log.segments], self._with.budget, glanced.logs)
            unread = sum(segment.size_bytes for segment in logs[count:])
            walked = HeaderWalk.of(facts[:count], noted.first_dirty, unread)
            histories = [SegmentHistory(one.standing, found) for one, found in zip(log.segments, facts, strict=True)]
            log = log._replace(segments=histories)
        return replace(
            losses,
            log=log,
            age_ms=age_ms,
            explained=explained,
            error=self._error,
            identity=self._identity(),
            epochs=self._epochs(),
            walked=walked,
            unfinished_files=len(listing.in_state(FileState.SWAP)) + len(listing.in_state(FileState.CLEANED)),
            deleted_files=len(due),
            deleted_bytes=sum(due),
            names=names,
            hollow_swaps=() if self._is_live else tuple(hollow_swap_facts(listing)),
        )

    def _identity(self) -> TopicIdentity:
        known = (self._with.layers.topic_ids or {}).get(self.topic_partition.topic)
        own: TopicId | None = None
        with suppress(UnreadableFile):
            own = read_id_of(self.path, self.topic_partition)
        return TopicIdentity(own, known, self._with.is_known(self._log_dir))

    def remote(self) -> Iterator[RemoteMetadata]:
        """Yield what the partition says of remote storage; nothing if it says nothing, or is too large to be read."""
        if self.topic_partition.topic != TOPIC or self._planned is None:
            return
        facts = self._planned.facts
        if facts.size_bytes > BYTES_MAX and not self._with.budget.is_deep:
            return
        with suppress(LogCleanerError):  # ``verify`` tells of damage
            segments = recovered(list_partition(self.path)).segments
            yield remote_metadata(str(self.path), segments, facts.log_start_offset, facts.log_end_offset)

    def _due(self, listing: Listing) -> list[int]:
        """Return the sizes of the ``.deleted`` files whose delay is over; none of a partition on hold."""
        planned = self._planned
        if planned is None or planned.facts.held_since_ms is not None:
            return []
        left = Leftovers.of(planned, listing, planned.policy.file_delete_delay_ms, self._rule)
        sizes = [file.size_bytes for file in left.due(self._with.now_ms)]
        for path in left.others_due(self._with.now_ms):
            with suppress(FileNotFoundError):
                sizes.append(status_of(path).st_size)
        return sizes

    def _explained(self, glanced: Glanced) -> PartitionExplanation | None:
        planned = self._planned
        if planned is None:
            return None
        examination = self._with
        topic = examination.topics[self.topic_partition.topic]
        known = self._checkpoints.offsets(HIGH_WATERMARK_CHECKPOINT)
        look = Look(
            examination.now_ms, examination.broker.producer_id_expiration_ms, is_brief=True, high_watermarks=known
        )
        seen = observe(self._log_dir.facts, planned, topic, look, glanced)
        return in_brief(planned, seen, examination.plan.request, examination.broker)

    def _end(
        self, segments: Sequence[Segment], explained: PartitionExplanation | None, claims: Sequence[int | None]
    ) -> LogEnd:
        """Return the end of the log.

        A broker may have appended since the plan was made, and written checkpoints: then the end is looked for again.
        """
        facts = explained.planned.facts if explained else None
        if facts and not self._is_live:
            return LogEnd(facts.log_end_offset, facts.torn_tail_bytes)
        if facts and all(claim is None or claim <= facts.log_end_offset for claim in claims):
            return LogEnd(facts.log_end_offset, 0)
        if not segments:
            return LogEnd(claims[1] or 0, 0)
        end = find_end(segments[-1], trust_index=self._checkpoints.was_clean)
        return LogEnd(end.next_offset, 0 if self._is_live else end.torn_bytes)

    def _epochs(self) -> ReadEpochs:
        with suppress(UnreadableFile):  # the partition's error already
            return read_epochs_of(self.path)
        return NO_EPOCHS


def _without_tail(segments: Sequence[Segment], torn_bytes: int) -> Sequence[Segment]:
    """Leave out an active segment that ends with bytes that are no batch: the walk would take them for damage."""
    return segments[:-1] if torn_bytes else segments
