"""The time that file systems last, in words and as JSON; and the words of a dry run for a later moment."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

from cleaner.report.page import Page
from policies.forecast.births import DAY_MS, WINDOW_MS, seen_ms
from policies.plan import Plan
from policies.reasons import counted, duration, moment, size
from storage.directory import is_stored

if TYPE_CHECKING:
    from cleaner.engine.outcome import Outcome
    from policies.forecast.runway import Runway

YEARS_MAX: Final = 10
_FULL_BELOW_BYTES: Final = 4096
"""The free bytes below which a disk is full: with less than a block, nothing can be written."""
_MINUTE_MS: Final = 60_000


def lines(runways: Sequence[Runway], page: Page, label: str = "Runway", width: int = 13) -> None:
    """Add a line for each file system to a page.

    Args:
        runways: of the file systems.
        page: the page.
        label: the word before each line.
        width: of the label's column.
    """
    for runway in runways:
        whose = f"{', '.join(runway.log_dirs)}: " if len(runways) > 1 else ""
        words = f"{whose}{_told(runway)}"
        page.line(f"{label:{width}}  {words}", hanging=width + 2)


def lasts(runway: Runway) -> str:
    """Return the time until a file system is full, in a few words.

    The days of a runway begin behind a clean. A file system that is full needs that clean first.
    """
    is_full = runway.free_bytes < _FULL_BELOW_BYTES
    words = _lasts_behind_a_clean(runway)
    if not words:
        return "full now, and after a clean" if is_full else "full now"
    return f"full now; after a clean: {words}" if is_full else words


def without(left_out: int) -> str:
    """Return what a runway leaves out."""
    return f"without {counted(left_out, 'partition')}"


def in_part(counted_: int, left_out: int) -> str:
    """Return the number of partitions whose growth is known, among all."""
    return f"{counted_} of {counted(counted_ + left_out, 'partition')}"


def ahead_ms(plan: Plan) -> int:
    """Return how far the moment of a plan lies after the clock's, in whole minutes; 0 for a plan for now or the
    past.
    """
    return round((plan.request.now_ms - seen_ms(plan)) / _MINUTE_MS) * _MINUTE_MS


def opening(plan: Plan) -> str:
    """Return the first line of a dry run."""
    if ahead := ahead_ms(plan):
        when = f"at {moment(plan.request.now_ms)}, in {duration(ahead)}"
        return f"DRY RUN - nothing is changed; this is what a run would do {when}, to what is there today"
    return "DRY RUN - nothing is changed; this is what a run would do"


def closing(plan: Plan, outcome: Outcome) -> str:
    """Return the last line of a dry run that found something to do."""
    if ahead_ms(plan):
        return "DRY RUN - nothing was changed. This plan is for a later time: a run without --now does what is due now."
    if outcome.full_log_dirs:
        return "DRY RUN - nothing was changed. On a full disk a run needs --delete-delay 0, or logcleaner free before."
    into = ", and with --output DIR" if is_of_store(plan) else ""
    return f"DRY RUN - nothing was changed. To do it, run the same command without --dry-run{into}."


def is_of_store(plan: Plan) -> bool:
    """Return whether a plan is of log dirs in a store or a tier, which a run copies, and never changes."""
    return any(is_stored(log_dir.facts.path) for log_dir in plan.log_dirs)


def documents(runways: Sequence[Runway]) -> list[dict[str, Any]]:
    """Return the runways as JSON: ``days`` is null if the file system does not fill, or if that is not known."""
    return [
        {
            "log_dirs": list(runway.log_dirs),
            "free_bytes": runway.free_bytes,
            "written_bytes_per_day": runway.born_bytes_per_day,
            "fills": None if runway.days is None or runway.is_endless_in_part else not runway.is_endless,
            "days": None if runway.days in {None, inf} else round(runway.days, 2),
            "partitions": runway.counted,
            "partitions_left_out": runway.left_out,
        }
        for runway in runways
    ]


def _told(runway: Runway) -> str:
    window = f"last {WINDOW_MS // DAY_MS} days"
    if runway.days is None:
        return f"{lasts(runway)}: no partition tells how much was written in the {window}"
    if runway.is_endless_in_part:
        rate = size(runway.born_bytes_per_day)
        return f"{lasts(runway)}, at {rate} a day ({window}); the growth of the others is not known"
    rest = f", {without(runway.left_out)}" if runway.left_out else ""
    return f"{lasts(runway)} at {size(runway.born_bytes_per_day)} a day ({window}{rest})"


def _span(days: float) -> str:
    """Return a number of days in words; empty if it is less than a minute."""
    if days > YEARS_MAX * 365:
        return f"more than {YEARS_MAX} years"
    left_ms = round(days * DAY_MS)
    return duration(left_ms) if left_ms >= _MINUTE_MS else ""


def _lasts_behind_a_clean(runway: Runway) -> str:
    """Return how long a file system lasts once a clean has made space; empty if the file system is full then, too."""
    if runway.days is None:
        return "not known"
    if runway.is_endless:
        return "never full"
    if runway.is_endless_in_part:
        return f"never full by the growth of {in_part(runway.counted, runway.left_out)}"
    left = _span(runway.days)
    return f"full in {left}" if left else ""
