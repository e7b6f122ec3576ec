"""The verdict on a whole start: which log dirs come up, what becomes of each partition, and what stops the broker.

A start ends moves between log dirs that a stop of the broker interrupted: a ``-future`` directory takes its name. The
controller assigns a moved partition to its new log dir before the broker renames the directory there. A broker that
stopped between the two renames it at its next start, as soon as it knows the cluster metadata (KAFKA-16082).

The loader before Kafka 3.0 differs: it recovers each swapped segment, and replaces the sources by it.

Source: Kafka ``LogManager.recoverAbandonedFutureLogs``; Kafka 2.8
``Log.loadSegments``, ``removeTempFilesAndCollectSwapFiles``, ``completeSwapOperations``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from policies.findings.findings import OTHER_TOPIC, UNKNOWN_METADATA, UNOWNED, WRITE_TOPIC_ID
from policies.findings.of_files import RECOVER_TAIL
from policies.preflight.facts import KafkaFailure, LogDirBefore, Offsets, PartitionBefore, Release, Replicas
from policies.preflight.files import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    OFFSET_MAX,
    SWAP,
    LoadingStopped,
    add_to,
    base_offset_of,
    log_name,
    names_of,
)
from policies.preflight.identity import Identities
from policies.preflight.loading import Loading
from policies.preflight.lost import LostPartition, SetAside, is_here, lost_partitions, sole_copies
from policies.preflight.metadata import METADATA_DIR, MetadataStart
from policies.preflight.start import (
    Dirs,
    LogDirStart,
    LogStart,
    PartitionFate,
    Refusal,
    Start,
    StartStep,
    StartStepKind,
)
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirState,
    FileKind,
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
)

PROMOTED_SINCE: Final = Release(3, 7)
_READ_LATER: Final = {HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT}
_PROMOTED: Final = "the cluster metadata assign the partition to this log dir: it takes the place of the current one"

STRAY_SINCE: Final = Release(3, 7)
"""Since then ``-stray`` directories are known, and what the metadata do not place here becomes one."""
REMOTE_SINCE: Final = Release(3, 5)
"""Since then the directory ``remote-log-index-cache`` is left alone."""

SWAPS_RENAMED_SINCE: Final = Release(3, 0)

IO_BY_CHECKPOINT: Final = ("leader-epoch-checkpoint", "partition.metadata")
_OLD_MAJOR: Final = 2
_HERE: Final = (PartitionFate.SERVED, PartitionFate.REFUSES, PartitionFate.TAKES_OFFLINE)
_UNASSIGNED: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_ANYWHERE: Final = ""
_BEGINS_EMPTY: Final = "the cluster metadata place it here, and it is not here: it is empty"
_LOG_STARTS: Final = "log-start-offset-checkpoint"


class StartSurroundings(NamedTuple):
    """The facts that a start depends on besides the partitions."""

    release: Release
    identities: Identities
    metadata_dir: str
    metadata: MetadataStart | None
    """None where there is no metadata log, or the broker uses ZooKeeper."""
    replicas: Replicas | None
    """None if the broker uses ZooKeeper, which tells it of no other broker's replicas, or if node id or metadata is
    unknown.
    """


def predict(befores: Sequence[LogDirBefore], around: StartSurroundings) -> Start:
    """Return what a start does with some log dirs."""
    refusals = [*around.identities.refusals, *_of_metadata(befores, around)]
    log_dirs: list[LogDirStart] = []
    for before in befores:
        known = around.identities.offline.get(before.path) or before.failure
        if known:
            log_dirs.append(LogDirStart(before.path, Dirs.OFFLINE, before.is_clean, (), (), ((before.path, known),)))
            refusals += [] if known.is_io else [Refusal(before.path, known)]
            continue
        started, refused = _load(before, around)
        log_dirs.append(started)
        refusals += refused
    if around.replicas is not None and around.release >= PROMOTED_SINCE:
        log_dirs, unpromoted = promote(log_dirs, around.replicas, around.identities.directory_ids)
        refusals += unpromoted
    refusals += _duplicates(log_dirs)
    refusals += _without_dirs(log_dirs, around)
    new = _new_partitions(log_dirs, around) if around.replicas else {}
    log_dirs = [_with_new_partitions(log_dir, new.get(log_dir.path, ())) for log_dir in log_dirs]
    present = {partition.topic_partition for before in befores for partition in before.partitions}
    here = {partition.topic_partition for before in befores for partition in before.partitions if _is_live(partition)}
    log_dirs = [
        _with_lost(log_dir, before, (present, here), around) for before, log_dir in zip(befores, log_dirs, strict=True)
    ]
    lost = [log_dir for log_dir in log_dirs if is_lost(log_dir)]
    uncertain = [one for log_dir in lost for one in _stopped_by_chance(log_dir) if one not in refusals]
    once = tuple(dict.fromkeys(refusals))  # the metadata log is one of the logs of its log dir
    return Start(around.release, tuple(log_dirs), once, tuple(uncertain), tuple(new.get(_ANYWHERE, ())))


def load_partition(partition: PartitionBefore, before: LogDirBefore, around: StartSurroundings) -> LogStart:
    """Return what a start does with one partition directory."""
    topic_partition = partition.topic_partition
    is_old = around.release < SWAPS_RENAMED_SINCE
    loading = (OldLoading if is_old else Loading)(
        partition,
        is_clean=before.is_clean,
        recovery_point=_offset(before.recovery_points, topic_partition),
        log_start=_offset(before.log_starts, topic_partition),
    )
    failed: tuple[KafkaFailure, str] | None = None
    try:
        loading.run()
    except LoadingStopped as stopped:
        if stopped.is_split:
            loading.files.note(StartStepKind.SPLIT, stopped.file, stopped.failure.cause)
        else:
            failed = stopped.failure, stopped.file
    stray = _stray(partition, around)
    fate = _fate(partition, around, failed)
    is_appended_to = fate in (PartitionFate.SERVED, PartitionFate.FUTURE)
    steps = [
        step for step in loading.files.net_steps() if is_appended_to or step.kind is not StartStepKind.APPEND_BEHIND
    ]
    if fate is PartitionFate.DELETED:
        why = stray.why if stray and _is_live(partition) else "its topic was deleted"
        steps = [StartStep(StartStepKind.DELETE_LATER, "", why, size_bytes=_bytes_of(partition))]
    elif fate is PartitionFate.STRAY and stray and not partition.name.endswith(DirState.STRAY.value):
        steps.append(StartStep(StartStepKind.SET_ASIDE, "", stray.why))
        # Kafka forgets what waits for its deletion in a directory that it renames
        loading.files.sizes |= dict.fromkeys(loading.files.waiting, 0)
    return LogStart(
        partition.name,
        topic_partition,
        fate,
        tuple(steps),
        loading.log_start,
        loading.log_end,
        dict(loading.files.sizes),
        failed and failed[0],
        failed and failed[1],
        partition.topic_id.id,
        stray_remedy=_remedy(stray, loading) if stray and _hides_records(partition, fate, loading) else None,
    )


def promote(
    log_dirs: Sequence[LogDirStart], replicas: Replicas, directory_ids: Mapping[str, str]
) -> tuple[list[LogDirStart], list[Refusal]]:
    """Return the log dirs with each ``-future`` directory renamed that lies where the metadata have its partition.

    Args:
        log_dirs: as they are loaded.
        replicas: of the cluster metadata.
        directory_ids: path -> ``directory.id``.

    Returns: the log dirs, and what stops the broker: a current directory beside it has the name already.
    """
    taken: dict[tuple[str, str], LogStart] = {}
    refusals = []
    online = [log_dir for log_dir in log_dirs if not is_lost(log_dir)]
    for log_dir in log_dirs:
        for log in log_dir.logs:
            if log.fate is not PartitionFate.FUTURE or not _is_assigned(log, log_dir, replicas, directory_ids):
                continue
            offline = _offline_of(log, log_dir, log_dirs)
            if offline is not None:
                failure = KafkaFailure("KafkaStorageException", f"it takes its name now, and {offline} is offline")
                refusals.append(Refusal(f"{log_dir.path}/{log.name}", failure))
                continue
            here = next((one for one in online for old in one.logs if _is_current(old, log) and one is log_dir), None)
            if here is not None:
                cause = f"the cluster metadata assign it here, and {log.topic_partition} is here already"
                refusals.append(Refusal(f"{log_dir.path}/{log.name}", KafkaFailure("KafkaStorageException", cause)))
                continue
            step = StartStep(StartStepKind.RENAME, "", _PROMOTED)
            promoted = log._replace(fate=PartitionFate.SERVED, is_promoted=True, steps=(*log.steps, step))
            taken[log_dir.path, log.name] = promoted
            for one in online:
                for old in one.logs:
                    if _is_current(old, log):
                        taken[one.path, old.name] = _replaced(old, promoted, log_dir.path)
    return [
        one._replace(logs=tuple(taken.get((one.path, log.name), log) for log in one.logs)) for one in log_dirs
    ], refusals


def is_lost(log_dir: LogDirStart) -> bool:
    """Return whether a log dir goes offline while its partitions are loaded, and not later."""
    return log_dir.state is Dirs.OFFLINE and not {file for file, _ in log_dir.failures} <= _READ_LATER


class OldLoading(Loading):
    """The loading of one partition by Kafka 2.8."""

    _swaps: tuple[str, ...] = ()

    def _clear_leftovers(self) -> None:
        self._check_readable()
        names = self.files.names()
        swaps = []
        for name in names:
            if name.endswith(DELETED):
                self.files.delete(name, "was to be deleted before the broker stopped")
            elif name.endswith(SWAP) and name.removesuffix(SWAP).endswith((".log", *INDEX_SUFFIXES)):
                base = base_offset_of(name)
                for index in names_of(base)[1:]:
                    self.files.delete(index, "a swap of its segment was interrupted")
                if name.endswith(".log" + SWAP):
                    swaps.append(name)
        cleaned = [name for name in names if name.endswith(CLEANED)]
        undone_from = min(map(base_offset_of, cleaned), default=OFFSET_MAX)
        for name in [name for name in swaps if base_offset_of(name) >= undone_from]:
            swaps.remove(name)
            base = base_offset_of(name)
            for one in names_of(base):
                self.files.delete(one + SWAP, "of a swap that had not begun: a .cleaned file is there")
        for name in cleaned:
            self.files.delete(name, "an unfinished compaction wrote it")
        self._swaps = tuple(swaps)

    def _complete_swaps(self) -> None:
        for name in self._swaps:
            self._complete_swap(name, base_offset_of(name))

    def _complete_swap(self, swap: str, base: int) -> None:
        producers = self._new_producers()
        producers.rebuild(self.bases, self._checkpointed_start, base, self._replay, trusts_absence=False)
        size_bytes = self.files.sizes[swap]
        if not size_bytes:
            self._note_empty_swap(swap, base)
        self.files.note(StartStepKind.RECOVER, swap, "a swap that was interrupted", size_bytes=size_bytes)
        found = self._contents.recovered(swap, base)
        if found.failure:  # nobody splits a swap
            raise LoadingStopped(found.failure, swap)
        if found.producers_end is not None:
            producers.map_end = found.producers_end
        producers.write()
        end = base if found.next_offset is None else found.next_offset
        floor = self._floor(base)
        replaced = [old for old in self.bases if base <= old < end or old == floor] if end > base else []
        replaced = [old for old in replaced if self._end_of(old) > base]
        for old in replaced:
            self.bases.remove(old)
            for name in names_of(old):
                self.files.retire(name, "a finished compaction replaced it")
        self._producers.retire([old for old in replaced if old != base])
        self._take_name(swap, base, found.valid_bytes)
        if found.aborts:
            self.files.sizes[names_of(base).txn_index] = 0
        self._recovered[base] = found
        add_to(self.bases, base)

    def _floor(self, offset: int) -> int | None:
        return max((base for base in self.bases if base <= offset), default=None)

    def _take_name(self, swap: str, base: int, valid_bytes: int) -> None:
        if valid_bytes < self.files.sizes[swap]:
            self._cut(swap, valid_bytes, base, "the swap is damaged")
        for name in names_of(base):
            if name + SWAP in self.files.sizes:
                self.files.rename(name + SWAP, name, "finishes a compaction that was interrupted")
            elif not name.endswith((".log", ".txnindex")):
                self.files.sizes[name] = 0
                self.files.note(StartStepKind.REBUILD, name, "a swap of its segment was interrupted")


def _duplicates(log_dirs: Sequence[LogDirStart]) -> list[Refusal]:
    seen: dict[tuple[TopicPartition, PartitionFate], str] = {}
    refusals = []
    for log_dir in log_dirs:
        for log in log_dir.logs:
            if log.fate in (PartitionFate.SERVED, PartitionFate.FUTURE):
                key, path = (log.topic_partition, log.fate), f"{log_dir.path}/{log.name}"
                if key in seen:
                    cause = f"the same partition is in {seen[key]}"
                    refusals.append(Refusal(path, KafkaFailure("IllegalStateException", cause)))
                seen[key] = path
    return refusals


def _without_dirs(log_dirs: Sequence[LogDirStart], around: StartSurroundings) -> list[Refusal]:
    offline = [log_dir for log_dir in log_dirs if log_dir.state is Dirs.OFFLINE]
    fatal = offline if len(offline) == len(log_dirs) else [
        log_dir for log_dir in offline if around.metadata and log_dir.path == around.metadata_dir
    ]  # fmt: skip
    return [
        Refusal(log_dir.path_of(file), failure._replace(is_io=False))
        for log_dir in fatal
        for file, failure in log_dir.failures
    ]


def _load(before: LogDirBefore, around: StartSurroundings) -> tuple[LogDirStart, list[Refusal]]:
    refusals = [
        Refusal(f"{before.path}/{name}", KafkaFailure("KafkaException", "no name of a partition directory"))
        for name in before.unparsable
    ]
    if before.locked_by:
        failure = KafkaFailure("KafkaException", f"{before.locked_by} holds the lock")
        refusals.append(Refusal(f"{before.path}/.lock", failure))
    checkpoints = (RECOVERY_POINT_CHECKPOINT, before.recovery_points), (_LOG_STARTS, before.log_starts)
    failures = [(name, found) for name, found in checkpoints if isinstance(found, KafkaFailure) and found.is_io]
    logs = [load_partition(partition, before, around) for partition in before.partitions]
    if around.metadata and before.path == around.metadata_dir:
        logs.insert(0, around.metadata.log)
    for log in logs:
        file = f"{log.name}/{log.failed_file}" if log.failed_file else log.name
        if log.fate is PartitionFate.REFUSES and log.failure:
            refusals.append(Refusal(f"{before.path}/{file}", log.failure))
        elif log.fate is PartitionFate.TAKES_OFFLINE and log.failure:
            failures.append((file, log.failure))
    if any(name in dict(checkpoints) for name, _ in failures):
        refusals += _not_set_aside(before.path, logs)
    is_read = _reads_watermarks(before, logs, around)
    if isinstance(before.high_watermarks, KafkaFailure) and before.high_watermarks.is_io and is_read:
        failures.append((HIGH_WATERMARK_CHECKPOINT, before.high_watermarks))
    if isinstance(before.cleaner_offsets, KafkaFailure) and before.cleaner_offsets.is_io:
        failures.append((CLEANER_OFFSET_CHECKPOINT, before.cleaner_offsets))
    state = Dirs.OFFLINE if failures else Dirs.ONLINE
    started = LogDirStart(before.path, state, before.is_clean, (), tuple(logs), tuple(failures), is_made=before.is_made)
    return started, refusals


def _reads_watermarks(before: LogDirBefore, logs: Sequence[LogStart], around: StartSurroundings) -> bool:
    """Return whether a start reads the high watermarks of a log dir: it does with the first partition that it serves.

    With ZooKeeper nobody knows which partitions that are; all of them are taken for served.
    Source: Kafka ``LazyOffsetCheckpoints``.
    """
    if around.replicas is None:
        return True
    own = around.identities.directory_ids.get(before.path)
    served = any(log.fate is PartitionFate.SERVED and log.name != METADATA_DIR for log in logs)
    return served or (own is not None and own in _assigned(around.replicas).values())


def _assigned(replicas: Replicas) -> dict[TopicPartition, str | None]:
    """Return the partitions that the metadata place on this broker, sorted, each with the id of its log dir."""
    names: Mapping[str, str] = replicas.names
    found = {
        TopicPartition(names[topic_id], partition): replicas.directory_of(topic_id, partition)
        for (topic_id, partition), brokers in replicas.brokers.items()
        if replicas.node_id in brokers and topic_id in names
    }
    return dict(sorted(found.items()))


def _not_set_aside(path: str, logs: Sequence[LogStart]) -> list[Refusal]:
    """Return the partitions that Kafka sets aside although their log dir went offline while it was loaded.

    It stops over that. Source: Kafka ``LogManager.loadLogs``, ``LocalLog.maybeHandleIOException``.
    """
    failure = KafkaFailure("KafkaStorageException", "is to be set aside as -stray, and its log dir is offline already")
    aside = [log for log in logs if any(step.kind is StartStepKind.SET_ASIDE for step in log.steps)]
    return [Refusal(f"{path}/{log.name}", failure) for log in aside]


def _new_partitions(log_dirs: Sequence[LogDirStart], around: StartSurroundings) -> dict[str, list[TopicPartition]]:
    """Return the partitions that the metadata place on this broker and that no log dir has, by path of their log dir.

    Source: Kafka ``Partition.createLogInAssignedDirectoryId``, ``LogManager.getOrCreateLog``.
    """
    assert around.replicas is not None
    loaded = {partition for one in log_dirs if not is_lost(one) for partition in _hosted(one)}
    offline = {partition for one in log_dirs for partition in _hosted(one)} - loaded
    online = [one.path for one in log_dirs if one.state is Dirs.ONLINE]
    paths = {around.identities.directory_ids.get(path): path for path in online}
    is_any_lost = any(
        map(is_lost, log_dirs)
    )  # one that goes offline later may do so behind the making of the partition
    found: dict[str, list[TopicPartition]] = {}
    for partition, directory_id in _assigned(around.replicas).items():
        is_stated = directory_id is not None and directory_id != _UNASSIGNED
        path = paths.get(directory_id) if is_stated else None
        is_skipped = path is None and (partition in offline or (is_stated and is_any_lost))
        if partition not in loaded and online and not is_skipped:
            found.setdefault(path or (online[0] if len(log_dirs) == 1 else _ANYWHERE), []).append(partition)
    return found


def _hosted(log_dir: LogDirStart) -> set[TopicPartition]:
    """Return the partitions that have their own directory in a log dir."""
    logs = [log for log in log_dir.logs if log.fate in _HERE and log.name_after == str(log.topic_partition)]
    return {log.topic_partition for log in logs}


def _with_new_partitions(log_dir: LogDirStart, new: Sequence[TopicPartition]) -> LogDirStart:
    steps = [StartStep(StartStepKind.CREATE, str(partition), _BEGINS_EMPTY) for partition in new]
    return log_dir._replace(steps=(*log_dir.steps, *steps))


def _with_lost(
    log_dir: LogDirStart, before: LogDirBefore, known: tuple[set[TopicPartition], ...], around: StartSurroundings
) -> LogDirStart:
    """Return a log dir with the partitions that lost their directory.

    Args:
        log_dir: the log dir behind the start. before: the log dir before the start.
        known: the partitions with a directory of any name in any log dir, and those with one that is not set aside.
        around: the metadata.
    """
    if before.failure:
        return log_dir
    present, here = known
    found = before.high_watermarks, before.recovery_points, before.log_starts
    watermarks, points, starts = ({} if isinstance(one, KafkaFailure) else one for one in found)
    assigned = _assigned(around.replicas) if around.replicas else None

    def lost(present: set[TopicPartition]) -> list[LostPartition]:
        of_these = None if assigned is None else set(assigned)
        return list(lost_partitions((watermarks, points), starts, present, of_these, is_clean=before.is_clean))

    aside = [one for one in map(_set_aside, before.partitions) if one is not None]
    noted = {one.topic_partition for one in lost(here)}
    sole = list(sole_copies(aside, here, _placed(around), noted))
    by_name = {one.name for one in sole}
    logs = tuple(_undeleted(log) if log.name in by_name else log for log in log_dir.logs)
    kept = [LostPartition(one.topic_partition, one.first_offset, one.end_offset, one.name) for one in sole]
    return log_dir._replace(logs=logs, lost=(*lost(present), *kept))


def _set_aside(partition: PartitionBefore) -> SetAside | None:
    """Return what a ``-stray`` or ``-delete`` directory holds; None for any other directory."""
    if _is_live(partition):
        return None
    sizes = {file.name: file.size_bytes for file in partition.files}
    found = {name: parse_segment_file_name(name) for name in sizes}
    bases = sorted(one.base_offset for name, one in found.items() if one and name == log_name(one.base_offset))
    first = end = 0
    if any(sizes[log_name(base)] for base in bases):
        index = segment_file_name(bases[-1], FileKind.INDEX)  # no log end: Kafka looks for none if it deletes the log
        read = partition.contents.next_offset(log_name(bases[-1]), index if index in sizes else None, bases[-1])
        first, end = bases[0], bases[-1] + 1 if isinstance(read, KafkaFailure) else read
    return SetAside(partition.name, partition.topic_partition, partition.topic_id.id, first, end)


def _is_live(partition: PartitionBefore) -> bool:
    return not partition.name.endswith((DirState.DELETE.value, DirState.STRAY.value))


def _placed(around: StartSurroundings) -> dict[TopicPartition, str] | None:
    """Return the partitions that the metadata place in these log dirs, with their topic ids; None if nobody knows."""
    if around.replicas is None:
        return None
    ids = {name: topic_id for topic_id, name in around.replicas.names.items()}
    known = [found for found in around.identities.directory_ids.values() if found is not None]
    return {one: ids[one.topic] for one, found in _assigned(around.replicas).items() if is_here(found, known)}


def _undeleted(log: LogStart) -> LogStart:
    """Return a log whose deletion is told as that of a partition that nobody deleted."""
    why = "nobody deleted its topic, and this may be the only copy"
    is_later = StartStepKind.DELETE_LATER
    return log._replace(steps=tuple(step._replace(why=why) if step.kind is is_later else step for step in log.steps))


def _of_metadata(befores: Sequence[LogDirBefore], around: StartSurroundings) -> list[Refusal]:
    if around.metadata is None:
        return []
    refusals = [around.metadata.refusal] if around.metadata.refusal else []
    for before in befores:
        if before.path != around.metadata_dir and before.has_metadata:
            cause = f"the cluster metadata belong in {around.metadata_dir}"
            refusals.append(Refusal(f"{before.path}/{METADATA_DIR}", KafkaFailure("KafkaException", cause)))
    return refusals


def _stopped_by_chance(log_dir: LogDirStart) -> list[Refusal]:
    """Return the partitions of a log dir that is lost while it is loaded that may stop the broker.

    One with transactions stops it if the first open one is looked up behind the loss, in a log that nobody may read.
    """
    failure = KafkaFailure("KafkaStorageException", "may have to look up a transaction, and its log dir is offline")
    with_aborts = [log for log in log_dir.logs if any(name.endswith(".txnindex") for name in log.after)]
    looked_up = [Refusal(f"{log_dir.path}/{log.name}", failure) for log in with_aborts if log.fate in _HERE]
    return [*_not_set_aside(log_dir.path, log_dir.logs), *looked_up]


def _stray(partition: PartitionBefore, around: StartSurroundings) -> _Stray | None:
    """Return why a broker sets a partition aside; None if it serves the partition."""
    if around.replicas is None:
        return None
    topic_id, topic_partition = partition.topic_id.id, partition.topic_partition
    is_known = topic_partition.topic in around.replicas.names.values()
    unowned = UNOWNED if around.replicas.names else UNKNOWN_METADATA
    if topic_id is None:
        if around.release < STRAY_SINCE:
            return None
        why = "has no partition.metadata, so its topic id is not known"
        return _Stray(why, WRITE_TOPIC_ID if is_known else unowned)
    brokers = around.replicas.brokers.get((topic_id, topic_partition.partition), ())
    if not brokers:
        why = f"the cluster metadata know no partition {topic_partition.partition} of topic id {topic_id}"
        return _Stray(why, OTHER_TOPIC if is_known else unowned)
    if around.replicas.node_id not in brokers:
        hosts = ", ".join(map(str, brokers))
        return _Stray(f"the cluster metadata place it on {hosts}, not on node {around.replicas.node_id}", None)
    return None


class _Stray(NamedTuple):
    """The cause for which a broker sets a partition aside, and a remedy unless another broker has the records."""

    why: str
    remedy: str | None


def _fate(
    partition: PartitionBefore, around: StartSurroundings, failed: tuple[KafkaFailure, str] | None
) -> PartitionFate:
    if failed:
        is_fatal = around.release.major <= _OLD_MAJOR and failed[1] in IO_BY_CHECKPOINT
        goes_offline = failed[0].is_io and not is_fatal
        return PartitionFate.TAKES_OFFLINE if goes_offline else PartitionFate.REFUSES
    if partition.name.endswith(DirState.DELETE.value):
        return PartitionFate.DELETED
    if partition.name.endswith(DirState.STRAY.value):
        return PartitionFate.STRAY
    if _stray(partition, around):
        return PartitionFate.STRAY if around.release >= STRAY_SINCE else PartitionFate.DELETED
    return PartitionFate.FUTURE if partition.name.endswith(DirState.FUTURE.value) else PartitionFate.SERVED


def _offset(offsets: Offsets | KafkaFailure, topic_partition: TopicPartition) -> int:
    return 0 if isinstance(offsets, KafkaFailure) else offsets.get(topic_partition, 0)


def _remedy(stray: _Stray, loading: Loading) -> str | None:
    """Return how a partition that is set aside is served: a topic id is given to a log that ends well."""
    is_torn = any(step.kind is StartStepKind.APPEND_BEHIND for step in loading.files.steps)
    return f"{RECOVER_TAIL} {stray.remedy}" if is_torn and stray.remedy == WRITE_TOPIC_ID else stray.remedy


def _bytes_of(partition: PartitionBefore) -> int:
    """Return what a directory takes: a preallocated index is a hole of 10 MiB, and gives back no more than blocks."""
    if partition.disk_bytes is not None:
        return partition.disk_bytes
    return sum(file.size_bytes for file in partition.files)


def _hides_records(partition: PartitionBefore, fate: PartitionFate, loading: Loading) -> bool:
    """Return whether a start sets aside a directory of the plain name that has records."""
    is_plain = partition.name == str(partition.topic_partition)
    return fate is PartitionFate.STRAY and is_plain and (loading.log_end or 0) > (loading.log_start or 0)


def _offline_of(future: LogStart, log_dir: LogDirStart, log_dirs: Sequence[LogDirStart]) -> str | None:
    """Return the log dir that is offline, of those of a ``-future`` directory and of its current one; None if none is.

    Kafka stops over it: it renames directories there all the same.
    """
    concerned = [one for one in log_dirs if one is log_dir or any(_is_current(log, future) for log in one.logs)]
    return next((one.path for one in concerned if is_lost(one)), None)


def _is_current(log: LogStart, future: LogStart) -> bool:
    is_served = log.fate is PartitionFate.SERVED and not log.is_promoted
    return is_served and (log.topic_partition, log.topic_id) == (future.topic_partition, future.topic_id)


def _is_assigned(log: LogStart, log_dir: LogDirStart, replicas: Replicas, directory_ids: Mapping[str, str]) -> bool:
    assigned = replicas.directory_of(log.topic_id, log.topic_partition.partition)
    return assigned is not None and assigned == directory_ids.get(log_dir.path)


def _replaced(log: LogStart, by: LogStart, path: str) -> LogStart:
    why = f"the move to {path} ends: {by.name} takes its place"
    step = StartStep(StartStepKind.DELETE_LATER, "", why)
    return log._replace(fate=PartitionFate.DELETED, steps=(step,), replaced_up_to=by.log_end_offset)
