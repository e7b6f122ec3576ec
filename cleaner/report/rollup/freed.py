"""The space that a run frees, at once and later: the same figures and words for every report."""

from __future__ import annotations

from typing import Final, NamedTuple

from cleaner.engine.outcome import Outcome
from cleaner.report.page import counted, size
from cleaner.report.totals import Totals
from policies.plan import Plan
from policies.reasons import duration, moment

_MINUTE_MS: Final = 60_000
_SPELLED: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", _MINUTE_MS), ("second", 1000))
_DATE: Final = len("2026-11-23")
_CLOCK: Final = slice(_DATE + 1, _DATE + 6)


class Freed(NamedTuple):
    """The blocks that a run frees, in bytes, with the blocks of files that earlier runs had renamed to ``.deleted``."""

    now_bytes: int
    """The bytes that the run has freed at its end; below 0 if it takes more than before, until the waiting files go."""
    later_bytes: int
    """The bytes that follow once the waiting files go."""
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
    by = f"by the next clean (--delete-delay 0: {'at once' if outcome.dry_run else 'now'})"
    if freed.now_bytes > 0:
        return f"{size(freed.now_bytes)} {of}; {size(freed.later_bytes)} more {when}, {by}"
    # the compacted files stay, so what they take is never free
    taken = f"{size(-freed.now_bytes)} more are taken: old and compacted files"
    meanwhile = f"; until then {taken}" if freed.now_bytes else ""
    nothing = "" if outcome.dry_run else "nothing yet; "
    return f"{nothing}{size(freed.in_the_end_bytes)} {of} {when}, {by}{meanwhile}"


def freed_figure(plan: Plan, totals: Totals, outcome: Outcome, ended_ms: int) -> str:
    """Return what is freed and when, in a few words: ``13.3 MiB in 1 minute``."""
    freed = freed_of(plan, totals, outcome)
    least = "at least " if freed.is_estimate else ""
    if freed.now_bytes <= 0 < freed.later_bytes:
        return f"{least}{size(freed.in_the_end_bytes)} {_when(plan, outcome, ended_ms)}"
    return f"{least}{size(freed.now_bytes)}"


def _when(plan: Plan, outcome: Outcome, ended_ms: int) -> str:
    """Return when the files that wait go."""
    asked_ms = plan.request.delete_delay_ms
    delays_ms = {p.policy.file_delete_delay_ms for p in plan.partitions if p.deletion or p.compaction}
    if asked_ms is not None:
        delays_ms = {asked_ms}
    if outcome.dry_run:
        return f"in {' to '.join(map(_spelled, _ends(delays_ms)))}"
    times = " to ".join(_clock(ended_ms + delay_ms, ended_ms) for delay_ms in _ends(delays_ms))
    return f"at {times} UTC"


def _spelled(span_ms: int) -> str:
    """Return a span with its unit in full if that is a whole number: ``1 minute``, ``36 hours``, but ``90 seconds``."""
    for unit, unit_ms in _SPELLED:
        if span_ms >= unit_ms and not span_ms % unit_ms:
            return counted(span_ms // unit_ms, unit)
    return duration(span_ms)


def _ends(delays_ms: set[int]) -> list[int]:
    return sorted({min(delays_ms), max(delays_ms)})


def _clock(time_ms: int, today_ms: int) -> str:
    """Return a moment to the minute, not before it; with its date unless that is today's."""
    told = moment(-(-time_ms // _MINUTE_MS) * _MINUTE_MS)
    if told[:_DATE] == moment(today_ms)[:_DATE]:
        return told[_CLOCK]
    return f"{told[:_DATE]} {told[_CLOCK]}" if told.endswith("Z") else told
