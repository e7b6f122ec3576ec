"""What ``explain`` and ``preflight`` say of the time to come, against what then comes."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tests.lives.running import Told
from tests.lives.seen import SeenLog

LATER_MS: Final = 400 * 86_400_000
"""Long after every limit of a life."""
_CLEANS: Final = ("clean", "--json", "--yes", "--delete-delay", "0")
_DECIDES: Final = frozenset(
    {"TIME_NOT_REACHED", "FUTURE_TIMESTAMP", "BEHIND_KEPT_SEGMENT", "NO_LIMIT", "WITHIN_SIZE", "RECORDS_MISSING"}
)
"""What retention says of a segment that only a limit of age keeps, or that none lets go."""


class Waiting(NamedTuple):
    """A ``.deleted`` file."""

    name: str
    size_bytes: int
    mtime_ns: int


class Later(NamedTuple):
    """What a command did to a copy of the log dir."""

    told: Told
    bases: frozenset[int]
    """The base offsets that the partition has behind it."""
    waiting: frozenset[Waiting]
    """The ``.deleted`` files that it has behind it."""
    log: SeenLog | None = None
    """The partition behind it; None if it is gone."""


class Runs(Protocol):
    """Runs a command on a copy of the log dir, whose clock is moved."""

    def __call__(self, now_ms: int, *words: str) -> Later:
        """Return what it did."""


class Opened(NamedTuple):
    """A partition behind a start of Kafka."""

    log_start: int
    log_end: int
    offsets: frozenset[int]
    """Of the data records that were read."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Kafka did not open a partition, or did not read it to its end."""

    error: str
    is_opened: bool


def untrue_of_explain(said: Mapping[str, Any], now_ms: int, run: Runs, planned: Mapping[str, Any]) -> Iterator[str]:
    """Yield what ``explain`` said of a partition and does not come true.

    Args:
        said: the partition in its document.
        now_ms: when it was said.
        run: runs ``clean`` on a copy, later.
        planned: the partition in the document of a dry run of the same moment.
    """
    if said["error"]:
        return
    now = {one["base_offset"]: (one["action"], one["reason"]["code"]) for one in said["segments"]}
    plan = {one["base_offset"]: (one["action"], one["reason"]["code"]) for one in planned["segments"]}
    if now != plan:
        yield f"what clean does now: {now}, and a dry run says {plan}"
    yield from _of_expiry(said["segments"], now_ms, run)
    yield from _of_changes(said["changes"], now_ms, run)
    yield from _of_deleted_files(said["changes"], run)
    yield from _of_horizons(said["changes"], run)


def _of_expiry(segments: list[Mapping[str, Any]], now_ms: int, run: Runs) -> Iterator[str]:
    """Each segment that stays, and the moment from which retention may delete it."""
    kept = [one for one in segments if one["action"] != "delete" and _decided(one)]
    moments = sorted({one["expires_ms"] for one in kept if one["expires_ms"] and now_ms < one["expires_ms"] < 1 << 62})
    for at_ms in dict.fromkeys((*moments[:1], *moments[-1:])):
        due = {one["base_offset"] for one in kept if one["expires_ms"] and one["expires_ms"] <= at_ms}
        for moment, is_due in ((at_ms - 1, False), (at_ms, True)):
            told, bases, *_ = run(moment, *_CLEANS, "--only", "retention")
            goes_now = {one["base_offset"] for one in kept if one["expires_ms"] == at_ms}
            if not _failed(told) and (wrong := (due & bases if is_due else goes_now - bases)):
                told_of = f"segments {sorted(goes_now)} go at {at_ms}"
                yield f"{told_of}: at {moment} {sorted(wrong)} {'stay' if is_due else 'go'}"
    never = {one["base_offset"] for one in kept if one["expires_ms"] is None}
    if never:
        told, bases, *_ = run(now_ms + LATER_MS, *_CLEANS, "--only", "retention")
        if not _failed(told) and never - bases:
            yield f"time never lets segments {sorted(never)} go, and {sorted(never - bases)} go"


def _decided(segment: Mapping[str, Any]) -> bool:
    return any(rule["rule"] == "retention" and rule["code"] in _DECIDES for rule in segment["rules"])


def _of_changes(changes: list[Mapping[str, Any]], now_ms: int, run: Runs) -> Iterator[str]:
    for change in changes:
        if change["code"] != "COMPACTION":
            continue
        compacts = [
            _compacts(run(moment, "clean", "--json", "--yes").told) for moment in (change["at_ms"] - 1, change["at_ms"])
        ]
        if None not in compacts and compacts != [False, True]:
            yield f"a round is due at {change['at_ms']}: a millisecond before and then, a run compacts: {compacts}"


def _of_deleted_files(changes: list[Mapping[str, Any]], run: Runs) -> Iterator[str]:
    """The moment from which a run unlinks the first ``.deleted`` file that waits now."""
    for change in changes:
        if change["code"] != "DELETED_FILES":
            continue
        before, then = (run(moment, "clean", "--json", "--yes") for moment in (change["at_ms"] - 1, change["at_ms"]))
        now = run(change["at_ms"] - 1, "topics", "--json").waiting
        if not (_failed(before.told) or _failed(then.told)) and not now - then.waiting:
            yield f"a .deleted file may be unlinked at {change['at_ms']}: a run then leaves {sorted(then.waiting)}"
        taken = {one.name for one in before.waiting}  # by a file that this run retired
        early = {one for one in now - before.waiting if one.name not in taken}
        if not _failed(before.told) and early:
            yield f"no .deleted file may be unlinked before {change['at_ms']}: a run before unlinks {sorted(early)}"


def _of_horizons(changes: list[Mapping[str, Any]], run: Runs) -> Iterator[str]:
    """The moment from which a round drops the first tombstones or markers, or their batches."""
    for change in changes:
        if change["code"] != "DELETE_HORIZON":
            continue
        at_ms = change["at_ms"]
        words = ("clean", "--json", "--yes", "--only", "compaction", "--force-compaction")
        before, then = (run(moment, *words) for moment in (at_ms - 1, at_ms))
        if not (before.log and then.log and _compacts(before.told) and _compacts(then.told)):
            continue
        early, late = ({*log.records} | _markers(log) for log in (before.log, then.log))
        if late - early:
            yield f"tombstones or markers may go at {at_ms}: a round then leaves {sorted(late - early)} anew"
        if not early - late and _sizes(before.log) == _sizes(then.log):
            yield f"tombstones or markers may go at {at_ms}: a round then drops no more than one before"


def _markers(log: SeenLog) -> set[int]:
    return {marker.offset for piece in log.pieces for marker in piece.markers}


def _sizes(log: SeenLog) -> list[int]:
    return [piece.size_bytes for piece in log.pieces]


def _failed(told: Told) -> bool:
    return told.status != 0


def _compacts(told: Told) -> bool | None:
    """Return whether a run compacted the partition that it was asked for; None if it failed."""
    if _failed(told):
        return None
    (partition,) = json.loads(told.stdout)["partitions"]
    return any(one["action"] == "compact" for one in partition["segments"])


def untrue_of_preflight(said: Mapping[str, Any], started: Mapping[str, Opened | Refused]) -> Iterator[str]:
    """Yield what ``preflight`` said of the partitions of a start, and Kafka does otherwise.

    Nothing can be compared if it spoke of a start by another user.
    """
    if said.get("uid") not in {None, os.geteuid()}:
        return
    for partition in said["log_dirs"][0]["partitions"]:
        found = started.get(partition["directory"])
        if found is None or partition["fate"] not in {"served", "refuses", "takes-offline"}:
            continue
        name, is_served = partition["directory"], partition["fate"] == "served"
        if isinstance(found, Refused):
            if found.is_opened != is_served:
                yield f"{name} {partition['fate']}: {partition['cause']}; Kafka says {found.error}"
        elif not is_served:
            yield f"{name} {partition['fate']}: {partition['cause']}; Kafka opens it"
        else:
            expected = partition["log_start_offset"], partition["log_end_offset"]
            if expected != (found.log_start, found.log_end):
                yield f"{name}: {expected} foretold, {(found.log_start, found.log_end)} opened"


def untrue_of_as_of(
    before: Mapping[str, SeenLog],
    made: Mapping[str, SeenLog],
    until_ms: int,
    named: Collection[tuple[str, int]],
    *,
    is_whole: bool,
) -> Iterator[str]:
    """Yield what a copy as of a moment promises and does not keep.

    Args:
        before: the partitions of the log dir.
        made: those of the copy.
        until_ms: the moment.
        named: the open transactions that the command named: the partition and the first offset of each. Only one that
            hangs stays, which an open one is after a while.
        is_whole: nothing was to be left out.
    """
    for name, log in before.items():
        if name not in made:
            if is_whole:
                yield f"{name} is not in the copy"
            continue
        copy = made[name]
        has = {offset: fact for offset, fact in log.records.items() if offset < copy.end_offset}
        if copy.records != has:
            yield f"{name} as of {until_ms}: {sorted(copy.records.items() ^ has.items())[:5]}"
        if newer := [one.offset for one in copy.records.values() if one.timestamp_ms > until_ms]:
            yield f"{name} as of {until_ms}: offsets {newer[:5]} are newer"
        cut = [one for piece in log.pieces for one in piece.placed if one.fact.offset >= copy.end_offset]
        is_plain = not any(one.is_transactional for piece in log.pieces for one in piece.placed)
        if is_plain and cut and all(one.fact.timestamp_ms <= until_ms for one in cut):
            yield f"{name} as of {until_ms} ends at {copy.end_offset}, and all {len(cut)} records behind are older"
        unnamed = [offset for offset in copy.open_from if (name, offset) not in named]
        if is_whole and copy.end_offset < log.end_offset and unnamed:
            yield f"{name} as of {until_ms}: transactions are open from {unnamed} on"


def untrue_of_copy(made: Mapping[str, SeenLog], started: Mapping[str, Opened | Refused]) -> Iterator[str]:
    """Yield what Kafka's classes read otherwise than the judge in a copy."""
    for name, found in started.items():
        if isinstance(found, Refused):
            yield f"Kafka does not read {name} of a copy: {found.error}"
        elif name in made and found.offsets != made[name].records.keys():
            yield f"Kafka reads {sorted(found.offsets ^ made[name].records.keys())[:5]} otherwise in a copy of {name}"


def untrue_of_move(before: SeenLog, source: SeenLog | None, target: SeenLog | None, *, is_done: bool) -> Iterator[str]:
    """Yield what a move promises of a partition and does not keep, also one that was ended early.

    Args:
        before: the partition before it.
        source: the partition in the log dir that it leaves; None if it is not there.
        target: the partition in the other log dir; None if it is not there.
        is_done: the command said so.
    """
    name = before.name
    if source is None and target is None:
        yield f"{name} is in neither log dir"
    for place, found in (("old", source), ("new", target)):
        if found is not None and found.records != before.records:
            differing = sorted(offset for offset, _ in set(found.records.items()) ^ set(before.records.items()))
            yield f"{name} in the {place} log dir: {differing[:5]}"
    if is_done and (source is not None or target is None):
        yield f"{name} is told as moved, and was not"
    elif is_done and target is not None:
        had, has = ((one.log_start, one.end_offset, one.high_watermark) for one in (before, target))
        if had != has:
            yield f"{name} had log start, end and high watermark {had}, and has {has}"
