"""Random partitions with random policies, and what an explanation observes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from policies.config.config_keys import LONG_MAX
from policies.config.policy import TopicPolicy
from policies.explain.explanation import PartitionExplanation, explain
from policies.explain.observations import ActiveUse, Observations, SegmentTimes
from policies.facts import NO_TIMESTAMP, PartitionFacts
from policies.plan import PartitionPlan, Request
from policies.planning import plan_partition
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

DAY_MS = 86_400_000
AROUND_MS = 20
"""Times lie so close together that many fall on the same millisecond, and on the borders of the limits."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A partition with its policy; ``now_ms`` is ``NOW_MS``."""

    facts: PartitionFacts
    policy: TopicPolicy
    seen: Observations

    def explained(self, now_ms: int = NOW_MS, **request: Any) -> PartitionExplanation:
        """The explanation at a moment."""
        asked = Request(now_ms, **request)
        return explain(plan_partition(self.facts, self.policy, asked), self.seen, asked)

    def planned(self, now_ms: int) -> PartitionPlan:
        """What ``clean --yes`` does at a moment."""
        return plan_partition(self.facts, self.policy, Request(now_ms, confirmed=True))


def seen_of(facts: PartitionFacts, **others: Any) -> Observations:
    """What is observed where the time indexes are whole."""
    times = tuple(SegmentTimes(s.newest_record_ms, s.newest_record_ms, s.newest_record_offset) for s in facts.segments)
    seen = {"times": times, "active": ActiveUse(), "last_stable_offset": facts.last_stable_offset, **others}
    return Observations(**seen)


def drawn(log: LogBuilder, policy: TopicPolicy, **others: Any) -> Drawn:
    """A partition from a builder."""
    facts = log.facts()
    return Drawn(facts, policy, seen_of(facts, **others))


_TIMES = st.integers(NOW_MS - AROUND_MS, NOW_MS + AROUND_MS)
_TIMES_OR_NONE = st.one_of(_TIMES, _TIMES, st.just(NO_TIMESTAMP))
_SEGMENTS = st.lists(st.tuples(st.integers(1, 40), _TIMES_OR_NONE, _TIMES, _TIMES_OR_NONE), min_size=1, max_size=6)
_SHARES = st.one_of(st.none(), st.floats(0, 1.2))
"""An offset as a share of the log; None for what there is without it."""


def _partition(
    segments: list[tuple[int, int, int, int]], is_rolled: bool, shares: tuple[float | None, ...], policy: TopicPolicy
) -> Drawn:
    log = a_log()
    for size_bytes, newest_ms, mtime_ms, first_ms in segments:
        log = log.segment(bytes=size_bytes, newest_ms=newest_ms, mtime_ms=mtime_ms, first_batch_ms=first_ms)
    if is_rolled:
        log = log.empty_active()
    end, (watermark, stable, start, cleaned) = log.drawn.log_end_offset, shares
    high_watermark = end if watermark is None else min(round(watermark * end), end)
    log = log.high_watermark(None if watermark is not None and watermark > 1.1 else high_watermark)
    if stable is not None and log.drawn.high_watermark is not None:
        log = log.last_stable(min(round(stable * high_watermark), high_watermark))
    if start is not None:
        log = log.log_start(min(round(start * high_watermark), high_watermark))
    if cleaned is not None:
        log = log.compacted_to(round(cleaned * end))
    facts = log.facts()
    return Drawn(facts, policy, seen_of(facts))


def _policy(
    cleanup: str, limits: tuple[int, int, int, int | None], ratios: tuple[float, float | None], future: str
) -> TopicPolicy:
    retention_ms, retention_bytes, least_lag_ms, more_ms = limits
    return a_policy(
        cleanup,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        min_compaction_lag_ms=least_lag_ms,
        max_compaction_lag_ms=LONG_MAX if more_ms is None else least_lag_ms + more_ms,
        min_cleanable_dirty_ratio=ratios[0],
        retention_future_timestamps=future,
        max_delete_ratio=ratios[1],
    )


_LIMITS = st.tuples(
    st.integers(-1, AROUND_MS),
    st.one_of(st.just(-1), st.integers(0, 120)),
    st.one_of(st.just(0), st.integers(1, AROUND_MS)),
    st.one_of(st.none(), st.integers(1, AROUND_MS)),
)
_RATIOS = st.tuples(st.sampled_from((0.0, 0.3, 0.5, 0.9, 1.0)), st.sampled_from((None, None, 0.5)))


def policies(*cleanup: str, future: Sequence[str] = ("off", "off", "mtime")) -> st.SearchStrategy[TopicPolicy]:
    """Policies with limits close to the numbers that are drawn for the segments.

    Args:
        cleanup: the values of ``cleanup.policy``; any if none is given.
        future: the values of ``retention.future.timestamps``.
    """
    of = cleanup or ("delete", "compact", "compact,delete", "")
    return st.builds(_policy, st.sampled_from(of), _LIMITS, _RATIOS, st.sampled_from(future))


def partitions(*cleanup: str, future: Sequence[str] = ("off", "off", "mtime")) -> st.SearchStrategy[Drawn]:
    """Partitions of up to six segments, with limits of a few milliseconds and bytes. Arguments as of ``policies``."""
    shares = st.tuples(_SHARES, _SHARES, _SHARES, _SHARES)
    return st.builds(_partition, _SEGMENTS, st.booleans(), shares, policies(*cleanup, future=future))
