"""The prediction: what a start does to each file, partition and log dir, and the verdict in one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from policies.findings.findings import Finding
from policies.preflight.facts import KafkaFailure, Release
from policies.preflight.lost import LostPartition
from policies.reasons import size
from storage.names import LOCK_FILE, TopicPartition

_NAMED_MAX: Final = 2


class StartStepKind(StrEnum):
    """The things that a start does to a file or a directory."""

    RECOVER = "recover"
    """Reads all batches of a segment, and makes its indexes anew."""
    REBUILD = "rebuild"
    """Makes an index anew, from the batches."""
    TRUNCATE = "truncate"
    """Cuts the log: the records behind the position are lost."""
    SPLIT = "split"
    """Makes several segments of one whose offsets do not fit its index."""
    RENAME = "rename"
    """Takes the suffix ``.swap`` off a file, or ``-future`` off a directory."""
    CREATE = "create"
    """Makes a file or a directory that was missing, empty."""
    DELETE = "delete"
    """Unlinks a leftover at once."""
    DELETE_LATER = "delete-later"
    """Renames to ``.deleted``, or has waiting, and unlinks after the delay."""
    SET_ASIDE = "set-aside"
    """Renames the directory to ``-stray``: it is kept, and not served."""
    WRITE = "write"
    """Writes a producer snapshot."""
    APPEND_BEHIND = "append-behind"
    """Leaves bytes that are no batch at the end of a log, and appends behind them: nobody can read what follows."""
    TAKE_DAMAGED = "take-damaged"
    """Gives a damaged or empty ``.swap`` file the place of a segment; what it replaces is deleted."""
    COVER = "cover"
    """Makes an empty segment at the offset that an odd name states: nobody reads the file, nor what lies below."""


_UNREADABLE: Final = (StartStepKind.APPEND_BEHIND, StartStepKind.COVER)


class StartStep(NamedTuple):
    """One thing that a start does."""

    kind: StartStepKind
    file: str
    why: str
    position: int | None = None
    """Of a truncation: the byte from which on the file is cut; of ``APPEND_BEHIND`` and ``TAKE_DAMAGED``: the end of
    the last sound batch."""
    offset: int | None = None
    """Of a truncation: the new end of the log; of ``APPEND_BEHIND``: the offset that the next record gets; of
    ``TAKE_DAMAGED``: the offset behind the last sound batch; of ``COVER``: that of the empty segment."""
    size_bytes: int = 0
    """The bytes that are read, cut, deleted or not read any more."""
    zero_bytes: int = 0
    """For a truncation: the number of zeros at the end of the file, which are no records."""


class PartitionFate(StrEnum):
    """The state of a partition behind a start."""

    SERVED = "served"
    STRAY = "stray"
    DELETED = "deleted"
    FUTURE = "future"
    REFUSES = "refuses"
    """The whole broker does not start because of it."""
    TAKES_OFFLINE = "takes-offline"
    """Its log dir goes offline because of it."""


class LogStart(NamedTuple):
    """The consequences of a start for one partition directory."""

    name: str
    topic_partition: TopicPartition
    fate: PartitionFate
    steps: tuple[StartStep, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    after: Mapping[str, int]
    """The files of the log behind the start: name -> size; sizes only of ``.log`` files."""
    failure: KafkaFailure | None = None
    failed_file: str | None = None
    topic_id: str | None = None
    is_promoted: bool = False
    """Whether the directory loses its suffix ``-future``."""
    replaced_up_to: int | None = None
    """The end of the log that replaces this one; the start deletes this one."""
    stray_remedy: str | None = None
    """What to do about records that the start sets aside as ``-stray``, and that no other broker has; None if it sets
    none aside."""

    @property
    def name_after(self) -> str:
        """The name of the directory behind the start, if it is not set aside or deleted."""
        return str(self.topic_partition) if self.is_promoted else self.name

    @property
    def truncations(self) -> tuple[StartStep, ...]:
        """The steps that cut a log."""
        return tuple(step for step in self.steps if step.kind is StartStepKind.TRUNCATE)

    @property
    def cuts(self) -> tuple[StartStep, ...]:
        """The steps that cut records off a log, and not zeros alone."""
        return tuple(step for step in self.truncations if step.size_bytes > step.zero_bytes)

    @property
    def loses_records(self) -> bool:
        """Return whether records go that no deleted topic had."""
        is_doomed = self.fate is PartitionFate.DELETED and not self.name.endswith("-delete")
        if self.replaced_up_to is not None:
            is_doomed = self.log_end_offset is None or self.log_end_offset > self.replaced_up_to
        return bool(self.cuts) or is_doomed or any(step.kind is StartStepKind.TAKE_DAMAGED for step in self.steps)

    @property
    def hides_records(self) -> bool:
        """Return whether records are or will be where nobody can read them."""
        is_hidden = any(step.kind in (StartStepKind.APPEND_BEHIND, StartStepKind.COVER) for step in self.steps)
        return is_hidden or self.stray_remedy is not None


class Dirs(StrEnum):
    """The state of a log dir behind a start."""

    ONLINE = "online"
    OFFLINE = "offline"


class LogDirStart(NamedTuple):
    """The consequences of a start for one log dir."""

    path: str
    state: Dirs
    is_clean: bool
    steps: tuple[StartStep, ...]
    logs: tuple[LogStart, ...]
    failures: tuple[tuple[str, KafkaFailure], ...]
    """File, or path of the log dir itself -> why the log dir goes offline."""
    lost: tuple[LostPartition, ...] = ()
    """The partitions that had records by the checkpoints of this log dir, and have no directory."""
    missing: tuple[Finding, ...] = ()
    """Findings which say that records were gone before the start."""
    is_made: bool = False
    """Whether the directory was not there before the start."""

    def path_of(self, file: str) -> str:
        """Return the path of what failed: a file, or the log dir itself, which is named by its path."""
        return self.path if file == self.path else f"{self.path}/{file}"


class Refusal(NamedTuple):
    """A cause for which a broker does not start."""

    path: str
    failure: KafkaFailure
    remedy: str | None = None
    """What to do about it; None if the cause says it."""


class StartUser(NamedTuple):
    """The user that the broker is taken to run as: the first owner of a log dir who is not root, else root."""

    uid: int
    gid: int
    name: str | None = None
    """None if the system knows no name."""

    def __str__(self) -> str:
        return f"{self.name} ({self.uid})" if self.name else f"{self.uid}"


class Start(NamedTuple):
    """The prediction of a start."""

    release: Release
    log_dirs: tuple[LogDirStart, ...]
    refusals: tuple[Refusal, ...]
    """Empty if the broker starts."""
    uncertain: tuple[Refusal, ...] = ()
    """What may stop the broker: that depends on the order in which it loads the partitions."""
    unplaced: tuple[TopicPartition, ...] = ()
    """Partitions that begin empty, in a log dir that the broker chooses."""
    user: StartUser | None = None

    @property
    def is_started(self) -> bool:
        """Return whether the broker starts."""
        return not self.refusals

    @property
    def is_forbidden(self) -> bool:
        """Return whether the user may not read or write something that a start needs."""
        failures = [failure for log_dir in self.log_dirs for _, failure in log_dir.failures]
        return any("may not " in failure.cause for failure in (*failures, *(one.failure for one in self.refusals)))

    @property
    def is_stopped_by_locks_alone(self) -> bool:
        """Return whether nothing stops the broker but that another process holds a log dir."""
        return bool(self.refusals) and all(refusal.path.endswith(f"/{LOCK_FILE}") for refusal in self.refusals)

    @property
    def does_harm(self) -> bool:
        """Return whether a log dir goes offline, a partition is lost, or records are or get lost, or cannot be read."""
        logs = [log for log_dir in self.log_dirs for log in log_dir.logs]
        is_any_lost = any(log_dir.lost or log_dir.missing for log_dir in self.log_dirs)
        return bool(self.offline) or is_any_lost or any(log.loses_records or log.hides_records for log in logs)

    @property
    def offline(self) -> list[str]:
        """The log dirs that are offline afterwards."""
        return [log_dir.path for log_dir in self.log_dirs if log_dir.state is Dirs.OFFLINE]


class StartVerdict(NamedTuple):
    """The verdict on a start."""

    release: str
    """The version of Kafka that is to start."""
    starts: bool | None
    """None if nobody can say."""
    text: str
    """A sentence: whether it starts, and what becomes of partitions."""


def head_of(start: Start, full: Collection[str]) -> str:
    """Return whether the broker starts, without a full stop.

    Args:
        start: the prediction.
        full: the log dirs whose disks fill up as it starts.
    """
    if not start.is_started:
        return f"Kafka {start.release} will not start"
    return f"Kafka {start.release} will {'not start well' if full else 'start'}"


def verdict_of(start: Start, full: Collection[str] = (), unread_bytes: int = 0) -> StartVerdict:
    """Return the verdict on a start.

    Args:
        start: the prediction.
        full: the log dirs whose disks fill up as it starts.
        unread_bytes: the size of the segments that the start recovers, and of which nobody read more than the end.
    """
    head = head_of(start, full)
    if start.refusals:
        first, *others = start.refusals
        more = f", and {len(others):,} more" if others else ""
        return StartVerdict(str(start.release), False, f"{head}: {first.path}: {first.failure.cause}{more}.")
    told = [f"the disk of {path} is too full" for path in full]
    told += _consequences(start)
    if unread_bytes:
        told.append(f"of the {size(unread_bytes)} that it recovers only the ends were read")
    return StartVerdict(str(start.release), True, f"{'; '.join([head, *told])}.")


def _consequences(start: Start) -> Iterator[str]:
    """Yield what becomes of log dirs and partitions that somebody may miss, the worst first."""
    for log_dir in start.log_dirs:
        if log_dir.path in start.offline:
            file, failure = log_dir.failures[0]
            where = "" if file == log_dir.path else f"{file}: "
            yield f"{log_dir.path} goes offline ({where}{failure.cause})"
    logs = [log for log_dir in start.log_dirs for log in log_dir.logs]
    lost = {str(one.topic_partition) for log_dir in start.log_dirs for one in log_dir.lost}
    made = {step.file for log_dir in start.log_dirs for step in log_dir.steps if step.kind is StartStepKind.CREATE}
    made.update(map(str, start.unplaced))
    doomed = {log.name for log in logs if log.loses_records and log.fate is PartitionFate.DELETED}
    cut = {log.name for log in logs if log.loses_records} - doomed
    unreadable = {log.name for log in logs if any(step.kind in _UNREADABLE for step in log.steps)}
    aside = {log.name for log in logs if log.stray_remedy is not None}
    yield from _told(lost - made, "has no directory", "have no directory")
    yield from _told(made & lost, "begins empty", "begin empty")
    yield from _told(doomed, "is deleted", "are deleted")
    yield from _told(cut, "loses records", "lose records")
    yield from _told(unreadable, "gets records that nobody can read", "get records that nobody can read")
    yield from _told(aside, "is set aside as -stray", "are set aside as -stray")
    yield from _told(made - lost - aside, "begins empty, like a new one", "begin empty, like new ones")


def _told(names: Iterable[str], of_one: str, of_several: str) -> Iterator[str]:
    found = sorted(names)
    if not found:
        return
    shown, more = found[:_NAMED_MAX], len(found) - _NAMED_MAX
    listed = f"{', '.join(shown)} and {more:,} more" if more > 0 else " and ".join(shown)
    yield f"{listed} {of_one if len(found) == 1 else of_several}"
