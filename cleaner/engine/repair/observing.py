"""The facts about the files that findings ask to mend, with the new content that a log gives them.

Nothing is changed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.repair.kept import is_kept_already, kept_name, tail_name
from cleaner.engine.repair.topic_ids import observe_topic, read_assigned
from policies.config.config_layers import ConfigLayers
from policies.findings.repairs import (
    CUTS,
    LogEndFacts,
    Repair,
    RepairCode,
    RepairFacts,
    RepairKind,
    TailFacts,
    Target,
    repair,
)
from policies.planning import exemption_from_repairs
from storage.checkpoints import CorruptCheckpoint, LeaderEpochEntry, format_leader_epochs, format_partition_metadata
from storage.directory import status_of
from storage.errors import CorruptBatch, LogCleanerError
from storage.log.end import end_bytes_of
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing, list_partition, strange_files
from storage.log.producer_state import ProducerState
from storage.log.read import last_offset_entry
from storage.log.rebuild import (
    RebuildTerms,
    Rebuilt,
    RebuiltProducers,
    epochs_in,
    rebuild_epochs,
    rebuild_segment,
    with_due_offsets,
)
from storage.log_dir import LogDir, read_file
from storage.metadata.assignments import Assignments
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileIdentity,
    FileKind,
    SegmentFileName,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.records.batch_search import next_whole_batch
from storage.segment import Segment, identity_of, reading_here

_NEVER_MS: Final = 1 << 62
"""The expiry of producers in a new snapshot: none is forgotten, because a broker forgets expired producers itself when
it reads a snapshot.
"""
_INDEXES: Final = (RepairKind.INDEX, RepairKind.TIME_INDEX)
_SUFFIXES: Final = {
    RepairKind.INDEX: FileKind.INDEX, RepairKind.TIME_INDEX: FileKind.TIME_INDEX,
    RepairKind.TXN_INDEX: FileKind.TXN_INDEX,
}  # fmt: skip
_REFUSED: Final = (RepairCode.TOO_LARGE, RepairCode.NAME_TAKEN)


class PlannedRepair(NamedTuple):
    """A repair with the data that carry it out."""

    repair: Repair
    topic_partition: TopicPartition | None
    """The partition of the file; None if the file lies in no live partition directory."""
    path: Path
    identity: FileIdentity | None = None
    """The identity of the file when it was read; None if it is missing."""
    content: bytes | None = None
    """The new content; None for a ``.log``, which is cut at ``repair.made_bytes``, and after the content is written."""
    sources: tuple[tuple[Path, FileIdentity], ...] = ()
    """The identities of the ``.log`` files from which the content was derived."""
    needs: tuple[Path, ...] = ()
    """The files that must be mended before. If one of them was not mended, this repair is not done either."""

    @property
    def tail_copy(self) -> Path | None:
        """The file that keeps the bytes that a repair cuts off a ``.log``; None if the repair cuts or keeps nothing."""
        kind, made_bytes = self.repair.target.kind, self.repair.made_bytes
        if kind is not RepairKind.LOG_END or made_bytes in (None, self.repair.size_bytes):
            return None
        return self.path.with_name(tail_name(self.path.name, made_bytes or 0))


@dataclass(frozen=True)  # no slots: it keeps the metadata log
class Surroundings:
    """The log dirs of a broker, and their configuration."""

    log_dirs: Sequence[LogDir]
    layers: ConfigLayers

    @cached_property
    def assigned(self) -> Assignments | None:
        """The assignments by the metadata log; None where it cannot be read."""
        return read_assigned(self.log_dirs, self.layers.broker_policy().metadata_log_dir)


def plan_repairs(targets: Iterable[Target], surroundings: Surroundings) -> Iterator[PlannedRepair]:
    """Yield the repair of each target, partition after partition.

    The caller may carry each out before the next is planned, because the new contents of all would not fit into memory.

    Raises: UnreadableFile of a whole log dir.
    """
    by_directory: defaultdict[Path, list[Target]] = defaultdict(list)
    for target in targets:
        by_directory[Path(target.path).parent].append(target)
    for directory, found in sorted(by_directory.items()):
        yield from _plan(directory, found, surroundings)


def look(path: Path) -> FileIdentity | None:
    """Return the identity of a file; None if it is missing."""
    with suppress(FileNotFoundError):
        return identity_of(status_of(path))
    return None


def tail_of(path: Path, start: int) -> bytes:
    """Return the bytes behind a position of a file. Raises: UnreadableFile."""
    with reading_here(path) as descriptor:
        return os.pread(descriptor, os.fstat(descriptor).st_size - start, start)


class DerivedEnd(NamedTuple):
    """The end of the last segment as a recovery finds it, and its index files."""

    end_bytes: int
    end_offset: int
    whole_behind: int | None
    """The byte at which another whole batch begins, behind bytes that are no batch."""
    contents: Mapping[RepairKind, bytes]


class Made(NamedTuple):
    """The new content of a file, or the reason why there is none."""

    content: bytes | None
    because: str | None = None


def in_order(targets: Iterable[Target]) -> list[Target]:
    """Return targets by offset, so that each state of the producers is made from the state before it. Cuts come last.

    At an offset the snapshot comes first. A cut changes the log from which other files are derived.
    """
    return sorted(targets, key=_place)


class Deriving:
    """Derives files of one partition.

    Each file is derived by itself: damage in one segment does not touch the indexes of another. A snapshot that must be
    made anew is not used.
    """

    def __init__(self, listing: Listing, targets: Iterable[Target], terms: RebuildTerms) -> None:
        """Prepare the derivation.

        Args:
            listing: of the partition.
            targets: the files that are missing or wrong; call ``made`` for them ``in_order``.
            terms: of the partition.
        """
        doubted = {_name(target).base_offset for target in targets if target.kind is RepairKind.SNAPSHOT}
        believed = [snapshot for snapshot in listing.snapshots if snapshot.name.base_offset not in doubted]
        self._listing, self._terms = listing, terms
        self._producers = RebuiltProducers(listing.segments, believed, terms)
        self._segments = {s.base_offset: (s, due) for s, due in with_due_offsets(listing.segments)}

    def made(self, target: Target) -> Made:
        """Return the new content of a file."""
        try:
            return Made(self._makers[target.kind](self, target))
        except LogCleanerError as error:
            return Made(None, str(error))

    def log_end(self, target: Target) -> DerivedEnd:
        """Return the end of the last segment, and its index files, as a recovery makes them.

        Raises: CorruptBatch, UnreadableFile.
        """
        segment = self._listing.segments[-1]
        if segment.log.path != Path(target.path):
            raise CorruptBatch(Path(target.path), 0, "it is not the last segment: what lies behind it would be lost")
        end_bytes = end_bytes_of(segment)
        state = self._producers.at(segment.base_offset)
        rebuilt = rebuild_segment(segment, None, state, self._terms, end_bytes)
        contents = {RepairKind.INDEX: rebuilt.offset_index, RepairKind.TIME_INDEX: rebuilt.time_index}
        if rebuilt.txn_index or FileKind.TXN_INDEX in segment.files:
            contents[RepairKind.TXN_INDEX] = rebuilt.txn_index
        with reading_here(segment.log.path) as descriptor:
            behind = next_whole_batch(descriptor, segment.log.path, end_bytes, os.fstat(descriptor).st_size)
        return DerivedEnd(end_bytes, rebuilt.next_offset, behind, contents)

    def _index(self, target: Target) -> bytes:
        rebuilt = self._rebuild(target, ProducerState())
        return rebuilt.offset_index if target.kind is RepairKind.INDEX else rebuilt.time_index

    def _txn_index(self, target: Target) -> bytes:
        state = self._producers.at(_name(target).base_offset)
        rebuilt = self._rebuild(target, state)
        self._producers.note(rebuilt.next_offset, state)
        return rebuilt.txn_index

    def _rebuild(self, target: Target, state: ProducerState) -> Rebuilt:
        base_offset = _name(target).base_offset
        if base_offset not in self._segments:
            raise CorruptBatch(Path(target.path), 0, "there is no .log of this name")
        segment, due_offset = self._segments[base_offset]
        rebuilt = rebuild_segment(segment, due_offset, state, self._terms)
        _check_index(segment, rebuilt)
        return rebuilt

    def _snapshot(self, target: Target) -> bytes:
        offset, end_offset = _name(target).base_offset, self.end_offset()
        if offset > end_offset:
            cause = f"offset {offset} is above the end of the log, {end_offset}"
            raise CorruptBatch(Path(target.path), 0, cause)
        return self._producers.at(offset).to_snapshot_bytes()

    def end_offset(self) -> int:
        """Return the end of the log; -1 without a segment. Raises: CorruptBatch, UnreadableFile."""
        if not self._listing.segments:
            return -1
        segment, due_offset = self._segments[self._listing.segments[-1].base_offset]
        return rebuild_segment(segment, due_offset, ProducerState(), self._terms).next_offset

    def _leader_epochs(self, _target: Target) -> bytes:
        seen = epochs_in(self._listing.segments)
        entries = rebuild_epochs(_stated_epochs(self._listing.directory), seen, self._terms.log_start_offset)
        return format_leader_epochs(entries)

    _makers: Mapping[RepairKind, Callable[[Deriving, Target], bytes]] = {
        RepairKind.INDEX: _index,
        RepairKind.TIME_INDEX: _index,
        RepairKind.TXN_INDEX: _txn_index,
        RepairKind.SNAPSHOT: _snapshot,
        RepairKind.LEADER_EPOCHS: _leader_epochs,
    }


def _plan(directory: Path, targets: Sequence[Target], surroundings: Surroundings) -> Iterator[PlannedRepair]:
    log_dir = next((d for d in surroundings.log_dirs if d.path == directory.parent), None)
    found = {path: tp for tp, path in log_dir.partitions()} if log_dir else {}
    partition: _Partition | None = None
    because: str | None = "only partitions that a broker serves are mended, and never the cluster metadata"
    if log_dir is not None and directory in found:
        try:
            partition = _Partition(log_dir, found[directory], targets, surroundings)
            because = partition.untouchable_because()
        except LogCleanerError as error:
            because = str(error)
    for target in in_order(targets):
        if because or partition is None:
            yield _untouched(target, because)
        elif target.kind is RepairKind.LOG_END:
            yield from partition.plan_end(target)
        else:
            yield partition.plan(target)


class _Partition:
    def __init__(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        targets: Sequence[Target],
        surroundings: Surroundings,
    ) -> None:
        self._log_dir, self._topic_partition, self._surroundings = log_dir, topic_partition, surroundings
        self._listing = list_partition(log_dir.path / str(topic_partition))
        self._policy = surroundings.layers.policy_for(topic_partition.topic)
        start = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(topic_partition, 0)
        self._terms = RebuildTerms(self._policy.index_interval_bytes, start, 0, _NEVER_MS)
        self._deriving = Deriving(self._listing, targets, self._terms)

    def untouchable_because(self) -> str | None:
        """Return why nothing of the partition may be touched; None if it may be."""
        if self._listing.needs_recovery:
            return "an interrupted compaction left files here: run logcleaner clean, which recovers first"
        if strange := strange_files(self._listing):
            return f"{strange[0]} is no plain file, so nobody knows what a broker finds there"
        return exemption_from_repairs(self._policy)

    def plan(self, target: Target) -> PlannedRepair:
        """Return the repair of a file."""
        path = Path(target.path)
        identity = look(path)
        facts, content = self._observed(RepairFacts(target, identity.size_bytes if identity else None))
        sources = () if target.kind is RepairKind.ZERO_TAIL else self._sources(target)
        return PlannedRepair(repair(facts), self._topic_partition, path, identity, content, sources)

    def plan_end(self, target: Target) -> list[PlannedRepair]:
        """Return the repairs that let a start find the end of the log: of the indexes of its last segment, then the
        cut.

            The indexes come first: a crash in between leaves a log whose end is found no worse than before. A log whose
        index could not be mended is not cut, because the entries of that index would lead behind the new end.
        """
        path = Path(target.path)
        identity = look(path)
        facts = RepairFacts(target, identity.size_bytes if identity else None)
        companions: list[PlannedRepair] = []
        try:
            made = self._deriving.log_end(target)
            plans = [self._companion(target, kind, content) for kind, content in made.contents.items()]
            refused = next((one.repair for one in plans if one.repair.code in _REFUSED), None)
            companions = [one for one in plans if one.repair.is_repairable]
            end = LogEndFacts(made.end_bytes, made.end_offset, made.whole_behind, refused)
            is_same = not companions and made.end_bytes == facts.size_bytes
            copy = path.with_name(tail_name(path.name, made.end_bytes))
            is_taken = copy.exists() and read_file(copy) != tail_of(path, made.end_bytes)
            facts = replace(facts, log_end=end, made_bytes=made.end_bytes, is_same=is_same, is_name_taken=is_taken)
        except LogCleanerError as error:
            facts = replace(facts, unmade_because=str(error))
        needs = tuple(one.path for one in companions)
        planned = PlannedRepair(repair(facts), self._topic_partition, path, identity, needs=needs)
        return [*(companions if planned.repair.is_repairable else []), planned]

    def _companion(self, target: Target, kind: RepairKind, content: bytes) -> PlannedRepair:
        """Return the repair of an index file of the last segment."""
        path = Path(target.path).with_suffix(_SUFFIXES[kind])
        identity = look(path)
        own = Target(str(path), kind, target.findings)
        facts = self._with_content(RepairFacts(own, identity.size_bytes if identity else None), content)
        return PlannedRepair(repair(facts), self._topic_partition, path, identity, content, self._sources(own))

    def _sources(self, target: Target) -> tuple[tuple[Path, FileIdentity], ...]:
        """Return the logs from which a file is derived: for an index its own segment, for any other file all
        segments.
        """
        own = Path(target.path).with_suffix(FileKind.LOG)
        logs = [(segment.log.path, segment.log.identity) for segment in self._listing.segments]
        return tuple(log for log in logs if target.kind not in _INDEXES or log[0] == own)

    def _observed(self, facts: RepairFacts) -> tuple[RepairFacts, bytes | None]:
        """Return the facts about a file, and its new content."""
        content: bytes | None = None
        try:
            if facts.target.kind is RepairKind.ZERO_TAIL:
                return self._with_tail(facts), None
            if facts.target.kind is RepairKind.TOPIC_ID:
                facts, content = self._with_topic(facts)
            else:
                content, because = self._deriving.made(facts.target)
                above = () if because or facts.target.kind in _INDEXES else self._stated_above
                facts = replace(facts, unmade_because=because, stated_above=above)
            return self._with_content(facts, content), content
        except LogCleanerError as error:
            return replace(facts, unmade_because=str(error)), None

    @cached_property
    def _stated_above(self) -> tuple[tuple[str, int], ...]:
        """The offsets above the end of the log that checkpoints and snapshots state. Raises: CorruptBatch."""
        end_offset = self._deriving.end_offset()
        above = []
        with suppress(CorruptCheckpoint):  # offsets from before the error count
            for name, offset in _known_offsets(self._log_dir, self._topic_partition, self._listing):
                if offset > end_offset:
                    above.append((name, offset))
        return tuple(above)

    def _with_content(self, facts: RepairFacts, content: bytes | None) -> RepairFacts:
        path = Path(facts.target.path)
        present = read_file(path) if facts.size_bytes is not None else None
        return replace(
            facts,
            made_bytes=None if content is None else len(content),
            is_same=present is not None and present == content,
            is_name_taken=present is not None and _is_taken(path, present),
            bytes_max=self._policy.segment_index_bytes if facts.target.kind in _INDEXES else None,
        )

    def _with_topic(self, facts: RepairFacts) -> tuple[RepairFacts, bytes | None]:
        around = self._surroundings
        topic = observe_topic(self._log_dir, self._topic_partition, around.log_dirs, around.assigned)
        content = format_partition_metadata(topic.topic_id) if topic.topic_id else None
        return replace(facts, topic=topic), content

    def _with_tail(self, facts: RepairFacts) -> RepairFacts:
        name = parse_segment_file_name(facts.target.name)
        assert name is not None
        segment, due_offset = next(
            (segment, due)
            for segment, due in with_due_offsets(self._listing.segments)
            if segment.base_offset == name.base_offset
        )
        rebuilt = rebuild_segment(segment, due_offset, ProducerState(), self._terms)
        entry = last_offset_entry(segment)
        is_last = due_offset is None
        known = tuple(_known_offsets(self._log_dir, self._topic_partition, self._listing)) if is_last else ()
        tail = TailFacts(rebuilt.end_bytes, rebuilt.next_offset, entry.position if entry else None, known)
        return replace(facts, tail=tail, made_bytes=rebuilt.end_bytes)


def _known_offsets(log_dir: LogDir, topic_partition: TopicPartition, listing: Listing) -> Iterator[tuple[str, int]]:
    """Yield the offsets that the log has reached, as files state them. Raises: CorruptCheckpoint, UnreadableFile."""
    for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        if topic_partition in (offsets := log_dir.offsets(name)):
            yield name, offsets[topic_partition]
    for snapshot in listing.snapshots[-1:]:
        yield snapshot.file_name, snapshot.name.base_offset
    for entry in read_leader_epochs(listing.directory)[-1:]:
        yield LEADER_EPOCH_CHECKPOINT, entry.start_offset


def _is_taken(path: Path, present: bytes) -> bool:
    """Return whether another file has the name under which the present file would be kept."""
    return path.with_name(kept_name(path.name)).exists() and not is_kept_already(path, present)


def _untouched(target: Target, because: str | None) -> PlannedRepair:
    path = Path(target.path)
    size_bytes = path.lstat().st_size if path.is_file() else None
    named = parse_partition_dir_name(path.parent.name)
    facts = RepairFacts(target, size_bytes, untouchable_because=because)
    return PlannedRepair(repair(facts), named.topic_partition if named else None, path)


def _place(target: Target) -> tuple[bool, int, bool, str]:
    found = parse_segment_file_name(target.name)
    offset = found.base_offset if found else -1
    return target.kind in CUTS, offset, target.kind is not RepairKind.SNAPSHOT, target.name


def _check_index(segment: Segment, rebuilt: Rebuilt) -> None:
    """Refuse to cut zeros off a log if its present index names a batch in them: that batch is lost.

    Raises: CorruptBatch, UnreadableFile.
    """
    if rebuilt.end_bytes == segment.size_bytes:
        return
    entry = last_offset_entry(segment)
    if entry and entry.position >= rebuilt.end_bytes:
        cause = f"zeros, where the offset index names a batch at byte {entry.position}"
        raise CorruptBatch(segment.log.path, rebuilt.end_bytes, cause)


def _name(target: Target) -> SegmentFileName:
    name = parse_segment_file_name(target.name)
    assert name is not None
    return name


def _stated_epochs(directory: Path) -> list[LeaderEpochEntry] | None:
    try:
        return read_leader_epochs(directory)
    except CorruptCheckpoint:
        return None
