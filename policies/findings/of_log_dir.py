"""Findings of the files of a log dir: checkpoints held against the logs, ``meta.properties``, topic ids, names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.findings.findings import (
    BRING_BACK,
    CLEANED_ANEW,
    COPY_AGAIN,
    END_LOST,
    FETCH_AGAIN,
    NOTHING_NOTED,
    OTHER_TOPIC,
    START_LOST,
    STRANGE_DIRECTORY,
    WRITE_TOPIC_ID,
    Finding,
    FindingCode,
    Harm,
    LogHistory,
    Noted,
    RepairGroup,
)
from policies.findings.of_files import INDEXES_GO, RECOVER_TAIL
from policies.preflight.files import offset_if_any, parse_kafka_name
from policies.preflight.identity import IdentityBefore, check_identities, check_zookeeper_identities
from policies.preflight.lost import LostPartition, SetAside
from policies.reasons import counted
from storage.anomalies import Anomaly
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    HOLD_IDS_FILE,
    HOLDS_FILE,
    INCOMPLETE_FILE,
    JOURNAL_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LIMITS_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    ROTATED_JOURNAL_FILE,
    SCRATCH_SUFFIX,
    STREAMS_FILE,
    DirState,
    FileKind,
    FileState,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
    parse_topic_partition,
    segment_file_name,
)

CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_OF_A_LOG_DIR: Final = frozenset(
    {
        *(LOCK_FILE, CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, "bootstrap.checkpoint"),
        *(JOURNAL_FILE, ROTATED_JOURNAL_FILE, HOLDS_FILE, HOLD_IDS_FILE, LIMITS_FILE, STREAMS_FILE),
        *(MANIFEST_FILE, INCOMPLETE_FILE),
        *CHECKPOINTS,
    }
)
_OF_A_PARTITION: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE})
_OF_THE_METADATA: Final = re.compile(r"quorum-state(\.tmp)?|\d{20}-\d{10}\.checkpoint(\.part|\.deleted)?|.*\.part")
_TEMPORARY: Final = ".tmp"
_CHECKPOINT_DELETED: Final = ".checkpoint.deleted"
_LIKE_A_SEGMENT: Final = re.compile(r"[^.]*\..*?(log|index|timeindex|txnindex|snapshot|cleaned|swap)", re.DOTALL)
_UNREAD: Final = {
    RECOVERY_POINT_CHECKPOINT: (Harm.SLOW_START, "a broker that did not stop cleanly reads every segment anew"),
    HIGH_WATERMARK_CHECKPOINT: (Harm.NO_START, "the broker takes the log dir offline"),
    LOG_START_OFFSET_CHECKPOINT: (Harm.WRONG_ANSWER, "deleted records that are still on disk come back"),
    CLEANER_OFFSET_CHECKPOINT: (Harm.NO_START, "the broker takes the log dir offline when the cleaner reads it"),
}
_MEND_THE_LINE: Final = "Stop the broker, and mend the line; else remove the file: the broker writes it anew."
_NAMED_MAX: Final = 5
_MOVE_AWAY: Final = "Move it away before the broker starts."
_NO_PLAIN_FILE: Final = (
    "If it is a symlink, stop the broker and put the file that it leads to in its place: without it, the records are"
    " gone, and a start deletes their indexes. Move anything else away before the broker starts."
)
_COPY_IT: Final = "Nothing; copy it before if somebody needs it."
_NO_OFFSET: Final = "It ends as a segment file does, and begins with no offset: the broker does not start."


class LogClaims(NamedTuple):
    """The end of a log, and the offsets that other files state of it."""

    directory: str
    end_offset: int | None
    """The offset behind the last whole batch; None if nobody knows it."""
    counted_end: int | None = None
    """The offset that the next start takes for the end; None if it looks for the end, or fails."""
    is_torn: bool = False
    """Whether bytes follow that are no batch, and no zeros, and the next start does not look for the end."""
    noted: Noted = NOTHING_NOTED
    newest_snapshot: int | None = None
    """The offset of the newest producer snapshot."""
    lone_bases: tuple[int, ...] = ()
    """The base offsets of index files without a ``.log``, ascending."""

    @staticmethod
    def of(log: LogHistory, noted: Noted, end_offset: int | None, counted_end: int | None) -> LogClaims:
        """Return the claims of the checkpoints on a partition.

        Args:
            log: the partition.
            noted: its lines in the checkpoints.
            end_offset: the offset behind its last whole batch.
            counted_end: the offset that the next start takes for the end.
        """
        last = log.segments[-1] if log.segments else None
        is_torn = bool(last and last.standing.is_clean and any(one.anomaly is Anomaly.TAIL for one in last.facts.seen))
        return LogClaims(log.directory, end_offset, counted_end, is_torn, noted)

    @property
    def beyond(self) -> dict[str, int]:
        """The offsets behind the end that say that records were there, by what states them."""
        claims = {
            "the high watermark": self.noted.high_watermark,
            "the newest producer snapshot": self.newest_snapshot,
            "the recovery point": self.noted.recovery_point,
        }
        end = self.end_offset
        return {what: at for what, at in claims.items() if at is not None and end is not None and at > end}

    @property
    def ends_early(self) -> bool:
        """Return whether the next start takes an offset for the end of the log that a whole batch has."""
        counted_end, end = self.counted_end, self.end_offset
        return counted_end is not None and end is not None and counted_end < end


NO_CLAIMS: Final = LogClaims("", None)


class OffsetCheckpoint(NamedTuple):
    """A checkpoint file of a log dir."""

    path: str
    name: str
    offsets: Mapping[TopicPartition, int]
    repeated: Sequence[TopicPartition] = ()
    """Partitions with more than one line."""
    error: str | None = None
    """Why it cannot be read."""
    takes_offline: bool = False
    """Whether a start takes the log dir offline over the error, by ``policies.preflight``."""


class TopicId(NamedTuple):
    """The ``partition.metadata`` of a partition."""

    directory: str
    name: TopicPartition
    topic_id: str | None
    """The topic id in ``partition.metadata``; None without the file."""
    error: str | None = None
    """Why it cannot be read."""
    takes_offline: bool = False
    """Whether a start takes the log dir offline over the error, by ``policies.preflight``; else it stops the broker."""


class PartitionNames(NamedTuple):
    """The names in a partition directory that are none of a log."""

    others: tuple[str, ...] = ()
    """Entries that are no segment files, and those of a ``.log`` whose name has not 20 digits."""
    orphans: tuple[str, ...] = ()
    """Index files without a ``.log``."""


class NamedEntry(NamedTuple):
    """An entry of a directory."""

    name: str
    is_directory: bool


def checkpoint_findings(checkpoint: OffsetCheckpoint, present: Iterable[TopicPartition] | None) -> Iterator[Finding]:
    """Yield what is wrong with one checkpoint file; ``offset_findings`` holds its offsets against the logs.

    Args:
        checkpoint: as it was read.
        present: all partitions of the log dir; None to pass over lines of partitions that are not there.
    """
    path, name = checkpoint.path, checkpoint.name
    if checkpoint.error is not None:
        harm, so = _UNREAD[name]
        if checkpoint.takes_offline:
            harm, so = Harm.NO_START, "the broker takes the log dir offline"
        yield Finding(
            FindingCode.CHECKPOINT_CORRUPT,
            harm,
            path,
            f"{name} cannot be read: {checkpoint.error}; {so}.",
            _MEND_THE_LINE,
        )
        return
    for twice in checkpoint.repeated:
        text = f"{twice} has more than one line: the last one counts."
        yield Finding(FindingCode.CHECKPOINT_CORRUPT, Harm.WRONG_ANSWER, path, text, _MEND_THE_LINE)
    known = checkpoint.offsets if present is None else set(present)
    stale = [partition for partition in checkpoint.offsets if partition not in known]
    for partition, offset in checkpoint.offsets.items():
        if offset < 0:
            text = f"{partition} has the offset {offset}."
            yield Finding(FindingCode.CHECKPOINT_CORRUPT, Harm.WRONG_ANSWER, path, text, _MEND_THE_LINE)
    if stale:
        named, others = stale[0], f" and {len(stale) - 1:,} more have lines" if len(stale) > 1 else " has a line"
        text = f"{named}{others}, and no directory here."
        yield Finding(FindingCode.CHECKPOINT_STALE, Harm.NOTE, path, text, "Nothing: the broker drops such lines.")


def offset_findings(claims: LogClaims) -> Iterator[Finding]:
    """Yield that the log ends too early, and which checkpoint lies outside the log for another reason."""
    end, path = claims.end_offset, claims.directory
    if end is None:
        return
    start = claims.noted.log_start
    if start is not None and start > end:
        text = (
            f"The log ends at offset {end}, below its log start {start} in log-start-offset-checkpoint: segments are "
            f"missing, and a starting broker deletes all that is left."
        )
        yield Finding(FindingCode.CHECKPOINT_BEYOND_END, Harm.DATA_LOST, path, text, START_LOST, None, end)
        return
    beyond = claims.beyond
    if beyond:
        yield _lost_end(claims, end, beyond)
    first_dirty = claims.noted.first_dirty
    if not beyond and first_dirty is not None and first_dirty > end:
        text = (
            f"cleaner-offset-checkpoint says {first_dirty}, but the log ends at {end}: the log counts as never "
            f"compacted, and the next round reads all of it."
        )
        yield Finding(FindingCode.CHECKPOINT_BEYOND_END, Harm.WASTE, path, text, CLEANED_ANEW, None, end)


def _lost_end(claims: LogClaims, end: int, beyond: Mapping[str, int]) -> Finding:
    count = max(beyond.values()) - end
    lost = "offset is" if count == 1 else f"{count:,} offsets are"
    claimed = ", ".join(f"{what} {offset}" for what, offset in beyond.items())
    gone = f"the last {lost} gone from this replica."
    text = f"The log ends at offset {end}, below {claimed}: {gone}"
    if claims.ends_early and claims.counted_end is not None:
        text = f"The log ends at offset {claims.counted_end} for the next start, below {claimed}. Whole batches reach"
        text, end = f"{text} offset {end}: {gone}", claims.counted_end
    bases = [str(base) for base in claims.lone_bases if base >= end]
    if bases:
        named = ", ".join(bases[:_NAMED_MAX]) + (" ..." if len(bases) > _NAMED_MAX else "")
        text += f" {counted(len(bases), 'segment')} left index files without a .log: of base offset {named}."
        text += f" {INDEXES_GO}"
    remedy, path = RECOVER_TAIL if claims.ends_early or claims.is_torn else END_LOST, claims.directory
    return Finding(FindingCode.END_BELOW_WATERMARK, Harm.DATA_LOST, path, text, remedy, None, end, "KAFKA-17076")


class CopyCheck(NamedTuple):
    """The files that a copy of a log dir lacks, by its manifest."""

    lacking: tuple[tuple[str, str], ...] = ()
    """Paths below the copy, of files or directories, each with what is wrong, as the rest of a sentence."""
    changed: str | None = None
    """The file that shows that somebody worked in the copy since: then nothing else of the manifest counts."""
    error: str | None = None
    """Why the manifest says nothing, as a sentence without its end."""


def copy_findings(root: str, check: CopyCheck) -> Iterator[Finding]:
    """Yield what a copy lost since its manifest was written; ``root`` is its path."""
    for path, problem in check.lacking:
        holds_records = path.endswith(FileKind.LOG) or parse_topic_partition(path) is not None
        harm = Harm.DATA_LOST if holds_records else Harm.WRONG_ANSWER
        yield Finding(FindingCode.COPY_LACKS, harm, f"{root}/{path}", f"It {problem}.", COPY_AGAIN)
    path = f"{root}/{MANIFEST_FILE}"
    if check.error is not None:
        text = f"It says nothing, so nobody knows what is missing: {check.error}."
        yield Finding(FindingCode.COPY_LACKS, Harm.WRONG_ANSWER, path, text, COPY_AGAIN)
    if check.changed is not None:
        text = (
            f"Files are not as it says, and {check.changed} shows that a broker or a cleaner worked here since: it no "
            "longer tells what is missing."
        )
        remedy = "If nobody did, make the copy anew; else remove the manifest."
        yield Finding(FindingCode.COPY_LACKS, Harm.NOTE, path, text, remedy)


def lost_finding(path: str, lost: LostPartition) -> Finding:
    """Return the finding of a partition that had records and has no directory; ``path`` is that of its log dir."""
    text = (
        f"The checkpoints say that the partition had the offsets {lost.log_start_offset} to {lost.end_offset - 1}, and "
        f"its directory is not here: the next start begins it empty."
    )
    return Finding(FindingCode.PARTITION_LOST, Harm.DATA_LOST, path, text, BRING_BACK, None, lost.log_start_offset)


def set_aside_finding(path: str, aside: SetAside) -> Finding:
    """Return the finding of a directory that was set aside, and holds the only copy; ``path`` is its own."""
    removed = aside.name.endswith(DirState.DELETE.value)
    if aside.beside is not None:
        goes = "; the next start removes this directory" if removed else ""
        text = (
            f"It may be the only copy of {aside.topic_partition}, offsets {aside.first_offset} to "
            f"{aside.end_offset - 1}: the directory {aside.beside} of the same topic lacks them{goes}."
        )
        return Finding(FindingCode.PARTITION_LOST, Harm.DATA_LOST, path, text, f"{take_back(aside)}.")
    goes = ", and removes this directory" if removed else ""
    text = (
        f"It may be the only copy of {aside.topic_partition}, offsets {aside.first_offset} to {aside.end_offset - 1}: "
        f"the partition belongs here, and has no other directory. The next start begins it empty{goes}."
    )
    return Finding(FindingCode.PARTITION_LOST, Harm.DATA_LOST, path, text, f"{take_back(aside)}.")


def take_back(aside: SetAside) -> str:
    """Return how the directory of a partition that was set aside becomes a partition again, without a full stop."""
    out = f"move {aside.beside} out of the log dir, and " if aside.beside is not None else ""
    how = f"While no broker runs, {out}rename the directory to {aside.topic_partition}"
    return how if aside.topic_id else f"{how}, and run logcleaner verify --repair=topic-id"


def gap_findings(directory: str, path: str, position: int, gap: tuple[int, int], named: int | None = None) -> Finding:
    """Return the finding of a gap in a log that was never compacted.

    Args:
        directory: of the partition.
        path: of the ``.log`` behind the gap.
        position: of the batch behind it.
        gap: the first missing offset, and the first offset behind the gap.
        named: an offset in the gap at which a producer snapshot has a batch.
    """
    if named is not None:
        text = f"Records are missing: nothing has the offsets {gap[0]} to {gap[1] - 1}, and a snapshot names {named}."
        return Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, path, text, FETCH_AGAIN, position, gap[0])
    text = (
        f"{directory}: nothing has the offsets {gap[0]} to {gap[1] - 1}, and nothing else here looks compacted: a"
        " segment may be missing, or a base offset is wrong."
    )
    remedy = "Compare with another replica; a backup may have the segment."
    return Finding(FindingCode.OFFSET_GAP, Harm.NOTE, path, text, remedy, position, gap[0])


def topic_id_findings(ids: Sequence[TopicId], known: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield what is wrong with the topic ids of all partitions of a broker.

    Args:
        ids: of every partition.
        known: topic ids by the cluster metadata; None where there is none.
    """
    most: dict[str, dict[str, int]] = {}
    for one in ids:
        if one.topic_id is not None:
            counts = most.setdefault(one.name.topic, {})
            counts[one.topic_id] = counts.get(one.topic_id, 0) + 1
    for one in ids:
        topic = one.name.topic
        if one.error is not None:
            yield unread_topic_id_finding(one)
            continue
        counts = most.get(topic, {})
        wanted = (known or {}).get(topic) or max(
            counts, key=lambda topic_id: (counts[topic_id], topic_id), default=None
        )
        if wanted is None or one.topic_id == wanted:
            continue
        says = BY_METADATA if topic in (known or {}) else "other partitions of the topic have"
        yield topic_id_finding(one.directory, one.topic_id, wanted, says)


BY_METADATA: Final = "the cluster metadata has"


def unread_topic_id_finding(one: TopicId) -> Finding:
    """Return the finding of a ``partition.metadata`` that cannot be read."""
    path, so = f"{one.directory}/{PARTITION_METADATA_FILE}", "takes the log dir offline"
    so = so if one.takes_offline else "does not start"
    text, code = f"It cannot be read: {one.error}; the broker {so}.", FindingCode.PARTITION_METADATA
    return Finding(code, Harm.NO_START, path, text, WRITE_TOPIC_ID, repair=RepairGroup.TOPIC_ID)


def topic_id_finding(directory: str, own: str | None, wanted: str, says: str) -> Finding:
    """Return the finding of a topic id that is missing, or another topic's.

    Args:
        directory: of the partition.
        own: the id in ``partition.metadata``; None without one.
        wanted: the id that the partition should have.
        says: what says so, with its verb.
    """
    path, code = f"{directory}/{PARTITION_METADATA_FILE}", FindingCode.TOPIC_ID_MISSING
    if own is None:
        text = (
            f"The file is missing, and {says} the topic id {wanted}: the next start takes the directory for a stray"
            " one, sets it aside, and begins the partition anew, empty."
        )
        group = RepairGroup.TOPIC_ID
        return Finding(code, Harm.NO_START, path, text, WRITE_TOPIC_ID, kafka_issue="KAFKA-16814", repair=group)
    text = (
        f"The topic id is {own}, and {says} {wanted}: a topic of that name was deleted and made again. The broker does"
        " not serve the partition: its next start sets the directory aside as -stray."
    )
    code = FindingCode.TOPIC_ID_FOREIGN
    return Finding(code, Harm.NO_START, path, text, OTHER_TOPIC, kafka_issue="KAFKA-14616")


def meta_findings(befores: Sequence[IdentityBefore], metadata_dir: str | None) -> Iterator[Finding]:
    """Yield what is wrong with the ``meta.properties`` of the log dirs of one broker, by the rules of a start.

    Args:
        befores: the log dirs, as they are.
        metadata_dir: the log dir of the metadata log; None if none of them has it.
    """
    if not befores:
        return
    is_formatted = any((one.properties or {}).get("version") == "1" for one in befores)
    if metadata_dir is not None or is_formatted:
        found = check_identities(befores, None, metadata_dir or "")
    else:
        found = check_zookeeper_identities(befores, None)
    so = "the broker does not start" if found.refusals else "the broker takes the log dir offline"
    told: set[str] = set()
    for path, cause, remedy in found.causes():
        if path not in told:
            text = f"{cause[0].upper()}{cause[1:]}; {so}."
            yield Finding(FindingCode.META_PROPERTIES, Harm.NO_START, path, text, remedy)
        told.add(path)


def twice_findings(partitions: Iterable[tuple[TopicPartition, str]]) -> Iterator[Finding]:
    """Yield the partitions that lie in two log dirs of a broker under their plain name; each with its path."""
    found: defaultdict[TopicPartition, list[str]] = defaultdict(list)
    for topic_partition, path in partitions:
        found[topic_partition].append(path)
    for topic_partition, paths in found.items():
        if len(paths) > 1:
            text = f"{topic_partition} lies in {counted(len(paths), 'log dir')}: a broker refuses to start. The other: "
            text += ", ".join(paths[1:])
            remedy = "Find out which one is newer (logcleaner topics), and move the other one out of the log dir."
            yield Finding(FindingCode.PARTITION_TWICE, Harm.NO_START, paths[0], f"{text}.", remedy)


def log_dir_name_findings(log_dir: str, entries: Iterable[NamedEntry]) -> Iterator[Finding]:
    """Yield the names in a log dir that no part of Kafka, nor of logcleaner, gives."""
    for name, is_directory in entries:
        path = f"{log_dir}/{name}"
        if is_directory:
            if name != REMOTE_INDEX_CACHE and parse_partition_dir_name(name) is None:
                yield _strange_directory(path, name)
        elif name.removesuffix(_TEMPORARY) not in _OF_A_LOG_DIR and not name.endswith(SCRATCH_SUFFIX):
            text = "No part of Kafka gives a file this name; the broker ignores it."
            yield Finding(FindingCode.NAME_STRANGE, Harm.NOTE, path, text, "Move it away if nobody needs it here.")


def _strange_directory(path: str, name: str) -> Finding:
    """Return the finding of a directory in a log dir whose name Kafka gives to none."""
    taken_for = parse_kafka_name(name)
    if taken_for is not None:
        text = f"No part of Kafka gives a directory this name; a start takes it for one of {taken_for}."
        return Finding(FindingCode.NAME_STRANGE, Harm.NOTE, path, text, _MOVE_AWAY)
    text = "No partition has such a name: the broker does not start, or takes the log dir offline."
    return Finding(FindingCode.NAME_STRANGE, Harm.NO_START, path, text, STRANGE_DIRECTORY)


def partition_name_findings(
    directory: str, names: PartitionNames, name: TopicPartition, told: Iterable[Finding]
) -> Iterator[Finding]:
    """Yield the names in a partition directory that no part of Kafka, nor of logcleaner, gives.

    Args:
        directory: of the partition.
        names: of its entries.
        name: of the partition.
        told: the other findings. Index files that are evidence of lost records are left out: the finding that says so
            has another remedy.
    """
    for other in sorted(names.others):
        path, is_metadata = f"{directory}/{other}", name.topic == CLUSTER_METADATA_TOPIC
        plain_name = other.removesuffix(_TEMPORARY).removesuffix(FileState.DELETED)  # a repair keeps what it replaces
        if plain_name in _OF_A_PARTITION or other.endswith(SCRATCH_SUFFIX):
            continue
        if is_metadata and _OF_THE_METADATA.fullmatch(other):
            continue
        harm, text, remedy = _what_a_start_does(other)
        yield Finding(FindingCode.NAME_STRANGE, harm, path, text, remedy)
    lost = [one for one in told if one.code in (FindingCode.OFFSET_GAP, FindingCode.END_BELOW_WATERMARK)]
    starts = {PurePath(one.path).stem for one in lost}
    end_offset = min((one.offset or 0 for one in lost if one.path == directory), default=None)
    for orphan in sorted(names.orphans):
        found = parse_segment_file_name(orphan)
        is_behind = found is not None and end_offset is not None and found.base_offset >= end_offset
        if is_behind or orphan.partition(".")[0] in starts:
            continue
        text = "There is no .log of this name: the next start of the broker deletes the file."
        yield Finding(FindingCode.NAME_STRANGE, Harm.WASTE, f"{directory}/{orphan}", text, "Nothing.")


def _what_a_start_does(name: str) -> tuple[Harm, str, str]:
    """Return what the next start of a broker does with a strange name in a partition directory.

    Source: Kafka LogLoader.removeTempFilesAndCollectSwapFiles, LogLoader.loadSegmentFiles, LogFileUtils.offsetFromFile.
    """
    found = parse_segment_file_name(name)
    if found is not None and name == segment_file_name(*found):
        return Harm.WRONG_ANSWER, "It has the name of a segment file, and is no plain file.", _NO_PLAIN_FILE
    if name.endswith(FileState.DELETED) and not name.endswith(_CHECKPOINT_DELETED):
        return Harm.WASTE, "No part of Kafka gives a file this name; the next start of the broker deletes it.", _COPY_IT
    like = _LIKE_A_SEGMENT.fullmatch(name)
    if like is None:
        text = "No part of Kafka gives a file this name; the broker ignores it."
        return Harm.NOTE, text, "Move it away if nobody needs it here."
    return _of_an_offset(offset_if_any(name), like[1])


def _of_an_offset(offset: int | None, kind: str) -> tuple[Harm, str, str]:
    """Return what a start does with a name that begins and ends as that of a segment file does."""
    if offset is None:
        return Harm.NO_START, _NO_OFFSET, _MOVE_AWAY
    if kind == "log":
        text = f"The broker takes it for the segment of offset {offset}, and makes an empty one there."
        return Harm.WRONG_ANSWER, text, _MOVE_AWAY
    if kind == "snapshot":
        text = f"The broker takes it for the producer snapshot of offset {offset}: it believes it, or deletes it."
        return Harm.WRONG_ANSWER, text, _MOVE_AWAY
    return Harm.WASTE, "No part of Kafka gives a file this name; the next start deletes or renames it.", _COPY_IT
