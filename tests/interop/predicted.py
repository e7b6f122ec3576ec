"""Compares the prediction of a start with the start: partition by partition, file by file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from policies.preflight.facts import KafkaFailure
from policies.preflight.start import LogStart, PartitionFate, Start, StartStepKind
from tests.interop.starts import Outcome, RealStart

_OF_A_LOG: Final = re.compile(r"[^.]*\.(log|index|timeindex|txnindex|snapshot)(\.(deleted|cleaned|swap))?")
_LOADED: Final = re.compile(r"Completed load of Log\(dir=(\S+?),.*logStartOffset=(-?\d+), logEndOffset=(-?\d+)\)")
_REBUILT: Final = re.compile(r"(?:corresponding to log file) (\S+?)(?:,| due to)")
_STRAY: Final = re.compile(r"(.+)\.[0-9a-f]{32}-stray")


@dataclass(frozen=True, slots=True)
class LogAfter:
    """A partition directory behind a start."""

    directory: str
    sizes: Mapping[str, int]
    bounds: tuple[int, int] | None
    """Log start and log end, as the broker logged them."""


def logs_after(log_dir: Path, real: RealStart, before: Sequence[str]) -> dict[str, list[LogAfter]]:
    """Return the directories of a log dir behind a start, by the name that they had before it."""
    loaded = {
        Path(m[1]).name: (int(m[2]), int(m[3])) for m in _LOADED.finditer(real.said) if Path(m[1]).parent == log_dir
    }
    found: dict[str, list[LogAfter]] = {}
    for path in sorted(log_dir.iterdir()):
        if path.is_dir():
            sizes = {one.name: one.stat().st_size for one in path.iterdir() if _OF_A_LOG.fullmatch(one.name)}
            stray = _STRAY.fullmatch(path.name)
            name = stray[1] if stray and path.name not in before else path.name
            found.setdefault(name, []).append(LogAfter(path.name, sizes, loaded.get(path.name)))
    return found


def differences(
    predicted: LogStart, before: Sequence[str], after: Sequence[LogAfter], *, deletes_soon: bool = True
) -> Iterator[str]:
    """Yield each way in which a partition is not as it was predicted; the broker must have started.

    Args:
        predicted: of the partition.
        before: the names in the log dir before the start.
        after: the directories that had, or have, the partition's name.
    """
    was_stray = predicted.name.endswith("-stray")
    set_aside = [one for one in after if one.directory not in before and one.directory.endswith("-stray")]
    kept = [one for one in after if one.directory == predicted.name_after]
    if predicted.fate is PartitionFate.DELETED:
        if kept and deletes_soon and predicted.replaced_up_to is None:
            yield "is still there"
        return
    if (predicted.fate is PartitionFate.STRAY and not was_stray) != bool(set_aside):
        yield f"{predicted.fate} was predicted, and {[one.directory for one in after]} are there"
        return
    if not set_aside and not kept:
        yield "is gone"
        return
    one = (set_aside or kept)[0]
    yield from _in_files(predicted, one, is_set_aside=bool(set_aside))
    if one.bounds and predicted.log_end_offset is not None and not set_aside:
        start, end = one.bounds
        if (start, end) != (predicted.log_start_offset, predicted.log_end_offset):
            yield f"{predicted.log_start_offset}..{predicted.log_end_offset} predicted, {start}..{end} logged"


def _in_files(predicted: LogStart, after: LogAfter, *, is_set_aside: bool) -> Iterator[str]:
    """Yield each file that is not as predicted. The delay of a test may end before a directory is set aside."""
    below = _below_the_start(predicted)
    expected = {name for name in predicted.after if _OF_A_LOG.fullmatch(name) and name.partition(".")[0] not in below}
    missing = sorted(expected - after.sizes.keys())
    if missing := [name for name in missing if not (is_set_aside and name.endswith(".deleted"))]:
        yield f"predicted, and not there: {missing}"
    if surplus := sorted({name for name in after.sizes if name.partition(".")[0] not in below} - expected):
        yield f"there, and not predicted: {surplus}"
    for name in sorted(expected & after.sizes.keys()):
        if name.endswith(".log") and predicted.after[name] != after.sizes[name]:
            yield f"{name}: {predicted.after[name]} bytes predicted, {after.sizes[name]} are there"


def _below_the_start(predicted: LogStart) -> set[str]:
    """The bases of segments that lie below the log start: the first retention, just after the start, takes them."""
    bases = sorted(name.partition(".")[0] for name in predicted.after if name.endswith(".log"))
    start = f"{max(predicted.log_start_offset or 0, 0):020d}"
    return {base for base, next_base in pairwise(bases) if next_base <= start}


def recovered(real: RealStart, directory: Path, partition: str) -> set[int]:
    """Return the base offsets of the segments that the broker read whole; it logs a partition without its suffix."""
    unflushed = {
        int(m[2]) for m in re.finditer(
            rf"partition={re.escape(partition)}, dir={re.escape(str(directory.parent))}\]"
            r"( )Recovering unflushed segment (\d+)", real.said)
    }  # fmt: skip
    rebuilt = {int(Path(m[1]).stem) for m in _REBUILT.finditer(real.said) if Path(m[1]).parent == directory}
    return unflushed | rebuilt


def recovery_differences(predicted: LogStart, real: RealStart, log_dir: Path) -> Iterator[str]:
    """Yield where other segments were recovered than predicted."""
    reads = {
        int(step.file.partition(".")[0])
        for step in predicted.steps
        if step.kind is StartStepKind.RECOVER and not step.file.endswith(".swap")
    }
    silent = {int(step.file.partition(".")[0]) for step in predicted.steps if step.kind is StartStepKind.REBUILD}
    found = recovered(real, log_dir / predicted.name, str(predicted.topic_partition))
    if not reads - silent <= found <= reads:
        yield f"recovered {sorted(reads)} predicted, {sorted(found)} logged"


def outcome_differences(predicted: Start, real: RealStart) -> Iterator[str]:
    """Yield where the start as a whole ended in another way."""
    expected = Outcome.STARTED if predicted.is_started else Outcome.REFUSED
    if predicted.is_started and any(_is_named(one.failure, real.said) for one in predicted.uncertain):
        return
    if real.outcome is not expected:
        named = [(r.path, r.failure) for r in predicted.refusals]
        yield f"{expected} predicted, it {real.outcome}: {named}, {real.exceptions}"
    elif expected is Outcome.REFUSED and not any(_is_named(one.failure, real.said) for one in predicted.refusals):
        named = [(r.path, r.failure) for r in predicted.refusals]
        yield f"none of {named} was logged: {real.exceptions or real.said[-1000:]}"


def offline_differences(log_dir: str, predicted: Start, real: RealStart) -> Iterator[str]:
    """Yield where a log dir is offline or online otherwise than predicted; the broker must have started."""
    if (log_dir in real.offline) != (log_dir in predicted.offline):
        yield f"offline: {predicted.offline} predicted, {real.offline} logged"


def _is_named(failure: KafkaFailure, said: str) -> bool:
    return failure.exception in said
