"""A finding: one thing that is wrong in a log dir, what it does to whom, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from storage.anomalies import CheckedSegment
from storage.names import FileKind, segment_file_name


class FindingCode(StrEnum):
    """The closed list of findings. docs/doctor.md has a section for each. One code a line, in groups, by alphabet."""

    # Batches and offsets of a .log
    BATCH_CORRUPT = "BATCH_CORRUPT"
    BATCH_HEADER = "BATCH_HEADER"
    EPOCH_BACKWARDS = "EPOCH_BACKWARDS"
    OFFSET_BACKWARDS = "OFFSET_BACKWARDS"
    OFFSET_GAP = "OFFSET_GAP"
    OFFSET_OVERFLOW = "OFFSET_OVERFLOW"
    RECORDS_CORRUPT = "RECORDS_CORRUPT"
    TORN_TAIL = "TORN_TAIL"
    ZERO_TAIL = "ZERO_TAIL"

    # Files that are derived from a .log
    EPOCHS_CORRUPT = "EPOCHS_CORRUPT"
    EPOCHS_WRONG = "EPOCHS_WRONG"
    INDEX_MISSING = "INDEX_MISSING"
    OFFSET_INDEX_CORRUPT = "OFFSET_INDEX_CORRUPT"
    OFFSET_INDEX_WRONG = "OFFSET_INDEX_WRONG"
    SNAPSHOT_CORRUPT = "SNAPSHOT_CORRUPT"
    SNAPSHOT_MISSING = "SNAPSHOT_MISSING"
    SNAPSHOT_WRONG = "SNAPSHOT_WRONG"
    TIME_INDEX_CORRUPT = "TIME_INDEX_CORRUPT"
    TIME_INDEX_WRONG = "TIME_INDEX_WRONG"
    TXN_INDEX_CORRUPT = "TXN_INDEX_CORRUPT"
    TXN_INDEX_WRONG = "TXN_INDEX_WRONG"

    # Files of a log dir, and names
    CHECKPOINT_BEYOND_END = "CHECKPOINT_BEYOND_END"
    CHECKPOINT_CORRUPT = "CHECKPOINT_CORRUPT"
    CHECKPOINT_STALE = "CHECKPOINT_STALE"
    COPY_LACKS = "COPY_LACKS"
    META_PROPERTIES = "META_PROPERTIES"
    NAME_STRANGE = "NAME_STRANGE"
    PARTITION_METADATA = "PARTITION_METADATA"
    TOPIC_ID_FOREIGN = "TOPIC_ID_FOREIGN"
    TOPIC_ID_MISSING = "TOPIC_ID_MISSING"

    # Shapes that only the whole partition shows
    ABORTED_UNINDEXED = "ABORTED_UNINDEXED"
    END_BELOW_WATERMARK = "END_BELOW_WATERMARK"
    EPOCHS_LOST = "EPOCHS_LOST"
    FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"
    METADATA_UNREADABLE = "METADATA_UNREADABLE"
    PARTITION_UNREADABLE = "PARTITION_UNREADABLE"
    TIME_INDEX_PADDED = "TIME_INDEX_PADDED"
    TRANSACTION_HANGING = "TRANSACTION_HANGING"

    # Compaction and tiering
    CLEANER_BEHIND = "CLEANER_BEHIND"
    COMPACTED_NOW_TIERED = "COMPACTED_NOW_TIERED"
    EMPTY_BATCHES = "EMPTY_BATCHES"
    LAG_MISSED = "LAG_MISSED"
    REMOTE_METADATA = "REMOTE_METADATA"
    SHARE_STATE_GROWS = "SHARE_STATE_GROWS"
    TIERED_RESIDUE = "TIERED_RESIDUE"
    TIER_CORRUPT = "TIER_CORRUPT"
    TIER_GAP = "TIER_GAP"
    TIER_HANGING = "TIER_HANGING"
    TIER_LACKS = "TIER_LACKS"
    TIER_ORPHAN = "TIER_ORPHAN"
    TIER_OVERLAP = "TIER_OVERLAP"
    TIER_UNKNOWN = "TIER_UNKNOWN"
    UNKEYED_RECORDS = "UNKEYED_RECORDS"

    # Directories, and what was left behind
    DELETED_LEFT = "DELETED_LEFT"
    DELETE_DIRECTORY = "DELETE_DIRECTORY"
    DIRECTORY_UNOWNED = "DIRECTORY_UNOWNED"
    DISK_FULL = "DISK_FULL"
    PARTITION_LOST = "PARTITION_LOST"
    PARTITION_TWICE = "PARTITION_TWICE"
    STRAY_DIRECTORY = "STRAY_DIRECTORY"
    SWAP_LEFT = "SWAP_LEFT"
    UNLINKED_OPEN = "UNLINKED_OPEN"


class Harm(IntEnum):
    """The harm that a finding does, and to whom. The worst has the least number, so that findings sort worst first."""

    DATA_LOST = 1
    """Records are damaged or lost, or will be lost: only a copy of them helps (another replica, a backup)."""
    WRONG_ANSWER = 2
    """All bytes are here, and somebody gets a wrong answer: aborted data, a wrong offset, a skipped record."""
    NO_START = 3
    """The broker does not start, or it takes the log dir or the partition offline."""
    SLOW_START = 4
    """The broker notices at its next start, and mends it itself; that costs time."""
    WASTE = 5
    """The finding costs space or time, and nothing else."""
    NOTE = 6
    """The finding does nothing by itself, but somebody should know of it."""


_new: Final = tuple.__new__
"""Makes a named tuple in half the time, which counts where there are hundreds of thousands."""
WORST_ADVICE: Final = Harm.SLOW_START
"""A finding that does this harm, or less, is advice; a worse one is damage."""


class RepairGroup(StrEnum):
    """The repairs that people ask for, as the KIND of ``verify --repair=KIND``."""

    DERIVED = "derived"
    """That of a bare ``--repair``: what can be derived from the log again."""
    TOPIC_ID = "topic-id"
    ZERO_TAIL = "zero-tail"
    LOG_END = "log-end"


class Finding(NamedTuple):
    """One thing that is wrong."""

    code: FindingCode
    harm: Harm
    path: str
    """Path of the file or directory."""
    text: str
    """A sentence that says what is wrong."""
    remedy: str
    """A sentence that says what to do."""
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Offset of the log that the finding begins at."""
    kafka_issue: str | None = None
    """The issue of Kafka that tells of it, as ``KAFKA-13727``."""
    repair: RepairGroup | None = None
    """The KIND of ``verify --repair=KIND`` that mends it."""
    size_bytes: int | None = None
    """The bytes of a tier that it is about; None if they are not known, and of other findings."""


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Return findings ordered by harm, worst first, then by path, position and code."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, str, int, str]:
    return finding.harm, finding.path, -1 if finding.position is None else finding.position, finding.code


class Standing(NamedTuple):
    """The place of a segment in its log, and the state of its broker."""

    directory: str
    base_offset: int
    is_last: bool
    """Whether it is the active segment."""
    is_live: bool
    """Whether a broker, or another process, holds the lock of the log dir."""
    is_recovered: bool
    """Whether the next start of the broker recovers the segment: it did not stop cleanly, or it is the metadata log."""

    @property
    def is_clean(self) -> bool:
        """Return whether the broker stopped cleanly, and wrote all that it knew."""
        return not (self.is_live or self.is_recovered)

    @property
    def is_open(self) -> bool:
        """Return whether a broker writes to the segment, or was killed while it did: its indexes may be unfinished."""
        return self.is_last and not self.is_clean

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its files."""
        return f"{self.directory}/{segment_file_name(self.base_offset, kind)}"


class Circumstances(NamedTuple):
    """The state of a partition, as its log dir tells it."""

    is_live: bool
    """Whether a broker, or another process, holds the lock of the log dir."""
    is_clean: bool
    """Whether the broker stopped cleanly."""
    recovery_point: int
    log_start_offset: int
    was_compacted: bool
    """Whether the cleaner has a checkpoint of it."""

    @property
    def whole_to(self) -> int | None:
        """The end of the log as the broker noted it when it stopped cleanly; None if it did not."""
        return self.recovery_point if self.is_clean else None

    def recovers_from(self, bases: Iterable[int]) -> int | None:
        """Return the base offset from which on the next start recovers segments; None if nobody knows, or it does not.

        After an unclean stop it recovers all from the recovery point on.
        """
        if self.is_live or self.is_clean:
            return None
        return max((base for base in bases if base <= self.recovery_point), default=0)


class Noted(NamedTuple):
    """The lines of the checkpoint files about a partition; None for a file without one."""

    high_watermark: int | None = None
    log_start: int | None = None
    recovery_point: int | None = None
    first_dirty: int | None = None

    def circumstances(self, *, is_live: bool, was_clean: bool) -> Circumstances:
        """Return the state of the partition. Beside a live broker no mark of a clean stop counts."""
        is_clean, was_compacted = was_clean and not is_live, self.first_dirty is not None
        return Circumstances(is_live, is_clean, self.recovery_point or 0, self.log_start or 0, was_compacted)


NOTHING_NOTED: Final = Noted()


class SegmentHistory(NamedTuple):
    """The facts about one segment, by a check of all of it or by a glance at its ends, and its place."""

    standing: Standing
    facts: CheckedSegment


class LogHistory(NamedTuple):
    """The facts that the segments of a partition tell, ascending."""

    directory: str
    segments: Sequence[SegmentHistory]

    @staticmethod
    def of(directory: str, facts: Sequence[CheckedSegment], circumstances: Circumstances) -> LogHistory:
        """Return the facts about the segments of a partition, ascending, each with its standing."""
        is_live, floor = circumstances.is_live, circumstances.recovers_from([one.base_offset for one in facts])
        last, segments = (facts[-1] if facts else None), []
        for one in facts:
            is_recovered = floor is not None and one.base_offset >= floor
            standing = _new(Standing, (directory, one.base_offset, one is last, is_live, is_recovered))
            segments.append(_new(SegmentHistory, (standing, one)))
        return LogHistory(directory, segments)

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment."""
        return self.segments[0].standing.base_offset if self.segments else 0

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return self.segments[-1].facts.next_offset if self.segments else 0

    @property
    def is_damaged(self) -> bool:
        """Return whether a part of a segment was not understood."""
        return any(segment.facts.is_damaged for segment in self.segments)

    @property
    def is_whole(self) -> bool:
        """Return whether no batch and no record between start and end is gone: nothing was compacted away."""
        return (
            not self.is_damaged
            and all(segment.facts.is_full and not segment.facts.gaps for segment in self.segments)
            and all(one.facts.next_offset == other.standing.base_offset for one, other in pairwise(self.segments))
        )


class HeaderWalk(NamedTuple):
    """The sums over the headers of the batches of a partition, as far as they were read."""

    bytes_read: int = 0
    bytes_unread: int = 0
    batches: int = 0
    """Batches in the part that was compacted."""
    empty_batches: int = 0
    """Batches of that part without a record that are no markers."""
    empty_bytes: int = 0
    gaps: int = 0
    """Offsets that are missing between batches: compaction took them."""

    @staticmethod
    def of(facts: Sequence[CheckedSegment], first_dirty_offset: int | None, bytes_unread: int = 0) -> HeaderWalk:
        """Sum up the facts of segments whose headers were all read, ascending.

        Args:
            facts: of the segments.
            first_dirty_offset: where the part ends that was compacted; None if the log never was.
            bytes_unread: the size of the segments whose headers were not read.
        """
        clean = [one for one in facts if first_dirty_offset is not None and one.next_offset <= first_dirty_offset]
        return HeaderWalk(
            sum(one.size_bytes for one in facts),
            bytes_unread,
            sum(one.batches for one in clean),
            sum(one.empty_batches for one in clean),
            sum(one.empty_bytes for one in clean),
            sum(one.gaps for one in facts) + sum(one.next_offset < other.base_offset for one, other in pairwise(facts)),
        )


NOT_WALKED: Final = HeaderWalk()


FETCH_AGAIN: Final = (
    "Copy the directory to a safe place; then let the broker fetch the partition from another replica, or restore it"
    " from a backup."
)
COPY_AGAIN: Final = (
    "Make the copy anew (clean --output), or fetch it again, each to a new place; remove logcleaner-manifest.json if"
    " this was meant."
)
REBUILD: Final = "Stop the broker, and run logcleaner verify --repair: it builds the file anew from the log."
BY_ITSELF: Final = "Nothing: the next start of the broker recovers the log, and builds the file anew."
TIME_INDEX_PADDED: Final = (
    "a broker takes 1970 for the segment's newest record, and retention by time deletes the segment at its next check"
)
END_LOST: Final = (
    "Mend nothing by hand. Let a replica that has the end lead before clients write; without one, a backup is all there"
    " is."
)
START_LOST: Final = "Keep the broker stopped, copy the directory, and bring the missing segments back from a replica."
CLEANED_ANEW: Final = "Nothing: the next round of the broker, or of clean, writes the checkpoint anew."
WRITE_TOPIC_ID: Final = (
    "Before the broker starts, run logcleaner verify --repair=topic-id: it writes the id if nothing speaks against it."
)
SPLIT_BY_ITSELF: Final = "Start the broker once: it splits the segment while it loads the log."
OTHER_TOPIC: Final = (
    "Nothing, if the records are those of a topic that was deleted and made again; copy the directory if somebody wants"
    " them."
)
UNOWNED: Final = "If nobody misses its records, leave it to the broker; else copy the directory before the next start."
UNKNOWN_METADATA: Final = f"If the cluster metadata lies in another log dir, name that one, too. {UNOWNED}"
STRANGE_DIRECTORY: Final = (
    "Move it out of the log dir; beside lost+found, use a directory below the mount point as log dir."
)
BRING_BACK: Final = (
    "Keep the broker stopped, and bring the directory back from a backup; or let a replica that has the records lead"
    " before this broker starts."
)
