"""Decide which repairs can be taken back: facts in, verdicts out.

A repair comes back if what it replaced still waits, unchanged, and if the file is still what the repair made of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from policies.reasons import moment


class Content(NamedTuple):
    """The size and the CRC-32 of a file's bytes."""

    size_bytes: int
    crc: int


class RepairNote(NamedTuple):
    """One repair as the journal has it."""

    time_ms: int
    """The moment just before the repair, epoch ms."""
    file_name: str
    kind: str
    kept: Content | None
    """The file that was replaced; None if there was none, or if zeros were cut off."""
    made: Content | None
    """The new file; None if zeros were cut off."""
    cut_from: int | None
    cut_to: int | None
    """The sizes of a ``.log`` before and after its zeros, or what else was no batch, were cut off."""
    tail: Content | None = None
    """The bytes that were cut off and kept; None if they were zeros."""
    tail_name: str = ""
    """The name of the file that keeps it."""


class FoundContent(NamedTuple):
    """The file of a note as it is now, and what waits of it. None where there is no file."""

    present: Content | None
    waiting: Content | None


class RevertCode(StrEnum):
    """The closed list of verdicts on a repair (docs/repair.md)."""

    REVERTIBLE = "REVERTIBLE"
    CHANGED_SINCE = "CHANGED_SINCE"


class RevertVerdict(NamedTuple):
    """The decision on one repair, with its reason."""

    note: RepairNote
    code: RevertCode
    text: str


def revert_verdicts(found: Iterable[tuple[RepairNote, FoundContent]]) -> tuple[RevertVerdict, ...]:
    """Decide on the newest repair of each file. A repair of which nothing waits any more is left out."""
    return tuple(verdict for note, content in found if (verdict := _verdict(note, content)))


def _verdict(note: RepairNote, found: FoundContent) -> RevertVerdict | None:
    done = f"repaired {moment(note.time_ms)}"
    if note.made is None:
        is_as_cut = found.present is not None and found.present.size_bytes == note.cut_to
        if is_as_cut and note.tail != found.waiting:
            return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.tail_name} is not what the repair kept")
        return RevertVerdict(note, RevertCode.REVERTIBLE, done) if is_as_cut else None
    if note.kept is None or found.waiting is None or found.present is None:
        return None  # without the file itself, its segment was deleted since
    if found.waiting != note.kept:
        return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.file_name}.deleted is not what the repair kept")
    if found.present != note.made:
        return RevertVerdict(note, RevertCode.CHANGED_SINCE, f"{note.file_name} is not what the repair made of it")
    return RevertVerdict(note, RevertCode.REVERTIBLE, done)
