"""Tell the effect of later runs: when each segment that stays may go, and which ``retention.ms`` would delete it.

The rules are those of ``policies.retention``: whole segments go, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policies.config.config_layers import is_internal
from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.plan import Only, PartitionPlan, Request
from policies.planning import retention_verdicts
from policies.reasons import INT64_MAX, Action
from policies.retention import barrier, below_log_start, left_bytes, newest


class Expiring(NamedTuple):
    """A segment that stays now, and the first moment (epoch ms) at which time retention may delete it."""

    at_ms: int
    size_bytes: int
    """The size of its ``.log`` and index files."""


class Threshold(NamedTuple):
    """A segment, and the greatest ``retention.ms`` that deletes it now."""

    limit_ms: int
    """The limit; 2^63-1 for a segment that goes with any ``retention.ms``: by size, or by the log start offset."""
    size_bytes: int
    """The size of its ``.log`` and index files."""


def releases(planned: PartitionPlan, request: Request) -> Iterator[Expiring]:
    """Yield the segments that stay now and that time alone will let go.

    Args:
        planned: the plan of the partition.
        request: of the plan. For a run that leaves retention out, nothing is yielded.
    """
    facts, policy = planned.facts, planned.policy
    if request.only is Only.COMPACTION or not _is_deletable(planned) or policy.retention_ms < 0:
        return
    gone = len(planned.deletion.segments) if planned.deletion else 0
    verdicts = retention_verdicts(planned, request.now_ms)
    for segment, verdict in zip(facts.segments[gone:], verdicts[gone:], strict=False):
        until_ms = verdict.reason.until_ms
        if verdict.action is Action.KEEP and until_ms is not None and request.now_ms < until_ms < INT64_MAX:
            yield Expiring(until_ms, segment.size_bytes + segment.companions_bytes)


def thresholds(planned: PartitionPlan, now_ms: int) -> Iterator[Threshold]:
    """Yield each segment that some ``retention.ms`` deletes, oldest first; the other limits hold as they are.

    ``--set retention.ms`` does not reach topics named ``__*``: their segments go by the configuration in force.
    Segments of topics that are only compacted go by the log start offset alone.

    Args:
        planned: the plan of the partition.
        now_ms: epoch ms.
    """
    facts, policy = planned.facts, planned.policy
    if is_internal(policy.topic) or not _is_deletable(planned):
        gone = planned.deletion.segments if planned.deletion else ()
        yield from (Threshold(INT64_MAX, s.size_bytes + s.companions_bytes) for s in gone)
        return
    always, youngest_ms = _gone_by_other_limits(facts, policy), INT64_MAX
    for place, segment in enumerate(facts.segments):
        if place >= always:
            if barrier(facts, place):
                return
            youngest_ms = min(youngest_ms, now_ms - newest(segment, policy, now_ms)[0])
            if youngest_ms <= 0:
                return
        limit_ms = INT64_MAX if place < always else youngest_ms - 1
        yield Threshold(limit_ms, segment.size_bytes + segment.companions_bytes)


def _is_deletable(planned: PartitionPlan) -> bool:
    """Return whether retention by time or size works on the partition."""
    policy = planned.policy
    is_free = planned.facts.held_since_ms is None and planned.guard is None
    return policy.cleanup_delete and not policy.is_hands_off and is_free


def _gone_by_other_limits(log: PartitionFacts, policy: TopicPolicy) -> int:
    """Return how many of the oldest segments go by the log start offset and by ``retention.bytes``."""
    gone, left = len(below_log_start(log)), left_bytes(log)
    if policy.retention_bytes >= 0:
        while gone < len(log.segments) and left[gone + 1] >= policy.retention_bytes and not barrier(log, gone):
            gone += 1
    return gone
