"""Guard rails: what holds a plan back although the configuration allows it, until a person says ``--yes``.

Pure functions: facts in, the reason to stop out, or None. The plan asks them, so a dry run and a run agree.
"""

from __future__ import annotations

from policies.config import TopicPolicy
from policies.facts import PartitionFacts
from policies.reasons import Reason, ReasonCode


def delete_ratio_guard(facts: PartitionFacts, deleted: int, policy: TopicPolicy) -> Reason | None:
    """Whether deleting the oldest segments takes more of a partition than ``max.delete.ratio`` lets go unasked.

    Args:
        facts: of the partition.
        deleted: how many of its oldest segments the plan deletes.
        policy: with the ratio, of the bytes of all ``.log`` files; None is no limit.
    """
    ratio, all_bytes = policy.max_delete_ratio, facts.size_bytes
    deleted_bytes = sum(segment.size_bytes for segment in facts.segments[:deleted])
    if ratio is None or deleted_bytes <= ratio * all_bytes:
        return None
    what = f"{deleted} of {len(facts.segments)} segments, {deleted_bytes} of {all_bytes} bytes, would be deleted"
    limit = f"max.delete.ratio={policy.shown('max.delete.ratio')} ({policy.origin('max.delete.ratio')})"
    return Reason(ReasonCode.MAX_DELETE_RATIO, f"{what}, more than {limit} allows without --yes")
