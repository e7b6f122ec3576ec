"""The report of ``preflight``: text for people, ``logcleaner.preflight/1`` for machines."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cleaner.engine.preflight.preflight import StartNeed
from cleaner.report.page import Lines, Page
from policies.findings.of_files import RECOVER_TAIL
from policies.preflight.facts import KafkaFailure
from policies.preflight.start import (
    Dirs,
    LogDirStart,
    LogStart,
    PartitionFate,
    Start,
    StartStep,
    StartStepKind,
    StartUser,
    head_of,
)
from policies.reasons import counted, size

SCHEMA: Final = "logcleaner.preflight/1"
_SHOWN_MAX: Final = 8
_T = TypeVar("_T")
_SUMS: Final = {
    StartStepKind.RECOVER: "read and index again",
    StartStepKind.REBUILD: "rebuild, because missing or wrong",
    StartStepKind.SPLIT: "split, because offsets do not fit",
    StartStepKind.RENAME: "rename from .swap or -future",
    StartStepKind.CREATE: "make empty",
    StartStepKind.DELETE: "delete at once",
    StartStepKind.DELETE_LATER: "delete after the delay",
    StartStepKind.WRITE: "write, the state of producers",
}


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The prediction of a start, and the time and space that it needs for each log dir."""

    start: Start
    needs: Sequence[StartNeed]

    def document(self) -> dict[str, Any]:
        """Return what ``preflight --json`` prints: sizes in bytes, offsets as Kafka's."""
        pairs = zip(self.start.log_dirs, self.needs, strict=True)
        unplaced = [partition._asdict() for partition in self.start.unplaced]
        return {
            "schema": SCHEMA,
            "kafka": str(self.start.release),
            "starts": self.start.is_started,
            "uid": self.start.user.uid if self.start.user else None,
            "refusals": [{"path": refusal.path, **_failure(refusal.failure)} for refusal in self.start.refusals],
            "uncertain": [{"path": one.path, **_failure(one.failure)} for one in self.start.uncertain],
            "unplaced": unplaced,
            "log_dirs": [_log_dir_document(log_dir, need) for log_dir, need in pairs],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the verdict, then what happens to each log dir."""
        _verdict(self.start, self.needs, page)
        if self.start.user:
            _user(self.start, self.start.user, page)
        for log_dir, need in zip(self.start.log_dirs, self.needs, strict=True):
            if need.lacks_space:
                _lack(log_dir.path, need, page)
        refused = {refusal.path for refusal in _shown(self.start.refusals, page)}
        for log_dir, need in zip(self.start.log_dirs, self.needs, strict=True):
            page.line()
            _log_dir(log_dir, need, page, refused)
        if self.start.unplaced:
            page.line()
            page.note(f"begin empty, in a log dir that Kafka chooses: {counted(len(self.start.unplaced), 'partition')}")
            for partition in self.start.unplaced if page.every_segment else ():
                page.line(str(partition), indent=4)
        yield page.text


def _verdict(start: Start, needs: Sequence[StartNeed], page: Page) -> None:
    full = [log_dir.path for log_dir, need in zip(start.log_dirs, needs, strict=True) if need.lacks_space]
    head = head_of(start, full)
    if not start.is_started:
        page.line(f"{head} on these log dirs.", "bold red")
        for refusal in _shown(start.refusals, page):
            page.note(f"{refusal.path}: {refusal.failure.cause} ({refusal.failure.exception})")
        _rest(len(start.refusals), page)
    elif full:
        page.line(f"{head} on these log dirs: a disk is too full.", "bold red")
    elif start.offline:
        without = counted(len(start.offline), "log dir")
        page.line(f"{head}, but without {without}.", "bold red")
        if start.uncertain:
            page.note("or will not start at all; that depends on the order in which it loads the partitions:", "red")
        for one in _shown(start.uncertain, page):
            page.line(f"{one.path}: {one.failure.cause} ({one.failure.exception})", indent=4, hanging=2)
        _rest(len(start.uncertain), page)
    else:
        page.line(f"{head} on these log dirs.", "bold")


def _user(start: Start, user: StartUser, page: Page) -> None:
    """Show for which user the prediction holds, and how files become readable for that user."""
    if user.uid == 0:
        page.note(
            "if it runs as root, who owns all log dirs; if it runs as another user, chown -R the log dirs to that user "
            "first"
        )
        return
    page.note(f"as user {user}, who owns a log dir")
    if start.is_forbidden:
        paths = " ".join(shlex.quote(log_dir.path) for log_dir in start.log_dirs)
        page.note(f"give that user all files of the log dirs: chown -R {user.uid}:{user.gid} {paths}", "yellow")


def _lack(path: str, need: StartNeed, page: Page) -> None:
    needed, free = size(need.space_bytes), size(need.free_bytes)
    page.note(f"{path}: the disk is too full: the start needs about {needed}, and {free} are free", "red")
    page.note("without this space Kafka takes the log dir offline, or stops; logcleaner free makes space")


def _lost(log_dir: LogDirStart, page: Page) -> None:
    gone = [str(lost.topic_partition) for lost in log_dir.lost if lost.set_aside is None]
    kept = [f"{lost.set_aside} to {lost.topic_partition}" for lost in log_dir.lost if lost.set_aside is not None]
    for named, what in (
        (gone, "with records in the checkpoints and no directory here"),
        (kept, "set aside, with no other copy here: while no broker runs, rename"),
    ):
        if named:
            shown = ", ".join(_shown(named, page))
            more = f" and {len(named) - _SHOWN_MAX:,} more; -v names all" if shown != ", ".join(named) else ""
            page.note(f"lost: {counted(len(named), 'partition')} {what}: {shown}{more}", "red")


def _log_dir(log_dir: LogDirStart, need: StartNeed, page: Page, refused: Collection[str]) -> None:
    """Show what happens to a log dir, without the paths for which the broker does not start: they come first."""
    page.line(f"{log_dir.path}: {_shutdown(log_dir)}", "bold")
    for file, failure in log_dir.failures:
        if log_dir.path_of(file) in refused:
            continue
        page.note(f"{file}: {failure.cause} ({failure.exception})", "red")
    _lost(log_dir, page)
    _missing(log_dir, page)
    cuts = [(log, step) for log in log_dir.logs for step in log.cuts]
    lost = size(sum(step.size_bytes - step.zero_bytes for _, step in cuts))
    _listed(page, f"cut, and lose {lost} of records:", [_told(log, step) for log, step in cuts])
    zeros = sum(step.zero_bytes for log in log_dir.logs for step in log.truncations)
    if zeros:
        page.note(f"cut {size(zeros)} of zeros, which are no records")
    _hidden(log_dir, page)
    _taken(log_dir, page)
    doomed = [log for log in log_dir.logs if log.loses_records and log.fate is PartitionFate.DELETED]
    head = "deleted whole after the delay, though no topic was deleted:"
    _listed(page, head, [f"{log.name}: {log.steps[-1].why}" for log in doomed])
    _aside(log_dir, page)
    _sums(log_dir, page)
    _needs(need, page)


def _aside(log_dir: LogDirStart, page: Page) -> None:
    """Show the directories that are set aside: first those with records that nobody will read, each remedy once."""
    aside = [log for log in log_dir.logs if any(step.kind is StartStepKind.SET_ASIDE for step in log.steps)]
    remedies = dict.fromkeys(log.stray_remedy for log in aside if log.stray_remedy is not None)
    for remedy in (*remedies, None):
        found = [f"{log.name}: {log.steps[-1].why}" for log in aside if log.stray_remedy == remedy]
        if remedy is None:
            _listed(page, "set aside as -stray: kept, and not served:", found, style="yellow")
        else:
            _listed(page, "set aside as -stray: nobody will read their records:", found, remedy)


def _missing(log_dir: LogDirStart, page: Page) -> None:
    """Show which records are gone before the start, in the words of the doctor."""
    found = [f"{one.path.removeprefix(f'{log_dir.path}/')}: {one.text}" for one in log_dir.missing]
    so = (
        "copy the directory before the start, because the start deletes the files that name these records; "
        "then run logcleaner doctor"
    )
    _listed(page, "records are missing already, before the start:", found, so)


def _hidden(log_dir: LogDirStart, page: Page) -> None:
    found = [
        f"{log.name}/{step.file} at byte {step.position}: the start takes offset {step.offset} for the end of the log,"
        f" and leaves {size(step.size_bytes)} behind it"
        for log in log_dir.logs
        for step in log.steps
        if step.kind is StartStepKind.APPEND_BEHIND
    ]
    head = "append behind bytes that the start does not count, so that consumers never get the new records:"
    _listed(page, head, found, RECOVER_TAIL)


def _taken(log_dir: LogDirStart, page: Page) -> None:
    """Show the steps that put something damaged or empty where records are."""

    def found(kind: StartStepKind) -> list[str]:
        return [_told(log, step) for log in log_dir.logs for step in log.steps if step.kind is kind]

    head = "take a damaged .swap file for a segment, and delete what it replaces:"
    so = "copy the directory before the start: the replaced files may be the last copy of their records"
    _listed(page, head, found(StartStepKind.TAKE_DAMAGED), so)
    _listed(page, "make an empty segment, because a file has an odd name:", found(StartStepKind.COVER))


def _told(log: LogStart, step: StartStep) -> str:
    place = "" if step.position is None else f" at byte {step.position}, offset {step.offset}"
    return f"{log.name}/{step.file}{place}: {step.why}"


def _listed(page: Page, head: str, lines: Sequence[str], so: str | None = None, style: str = "red") -> None:
    """Show a headline, the lines below it, and their consequence. Show nothing if there are no lines."""
    if not lines:
        return
    page.note(head, style)
    for line in _shown(lines, page):
        page.line(line, indent=4, hanging=2)
    _rest(len(lines), page)
    if so is not None:
        page.line(so, indent=4)


def _shutdown(log_dir: LogDirStart) -> str:
    if log_dir.state is Dirs.OFFLINE:
        return "goes offline"
    if log_dir.is_made:
        return "is not there; Kafka makes it, and begins empty: is its disk mounted?"
    if log_dir.is_clean:
        return "was shut down cleanly; Kafka recovers only what is listed here"
    return "was not shut down cleanly; Kafka recovers each log from its recovery point on"


def _sums(log_dir: LogDirStart, page: Page) -> None:
    if log_dir.steps:
        page.note(f"begin empty, because their directories are not here: {counted(len(log_dir.steps), 'partition')}")
        _each([(step.file, step) for step in log_dir.steps], page)
    steps: defaultdict[StartStepKind, list[tuple[str, StartStep]]] = defaultdict(list)
    for log in log_dir.logs:
        for step in log.steps:
            steps[step.kind].append((f"{log.name}/{step.file}".rstrip("/"), step))
    for kind, words in _SUMS.items():
        found = steps.get(kind)
        if not found:
            continue
        size_bytes = sum(step.size_bytes for _, step in found)
        of = f", {size(size_bytes)}" if size_bytes else ""
        page.note(f"{words}: {counted(len(found), 'file' if kind is not StartStepKind.RECOVER else 'segment')}{of}")
        _each(found, page)


def _each(found: Sequence[tuple[str, StartStep]], page: Page) -> None:
    if page.every_segment:
        for name, step in found:
            page.line(f"{name}: {step.why}", indent=4, hanging=2)


def _needs(need: StartNeed, page: Page) -> None:
    if need.recovered_bytes and need.bytes_per_second:
        speed = size(int(need.bytes_per_second))
        page.note(f"about {_duration(need.seconds)} to read them, at {speed} a second as measured here")
    if need.space_bytes and not need.lacks_space:
        page.note(f"needs about {size(need.space_bytes)} of free space; {size(need.free_bytes)} are free")


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _shown(items: Sequence[_T], page: Page) -> Sequence[_T]:
    return items if page.every_segment else items[:_SHOWN_MAX]


def _rest(number: int, page: Page) -> None:
    if number > _SHOWN_MAX and not page.every_segment:
        page.line(f"and {number - _SHOWN_MAX:,} more; -v shows all", indent=4)


def _failure(failure: KafkaFailure | None) -> dict[str, Any]:
    return {"exception": failure and failure.exception, "cause": failure and failure.cause}


def _log_dir_document(log_dir: LogDirStart, need: StartNeed) -> dict[str, Any]:
    return {
        "path": log_dir.path,
        "state": log_dir.state.value,
        "clean_shutdown": log_dir.is_clean,
        "failures": [{"file": file, **_failure(failure)} for file, failure in log_dir.failures],
        "recovered_bytes": need.recovered_bytes,
        "seconds": need.seconds,
        "needed_bytes": need.space_bytes,
        "free_bytes": need.free_bytes,
        "steps": [_step_document(step) for step in log_dir.steps],
        "lost": [
            {
                **lost.topic_partition._asdict(),
                "log_start_offset": lost.log_start_offset,
                "end_offset": lost.end_offset,
                "set_aside": lost.set_aside,
            }
            for lost in log_dir.lost
        ],
        "missing": [
            {
                "code": finding.code.value,
                "path": finding.path,
                "offset": finding.offset,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in log_dir.missing
        ],
        "partitions": [_partition_document(log) for log in log_dir.logs],
    }


def _partition_document(log: LogStart) -> dict[str, Any]:
    is_known = log.fate in (PartitionFate.SERVED, PartitionFate.FUTURE, PartitionFate.STRAY)
    return {
        "directory": log.name,
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "fate": log.fate.value,
        "log_start_offset": log.log_start_offset if is_known else None,
        "log_end_offset": log.log_end_offset if is_known else None,
        "failed_file": log.failed_file,
        **_failure(log.failure),
        "remedy": log.stray_remedy,
        "steps": [_step_document(step) for step in log.steps],
    }


def _step_document(step: StartStep) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "file": step.file,
        "why": step.why,
        "position": step.position,
        "offset": step.offset,
        "bytes": step.size_bytes,
        "zero_bytes": step.zero_bytes,
    }
