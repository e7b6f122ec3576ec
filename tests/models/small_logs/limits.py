"""A reason that rests on a limit names it, and its numbers bear its code out; said without the policies."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from policies.config.policy import TopicPolicy
from policies.reasons import Reason, ReasonCode, Verdict
from tests.models.small_logs.invariants import demand

RELATIONS: Final[dict[ReasonCode, tuple[str, Callable[[Any, Any], bool]]]] = {
    ReasonCode.RETENTION_TIME: ("retention.ms", operator.gt),
    ReasonCode.TIME_NOT_REACHED: ("retention.ms", lambda age_ms, limit_ms: 0 <= age_ms <= limit_ms),
    ReasonCode.FUTURE_TIMESTAMP: ("retention.ms", lambda age_ms, _: age_ms < 0),
    ReasonCode.BEHIND_KEPT_SEGMENT: ("retention.ms", operator.gt),
    ReasonCode.RETENTION_SIZE: ("retention.bytes", operator.ge),
    ReasonCode.WITHIN_SIZE: ("retention.bytes", operator.lt),
    ReasonCode.DIRTY_RATIO_LOW: ("min.cleanable.dirty.ratio", operator.le),
    ReasonCode.MIN_COMPACTION_LAG: ("min.compaction.lag.ms", operator.lt),
}
_DUE_BY: Final = ("min.cleanable.dirty.ratio", "max.compaction.lag.ms")


def check_limits(verdicts: Iterable[Verdict], policy: TopicPolicy, *, forced: bool) -> None:
    """Each limit is the one of the policy, with its place; the code follows from the two numbers."""
    for reason in {verdict.reason for verdict in verdicts}:
        if (limit := reason.limit) is None:
            names_none = reason.code not in RELATIONS and (forced or reason.code is not ReasonCode.DIRTY)
            demand(names_none, "no limit named", reason)
            continue
        field = limit.key.replace(".", "_")
        own = policy.cleanup_policy if limit.actual is None else getattr(policy, field)
        value = ",".join(limit.value) if isinstance(limit.value, tuple) else limit.value
        demand((value, limit.origin) == (own, policy.origin(limit.key)), "another limit than the policy's", reason)
        demand(_bears_out(reason), "a limit does not bear its code out", reason)


def _bears_out(reason: Reason) -> bool:
    limit = reason.limit
    if limit is None or limit.actual is None:
        return reason.code in (ReasonCode.NO_LIMIT, ReasonCode.POLICY_EMPTY)
    if reason.code is ReasonCode.DIRTY:
        return limit.key in _DUE_BY and limit.actual > limit.value  # type: ignore[operator]
    key, relation = RELATIONS[reason.code]
    return limit.key == key and relation(limit.actual, limit.value)
