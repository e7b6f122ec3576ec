"""Decide what a sweep does with a leftover that a person named: unlink it, rename it first, or leave it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.of_log_dir import take_back
from policies.findings.only_copies import OnlyCopy
from policies.preflight.lost import SetAside
from policies.reasons import moment
from storage.names import FileKind, FileState


class LeftoverKind(StrEnum):
    """The kinds of things that a person may name for a sweep."""

    DELETED_FILE = "deleted file"
    UNFINISHED_FILE = "unfinished file"
    """``.swap`` or ``.cleaned``."""
    DELETE_DIRECTORY = "delete directory"
    STRAY_DIRECTORY = "stray directory"
    MISSING = "missing"
    """Nothing has that name."""
    OTHER = "other"
    """Anything else: no leftover."""


class SweepAct(StrEnum):
    """The acts of a sweep."""

    UNLINK = "unlink"
    RENAME = "rename"
    """A stray directory gets the name that Kafka gives a deleted one; it goes by another sweep, after its delay."""
    LEAVE = "leave"


class LeftoverFacts(NamedTuple):
    """A thing that a person named, within its log dir. Times are in epoch ms."""

    name: str
    """The path of the leftover from the log dir."""
    kind: LeftoverKind
    size_bytes: int = 0
    files: int = 0
    due_ms: int | None = None
    """When its delay is over; None if it has none yet."""
    is_held: bool = False
    """Whether its partition is on hold after a restore."""
    new_name: str | None = None
    """For a stray directory: its new name, that of a deleted partition; None if no such name fits."""
    nested: str | None = None
    """A directory within the directory, which is not Kafka's."""
    only_copy: OnlyCopy | None = None
    """For a ``.deleted`` file: the offsets that the log lacks and that the ``.log.deleted`` of its segment has."""
    unknown_because: str | None = None
    """Why nobody knows what the log lacks."""
    sole_copy: SetAside | None = None
    """For a directory: its content, if it holds the only copy of a partition that belongs here."""


class SweepVerdict(NamedTuple):
    """The decision on a leftover, and the reason for it."""

    act: SweepAct
    text: str


_RETIRED_LOG: Final = f"{FileKind.LOG}{FileState.DELETED}"
_REFUSALS: Final = {
    LeftoverKind.UNFINISHED_FILE: (
        "belongs to a compaction that was interrupted: it goes by recovery only, with the next start of the broker or "
        "the next clean"
    ),
    LeftoverKind.MISSING: "is not there",
    LeftoverKind.OTHER: "is no leftover: a sweep takes .deleted files, and -delete and -stray directories",
}


def sweep_verdict(facts: LeftoverFacts, now_ms: int) -> SweepVerdict:
    """Return what a sweep does with a leftover.

    Args:
        facts: of the leftover.
        now_ms: the clock's time, never a time that a user made up.
    """
    if (refusal := _REFUSALS.get(facts.kind)) is not None:
        return SweepVerdict(SweepAct.LEAVE, refusal)
    why = _obstacle(facts, now_ms)
    if why is not None:
        return SweepVerdict(SweepAct.LEAVE, why)
    if facts.kind is LeftoverKind.STRAY_DIRECTORY:
        return SweepVerdict(SweepAct.RENAME, "a stray directory is renamed first, and unlinked after the delay")
    return SweepVerdict(SweepAct.UNLINK, "its delay is over")


def _obstacle(facts: LeftoverFacts, now_ms: int) -> str | None:
    """Return why a leftover stays although its kind may go; None if it goes."""
    if (why := _why_kept(facts)) is not None:
        return why
    if facts.nested is not None:
        return f"holds a directory, {facts.nested}, which is not Kafka's: look at it first"
    if facts.kind is LeftoverKind.STRAY_DIRECTORY and facts.new_name is None:
        return "its name as that of a deleted partition is taken, or would not be one of Kafka's"
    if facts.due_ms is not None and facts.due_ms > now_ms:
        return f"its delay (file.delete.delay.ms) ends at {moment(facts.due_ms)}"
    return None


def _why_kept(facts: LeftoverFacts) -> str | None:
    """Return who may want a leftover back; None if nobody does."""
    if facts.is_held:
        return "its partition is on hold after a restore, and may get it back: restore --release ends the hold"
    if facts.sole_copy is not None:
        return _kept_as_sole_copy(facts.sole_copy)
    return _why_needed(facts) if facts.kind is LeftoverKind.DELETED_FILE else None


def _kept_as_sole_copy(sole: SetAside) -> str:
    """Return the sentences that say that a directory has the only copy of records, and how to put them back."""
    holds = f"may be the only copy of {sole.topic_partition}, offsets {sole.first_offset} to {sole.end_offset - 1}"
    how = take_back(sole)
    return f"{holds}, which belongs here: {how[0].lower()}{how[1:]}; or move the directory to a safe place"


def _why_needed(facts: LeftoverFacts) -> str | None:
    """Return why a log may need a ``.deleted`` file of it; None if it does not."""
    if facts.unknown_because is not None:
        return f"nobody knows whether the log needs it: {facts.unknown_because}"
    return _kept_as_only_copy(PurePath(facts.name), facts.only_copy) if facts.only_copy else None


def _kept_as_only_copy(path: PurePath, copy: OnlyCopy) -> str:
    """Return that a log lacks what a ``.deleted`` file has, and how it comes back."""
    lacks = f"may be the only copy of offsets {copy.first_offset} to {copy.last_offset}, which the log lacks"
    if not path.name.endswith(_RETIRED_LOG):
        base_offset = path.name.partition(".")[0]
        return f"belongs to {base_offset}{_RETIRED_LOG}, which {lacks}"
    return f"{lacks}: {bring_back(path, copy)}"


def bring_back(path: PurePath, copy: OnlyCopy) -> str:
    """Return how a ``.deleted`` log, and what waits beside it, become a part of the log again."""
    if copy.is_taken:
        plain = path.name.removesuffix(FileState.DELETED)
        return f"move the file to a safe place before the broker starts; {plain} is there, too: compare the two"
    also = f", and off those beside it ({', '.join(copy.others)})" if copy.others else ""
    return (
        f"while the broker is stopped, take .deleted off its name{also}, and run logcleaner verify --repair "
        f"{path.parent.name}; or move the file to a safe place"
    )


def only_copy_findings(found: Iterable[tuple[str, OnlyCopy]]) -> Iterator[Finding]:
    """Yield a finding for each ``.deleted`` log, by its path, that may be the only copy of records."""
    for path, copy in found:
        name = PurePath(path).name
        text = (
            f"Records are missing: the log lacks offsets {copy.first_offset} to {copy.last_offset}, and {name} has"
            " them. Do not start the broker: its start deletes this file."
        )
        how = bring_back(PurePath(path), copy)
        remedy = f"{how[0].upper()}{how[1:]}."
        yield Finding(FindingCode.OFFSET_GAP, Harm.DATA_LOST, path, text, remedy, offset=copy.first_offset)
