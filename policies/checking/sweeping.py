"""Decide what a sweep does with a leftover that a person named: unlink it, rename it first, or leave it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from policies.reasons import moment


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
    """Its path from the log dir."""
    kind: LeftoverKind
    size_bytes: int = 0
    files: int = 0
    due_ms: int | None = None
    """When its delay is over; None if it has none yet."""
    is_held: bool = False
    """Whether its partition is on hold after a restore."""
    new_name: str | None = None
    """Of a stray directory: its name as one of a deleted partition; None if no such name fits."""
    nested: str | None = None
    """A directory within the directory, which is not Kafka's."""


class SweepVerdict(NamedTuple):
    """The decision on a leftover, and the reason for it."""

    act: SweepAct
    text: str


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
    if facts.is_held:
        return "its partition is on hold after a restore, and may get it back: restore --release ends the hold"
    if facts.nested is not None:
        return f"holds a directory, {facts.nested}, which is not Kafka's: look at it first"
    if facts.kind is LeftoverKind.STRAY_DIRECTORY and facts.new_name is None:
        return "its name as that of a deleted partition is taken, or would not be one of Kafka's"
    if facts.due_ms is not None and facts.due_ms > now_ms:
        return f"its delay (file.delete.delay.ms) ends at {moment(facts.due_ms)}"
    return None
