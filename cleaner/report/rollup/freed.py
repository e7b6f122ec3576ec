"""The space that a run frees, at once and later: the same figures and words for every report."""

from __future__ import annotations

from typing import Final, NamedTuple

from cleaner.engine.outcome import Outcome
from cleaner.report.page import size
from cleaner.report.totals import Totals
from policies.plan import Plan
from policies.reasons import duration, moment

_MINUTE_MS: Final = 60_000
_DATE: Final = len("2026-11-23")
_CLOCK: Final = slice(_DATE + 1, _DATE + 6)


class Freed(NamedTuple):
    """The blocks that a run frees, in bytes, those of files that earlier runs had renamed to ``.deleted`` included."""

    now_bytes: int
    """What is free at the end of the run; below 0 if it takes more than before, until the files that wait go."""
    later_bytes: int
    """What is free once the files that wait go."""
    of_bytes: int
    """The logs before the run, and files that no log has any more."""
    is_estimate: bool
    """Compactions may free more, because the data was not read."""

    @property
    def in_the_end_bytes(self) -> int:
        """The bytes that are free once nothing waits."""
        return self.now_bytes + self.later_bytes


def freed_of(plan: Plan, totals: Totals, outcome: Outcome) -> Freed:
    """Return what a run has freed, or would free."""
    reclaimed_bytes, swept_bytes = totals.space.reclaimed_disk_bytes, outcome.swept_disk_bytes
    later_bytes = 0 if plan.request.is_at_once else totals.space.waiting_disk_bytes
    now_bytes = reclaimed_bytes + swept_bytes - later_bytes
    if totals.is_estimate:
        later_bytes, now_bytes = min(later_bytes, reclaimed_bytes), max(now_bytes, swept_bytes)
    return Freed(now_bytes, max(later_bytes, 0), totals.disk_bytes_before + swept_bytes, totals.is_estimate)


def freed_words(plan: Plan, totals: Totals, outcome: Outcome, ended_ms: int) -> str:
    """Return what the file systems have gained, and what they gain when; empty if there is nothing to say."""
    if not (totals.deleted_segments or totals.compacted_partitions or outcome.swept_bytes):
        return ""
    freed = freed_of(plan, totals, outcome)
    of = f"of {size(freed.of_bytes)}"
    if totals.is_estimate:
        if not totals.space.reclaimed_disk_bytes + outcome.swept_disk_bytes:
            return "what compaction saves, which nobody knows without --exact"
        of = f"or more {of}"
    if not freed.later_bytes:
        return f"{size(freed.now_bytes)} {of}"
    when = _when(plan, outcome, ended_ms)
    if freed.now_bytes > 0:
        return f"{size(freed.now_bytes)} {of}; {size(freed.later_bytes)} more {when}"
    # the compacted files stay, so what they take is never free
    taken = f"{size(-freed.now_bytes)} more are taken: old and compacted files"
    meanwhile = f"; until then {taken}" if freed.now_bytes else ""
    return f"{_nothing(outcome)}; {size(freed.in_the_end_bytes)} {of} {when}{meanwhile}"


def freed_figure(freed: Freed, outcome: Outcome) -> str:
    """Return what is free at the end of the run, in a few words."""
    if freed.now_bytes <= 0 < freed.later_bytes:
        return _nothing(outcome)
    return f"{'at least ' if freed.is_estimate else ''}{size(freed.now_bytes)}"


def _nothing(outcome: Outcome) -> str:
    return f"nothing {'at once' if outcome.dry_run else 'yet'}"


def _when(plan: Plan, outcome: Outcome, ended_ms: int) -> str:
    """Return when the files that wait go, who unlinks them, and how to have it at once."""
    asked_ms = plan.request.delete_delay_ms
    delays_ms = {p.policy.file_delete_delay_ms for p in plan.partitions if p.deletion or p.compaction}
    if asked_ms is not None:
        delays_ms = {asked_ms}
    if outcome.dry_run:
        spans = " to ".join(duration(delay_ms) for delay_ms in _ends(delays_ms))
        return f"{spans} later, by the next clean (--delete-delay 0: at once)"
    times = " to ".join(_clock(ended_ms + delay_ms, ended_ms) for delay_ms in _ends(delays_ms))
    return f"at {times} UTC, by the next clean (--delete-delay 0: now)"


def _ends(delays_ms: set[int]) -> list[int]:
    return sorted({min(delays_ms), max(delays_ms)})


def _clock(time_ms: int, today_ms: int) -> str:
    """Return a moment to the minute, not before it; with its date unless that is today's."""
    told = moment(-(-time_ms // _MINUTE_MS) * _MINUTE_MS)
    if told[:_DATE] == moment(today_ms)[:_DATE]:
        return told[_CLOCK]
    return f"{told[:_DATE]} {told[_CLOCK]}" if told.endswith("Z") else told
