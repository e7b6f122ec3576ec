"""Tell the moments at which time alone changes something about a partition, and the change.

Each moment is exact: a millisecond earlier the change has not come. It holds as long as no file changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from policies.compaction import Cleanable
from policies.explain.fates import Case, SegmentFate
from policies.explain.rolling import roll_of
from policies.plan import PartitionPlan
from policies.reasons import INT64_MAX, ReasonCode, counted, size

_MOMENTS_MAX: Final = 64
"""The most moments that are tried to find the one at which a round begins."""


class ChangeCode(StrEnum):
    """The closed list of changes (docs/explain.md)."""

    EXPIRY = "EXPIRY"
    COMPACTION_LAG_OVER = "COMPACTION_LAG_OVER"
    COMPACTION = "COMPACTION"
    ROLL = "ROLL"
    DELETE_HORIZON = "DELETE_HORIZON"
    DELETED_FILES = "DELETED_FILES"


class ComingChange(NamedTuple):
    """Something that changes at a moment, if nobody changes a file or the configuration before."""

    at_ms: int
    code: ChangeCode
    text: str
    first_base_offset: int | None = None
    """The first segment that the change is about; None if it is about no segment."""
    last_base_offset: int | None = None
    size_bytes: int | None = None


def coming_changes(case: Case) -> tuple[ComingChange, ...]:
    """Return the changes after now, the next one first. There is at most one change of each code."""
    now_ms = case.request.now_ms
    found = list(_roll(case))
    if case.planned.guard is None and not case.is_exempt:
        found += [*_expiry(case), *_delete_horizon(case), *_deleted_files(case)]
        if case.intended.section is not None:
            found += _of_compaction(case, case.intended.section)
    return tuple(sorted(change for change in found if now_ms < change.at_ms < INT64_MAX))


def _expiry(case: Case) -> Iterator[ComingChange]:
    """Yield the next expiry: the oldest segment that stays, and all segments that expire with it."""
    kept = case.fates[case.deleted :]
    if not kept or (at_ms := kept[0].expires_ms) is None:
        return
    together = [fate for fate in kept if fate.expires_ms == at_ms]
    what = f"{_segments(together)} can be deleted by retention.ms"
    yield ComingChange(at_ms, ChangeCode.EXPIRY, what, *_range(together))


def _of_compaction(case: Case, section: Cleanable) -> Iterator[ComingChange]:
    """Yield the end of the lag that bounds the dirty section, and the moment at which a round is due."""
    lag_ms = section.bound.until_ms if section.bound.code is ReasonCode.MIN_COMPACTION_LAG else None
    if lag_ms is not None:
        yield from _lag_over(case, section, lag_ms)
    if case.intended.compaction is None:
        yield from _round_due(case)


def _lag_over(case: Case, section: Cleanable, at_ms: int) -> Iterator[ComingChange]:
    """Yield the end of a lag, unless the last stable offset then bounds the section at the same segment."""
    then = case.planned_at(at_ms)
    after = then.section.first_uncleanable_offset if then.section else section.first_uncleanable_offset
    freed = [fate for fate in case.fates if section.first_uncleanable_offset <= fate.facts.base_offset < after]
    if not freed:
        return
    what = f"min.compaction.lag.ms is over for {_segments(freed)}"
    yield ComingChange(at_ms, ChangeCode.COMPACTION_LAG_OVER, f"{what}: {_outcome(then)}", *_range(freed))


def _outcome(then: PartitionPlan) -> str:
    if then.compaction:
        return "a round is due"
    ratio = then.section.dirty_ratio if then.section else 0.0
    return f"the dirty ratio is then {ratio:.2f}, which is not enough for a round"


def _round_due(case: Case) -> Iterator[ComingChange]:
    """Yield the first moment at which a round is due, by the lags, ``max.compaction.lag.ms`` and what expires."""
    policy, now_ms = case.planned.policy, case.request.now_ms
    ends_ms = {
        segment.largest_timestamp_ms + policy.min_compaction_lag_ms
        for segment in case.facts.segments[:-1]
        if policy.min_compaction_lag_ms > 0
    }
    oldest_ms = [segment.first_batch_ms for segment in case.facts.segments[:-1] if segment.first_batch_ms > 0]
    ends_ms |= {first_ms + policy.max_compaction_lag_ms + 1 for first_ms in oldest_ms}
    ends_ms |= {fate.expires_ms for fate in case.fates if fate.expires_ms is not None}  # deletions change the ratio
    for at_ms in sorted(end_ms for end_ms in ends_ms if now_ms < end_ms < INT64_MAX)[:_MOMENTS_MAX]:
        then = case.planned_at(at_ms)
        if then.compaction:
            what = f"a round is due: it would read {size(then.compaction.size_bytes)}"
            bases = [segment.base_offset for segment in then.compaction.segments]
            place = bases[0], bases[-1], then.compaction.size_bytes
            yield ComingChange(at_ms, ChangeCode.COMPACTION, what, *place)
            return


def _roll(case: Case) -> Iterator[ComingChange]:
    """Yield the moment from which the next record of a broker closes the active segment."""
    roll = roll_of(case.facts, case.planned.policy, case.seen.active)
    if case.seen.locked_by is None or roll is None or roll.earliest_ms is None:
        return
    active = case.fates[-1]
    what = f"the next record that is appended closes the active segment {active.facts.base_offset} ({roll.key})"
    yield ComingChange(roll.earliest_ms, ChangeCode.ROLL, what, *_range([active]))


def _delete_horizon(case: Case) -> Iterator[ComingChange]:
    horizons = case.seen.horizons
    if horizons.earliest_ms is None or not case.planned.policy.cleanup_compact:
        return
    what = "the first tombstones or markers" if horizons.batches > 1 else "the tombstones or the marker"
    text = f"{what} in {counted(horizons.batches, 'batch', 'batches')} may go, in the next round"
    yield ComingChange(horizons.earliest_ms, ChangeCode.DELETE_HORIZON, text)


def _deleted_files(case: Case) -> Iterator[ComingChange]:
    waiting = case.seen.waiting
    if waiting is None:
        return
    first = "the first of " if waiting.files > 1 else ""
    text = f"{first}{counted(waiting.files, '.deleted file')} ({size(waiting.size_bytes)}) can be unlinked by clean"
    yield ComingChange(waiting.first_due_ms, ChangeCode.DELETED_FILES, text, size_bytes=waiting.size_bytes)


def _segments(fates: list[SegmentFate]) -> str:
    """Return segments in words: ``segment 40 (1.0 MiB)``, ``3 segments from 40 on (2.9 MiB)``."""
    size_bytes = sum(fate.facts.size_bytes for fate in fates)
    if len(fates) == 1:
        return f"segment {fates[0].facts.base_offset} ({size(size_bytes)})"
    start = f" from {fates[0].facts.base_offset} on" if fates else ""
    return f"{counted(len(fates), 'segment')}{start} ({size(size_bytes)})"


def _range(fates: list[SegmentFate]) -> tuple[int | None, int | None, int]:
    if not fates:
        return None, None, 0
    bases = fates[0].facts.base_offset, fates[-1].facts.base_offset
    return *bases, sum(fate.facts.size_bytes for fate in fates)
