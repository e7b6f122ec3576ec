"""The retention curve of a run: what each ``retention.ms`` would keep and free, over all partitions that delete."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from cleaner.report.overview.values import CurvePlace, InForce, RetentionCurve
from policies.config.config_layers import is_internal
from policies.forecast.births import DAY_MS
from policies.forecast.prospects import Threshold, thresholds
from policies.plan import Only, Plan
from policies.reasons import INT64_MAX

if TYPE_CHECKING:
    from cleaner.engine.rehearsal.what_if import Answered

_HOUR_MS: Final = 3_600_000
_ROUND_MS: Final = (
    *(hours * _HOUR_MS for hours in (1, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 3, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)),
)
"""Limits that people ask for."""
_PLACES: Final = 80
_IN_FORCE_MAX: Final = 8


def curve_of(plan: Plan, answered: Sequence[Answered] = ()) -> RetentionCurve | None:
    """Return the curve; None if no partition deletes by time, or if the run leaves retention out.

    Args:
        plan: the plan.
        answered: answers to ``--what-if``.
    """
    now_ms = plan.request.now_ms
    if plan.request.only is Only.COMPACTION:
        return None
    found = [threshold for planned in plan.partitions for threshold in thresholds(planned, now_ms)]
    if all(threshold.limit_ms == INT64_MAX for threshold in found):
        return None
    asked = {
        stated.value
        for question, _ in answered
        for stated in question.values
        if question.key == "retention.ms" and isinstance(stated.value, int) and stated.value >= 0
    }
    in_force = _in_force(plan)
    longest_ms = max(threshold.limit_ms for threshold in found if threshold.limit_ms < INT64_MAX)
    shown_ms = _shown_ms(longest_ms, [*asked, *(value.limit_ms for value in in_force)])
    rounded = sorted({*asked, *(limit_ms for limit_ms in _ROUND_MS if limit_ms <= shown_ms)})
    steps = {shown_ms * place // _PLACES for place in range(_PLACES + 1)}
    marks = {value.limit_ms for value in in_force if value.limit_ms <= shown_ms} | set(rounded)
    curve = _Curve(found, sum(p.facts.size_bytes + _companions(p.facts.segments) for p in plan.partitions))
    return RetentionCurve(
        tuple(curve.at(limit_ms) for limit_ms in sorted(steps | marks)),
        tuple(curve.at(limit_ms) for limit_ms in rounded),
        in_force,
    )


class _Curve:
    """Answers what a limit keeps and frees, from all segments by the greatest limit that deletes them."""

    def __init__(self, found: Iterable[Threshold], all_bytes: int) -> None:
        ascending = sorted(found)
        self._limits_ms = [threshold.limit_ms for threshold in ascending]
        self._bytes_before = [0, *accumulate(threshold.size_bytes for threshold in ascending)]
        self._all_bytes = all_bytes

    def at(self, limit_ms: int) -> CurvePlace:
        """Return what a limit keeps and frees: it deletes what a limit at least as great deletes, too."""
        freed = self._bytes_before[-1] - self._bytes_before[bisect_left(self._limits_ms, limit_ms)]
        return CurvePlace(limit_ms, self._all_bytes - freed, freed)


def _companions(segments: Sequence[object]) -> int:
    return sum(segment.companions_bytes for segment in segments)  # type: ignore[attr-defined]


def _shown_ms(longest_ms: int, marked_ms: Sequence[int]) -> int:
    """Return the greatest limit of the line: beyond all that is there, and beyond each mark that is not far away."""
    near = [limit_ms for limit_ms in marked_ms if limit_ms <= 3 * longest_ms]
    return max(longest_ms, _HOUR_MS, *near) * 21 // 20


def _in_force(plan: Plan) -> tuple[InForce, ...]:
    topics: defaultdict[int, set[str]] = defaultdict(set)
    sizes: defaultdict[int, int] = defaultdict(int)
    for planned in plan.partitions:
        policy = planned.policy
        if (
            policy.cleanup_delete
            and policy.retention_ms >= 0
            and not policy.is_hands_off
            and not is_internal(policy.topic)
        ):
            topics[policy.retention_ms].add(policy.topic)
            sizes[policy.retention_ms] += planned.facts.size_bytes
    return tuple(_values(topics, sizes))[:_IN_FORCE_MAX]


def _values(topics: dict[int, set[str]], sizes: dict[int, int]) -> Iterator[InForce]:
    for limit_ms in sorted(topics, key=lambda limit_ms: (-sizes[limit_ms], limit_ms)):
        yield InForce(limit_ms, len(topics[limit_ms]), sizes[limit_ms])
