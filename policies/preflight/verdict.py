"""The verdict on a start in one sentence: whether Kafka starts, and what becomes of partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from policies.explain.words import size
from policies.preflight.start import PartitionFate, Start, StartStepKind

_NAMED_MAX: Final = 2
_UNREADABLE: Final = (StartStepKind.APPEND_BEHIND, StartStepKind.COVER)


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
