"""Which deletions can be taken back, segment by segment, and why the others cannot: facts in, verdicts out.

A segment comes back where its files still wait, unchanged, as ``.deleted``, and where it ends just where the log
begins. So the newest one is asked first, and behind the first refusal every older one would leave a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from policies.reasons import moment
from storage.names import CLEANER_OFFSET_CHECKPOINT, FileIdentity, FileKind, FileState, SegmentFileName, TopicPartition


class RestoreCode(StrEnum):
    """The closed list of what can be said of a deleted segment (docs/reasons.md)."""

    RESTORABLE = "RESTORABLE"
    FILE_GONE = "FILE_GONE"
    CHANGED_SINCE = "CHANGED_SINCE"
    COMPACTED_SINCE = "COMPACTED_SINCE"
    OVERLAP = "OVERLAP"
    GAP = "GAP"


class RetiredFile(NamedTuple):
    """A file as it was when it left the log. A rename changes neither size nor mtime, a copy of the dir keeps them."""

    name: SegmentFileName
    """Its plain name, as part of the log."""
    size_bytes: int
    mtime_ns: int

    @property
    def waiting(self) -> SegmentFileName:
        """Its name since."""
        return self.name._replace(state=FileState.DELETED)


@dataclass(frozen=True, slots=True)
class RetiredSegment:
    """A segment that a deletion took, with the producer snapshot of its base where that went along."""

    base_offset: int
    end_offset: int
    """Where the next segment began."""
    files: tuple[RetiredFile, ...]

    @property
    def log(self) -> RetiredFile:
        """Its ``.log``."""
        return next(file for file in self.files if file.name.kind is FileKind.LOG)

    @property
    def size_bytes(self) -> int:
        """Of its ``.log`` and index files."""
        return sum(file.size_bytes for file in self.files if file.name.kind is not FileKind.SNAPSHOT)


@dataclass(frozen=True, slots=True)
class DeletionFacts:
    """One deletion as the journal has it. Of checkpoints: what they said before; None where they said nothing."""

    time_ms: int
    """Epoch ms, just before the first rename."""
    segments: tuple[RetiredSegment, ...]
    """Ascending, at least one."""
    log_start_offset: int
    """What the deletion made it."""
    log_start_checkpoint: int | None
    cleaner_checkpoint: int | None
    leader_epochs: tuple[tuple[int, int], ...]
    """Epoch and start offset."""
    roll_at_offset: int | None
    """Base of the empty segment that was rolled since everything went."""
    rolled_snapshot: bool
    """Whether a producer snapshot was written for it, too."""
    topic_id: str | None = None
    """Of the topic then; None if it could not be read, or if an older version noted the deletion."""
    is_compacted_since: bool = False
    has_other_epochs: bool = False
    """Whether ``leader-epoch-checkpoint`` is neither as before the deletion nor as that left it."""

    @property
    def end_offset(self) -> int:
        """Where the log began behind it."""
        return self.segments[-1].end_offset

    @property
    def log_start_before(self) -> int:
        """Where the log began before it."""
        return max(self.segments[0].base_offset, self.log_start_checkpoint or 0)


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """One partition of one log dir, its deletions oldest first."""

    topic_partition: TopicPartition
    log_dir: str
    deletions: tuple[DeletionFacts, ...]
    files: Mapping[SegmentFileName, FileIdentity]
    """What lies in its directory."""
    log_start_checkpoint: int | None
    held_since_ms: int | None
    """Epoch ms; None where it is not on hold."""
    cleaner_checkpoint: int | None = None
    """First dirty offset as ``cleaner-offset-checkpoint`` has it."""
    topic_id: str | None = None
    """Of the topic now; None if it cannot be read."""
    bases: tuple[int, ...] = field(init=False)
    """Base offsets of the log's segments, ascending."""

    def __post_init__(self) -> None:
        plain_logs = {n.base_offset for n in self.files if n.kind is FileKind.LOG and n.state is FileState.PLAIN}
        object.__setattr__(self, "bases", tuple(sorted(plain_logs)))


@dataclass(frozen=True, slots=True)
class RestoreVerdict:
    """Whether one segment can come back, and why."""

    segment: RetiredSegment
    deletion: DeletionFacts
    code: RestoreCode
    text: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """What a restore of one partition does: the restorable ones of its verdicts come back."""

    facts: RestoreFacts
    verdicts: tuple[RestoreVerdict, ...]
    """Of every segment with a file that still waits, newest first: those that come back, then those that cannot."""
    emptied: DeletionFacts | None
    """A deletion whose rolled segment is still empty, and of no use once its last segment is back."""

    @property
    def restorable(self) -> tuple[RestoreVerdict, ...]:
        """Segments that come back, newest first."""
        return tuple(v for v in self.verdicts if v.code is RestoreCode.RESTORABLE)

    @property
    def refused(self) -> tuple[RestoreVerdict, ...]:
        """Segments that cannot, newest first."""
        return tuple(v for v in self.verdicts if v.code is not RestoreCode.RESTORABLE)

    @property
    def size_bytes(self) -> int:
        """Of the segments that come back."""
        return sum(verdict.segment.size_bytes for verdict in self.restorable)

    @property
    def has_work(self) -> bool:
        """Whether a restore would change anything."""
        return bool(self.restorable or self.emptied)

    @property
    def log_start_offset(self) -> int:
        """Base offset that the log begins with afterwards."""
        return self.restorable[-1].segment.base_offset if self.restorable else self.facts.bases[0]

    @property
    def is_whole(self) -> bool:
        """Whether the oldest deletion that anything comes back of comes back to its first segment."""
        oldest = self.restorable[-1]
        return oldest.segment is oldest.deletion.segments[0]

    @property
    def log_start_checkpoint(self) -> int | None:
        """What ``log-start-offset-checkpoint`` says afterwards; None for no line."""
        return _needed(self.restorable[-1].deletion.log_start_checkpoint, self.log_start_offset)


def belongs_to_another_topic(noted_id: str | None, topic_id: str | None) -> bool:
    """Return whether a topic was deleted and made again since an id was noted: both ids are known, and they differ.

    Args:
        noted_id: what a hold or a journal line noted; None if it did not.
        topic_id: of the partition now; None if it cannot be read.
    """
    return noted_id is not None and topic_id is not None and noted_id != topic_id


def restoration(facts: RestoreFacts) -> Restoration:
    """Decide what can be restored of one partition; pure and deterministic."""
    verdicts: list[RestoreVerdict] = []
    first_base = facts.bases[0] if facts.bases else None
    log_start = _needed(facts.log_start_checkpoint, first_base)
    compactions = _untold_compactions(facts)
    for place, segment in _waiting(facts):
        deletion, untold = facts.deletions[place], compactions[place]
        code, text = (
            _foreign(facts, deletion)
            or _incomplete(facts, segment)
            or _compacted(deletion, untold)
            or _changed(deletion, log_start)
            or _misfit(segment, first_base)
            or _OK
        )
        verdicts.append(RestoreVerdict(segment, deletion, code, text or f"deleted {moment(deletion.time_ms)}"))
        if code is RestoreCode.RESTORABLE:
            first_base = segment.base_offset
            log_start = _needed(deletion.log_start_checkpoint, first_base)
    restored = {v.segment.log for v in verdicts if v.code is RestoreCode.RESTORABLE}
    return Restoration(facts, tuple(verdicts), _emptied(facts, restored))


_OK = (RestoreCode.RESTORABLE, "")
_Refusal = tuple[RestoreCode, str] | None


def _waiting(facts: RestoreFacts) -> Iterator[tuple[int, RetiredSegment]]:
    """Deleted segments of which a file still waits, newest first, each with the place of its deletion; one that was
    deleted twice, as the second time."""
    seen: set[RetiredFile] = set()
    for place, deletion in reversed([*enumerate(facts.deletions)]):
        for segment in reversed(deletion.segments):
            if segment.log not in seen and any(file.waiting in facts.files for file in segment.files):
                yield place, segment
            seen.add(segment.log)


def _untold_compactions(facts: RestoreFacts) -> list[int | None]:
    """Return for each deletion the first dirty offset that proves a later compaction; None if none does.

    The journal may have lost the line of a compaction, so ``cleaner-offset-checkpoint`` is asked too. Retention moves
    that offset up to the log start and no further; nothing but a compaction moves it beyond. What a later deletion
    noted is asked as well as what the file says now.

    Source: Kafka LogCleanerManager.cleanableOffsets: without a line in the file, retention writes none.
    """
    found = facts.cleaner_checkpoint
    log_start = max(facts.log_start_checkpoint or 0, facts.bases[0] if facts.bases else 0)
    proofs: list[int | None] = []
    for deletion in reversed(facts.deletions):
        is_proof = (
            found is not None
            and found != deletion.cleaner_checkpoint
            and found > max(deletion.log_start_offset, log_start)
        )
        proofs.append(found if is_proof else proofs[-1] if proofs else None)
        found, log_start = deletion.cleaner_checkpoint, deletion.log_start_before
    return proofs[::-1]


def _foreign(facts: RestoreFacts, deletion: DeletionFacts) -> _Refusal:
    """Refuse what was deleted of another topic of the same name."""
    if not belongs_to_another_topic(deletion.topic_id, facts.topic_id):
        return None
    text = f"the topic was deleted and made again since: its id was {deletion.topic_id}, now it is {facts.topic_id}"
    return RestoreCode.CHANGED_SINCE, text


def _incomplete(facts: RestoreFacts, segment: RetiredSegment) -> _Refusal:
    for file in segment.files:
        plain, waiting = facts.files.get(file.name), facts.files.get(file.waiting)
        found = waiting or plain
        if found is None:
            return RestoreCode.FILE_GONE, f"{file.waiting} is gone"
        if plain and waiting:
            return RestoreCode.OVERLAP, f"{file.name} is there again beside {file.waiting}"
        if (found.size_bytes, found.mtime_ns) != (file.size_bytes, file.mtime_ns):
            return RestoreCode.CHANGED_SINCE, f"{file.waiting} has another size or time than the journal says"
    return None


def _compacted(deletion: DeletionFacts, untold: int | None) -> _Refusal:
    """Refuse what a compaction followed, by the journal or by ``untold``, the first dirty offset that proves it."""
    if not deletion.is_compacted_since and untold is None:
        return None
    by = "" if deletion.is_compacted_since else f", since {CLEANER_OFFSET_CHECKPOINT} has moved on to {untold}"
    text = f"a compaction followed{by}: a tombstone or marker that its records need may be gone"
    return RestoreCode.COMPACTED_SINCE, text


def _changed(deletion: DeletionFacts, log_start: int | None) -> _Refusal:
    """Refuses where what the segments would meet is not as the deletion left it."""
    if deletion.has_other_epochs:
        return RestoreCode.CHANGED_SINCE, "leader-epoch-checkpoint is not as the deletion left it"
    left = _needed(deletion.log_start_offset, deletion.end_offset)
    if log_start not in (None, left, deletion.log_start_checkpoint):
        return RestoreCode.CHANGED_SINCE, f"the log start offset is {log_start} since"
    return None


def _misfit(segment: RetiredSegment, first_base: int | None) -> _Refusal:
    if first_base is None:
        return RestoreCode.GAP, "no segment is left that it could join"
    if segment.end_offset > first_base:
        return RestoreCode.OVERLAP, f"ends at offset {segment.end_offset}, the log begins at {first_base} already"
    if segment.end_offset < first_base:
        text = f"ends at offset {segment.end_offset}, the log begins at {first_base}: what lay between cannot come back"
        return RestoreCode.GAP, text
    return None


def _needed(checkpoint: int | None, first_base: int | None) -> int | None:
    """A log start has a line only while it lies above the first segment's base. Source: Kafka LogManager."""
    return checkpoint if checkpoint is not None and first_base is not None and checkpoint > first_base else None


def _emptied(facts: RestoreFacts, restored: set[RetiredFile]) -> DeletionFacts | None:
    """The deletion that rolled the log's last segment, if that is empty and the one before it is back or comes back."""
    for deletion in reversed(facts.deletions):
        if not facts.bases or deletion.roll_at_offset != facts.bases[-1] or _foreign(facts, deletion):
            continue
        rolled = facts.files[SegmentFileName(facts.bases[-1], FileKind.LOG, FileState.PLAIN)]
        is_back = facts.held_since_ms is not None and _is_plain(facts, deletion.segments[-1].log)
        if rolled.size_bytes == 0 and (is_back or deletion.segments[-1].log in restored):
            return deletion
    return None


def _is_plain(facts: RestoreFacts, file: RetiredFile) -> bool:
    found = facts.files.get(file.name)
    return found is not None and (found.size_bytes, found.mtime_ns) == (file.size_bytes, file.mtime_ns)
