"""Decide what may be mended, file by file, and why the rest may not: findings and facts in, verdicts out.

A derived file is made anew of the log, which must be whole for that. The topic id is written only where the metadata
log leaves no doubt whose directory this is. A ``.log`` loses only zeros, and only where nothing says that records were
there. Nothing else is ever changed: no batch, no CRC, no log end, no checkpoint.

Decide which repairs can be taken back: facts in, verdicts out.

A repair comes back if what it replaced still waits, unchanged, and if the file is still what the repair made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.reasons import moment
from storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, FileKind, FileState, parse_segment_file_name


class RepairKind(StrEnum):
    """The kinds of repairs, as ``verify --repair=KIND`` names them."""

    INDEX = "index"
    TIME_INDEX = "time-index"
    TXN_INDEX = "txn-index"
    SNAPSHOT = "snapshot"
    LEADER_EPOCHS = "leader-epochs"
    TOPIC_ID = "topic-id"
    ZERO_TAIL = "zero-tail"
    LOG_END = "log-end"


CUTS: Final = frozenset({RepairKind.ZERO_TAIL, RepairKind.LOG_END})
"""The kinds of repair that cut a ``.log``."""
DERIVED: Final = frozenset(RepairKind) - CUTS - {RepairKind.TOPIC_ID}
"""The files that a bare ``--repair`` mends: a broker makes them of the log."""
_OF_A_SEGMENT: Final = frozenset({RepairKind.INDEX, RepairKind.TIME_INDEX, RepairKind.ZERO_TAIL})
_OF_THE_WHOLE: Final = frozenset({RepairKind.TXN_INDEX, RepairKind.SNAPSHOT, RepairKind.LEADER_EPOCHS})
_KIND_OF_FILE: Final = {
    FileKind.LOG: RepairKind.ZERO_TAIL,
    FileKind.INDEX: RepairKind.INDEX,
    FileKind.TIME_INDEX: RepairKind.TIME_INDEX,
    FileKind.TXN_INDEX: RepairKind.TXN_INDEX,
    FileKind.SNAPSHOT: RepairKind.SNAPSHOT,
}
_KIND_OF_NAME: Final = {
    LEADER_EPOCH_CHECKPOINT: RepairKind.LEADER_EPOCHS,
    PARTITION_METADATA_FILE: RepairKind.TOPIC_ID,
}


class RepairCode(StrEnum):
    """The closed list of verdicts on a file that a finding would have mended (docs/repair.md)."""

    REPAIRABLE = "REPAIRABLE"
    LOG_DAMAGED = "LOG_DAMAGED"
    NAME_TAKEN = "NAME_TAKEN"
    NOTHING_TO_DO = "NOTHING_TO_DO"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    OTHER_TOPIC = "OTHER_TOPIC"
    RECORDS_MISSING = "RECORDS_MISSING"
    TOO_LARGE = "TOO_LARGE"
    UNTOUCHABLE = "UNTOUCHABLE"


class Target(NamedTuple):
    """A file that findings would have mended."""

    path: str
    kind: RepairKind
    findings: tuple[str, ...]
    """Codes of the findings."""
    missing: str | None = None
    """The findings about missing records: the file may be the evidence that they existed."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return PurePath(self.path).name


class TopicIdFacts(NamedTuple):
    """The facts that tell which topic a partition directory belongs to. None where something is not known."""

    node_id: int | None
    """The node id of the broker, by ``meta.properties``."""
    directory_id: str | None
    """The id of the log dir, by ``meta.properties``."""
    topic_id: str | None
    """The id of the topic that has the name in the metadata log."""
    replicas: tuple[int, ...]
    """Node ids that the metadata log assigns the partition to."""
    assigned_directory: str | None
    """The directory id that the metadata log assigns the partition to on this broker."""
    leader_epoch: int | None
    """The leader epoch of the partition, by the metadata log."""
    newest_epoch: int | None
    """The newest leader epoch in the batches, and in ``leader-epoch-checkpoint``."""
    stated_id: str | None
    """The id in the present ``partition.metadata``, if that parses."""
    other_ids: tuple[str, ...]
    """Ids that were seen for this name elsewhere: removed topics, other partitions, holds, the journal."""
    namesakes: tuple[str, ...]
    """Other directories that carry the name of the partition: set aside, to be deleted, in another log dir."""


class TailFacts(NamedTuple):
    """The facts about the zeros at the end of a ``.log``, and what may say that records were there."""

    start: int
    """The byte at which the last whole batch ends."""
    end_offset: int
    """The offset behind that batch."""
    indexed_position: int | None
    """The byte that the last entry of the offset index points to."""
    known_offsets: tuple[tuple[str, int], ...]
    """Offsets that checkpoints and snapshots state, each with the file that does; none may lie above the end."""


class LogEndFacts(NamedTuple):
    """The facts about the last ``.log`` of a partition, whose end a start behind a clean stop would not find."""

    start: int
    """The byte at which the last whole batch ends."""
    end_offset: int
    """The offset behind that batch."""
    whole_behind: int | None
    """The byte at which another whole batch begins, behind bytes that are no batch."""
    refused: Repair | None = None
    """An index file of the segment that may not be made anew."""


@dataclass(frozen=True, slots=True)
class RepairFacts:
    """The facts about one file to mend."""

    target: Target
    size_bytes: int | None
    """The size of the file; None if it is missing."""
    made_bytes: int | None = None
    """The size of the new content; None if there is none."""
    is_same: bool = False
    """True if the file holds the new content already."""
    unmade_because: str | None = None
    """Why no content could be derived."""
    untouchable_because: str | None = None
    """Why nobody may touch the partition."""
    stated_above: tuple[tuple[str, int], ...] = ()
    """Offsets above the end of the log, each with the checkpoint or snapshot that states it."""
    is_name_taken: bool = False
    """True if another file waits under the name that the present one would be kept under."""
    bytes_max: int | None = None
    """The most bytes that a broker takes of such a file."""
    topic: TopicIdFacts | None = None
    tail: TailFacts | None = None
    log_end: LogEndFacts | None = None


class Repair(NamedTuple):
    """The decision on one file."""

    target: Target
    code: RepairCode
    text: str
    """A sentence that says what is done, or why nothing is."""
    size_bytes: int | None
    made_bytes: int | None

    @property
    def is_repairable(self) -> bool:
        """Return whether a repair changes the file."""
        return self.code is RepairCode.REPAIRABLE


_Refusal = tuple[RepairCode, str] | None


def kind_of(path: str) -> RepairKind | None:
    """Return the kind of repair that a file may need; None for files that nothing mends."""
    name = PurePath(path).name
    found = parse_segment_file_name(name)
    if found is not None:
        return _KIND_OF_FILE[found.kind] if found.state is FileState.PLAIN else None
    return _KIND_OF_NAME.get(name)


def targets_of(findings: Iterable[Finding], asked: Collection[RepairKind]) -> tuple[Target, ...]:
    """Return the files that findings would have mended by the repairs that were asked for, by path."""
    codes: dict[tuple[str, RepairKind], list[str]] = {}
    found_all = tuple(findings)
    for finding in found_all:
        kind = RepairKind.LOG_END if finding.repair is RepairGroup.LOG_END else kind_of(finding.path)
        kind = kind if finding.repair else None
        if kind is not None and kind in asked:
            codes.setdefault((finding.path, kind), []).append(finding.code)
    return tuple(
        Target(path, kind, tuple(dict.fromkeys(found)), missing_near(path, kind, found_all))
        for (path, kind), found in sorted(codes.items())
    )


def missing_near(path: str, kind: RepairKind, findings: Iterable[Finding]) -> str | None:
    """Return a sentence about missing batches that a file would be made of; None if none are missing.

    An index needs the batches of its segment, any other file all batches.
    """
    here = PurePath(path)
    lost = {one.path: one.text for one in findings if one.code is FindingCode.OFFSET_GAP and one.harm is Harm.DATA_LOST}
    for where, text in lost.items():
        is_own = PurePath(where).stem == here.stem
        if PurePath(where).parent == here.parent and (kind in _OF_THE_WHOLE or (is_own and kind in _OF_A_SEGMENT)):
            return text
    return None


def repair(facts: RepairFacts) -> Repair:
    """Decide on one file. The function is pure and deterministic."""
    code, text = (
        _untouchable(facts)
        or _evident(facts)
        or _unmade(facts)
        or _foreign(facts)
        or _missing_records(facts)
        or _behind(facts)
        or _idle(facts)
        or _oversized(facts)
        or _in_the_way(facts)
        or (RepairCode.REPAIRABLE, _deed(facts))
    )
    return Repair(facts.target, code, text, facts.size_bytes, facts.made_bytes)


def _untouchable(facts: RepairFacts) -> _Refusal:
    return (RepairCode.UNTOUCHABLE, facts.untouchable_because) if facts.untouchable_because else None


def _evident(facts: RepairFacts) -> _Refusal:
    """Refuse where the file may be evidence of records that are gone."""
    if facts.target.missing:
        return RepairCode.RECORDS_MISSING, f"it stays as evidence: {facts.target.missing.rstrip('.')}"
    for name, offset in facts.stated_above:
        cause = f"it stays as evidence: {name} states offset {offset}, above the end of the log"
        return RepairCode.RECORDS_MISSING, cause
    return None


def _unmade(facts: RepairFacts) -> _Refusal:
    if facts.unmade_because is None:
        return None
    cause = f"nothing is derived from a log that is not whole: {facts.unmade_because}"
    return RepairCode.LOG_DAMAGED, f"{cause}; only a copy of the records helps, another replica or a backup"


def _foreign(facts: RepairFacts) -> _Refusal:
    if facts.topic is None:
        return None
    return _unassigned(facts.topic) or _another_topic(facts.topic)


def _unassigned(topic: TopicIdFacts) -> _Refusal:
    """Refuse where the metadata log does not assign the partition to this very directory."""
    if topic.topic_id is None:
        cause = "the cluster metadata knows no topic of this name, or cannot be read"
    elif topic.node_id is None or topic.directory_id is None:
        cause = "meta.properties states no node.id and directory.id"
    elif topic.node_id not in topic.replicas:
        cause = f"the cluster metadata does not assign the partition to broker {topic.node_id}"
    elif topic.assigned_directory != topic.directory_id:
        cause = (
            f"the cluster metadata assigns the partition to directory {topic.assigned_directory} of this broker, "
            f"and this is {topic.directory_id}"
        )
    else:
        return None
    return RepairCode.NOT_ASSIGNED, cause


def _another_topic(topic: TopicIdFacts) -> _Refusal:
    """Refuse where something speaks of another topic that had, or has, the same name."""
    others = [other for other in (topic.stated_id, *topic.other_ids) if other not in (None, topic.topic_id)]
    if others:
        cause = f"the cluster metadata gives the name the id {topic.topic_id}, and something here says {others[0]}"
    elif topic.namesakes:
        cause = f"another directory has the name of this partition: {topic.namesakes[0]}"
    elif topic.newest_epoch is not None and topic.leader_epoch is not None and topic.newest_epoch > topic.leader_epoch:
        cause = (
            f"the log has leader epoch {topic.newest_epoch}, above the {topic.leader_epoch} of the cluster metadata: "
            f"it may be that of a topic that was deleted and made again"
        )
    else:
        return None
    return RepairCode.OTHER_TOPIC, cause


def _missing_records(facts: RepairFacts) -> _Refusal:
    """Refuse to cut zeros where something says that records were there: a disk may have lost them."""
    tail = facts.tail
    if tail is None:
        return None
    above = [(name, offset) for name, offset in tail.known_offsets if offset > tail.end_offset]
    if above:
        name, offset = above[0]
        cause = f"{name} states offset {offset}, and the batches end at {tail.end_offset}"
    elif tail.indexed_position is not None and tail.indexed_position >= tail.start:
        cause = f"the offset index names a batch at byte {tail.indexed_position}, where there are only zeros"
    else:
        return None
    return RepairCode.RECORDS_MISSING, f"records seem to have been lost: {cause}"


def _behind(facts: RepairFacts) -> _Refusal:
    """Refuse to cut a log if a whole batch follows behind the cut, or if its indexes cannot be replaced."""
    end = facts.log_end
    if end is None:
        return None
    if end.whole_behind is not None:
        cause = f"a whole batch follows at byte {end.whole_behind:,}, behind the damage at byte {end.start:,}"
        return RepairCode.LOG_DAMAGED, f"{cause}: a cut would lose it; copy the directory, and take another replica"
    return (end.refused.code, end.refused.text) if end.refused else None


def _idle(facts: RepairFacts) -> _Refusal:
    if facts.is_same or (facts.tail is not None and facts.tail.start == facts.size_bytes):
        return RepairCode.NOTHING_TO_DO, "it is as it would be made"
    if facts.size_bytes is None and facts.made_bytes == 0:
        return RepairCode.NOTHING_TO_DO, "it would be empty, and is missing"
    return None


def _oversized(facts: RepairFacts) -> _Refusal:
    if facts.bytes_max is None or facts.made_bytes is None or facts.made_bytes <= facts.bytes_max:
        return None
    return RepairCode.TOO_LARGE, f"{facts.made_bytes} bytes would be more than segment.index.bytes={facts.bytes_max}"


def _in_the_way(facts: RepairFacts) -> _Refusal:
    if not facts.is_name_taken:
        return None
    words = f"{facts.target.name}.deleted waits there, and would be replaced"
    return RepairCode.NAME_TAKEN, f"{words}; clean removes it once its delay is over"


def _deed(facts: RepairFacts) -> str:
    if facts.tail is not None:
        zeros = (facts.size_bytes or 0) - facts.tail.start
        return f"{zeros:,} zero bytes behind the last batch are cut off, at byte {facts.tail.start:,}"
    if facts.log_end is not None:
        cut = (facts.size_bytes or 0) - facts.log_end.start
        ends = f"the log ends at offset {facts.log_end.end_offset}, byte {facts.log_end.start:,}"
        return f"{ends}; {cut:,} bytes behind that are cut off, and a copy of them stays" if cut else ends
    source = "the cluster metadata" if facts.topic else "the log"
    made = f"{facts.made_bytes} bytes, made of {source}"
    return f"{made}; it was missing" if facts.size_bytes is None else f"{made}, in place of {facts.size_bytes} bytes"


class Content(NamedTuple):
    """The size and the CRC-32 of a file's bytes."""

    size_bytes: int
    crc: int


class RepairNote(NamedTuple):
    """One repair as the journal has it."""

    time_ms: int
    """The moment just before the repair, epoch ms."""
    file_name: str
    kind: str
    kept: Content | None
    """The file that was replaced; None if there was none, or if zeros were cut off."""
    made: Content | None
    """The new file; None if zeros were cut off."""
    cut_from: int | None
    cut_to: int | None
    """The sizes of a ``.log`` before and after a repair cut zeros, or other bytes that are no batch, off its end."""
    tail: Content | None = None
    """The bytes that were cut off and kept; None if they were zeros."""
    tail_name: str = ""
    """The name of the file that keeps it."""


class FoundContent(NamedTuple):
    """The present content of a repaired file, and of the copy that waits. A file that is missing is None."""

    present: Content | None
    waiting: Content | None


class RevertCode(StrEnum):
    """The closed list of verdicts on a repair (docs/repair.md)."""

    REVERTIBLE = "REVERTIBLE"
    CHANGED_SINCE = "CHANGED_SINCE"


class RevertVerdict(NamedTuple):
    """The decision on one repair, with its reason."""

    note: RepairNote
    code: RevertCode
    text: str


def revert_verdicts(found: Iterable[tuple[RepairNote, FoundContent]]) -> tuple[RevertVerdict, ...]:
    """Decide on the newest repair of each file. A repair whose copy no longer waits is left out."""
    return tuple(verdict for note, content in found if (verdict := _verdict(note, content)))


def _verdict(note: RepairNote, found: FoundContent) -> RevertVerdict | None:
    done = f"repaired {moment(note.time_ms)}"
    if note.made is None:
        is_as_cut = found.present is not None and found.present.size_bytes == note.cut_to
        if is_as_cut and note.tail != found.waiting:
            return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.tail_name} is not what the repair kept")
        return RevertVerdict(note, RevertCode.REVERTIBLE, done) if is_as_cut else None
    if note.kept is None or found.waiting is None or found.present is None:
        return None  # without the file itself, its segment was deleted since
    if found.waiting != note.kept:
        return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.file_name}.deleted is not what the repair kept")
    if found.present != note.made:
        return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.file_name} is not what the repair made of it")
    return RevertVerdict(note, RevertCode.REVERTIBLE, done)
