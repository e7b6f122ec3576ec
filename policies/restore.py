"""Decide which deletions can be taken back, segment by segment, and why others cannot: facts in, verdicts out.

A segment comes back if its files still wait, unchanged, as ``.deleted``, and if it ends exactly at the start of the
log. So the newest segment comes first. After the first refusal, every older segment would leave a gap.

A log start that ``delete-records`` moved comes back with the segments that went below it. If none of these segments
comes back, or none went, the log start comes back alone, up to the log's first segment, and until the time in the
journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from policies.reasons import moment
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    SEGMENT_KINDS,
    FileIdentity,
    FileKind,
    FileState,
    SegmentFileName,
    TopicPartition,
)


class RestoreCode(StrEnum):
    """The closed list of verdicts on a deleted segment (docs/reasons.md)."""

    RESTORABLE = "RESTORABLE"
    FILE_GONE = "FILE_GONE"
    CHANGED_SINCE = "CHANGED_SINCE"
    COMPACTED_SINCE = "COMPACTED_SINCE"
    OVERLAP = "OVERLAP"
    GAP = "GAP"


class RetiredFile(NamedTuple):
    """A file as it was when it left the log. Neither a rename nor a copy of the dir changes its size or mtime."""

    name: SegmentFileName
    """The name of the file as part of the log, without ``.deleted``."""
    size_bytes: int
    mtime_ns: int

    @property
    def waiting(self) -> SegmentFileName:
        """The present name of the file, with ``.deleted``."""
        return self.name._replace(state=FileState.DELETED)


class RetiredSegment(NamedTuple):
    """A segment that a deletion took, with the producer snapshot of its base if the deletion took that, too."""

    base_offset: int
    end_offset: int
    """The base offset of the next segment."""
    files: tuple[RetiredFile, ...]

    @property
    def log(self) -> RetiredFile:
        """The ``.log`` of the segment."""
        return next(file for file in self.files if file.name.kind is FileKind.LOG)

    @property
    def size_bytes(self) -> int:
        """The size of the segment's ``.log`` and index files."""
        return sum(file.size_bytes for file in self.files if file.name.kind is not FileKind.SNAPSHOT)


@dataclass(frozen=True, slots=True)
class DeletionFacts:
    """One deletion as the journal has it. Checkpoints have their earlier values; None if they had no line."""

    time_ms: int
    """The moment just before the first rename, epoch ms."""
    segments: tuple[RetiredSegment, ...]
    """The deleted segments, ascending; none where ``delete-records`` only moved the log start."""
    log_start_offset: int
    """The log start offset that the deletion set."""
    log_start_checkpoint: int | None
    cleaner_checkpoint: int | None
    leader_epochs: tuple[tuple[int, int], ...]
    """The leader epochs, each with its start offset."""
    roll_at_offset: int | None
    """The base offset of the empty segment that was rolled if all segments were deleted."""
    rolled_snapshot: bool
    """True if a producer snapshot was written for the rolled segment, too."""
    topic_id: str | None = None
    """The id of the topic at that time; None if it could not be read, or if an older version noted the deletion."""
    is_compacted_since: bool = False
    is_erased_since: bool = False
    has_other_epochs: bool = False
    """True if ``leader-epoch-checkpoint`` is neither as before the deletion nor as the deletion left it."""
    first_base_left: int = 0
    """The base offset of the first segment that the deletion left, where it took none."""
    until_ms: int | None = None
    """The moment until which a log start moved by ``delete-records`` comes back without a segment, epoch ms; else None.
    """

    @property
    def end_offset(self) -> int:
        """The base offset of the first segment that the deletion left."""
        return self.segments[-1].end_offset if self.segments else self.first_base_left

    @property
    def log_start_before(self) -> int:
        """The log start offset before the deletion."""
        first_base = self.segments[0].base_offset if self.segments else self.first_base_left
        return max(first_base, self.log_start_checkpoint or 0)


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """The facts of one partition in one log dir. Deletions stand oldest first."""

    topic_partition: TopicPartition
    log_dir: str
    deletions: tuple[DeletionFacts, ...]
    files: Mapping[SegmentFileName, FileIdentity]
    """The files in the partition's directory."""
    log_start_checkpoint: int | None
    held_since_ms: int | None
    """The time at which a restore put the partition on hold, epoch ms; None if it is not on hold."""
    cleaner_checkpoint: int | None = None
    """The first dirty offset in ``cleaner-offset-checkpoint``; None if the file has no line for the partition."""
    topic_id: str | None = None
    """The present id of the topic; None if it cannot be read."""
    now_ms: int = 0
    """The moment of the restore, epoch ms."""
    bases: tuple[int, ...] = field(init=False)
    """The base offsets of the log's segments, ascending."""

    def __post_init__(self) -> None:
        plain_logs = {n.base_offset for n in self.files if n.kind is FileKind.LOG and n.state is FileState.PLAIN}
        object.__setattr__(self, "bases", tuple(sorted(plain_logs)))


class RestoreVerdict(NamedTuple):
    """The decision on one segment, with its reason: the segment can come back, or it cannot."""

    segment: RetiredSegment
    deletion: DeletionFacts
    code: RestoreCode
    text: str


class MoveVerdict(NamedTuple):
    """The decision on a log start that was moved: it can come back without a segment, or it cannot."""

    deletion: DeletionFacts
    code: RestoreCode
    text: str
    log_start_offset: int
    """The log start offset that it goes back to."""


class Restoration(NamedTuple):
    """The decision on one partition: a restore brings back the segments whose verdict is ``RESTORABLE``."""

    facts: RestoreFacts
    verdicts: tuple[RestoreVerdict, ...]
    """A verdict for every segment with a file that still waits, newest first: restorable ones, then refused ones."""
    emptied: DeletionFacts | None
    """A deletion whose rolled segment is still empty. That segment is of no use once the last deleted one is back."""
    moves: tuple[MoveVerdict, ...] = ()
    """A verdict for every move of the log start that no segment takes back, newest first."""

    @property
    def restorable(self) -> tuple[RestoreVerdict, ...]:
        """The verdicts on segments that come back, newest first."""
        return tuple(v for v in self.verdicts if v.code is RestoreCode.RESTORABLE)

    @property
    def refused(self) -> tuple[RestoreVerdict, ...]:
        """The verdicts on segments that cannot come back, newest first."""
        return tuple(v for v in self.verdicts if v.code is not RestoreCode.RESTORABLE)

    @property
    def has_refused(self) -> bool:
        """True if a waiting segment or log start cannot come back."""
        return bool(self.refused) or len(self.moved_back) < len(self.moves)

    @property
    def size_bytes(self) -> int:
        """The size of the segments that come back."""
        return sum(verdict.segment.size_bytes for verdict in self.restorable)

    @property
    def telling(self) -> tuple[SegmentFileName, ...]:
        """The waiting index files among the segments that come back whose ``.log`` is nowhere: they alone tell of
        missing records, and the deletion took them along.
        """
        logs = {name.base_offset for name in self.facts.files if name.kind is FileKind.LOG}
        return tuple(
            name
            for name in self.facts.files
            if name.state is FileState.DELETED
            and name.kind in SEGMENT_KINDS
            and name.base_offset not in logs
            and any(v.segment.base_offset < name.base_offset < v.segment.end_offset for v in self.restorable)
        )

    @property
    def has_work(self) -> bool:
        """True if a restore would change anything."""
        return bool(self.restorable or self.emptied or self.moved_back)

    @property
    def moved_back(self) -> tuple[MoveVerdict, ...]:
        """The moves of the log start that are taken back, newest first."""
        return tuple(v for v in self.moves if v.code is RestoreCode.RESTORABLE)

    @property
    def oldest(self) -> DeletionFacts:
        """The oldest deletion with a segment or log start that comes back; there must be one."""
        back = [verdict.deletion for verdict in self.restorable]
        back += [verdict.deletion for verdict in self.moved_back]
        return min(back, key=self.facts.deletions.index)

    @property
    def log_start_offset(self) -> int:
        """The base offset of the log's first segment after the restore."""
        return self.restorable[-1].segment.base_offset if self.restorable else self.facts.bases[0]

    @property
    def is_whole(self) -> bool:
        """True if the oldest of the deletions that give something back is restored up to its first segment."""
        segments = self.oldest.segments
        return not segments or any(verdict.segment == segments[0] for verdict in self.restorable)

    @property
    def log_start_checkpoint(self) -> int | None:
        """The line of ``log-start-offset-checkpoint`` after the restore; None for no line."""
        comes_back = self.restorable or self.moved_back
        before = self.oldest.log_start_checkpoint if comes_back else self.facts.log_start_checkpoint
        return _needed(before, self.log_start_offset)


def belongs_to_another_topic(noted_id: str | None, topic_id: str | None) -> bool:
    """Return whether a topic was deleted and made again since an id was noted. Both ids are then known, and differ.

    Args:
        noted_id: the id in a hold or a journal line; None if none was noted.
        topic_id: the present id of the partition's topic; None if it cannot be read.
    """
    return noted_id is not None and topic_id is not None and noted_id != topic_id


def restoration(facts: RestoreFacts) -> Restoration:
    """Decide which deleted segments of one partition can be restored. The function is pure and deterministic."""
    verdicts: list[RestoreVerdict] = []
    moves: list[MoveVerdict] = []
    first_base = facts.bases[0] if facts.bases else None
    log_start = _needed(facts.log_start_checkpoint, first_base)
    compactions = _untold_compactions(facts)
    for place, segment in _waiting(facts):
        deletion, untold = facts.deletions[place], compactions[place]
        if segment is None:
            move = _moved(facts, deletion, untold, first_base, log_start)
            if move is not None:
                moves.append(move)
                if move.code is RestoreCode.RESTORABLE:
                    log_start = _needed(deletion.log_start_checkpoint, first_base)
            continue
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
    return Restoration(facts, tuple(verdicts), _emptied(facts, restored), tuple(moves))


_OK = (RestoreCode.RESTORABLE, "")
_OTHER_EPOCHS: Final = "leader-epoch-checkpoint is not as the deletion left it"
_Refusal = tuple[RestoreCode, str] | None


def _waiting(facts: RestoreFacts) -> Iterator[tuple[int, RetiredSegment | None]]:
    """Yield the deleted segments with a file that still waits, newest first, each with the place of its deletion.

    If a segment was deleted twice, only the second deletion counts. Behind the segments of each deletion comes None,
    for its move of the log start, if the segments did not take the move back.
    """
    seen: set[RetiredFile] = set()
    for place, deletion in reversed([*enumerate(facts.deletions)]):
        for segment in reversed(deletion.segments):
            if segment.log not in seen and any(file.waiting in facts.files for file in segment.files):
                yield place, segment
            seen.add(segment.log)
        yield place, None


def _moved(
    facts: RestoreFacts, deletion: DeletionFacts, untold: int | None, first_base: int | None, log_start: int | None
) -> MoveVerdict | None:
    """Return the verdict on a deletion's move of the log start; None if the move is taken back, out of date or over."""
    if deletion.until_ms is None or facts.now_ms > deletion.until_ms or first_base is None:
        return None
    now, then = max(first_base, log_start or 0), max(first_base, deletion.log_start_checkpoint or 0)
    if now != deletion.log_start_offset or then >= now:
        return None
    others = (RestoreCode.CHANGED_SINCE, _OTHER_EPOCHS) if deletion.has_other_epochs else None
    code, text = _foreign(facts, deletion) or _compacted(deletion, untold) or others or _OK
    return MoveVerdict(deletion, code, text or f"moved {moment(deletion.time_ms)}", then)


def _untold_compactions(facts: RestoreFacts) -> list[int | None]:
    """Return for each deletion the first dirty offset that proves a later compaction; None if none does.

    The journal may have lost the line of a compaction, so ``cleaner-offset-checkpoint`` is asked, too. Retention moves
    the first dirty offset up to the log start and no further; only a compaction moves it beyond. Both the present line
    of the file and the lines that later deletions noted count as proof.

    Source: Kafka LogCleanerManager.cleanableOffsets. If the file has no line, retention writes none.
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
    """Refuse a segment that was deleted from another topic of the same name."""
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
    """Refuse a segment if a compaction or an erasure followed its deletion.

    The journal tells of the compaction, or ``untold``, the first dirty offset that proves it.
    """
    if deletion.is_erased_since:
        return RestoreCode.CHANGED_SINCE, "records were erased from the partition after this, and could come back"
    if not deletion.is_compacted_since and untold is None:
        return None
    by = "" if deletion.is_compacted_since else f", since {CLEANER_OFFSET_CHECKPOINT} has moved on to {untold}"
    text = f"the partition was compacted after this{by}: a tombstone or marker that these records need may be gone"
    return RestoreCode.COMPACTED_SINCE, text


def _changed(deletion: DeletionFacts, log_start: int | None) -> _Refusal:
    """Refuse a segment if the leader epochs or the log start offset are not as the deletion left them."""
    if deletion.has_other_epochs:
        return RestoreCode.CHANGED_SINCE, _OTHER_EPOCHS
    left = _needed(deletion.log_start_offset, deletion.end_offset)
    if log_start not in (None, left, deletion.log_start_checkpoint):
        return RestoreCode.CHANGED_SINCE, f"the log start offset is {log_start} since"
    return None


def _misfit(segment: RetiredSegment, first_base: int | None) -> _Refusal:
    if first_base is None:
        return RestoreCode.GAP, "no segment is left to which this one could be joined"
    if segment.end_offset > first_base:
        return RestoreCode.OVERLAP, f"ends at offset {segment.end_offset}, the log begins at {first_base} already"
    if segment.end_offset < first_base:
        text = f"ends at offset {segment.end_offset}, the log begins at {first_base}: what lay between cannot come back"
        return RestoreCode.GAP, text
    return None


def _needed(checkpoint: int | None, first_base: int | None) -> int | None:
    """Return the log start offset if the checkpoint needs a line for it; else None.

    A log start has a line only while it lies above the first segment's base. Source: Kafka LogManager.
    """
    return checkpoint if checkpoint is not None and first_base is not None and checkpoint > first_base else None


def _emptied(facts: RestoreFacts, restored: set[RetiredFile]) -> DeletionFacts | None:
    """Return the deletion that rolled the log's last segment, if that segment is of no use any more; else None.

    The segment must be empty, and the segment before it must be back already or come back now.
    """
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
