"""Compute when time retention will next delete a segment of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from policies.plan import PartitionPlan
from policies.reasons import Action, ReasonCode, Verdict
from policies.retention import retention

_OF_ANOTHER_QUESTION: Final = frozenset({ReasonCode.NOT_ASKED, ReasonCode.TARGET_MET, ReasonCode.NO_GAIN})


def next_expiry_ms(planned: PartitionPlan, now_ms: int) -> int | None:
    """Return the epoch ms from which the oldest segment may be deleted.

    Return ``now_ms`` if retention may delete the segment already, and None if no limit of time applies.
    """
    if planned.policy.unknown or planned.policy.remote_storage_enable or planned.facts.held_since_ms is not None:
        return None
    if planned.deletion:
        return now_ms
    verdicts = retention_verdicts(planned, now_ms)
    if not verdicts:
        return None
    return now_ms if verdicts[0].action is Action.DELETE else verdicts[0].reason.until_ms


def retention_verdicts(planned: PartitionPlan, now_ms: int) -> Sequence[Verdict]:
    """Return retention's verdicts. Ask retention again only if a compaction or a guard has replaced its verdicts."""
    facts, policy = planned.facts, planned.policy
    if not policy.cleanup_delete:  # only the log start offset deletes, and the second base decides
        return retention(replace(facts, segments=facts.segments[:2]), policy, now_ms).verdicts
    is_its_own = not any(verdict.reason.code in _OF_ANOTHER_QUESTION for verdict in planned.verdicts[:1])
    if is_its_own and planned.guard is None and not policy.cleanup_compact:
        return planned.verdicts
    return retention(facts, policy, now_ms).verdicts
