"""Findings of leader epochs: the batches in their order, and ``leader-epoch-checkpoint`` held against them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from policies.findings.facts import LogHistory
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.remedies import FETCH_AGAIN, REBUILD
from storage.anomalies import EpochRun
from storage.names import LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, FileKind

_NO_EPOCH = -1


class EpochStart(NamedTuple):
    """An entry of a ``leader-epoch-checkpoint``."""

    epoch: int
    start_offset: int


class _Placed(NamedTuple):
    stretch: EpochRun
    path: str


def order_findings(log: LogHistory) -> list[Finding]:
    """Return a finding for each place where leader epochs go back: for the neighbour that differs from the other
    batches.
    """
    placed, found = list(_placed(log)), []
    for place in range(1, len(placed)):
        before, here = placed[place - 1], placed[place]
        if here.stretch.epoch >= before.stretch.epoch:
            continue
        behind = placed[place + 1].stretch.epoch if place + 1 < len(placed) else _NO_EPOCH
        is_dip = behind >= before.stretch.epoch
        is_before = not is_dip and (place == 1 or placed[place - 2].stretch.epoch <= here.stretch.epoch)
        wrong, other = (before, here) if is_before else (here, before)
        text = (
            f"The batch of offset {wrong.stretch.first_offset} has leader epoch {wrong.stretch.epoch}, its neighbour"
            f" {other.stretch.epoch}: a follower that compares epochs may cut off the wrong records."
        )
        place_of = wrong.stretch.position, wrong.stretch.first_offset
        found.append(Finding(FindingCode.EPOCH_BACKWARDS, Harm.WRONG_ANSWER, wrong.path, text, FETCH_AGAIN, *place_of))
    return found


def checkpoint_findings(log: LogHistory, entries: Sequence[EpochStart] | None, log_start_offset: int) -> list[Finding]:
    """Return at most one finding: the first batch that the checkpoint has another epoch for.

    Args:
        log: the partition.
        entries: ascending by epoch; None where there is no checkpoint.
        log_start_offset: offsets below it need no epoch. Where the broker did not stop cleanly, it may be older than
            the entries, which a broker cuts at the log start.
    """
    placed = [one for one in _placed(log) if one.stretch.last_offset >= log_start_offset]
    is_clean = bool(log.segments) and log.segments[-1].standing.is_clean
    if entries and not is_clean:
        log_start_offset = max(log_start_offset, entries[0].start_offset)
    path = f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
    if (cut := cut_entry([one.stretch for one in placed], entries or (), log_start_offset)) is not None:
        return [forgotten_start_finding(path, cut)]
    lost = next((one.stretch for one in placed if is_lost(one.stretch, entries or (), log_start_offset)), None)
    if lost is not None:
        return [lost_finding(path, lost.epoch, lost.first_offset, entries[-1].epoch if entries else None)]
    text = _disorder(entries, log.end_offset) or _disagreement(placed, entries, log_start_offset) if entries else None
    if text is None:
        return []
    harm, repair = Harm.WRONG_ANSWER, RepairGroup.DERIVED
    return [Finding(FindingCode.EPOCHS_WRONG, harm, path, text, REBUILD, repair=repair)]


def cut_entry(stretches: Iterable[EpochRun], entries: Sequence[EpochStart], log_start_offset: int) -> EpochStart | None:
    """Return the first entry of a checkpoint if it was cut at a log start that is forgotten; None if it was not.

    A broker that deletes records cuts the entries at the new log start: the first one then begins within its epoch.
    Where the log start lies below by now, the deleted records are a part of the log again.

    Args:
        stretches: of batches.
        entries: of the checkpoint, ascending by epoch.
        log_start_offset: by ``log-start-offset-checkpoint``; 0 without a line.
    """
    if not entries or entries[0].start_offset <= log_start_offset:
        return None
    epoch, start = entries[0]
    return entries[0] if any(one.epoch == epoch and one.first_offset < start for one in stretches) else None


def forgotten_start_finding(path: str, cut: EpochStart) -> Finding:
    """Return the finding of a log start that only ``leader-epoch-checkpoint`` knows, at the path of that file."""
    directory, _, name = path.rpartition("/")
    topic, _, partition = directory.rpartition("/")[2].rpartition("-")
    text = (
        f"{name} begins at offset {cut.start_offset}, within leader epoch {cut.epoch}: the records below were deleted,"
        f" as kafka-delete-records does it, and {LOG_START_OFFSET_CHECKPOINT} does not say so any more. The next start"
        " of the broker makes the deleted records readable again."
    )
    line = f"{topic} {partition} {cut.start_offset}"
    remedy = (
        f"Before the broker starts, put the line '{line}' into {LOG_START_OFFSET_CHECKPOINT} of the log dir, and raise"
        " the number in its second line, which counts the lines below; if that file is empty or missing, its whole"
        f" content is '0\\n1\\n{line}\\n' (printf writes it). Or put it back from a backup. If nobody deleted records,"
        " remove the epoch file, and run logcleaner verify --repair."
    )
    return Finding(FindingCode.EPOCHS_WRONG, Harm.WRONG_ANSWER, path, text, remedy, None, cut.start_offset)


def is_lost(stretch: EpochRun, entries: Sequence[EpochStart], log_start_offset: int) -> bool:
    """Return whether a checkpoint does not know the epoch of some batches at their offset, nor a later one.

    Args:
        stretch: the batches.
        entries: of the checkpoint, ascending by epoch.
        log_start_offset: the entries of what lies below it were cut off, but for one.
    """
    if stretch.last_offset < log_start_offset:
        return False
    offset = max(stretch.first_offset, log_start_offset)
    return all(entry.start_offset > offset or entry.epoch < stretch.epoch for entry in entries)


def lost_finding(path: str, epoch: int, offset: int, newest_epoch: int | None) -> Finding:
    """Return the finding of a leader epoch that ``leader-epoch-checkpoint`` does not know.

    Args:
        path: of the checkpoint.
        epoch: of the batches.
        offset: of the first of them.
        newest_epoch: of the checkpoint; None if it has no entry, or is missing.
    """
    newest = "it is missing, or has no entry" if newest_epoch is None else f"its newest entry is {newest_epoch}"
    text = (
        f"The batch at offset {offset} was written in leader epoch {epoch}, which leader-epoch-checkpoint does not"
        f" know: {newest}. Followers that ask for the end of that epoch get no answer, and fetch in a loop or truncate"
        " too much."
    )
    return Finding(
        FindingCode.EPOCHS_LOST,
        Harm.WRONG_ANSWER,
        path,
        text,
        REBUILD,
        None,
        offset,
        "KAFKA-20961",
        RepairGroup.DERIVED,
    )


def _disorder(entries: Sequence[EpochStart], end_offset: int) -> str | None:
    """Return what is wrong with the entries alone, in a sentence."""
    if entries[0].epoch < 0 or entries[0].start_offset < 0:
        return f"The entry of epoch {entries[0].epoch}, offset {entries[0].start_offset}, is negative."
    for one, other in pairwise(entries):
        if other.start_offset <= one.start_offset:
            at = f"at offset {other.start_offset}, and epoch {one.epoch} at {one.start_offset}"
            return f"Leader epoch {other.epoch} begins {at}."
    last = entries[-1]
    if last.start_offset > end_offset:
        return f"Leader epoch {last.epoch} begins at offset {last.start_offset}, and the log ends at {end_offset}."
    return None


def _disagreement(placed: Sequence[_Placed], entries: Sequence[EpochStart], log_start_offset: int) -> str | None:
    """Return what batches say against the entries, in a sentence."""
    starts = [entry.start_offset for entry in entries]
    for stretch, _ in placed:
        if stretch.last_offset < log_start_offset:
            continue
        first_offset = max(stretch.first_offset, log_start_offset)
        place = bisect_right(starts, first_offset) - 1
        said = entries[place].epoch if place >= 0 else None
        if said != stretch.epoch:
            says = "no epoch" if said is None else f"epoch {said}"
            at = f"offset {stretch.first_offset} has leader epoch {stretch.epoch}"
            return f"The batch of {at}, and the file has {says} there."
        if place + 1 < len(starts) and starts[place + 1] <= stretch.last_offset:
            later, at = entries[place + 1], f"offset {stretch.last_offset} is of epoch {stretch.epoch}"
            return f"Leader epoch {later.epoch} begins at offset {later.start_offset}, and the batch of {at}."
    return None


def _placed(log: LogHistory) -> Iterator[_Placed]:
    """Yield the stretches with an epoch: what a compaction made of messages of v0 and v1 has none."""
    for segment in log.segments:
        path = segment.standing.path_of(FileKind.LOG)
        yield from (_Placed(one, path) for one in segment.facts.epochs if one.epoch != _NO_EPOCH)
