"""``restore-tier``: plain log dirs of what brokers tiered away, with what a surviving log dir has on top.

Plan:       the view of the tier and the log dirs as one (``storage.tiers.view``) tells the log of each partition. What
            its segments and epochs name, and no copy has, is missing; ``plan_restore`` says so before a byte is read.
Bytes:      ``Fetch`` brings the files of the view, so a second run goes on where the first one ended.
Finish:     before the check, ``finish`` writes what a broker reads first: the offset checkpoints, and with
            ``ids_from`` the ids and leader epochs of topics that were created anew.
            Afterwards ``remake`` derives again the files that the check found wrong.
Epochs:     of a topic that was created anew the controller counts leader epochs from 0. An epoch in the log above that
            of the controller wipes the broker's epochs, so all batches get the one that the controller has now, while
            their bytes pass. No CRC covers it.
Sums:       a ``.log`` is written once, so the SHA-256 that is computed while its bytes pass goes into the manifest.
Commits:    a committed offset above the end of its log, and with ``ids_from`` one with a leader epoch or a topic id of
            old, is written once more behind ``__consumer_offsets``: consumers would wait for that epoch.
Until:      ``as_of.reading`` says where each log ends as of a moment, before anything is brought; the view ends there.
            Logs that are no history stay whole: a transaction coordinator must never fall back to an older epoch.
Meanwhile:  what is brought is what the plan listed. If a file is gone by then, or if the tier has changed at the end,
            the run ends, and the next one plans anew.
Never:      a write to the tier, or to a log dir that is read.

Source: Kafka LogManager.checkpointLogStartOffsets, LeaderEpochFileCache.assign.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.engine.as_of.commits import is_as_anew, partition_for, value_anew, write_commits
from cleaner.engine.as_of.reading import CommittedOffset, LogToCut, committed_offsets, cuts_of
from cleaner.engine.copy.manifest import manifest_of_restored
from cleaner.engine.fetch import Alteration, Fetch
from cleaner.engine.inventory import lost_since_the_copy
from policies.as_of import Cut, OpenPart
from policies.findings.findings import FindingCode
from policies.reasons import counted
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_partition_metadata
from storage.directory import entries
from storage.errors import CorruptBatch, ErrorKind, InvalidRecord, LogCleanerError, as_unreadable
from storage.filesystem import FileSystem, Purpose
from storage.log.end import next_offset_of
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import list_partition
from storage.log.producer_state import ProducerState
from storage.log.rebuild import RebuildTerms, rebuild_segment, with_due_offsets
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.metadata.assignments import Assignments, read_assignments
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    HOLD_IDS_FILE,
    HOLDS_FILE,
    INCOMPLETE_FILE,
    INTERNAL_TOPICS,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    MANIFEST_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    TopicPartition,
    is_named,
    parse_partition_dir_name,
    parse_segment_file_name,
    segment_file_name,
)
from storage.records.read_batches import PREFIX_BYTES, batch_size
from storage.records.v2 import MAGIC_POSITION, MAGIC_V2
from storage.segment import reading
from storage.stores.paths import look_anew
from storage.tiers.metadata import TOPIC as REMOTE_METADATA_TOPIC
from storage.tiers.restored import RestoredPartition, restored_of
from storage.tiers.view import JoinedLog, TierView, view_at, view_of

if TYPE_CHECKING:
    from cleaner.engine.means import Means
    from cleaner.engine.verify.checked import Checked

_NOT_TAKEN: Final = frozenset(
    {CLEAN_SHUTDOWN_FILE, LOCK_FILE, MANIFEST_FILE, INCOMPLETE_FILE, HOLDS_FILE, HOLD_IDS_FILE}
)
"""The files of a log dir that tell of its own life: the restored one was never stopped cleanly."""
_DERIVED: Final = frozenset(
    {
        FindingCode.INDEX_MISSING,
        FindingCode.OFFSET_INDEX_CORRUPT,
        FindingCode.OFFSET_INDEX_WRONG,
        FindingCode.TIME_INDEX_CORRUPT,
        FindingCode.TIME_INDEX_PADDED,
        FindingCode.TIME_INDEX_WRONG,
        FindingCode.TXN_INDEX_CORRUPT,
        FindingCode.TXN_INDEX_WRONG,
        FindingCode.SNAPSHOT_CORRUPT,
        FindingCode.SNAPSHOT_MISSING,
        FindingCode.SNAPSHOT_WRONG,
        FindingCode.ABORTED_UNINDEXED,
    }
)
"""What is wrong with files that the log tells anew."""
_NO_HISTORY: Final = (INTERNAL_TOPICS - {"__consumer_offsets"}) | {REMOTE_METADATA_TOPIC, CLUSTER_METADATA_TOPIC}
"""The topics that are restored as they are, whatever the moment."""
_OFFSETS: Final = "__consumer_offsets"
_METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
_WRITTEN: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
_EPOCH: Final = struct.Struct(">i")
_EPOCH_POSITION: Final = 12
_BATCH_BYTES_MAX: Final = 1 << 32
_INDEX_INTERVAL_BYTES: Final = 4096
_PRODUCER_EXPIRATION_MS: Final = 86_400_000


class NoTopicIds(LogCleanerError):
    """A directory that is to name the ids of topics, and names none."""

    kind = ErrorKind.USAGE

    path: Path

    def __str__(self) -> str:
        return (
            f"--topic-ids-from {self.path}: holds no {CLUSTER_METADATA_TOPIC}-0; name a log dir of the controller that "
            f"made the topics"
        )


class NewTopicHasRecords(LogCleanerError):
    """A partition that was created anew, and has records already, which would not come along."""

    kind = ErrorKind.USAGE

    path: Path
    records: int

    def __str__(self) -> str:
        return (
            f"{self.path}: has {counted(self.records, 'record')} already, and a restored log would take their place; "
            f"delete that topic and create it anew, or restore others with --topic"
        )


class CutLog(NamedTuple):
    """A log that ends earlier than it could, because it is restored as of a moment."""

    name: TopicPartition
    end: int
    """The offset behind the last record that is restored."""
    log_end: int
    """The offset at which it would end otherwise."""
    cut: Cut
    has_older_behind: bool
    """Whether a whole segment that is left out has no record newer than the moment."""


class Commit(NamedTuple):
    """A committed offset that is written once more."""

    log: TopicPartition
    """The partition of ``__consumer_offsets`` that has it."""
    found: CommittedOffset
    end: int
    """The offset that it gets."""


class RestorePlan(NamedTuple):
    """The partitions that will be restored, and what cannot be."""

    tier: str
    partitions: tuple[RestoredPartition, ...]
    as_they_are: tuple[str, ...]
    """The partitions that come from log dirs alone."""
    problems: tuple[str, ...]
    """What is left out, and why."""
    until_ms: int | None = None
    """The moment as of which logs are restored, epoch ms; None for all that there is."""
    cut_logs: tuple[CutLog, ...] = ()
    """The logs that lose something by that."""
    commits: tuple[Commit, ...] = ()
    """The committed offsets that are written once more, by the log that has them."""
    replaced: tuple[str, ...] = ()
    """The groups of the new cluster whose records do not come along, in words."""

    @property
    def clamped(self) -> tuple[Commit, ...]:
        """Return the committed offsets that lie above the end of their log, and get that end."""
        return tuple(one for one in self.commits if one.end < one.found.offset)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is missing or left out."""
        return not self.problems and not any(one.missing for one in self.partitions)


@dataclass(frozen=True)  # no slots: it keeps what the controller assigned
class TierRestore:
    """The restoration of one tier.

    Attributes:
        tier: where it lies.
        log_dirs: what survived of the brokers; may be empty.
        keys: private keys, each as ``ID=FILE`` or ``FILE``.
        topics: globs over topic or partition names; empty means all.
        ids_from: a log dir of a cluster in which the topics were created anew: it gives everything but the partitions
            that are restored.
        until_ms: restore the logs as of this moment, epoch ms; None for all that there is.
    """

    tier: Path
    log_dirs: tuple[Path, ...]
    keys: tuple[str, ...]
    topics: tuple[str, ...] = ()
    ids_from: Path | None = None
    until_ms: int | None = None

    @property
    def source(self) -> Path:
        """Return the log dir that shows the tier and the log dirs as one."""
        return view_of(self.tier, self.log_dirs, self.keys)

    def known(self) -> set[TopicPartition]:
        """Return the partitions of the tier and of the log dirs. Raises: as ``plan``."""
        view = view_at(self.source)
        assert view is not None
        here = (directory.name for _, directory in LogDir(self.source).partitions())
        return {*view.tiered(), *(_topic_partition(name) for name in here if parse_partition_dir_name(name))}

    def plan(self) -> RestorePlan:
        """Find out what will be there, and what is missing. Only listings, metadata and small files are read.

        Raises: NotATier, NoTopicIds, NewTopicHasRecords, UnreadableFile, CorruptBatch; as a store.
        """
        view = view_at(self.source)
        assert view is not None
        view.end_nowhere()
        look_anew([self.source])
        lost = lost_since_the_copy(LogDir(self.source), lambda name: is_named(name, self.topics))
        problems, found = [str(lost)] if lost else [], []
        if self.ids_from is not None and not (self.ids_from / _METADATA_DIR).is_dir():
            raise NoTopicIds(self.ids_from)
        for name in sorted(name for name in view.tiered() if is_named(name, self.topics)):
            joined = view.joined(name)
            if joined is None or not joined.pieces:
                problems.append(f"{name}: the tier has no segment of it that can be read")
            elif not (problem := self._problem_of_new(name)):
                found.append(joined)
            else:
                problems.append(problem)
        others = self._others(view, problems)
        replaced = self._ensure_no_records([*(str(joined.partition) for joined in found), *others])
        cut_logs, pending = self._cut(view, found, others) if self.until_ms is not None else ([], ())
        problems += self._compacted(cut_logs)
        names = [joined.partition.topic_partition for joined in found]
        restored = tuple(_restored(self.source, view, joined) for joined in map(view.joined, names) if joined)
        commits = tuple(self._commits(restored, others, pending))
        problems += self._misplaced(commits)
        whole = (*problems, *view.problems)
        return RestorePlan(
            str(self.tier), restored, tuple(others), whole, self.until_ms, tuple(cut_logs), commits, replaced
        )

    def _problem_of_new(self, name: TopicPartition) -> str:
        """Return why a partition cannot take the place of one that was created anew; empty if it can."""
        if self.ids_from is None:
            return ""
        if self._assigned(name) is None:
            return f"{name}: no topic of that name was created in {self.ids_from}; create it first"
        return ""

    def _ensure_no_records(self, names: Iterable[str]) -> tuple[str, ...]:
        """Refuse partitions that were created anew and have records; return those of groups, in words.

        Any consumer of the new cluster writes to them. Raises: NewTopicHasRecords, UnreadableFile.
        """
        told = []
        for name in sorted(names) if self.ids_from else ():
            assert self.ids_from is not None
            directory = self.ids_from / name
            segments = list_partition(directory).segments if directory.is_dir() else ()
            if segments and (records := next_offset_of(segments[-1]) - segments[0].base_offset):
                if _topic_partition(name).topic != _OFFSETS:
                    raise NewTopicHasRecords(directory, records)
                told.append(f"{directory}: the groups of old take the place of its {counted(records, 'record')}")
        return tuple(told)

    def _commits(
        self, restored: Iterable[RestoredPartition], others: Iterable[str], pending: Sequence[OpenPart]
    ) -> Iterator[Commit]:
        """Yield the committed offsets that no longer fit: those above the end of a log, of new topics all with epochs
        or ids.
        """
        ends = {one.name: one.end for one in restored}
        names = {_topic_partition(other) for other in others}
        for log in sorted(name for name in names if name.topic == _OFFSETS):
            segments = list_partition(self.source / str(log)).segments
            if not segments:
                continue
            span = segments[0].base_offset, next_offset_of(segments[-1])
            for found in committed_offsets(log, segments, span, pending):
                where = found.topic_partition
                if where not in ends and where in names:
                    ends[where] = _end_of(self.source / str(where))
                if where in ends and (found.offset > ends[where] or (self.ids_from and not is_as_anew(found))):
                    yield Commit(log, found, min(found.offset, ends[where]))

    def _misplaced(self, commits: Iterable[Commit]) -> Iterator[str]:
        """Yield the partitions of groups that a new cluster looks for in other partitions."""
        if self.ids_from is None:
            return
        told = set[TopicPartition]()
        topic_id = self._created.topic_ids.get(_OFFSETS)
        count = sum(known == topic_id for known, _ in self._created.partitions)
        for log, found, _ in commits:
            if log not in told and partition_for(found.group, count) != log.partition:
                told.add(log)
                yield (
                    f"{log}: group {found.group} is looked for in partition {partition_for(found.group, count)} of "
                    f"{count}; create {_OFFSETS} with as many partitions as it had"
                )

    def _cut(
        self, view: TierView, found: Iterable[JoinedLog], others: Iterable[str]
    ) -> tuple[list[CutLog], tuple[OpenPart, ...]]:
        """Find out where the logs end as of the moment, and have the view end there."""
        assert self.until_ms is not None
        known_ms = {joined.partition.topic_partition: _newest_of(joined) for joined in found}
        names = [*known_ms, *map(_topic_partition, others)]
        logs = {}
        for name in names:
            listing = list_partition(self.source / str(name))
            if name.topic not in _NO_HISTORY and listing.segments:
                logs[name] = LogToCut(name, listing, self.until_ms, newest_ms=known_ms.get(name))
        cuts = cuts_of(logs)
        before = {name: (log.end, log.has_older_behind) for name, log in logs.items() if cuts[name].offset < log.end}
        view.end_at({name: cuts[name].offset for name in before})
        cut_logs = [
            CutLog(name, _end_of(self.source / str(name)), end, cuts[name], has_older_behind)
            for name, (end, has_older_behind) in before.items()
        ]
        return cut_logs, cuts.open_parts

    def _compacted(self, cut_logs: Iterable[CutLog]) -> Iterator[str]:
        """Yield the logs that compaction changed behind the moment."""
        cleaned = LogDir(self.source).offsets(CLEANER_OFFSET_CHECKPOINT)
        for one in cut_logs:
            if cleaned.get(one.name, 0) > one.end:
                yield (
                    f"{one.name}: was compacted up to offset {cleaned[one.name]} since; "
                    f"records that had a later one of their key by then are missing"
                )

    def _others(self, view: TierView, problems: list[str]) -> list[str]:
        """Return the partitions that log dirs alone have; note why others of them are left out."""
        here = (directory.name for _, directory in LogDir(self.source).partitions())
        tiered = {str(name) for name in view.tiered()}
        named = (name for name in here if name not in tiered and parse_partition_dir_name(name))
        wanted = sorted(name for name in named if is_named(_topic_partition(name), self.topics))
        if self.ids_from is None:
            return wanted
        fit = []
        for name in wanted:
            topic_partition = _topic_partition(name)
            if topic_partition.topic in _NO_HISTORY:
                continue
            if problem := self._problem_of_new(topic_partition):
                problems.append(problem)
            else:
                fit.append(name)
        return fit

    def fetch(self, directory: Path, means: Means, threads: int, plan: RestorePlan) -> Fetch:
        """Return what brings the files of a plan."""
        wanted = {*(str(one.name) for one in plan.partitions), *plan.as_they_are}

        def wants(path: str) -> bool:
            parent, _, name = path.rpartition("/")
            if not parent:
                return self.ids_from is None and name not in _NOT_TAKEN
            return parent in wanted or (self.ids_from is None and parent == _METADATA_DIR)

        alters = self._numbering if self.ids_from else lambda _: None
        return Fetch(self.source, directory, means, threads, wants, alters, is_listed=True)

    def leave_out(self, path: Path, cause: str) -> bool:
        """Do without a file of the tier from the next plan on; return False if it was left out already."""
        view = view_at(self.source)
        assert view is not None
        is_new = path not in view.left_out
        view.left_out[path] = cause
        return is_new

    @property
    def is_without_a_log(self) -> bool:
        """Return whether a log of the tier was left out because it is damaged."""
        view = view_at(self.source)
        return view is not None and any(path.suffix == FileKind.LOG for path in view.left_out)

    def _numbering(self, path: str) -> Alteration | None:
        """Return what gives the batches of a log the leader epoch that the controller has now."""
        parent, _, name = path.rpartition("/")
        partition, parsed = parse_partition_dir_name(parent), parse_segment_file_name(name)
        assigned = self._assigned(partition.topic_partition) if partition and self.ids_from else None
        if assigned is None or parsed is None or parsed.kind is not FileKind.LOG:
            return None
        _, epoch = assigned
        return Alteration(epoch, lambda pieces: numbered(pieces, epoch))

    def finish(self, root: Path, plan: RestorePlan, fs: FileSystem, now_ms: int) -> None:
        """Write what a broker reads first. May be done again.

        Raises: LogDirLocked, NewTopicHasRecords, OutOfSpace, UnreadableFile, CorruptBatch.
        """
        base = self.source
        if self.ids_from is not None:
            starts = {one.name: one.start for one in plan.partitions}
            starts |= {name: _start_of(root / str(name)) for name in map(_topic_partition, plan.as_they_are)}
            with LogDir(self.ids_from).lock_to_read(fs):
                self._ensure_no_records(map(str, starts))
                _take(self.ids_from, root, set(map(str, starts)), fs)
            base = self.ids_from
            for name, start in starts.items():
                self._number_anew(root / str(name), name, start, fs)
        self._write_checkpoints(base, LogDir(root), plan, _write_commits(root, plan, fs, now_ms), fs)

    def _number_anew(self, directory: Path, name: TopicPartition, start: int, fs: FileSystem) -> None:
        """Give a partition the topic id and the leader epoch that the controller has now; its batches have it."""
        assigned = self._assigned(name)
        assert assigned is not None
        topic_id, epoch = assigned
        epochs = format_leader_epochs([LeaderEpochEntry(epoch, start)])
        fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, epochs, Purpose.COPY)
        fs.replace_file(directory / PARTITION_METADATA_FILE, format_partition_metadata(topic_id), Purpose.COPY)

    def _assigned(self, name: TopicPartition) -> tuple[str, int] | None:
        """Return the id and the leader epoch of a partition that was created anew."""
        topic_id = self._created.topic_ids.get(name.topic)
        found = self._created.partitions.get((topic_id, name.partition)) if topic_id else None
        return (topic_id, found.leader_epoch) if topic_id and found else None

    @cached_property
    def _created(self) -> Assignments:
        assert self.ids_from is not None
        return read_assignments(self.ids_from / _METADATA_DIR)

    def _write_checkpoints(
        self, base: Path, restored: LogDir, plan: RestorePlan, committed: Mapping[TopicPartition, int], fs: FileSystem
    ) -> None:
        """Write where each restored log starts, and up to where it is checked and committed."""
        here = {str(one.name) for one in plan.partitions} | set(plan.as_they_are)
        ends = {one.name: one.end for one in plan.cut_logs}
        for file in OFFSET_CHECKPOINTS if ends or self.ids_from else _WRITTEN:
            before = LogDir(self.source).offsets(file)
            offsets = {name: offset for name, offset in before.items() if str(name) in here}
            if self.ids_from:
                stated = LogDir(base).offsets(file)
                offsets |= {name: offset for name, offset in stated.items() if str(name) not in here}
            for one in plan.partitions if file in _WRITTEN else ():
                offsets[one.name] = one.offset_in(file, before.get(one.name, 0))
            offsets = {name: min(offset, ends.get(name, offset)) for name, offset in offsets.items()}
            if file == HIGH_WATERMARK_CHECKPOINT:
                offsets |= committed
            restored.write_offsets(file, offsets, fs)


def _write_commits(root: Path, plan: RestorePlan, fs: FileSystem, now_ms: int) -> dict[TopicPartition, int]:
    """Write the committed offsets that changed, behind the logs that have them. Return where these logs end then."""
    ends = {}
    for log, group in groupby(plan.commits, key=lambda commit: commit.log):
        directory = root / str(log)
        segments = list_partition(directory).segments
        epochs = read_leader_epochs(directory)
        commits = [(one.found.key, value_anew(one.found, one.end)) for one in group]
        epoch, base = epochs[-1].epoch if epochs else -1, next_offset_of(segments[-1])
        ends[log] = write_commits(fs, directory, base, commits, plan.until_ms or now_ms, epoch, _INDEX_INTERVAL_BYTES)
    return ends


def numbered(pieces: Iterable[bytes | memoryview], epoch: int) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a log with another leader epoch in each batch.

    Behind a header that cannot be, the bytes stay as they are: the check names that batch.
    """
    held, start, at = bytearray(), 0, 0  # what is not yielded yet, where that begins, and where the next batch does
    rest = iter(pieces)
    for piece in rest:
        held += piece
        while at + PREFIX_BYTES <= start + len(held):
            header = held[at - start : at - start + PREFIX_BYTES]
            try:
                size_bytes = batch_size(memoryview(header), _BATCH_BYTES_MAX)
            except InvalidRecord:
                yield bytes(held)
                yield from rest
                return
            assert size_bytes is not None
            if header[MAGIC_POSITION] == MAGIC_V2:
                _EPOCH.pack_into(held, at - start + _EPOCH_POSITION, epoch)
            at += size_bytes
        whole = min(len(held), at - start)
        yield bytes(memoryview(held)[:whole])
        start += whole
        held = held[whole:]
    yield bytes(held)


def _topic_partition(name: str) -> TopicPartition:
    found = parse_partition_dir_name(name)
    assert found is not None
    return found.topic_partition


def _restored(source: Path, view: TierView, joined: JoinedLog) -> RestoredPartition:
    partition = joined.partition
    segments = list_partition(source / str(partition)).segments
    end = next_offset_of(segments[-1]) if segments else joined.pieces[-1].start
    start = LogDir(source).offsets(LOG_START_OFFSET_CHECKPOINT).get(partition.topic_partition)
    is_cut = joined.end is not None
    return restored_of(view.tier, partition, joined.pieces, joined.lineage, end, start, is_cut=is_cut)


def _newest_of(joined: JoinedLog) -> dict[int, int]:
    """Return the largest timestamps of the segments of the tier that are shown whole, as far as they are known."""
    return {
        piece.start: piece.remote.max_timestamp_ms
        for piece in joined.pieces
        if piece.remote and not piece.is_cut_at_start and not piece.is_cut_at_end
        if piece.remote.max_timestamp_ms is not None
    }


def _start_of(directory: Path) -> int:
    return next((segment.base_offset for segment in list_partition(directory).segments), 0)


def _end_of(directory: Path) -> int:
    return next_offset_of(list_partition(directory).segments[-1])


def _take(log_dir: Path, root: Path, restored: set[str], fs: FileSystem) -> None:
    """Copy a log dir, but for the partitions that are restored. What an earlier run copied is copied again."""
    with as_unreadable(log_dir), entries(log_dir) as found:
        names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
    for name, is_directory in names:
        if name in restored or name in _NOT_TAKEN:
            continue
        if not is_directory:
            _take_file(log_dir / name, root / name, fs)
        elif parse_partition_dir_name(name) or name == _METADATA_DIR:
            with suppress(FileExistsError):
                fs.make_dir(root / name, root, Purpose.COPY)
            for path in sorted(path for path in (log_dir / name).iterdir() if path.is_file()):
                _take_file(path, root / name / path.name, fs)


def _take_file(source: Path, target: Path, fs: FileSystem) -> None:
    fs.unlink(target, Purpose.COPY)
    status = source.stat()
    with reading(source) as file, fs.create(target, target.parent, Purpose.COPY) as new:
        new.copy_sparse(file, status.st_size)
        new.set_mtime(status.st_mtime_ns)
        new.fsync()


def remake(directory: Path, now_ms: int, fs: FileSystem) -> None:
    """Make indexes and producer snapshots of a partition anew from its batches. Raises: CorruptBatch, OutOfSpace."""
    listing = list_partition(directory)
    terms = RebuildTerms(_INDEX_INTERVAL_BYTES, 0, now_ms, _PRODUCER_EXPIRATION_MS)
    state = ProducerState()
    for path in sorted(directory.iterdir()):
        parsed = parse_segment_file_name(path.name)
        if parsed and parsed.kind is FileKind.SNAPSHOT:
            fs.unlink(path, Purpose.COPY)
    for segment, due_offset in with_due_offsets(listing.segments):
        rebuilt = rebuild_segment(segment, due_offset, state, terms)
        made = {
            segment_file_name(segment.base_offset, FileKind.INDEX): rebuilt.offset_index,
            segment_file_name(segment.base_offset, FileKind.TIME_INDEX): rebuilt.time_index,
            segment_file_name(segment.base_offset, FileKind.TXN_INDEX): rebuilt.txn_index or None,
            segment_file_name(rebuilt.next_offset, FileKind.SNAPSHOT): state.to_snapshot_bytes(),
        }
        for name, content in made.items():
            if content is None:
                fs.unlink(directory / name, Purpose.COPY)
            else:
                fs.replace_file(directory / name, content, Purpose.COPY)


def remade(checked: Checked, root: Path, plan: RestorePlan, means: Means) -> tuple[str, ...]:
    """Make again what the check found wrong, of each partition that was restored. Return the partitions."""
    wrong = {finding.path for finding in checked.findings if finding.code in _DERIVED}
    made = []
    changed = [one.name for one in plan.partitions] + [one.name for one in plan.cut_logs]
    changed += [one.log for one in plan.commits]
    for name in dict.fromkeys(changed):
        directory = root / str(name)
        if any(path.startswith(str(directory)) for path in wrong):
            with suppress(CorruptBatch):  # the check names the batch, and the files stay as they were
                remake(directory, means.clock.now_ms(), means.fs)
                made.append(str(name))
    return tuple(made)


def write_manifest(root: Path, fetch: Fetch, plan: RestorePlan, means: Means, tool_version: str) -> None:
    """Write what the restored log dir consists of. Raises: OutOfSpace, UnreadableFile."""
    made = (means.clock.now_ms(), "local", tool_version)
    spans = {one.name: (one.start, one.end) for one in plan.partitions}

    def summed(path: Path) -> str:
        known = fetch.sums.get(path.relative_to(root).as_posix()) if path.suffix == FileKind.LOG else None
        return known or means.fs.sha256_of(path)

    manifest = manifest_of_restored(spans, plan.tier, root, made, summed)
    means.fs.replace_file(root / MANIFEST_FILE, manifest, Purpose.COPY)
