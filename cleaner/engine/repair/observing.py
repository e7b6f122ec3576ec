"""Findings in, facts about the files that they would have mended out. Nothing is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.repair.deriving import derive
from cleaner.engine.repair.kept import is_kept_already, kept_name
from cleaner.engine.repair.topic_ids import observe_topic, read_assigned
from policies.checking.repairs import Repair, RepairFacts, RepairKind, TailFacts, Target, repair
from policies.config.config_layers import ConfigLayers
from policies.exemptions import exemption_from_repairs
from storage.checkpoints import format_partition_metadata
from storage.directory import status_of
from storage.errors import LogCleanerError
from storage.log.listing import Listing, list_partition
from storage.log.producer_state import ProducerState
from storage.log.read import last_offset_entry
from storage.log.rebuild import Terms, rebuild_segment, with_due_offsets
from storage.log_dir import LogDir, read_file
from storage.metadata.assignments import Assignments
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileIdentity,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
)
from storage.segment import identity_of

_NEVER_MS: Final = 1 << 62
"""No producer is forgotten: a broker forgets expired ones itself when it reads a snapshot."""
_INDEXES: Final = (RepairKind.INDEX, RepairKind.TIME_INDEX)


class PlannedRepair(NamedTuple):
    """A repair, and what carries it out."""

    repair: Repair
    topic_partition: TopicPartition | None
    """None where the file lies in no live partition directory."""
    path: Path
    identity: FileIdentity | None = None
    """Of the file as it was looked at; None if it is missing."""
    content: bytes | None = None
    """The new content; None for a ``.log``, which is cut at ``repair.made_bytes``."""
    sources: tuple[tuple[Path, FileIdentity], ...] = ()
    """The ``.log`` files that the content was derived from, as they were before."""


@dataclass(frozen=True)  # no slots: it keeps the metadata log
class Surroundings:
    """The log dirs of a broker, and their configuration."""

    log_dirs: Sequence[LogDir]
    layers: ConfigLayers

    @cached_property
    def assigned(self) -> Assignments | None:
        """The assignments by the metadata log; None where it cannot be read."""
        return read_assigned(self.log_dirs, self.layers.broker_policy().metadata_log_dir)


def plan_repairs(targets: Iterable[Target], surroundings: Surroundings) -> tuple[PlannedRepair, ...]:
    """Return what becomes of each target, partition after partition. Raises: UnreadableFile of a whole log dir."""
    by_directory: defaultdict[Path, list[Target]] = defaultdict(list)
    for target in targets:
        by_directory[Path(target.path).parent].append(target)
    return tuple(
        planned for path, found in sorted(by_directory.items()) for planned in _plan(path, found, surroundings)
    )


def _plan(directory: Path, targets: Sequence[Target], surroundings: Surroundings) -> Iterator[PlannedRepair]:
    log_dir = next((d for d in surroundings.log_dirs if d.path == directory.parent), None)
    found = {path: tp for tp, path in log_dir.partitions()} if log_dir else {}
    if log_dir is None or directory not in found:
        for target in targets:
            yield _untouched(target, "it lies in no partition that a broker serves")
        return
    try:
        yield from _Partition(log_dir, found[directory], surroundings).plan(targets)
    except LogCleanerError as error:
        for target in targets:
            yield _untouched(target, str(error))


def _untouched(target: Target, because: str) -> PlannedRepair:
    path = Path(target.path)
    size_bytes = path.lstat().st_size if path.is_file() else None
    named = parse_partition_dir_name(path.parent.name)
    facts = RepairFacts(target, size_bytes, untouchable_because=because)
    return PlannedRepair(repair(facts), named.topic_partition if named else None, path)


class _Partition:
    def __init__(self, log_dir: LogDir, topic_partition: TopicPartition, surroundings: Surroundings) -> None:
        self._log_dir, self._topic_partition, self._surroundings = log_dir, topic_partition, surroundings
        self._listing = list_partition(log_dir.path / str(topic_partition))
        self._policy = surroundings.layers.policy_for(topic_partition.topic)
        start = log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(topic_partition, 0)
        self._terms = Terms(self._policy.index_interval_bytes, start, 0, _NEVER_MS)

    def plan(self, targets: Sequence[Target]) -> Iterator[PlannedRepair]:
        """Yield what becomes of the files of the partition."""
        if because := self._untouchable_because():
            yield from (_untouched(target, because) for target in targets)
            return
        sources = tuple((segment.log.path, segment.log.identity) for segment in self._listing.segments)
        looks = {target: look(Path(target.path)) for target in targets}
        contents = self._contents(targets)
        for target, facts in self._facts(targets, looks, contents):
            content = contents.get(target)
            used = () if target.kind is RepairKind.ZERO_TAIL else sources
            yield PlannedRepair(repair(facts), self._topic_partition, Path(target.path), looks[target], content, used)

    def _untouchable_because(self) -> str | None:
        if self._listing.needs_recovery:
            return "an interrupted compaction left files here: run logcleaner clean, which recovers first"
        return exemption_from_repairs(self._policy)

    def _contents(self, targets: Sequence[Target]) -> dict[Target, bytes | None]:
        """Return the new contents of derived files; None where the log is damaged, with the cause in ``_causes``."""
        derived = [t for t in targets if t.kind not in (RepairKind.TOPIC_ID, RepairKind.ZERO_TAIL)]
        made = derive(self._listing, derived, self._terms)
        self._causes = {target: one.because for target, one in made.items() if one.because}
        return {target: one.content for target, one in made.items()}

    def _facts(
        self,
        targets: Sequence[Target],
        looks: Mapping[Target, FileIdentity | None],
        contents: dict[Target, bytes | None],
    ) -> Iterator[tuple[Target, RepairFacts]]:
        for target in targets:
            look = looks[target]
            facts = RepairFacts(target, look.size_bytes if look else None, unmade_because=self._causes.get(target))
            try:
                if target.kind is RepairKind.ZERO_TAIL:
                    yield target, self._with_tail(facts)
                    continue
                if target.kind is RepairKind.TOPIC_ID:
                    facts, contents[target] = self._with_topic(facts)
                yield target, self._with_content(facts, contents[target])
            except LogCleanerError as error:
                yield target, replace(facts, unmade_because=str(error))

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


def look(path: Path) -> FileIdentity | None:
    """Return the identity of a file; None if it is missing."""
    with suppress(FileNotFoundError):
        return identity_of(status_of(path))
    return None


def _is_taken(path: Path, present: bytes) -> bool:
    """Return whether another file has the name that the present one would be kept under."""
    return path.with_name(kept_name(path.name)).exists() and not is_kept_already(path, present)


def _known_offsets(log_dir: LogDir, topic_partition: TopicPartition, listing: Listing) -> Iterator[tuple[str, int]]:
    """Yield the offsets that files state the log to have reached. Raises: CorruptCheckpoint, UnreadableFile."""
    for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        if topic_partition in (offsets := log_dir.offsets(name)):
            yield name, offsets[topic_partition]
    for snapshot in listing.snapshots[-1:]:
        yield snapshot.file_name, snapshot.name.base_offset
