"""Findings of ``.swap`` logs that are empty or damaged: a broker would put them in the place of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final, NamedTuple

from policies.findings.findings import Finding, FindingCode, Harm

_ISSUE: Final = "KAFKA-12520"
_THROWN_AWAY: Final = (
    "Before the broker starts, run logcleaner clean, which throws the .swap away, or move it out of the directory; its"
    " sources are still here."
)
_KEPT: Final = (
    "Before the broker starts, copy the directory to a safe place: the start also deletes the .deleted files, which may"
    " have the records. Then bring the partition back from another replica, or from a backup."
)


class HollowSwapFacts(NamedTuple):
    """The facts about one ``.swap`` log that is empty or damaged. No process holds the lock of its log dir."""

    path: str
    damage: str | None
    """The first damage; None if the file is empty."""
    position: int
    """Byte of the damage."""
    replaced: str | None
    """The name of the plain log that has records where the swap begins; None if there is none."""
    is_undone: bool
    """Whether our recovery throws it away; else it refuses the partition."""


def swap_findings(found: Iterable[HollowSwapFacts]) -> Iterator[Finding]:
    """Yield a finding for each ``.swap`` log that a start of the broker would put in the place of records."""
    for swap in found:
        what = f"The file is damaged at byte {swap.position:,} ({swap.damage})" if swap.damage else "The file is empty"
        if swap.replaced is None:
            so = "the next start of the broker makes it a part of the log, with the damage"
        elif swap.replaced == PurePath(swap.path).name.removesuffix(".swap"):
            so = f"the next start of the broker puts it in the place of {swap.replaced}, which has records"
        else:
            so = f"the next start of the broker puts it beside {swap.replaced}, whose records from there on go unread"
        remedy = _THROWN_AWAY if swap.is_undone else _KEPT
        yield Finding(
            FindingCode.SWAP_LEFT, Harm.DATA_LOST, swap.path, f"{what}: {so}.", remedy,
            swap.position if swap.damage else None, kafka_issue=_ISSUE,
        )  # fmt: skip
