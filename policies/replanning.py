"""Plans made of plans: what a run did to them, and what cannot be done.

Partitions whose files changed between the plan and its steps get a second plan. Compactions that a guard rail held
back, once they had read the records, are no part of the plan any more. Without kernels no compaction can be done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from policies.guards import compaction_held_back
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.planning import deletion_of
from policies.reasons import Reason


def limited_to(plan: Plan, keys: Collection[PartitionKey]) -> Plan:
    """Return the plan of the partitions with these keys alone. Partitions that cannot be read are left out, too."""
    log_dirs = (
        replace(d, partitions=tuple(p for p in d.partitions if isinstance(p, PartitionPlan) and p.key in keys))
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def without_compactions(plan: Plan) -> Plan:
    """Return the plan without its compactions. The verdicts stay: a report says that these were not carried out."""
    log_dirs = (
        replace(
            d,
            partitions=tuple(replace(p, compaction=None) if isinstance(p, PartitionPlan) else p for p in d.partitions),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def replanned(plan: Plan, again: Plan, deleted: Mapping[PartitionKey, int]) -> Plan:
    """Return the plan that a run carried out: the first one, with the partitions of the second one in their places.

    Args:
        plan: the first plan.
        again: the second plan.
        deleted: for each partition of the second plan, the number of segments deleted by the first plan.
    """
    anew = {planned.key: planned for planned in again.partitions}
    log_dirs = (
        replace(
            d,
            partitions=tuple(
                _joined(p, anew[p.key], deleted[p.key]) if isinstance(p, PartitionPlan) and p.key in anew else p
                for p in d.partitions
            ),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def held_back(plan: Plan, guards: Mapping[PartitionKey, Reason]) -> Plan:
    """Return the plan without the compactions that guard rails held back while they ran.

    Args:
        plan: the plan.
        guards: for each such partition, the guard rail.
    """
    if not guards:
        return plan
    log_dirs = (
        replace(
            d,
            partitions=tuple(
                compaction_held_back(p, guards[p.key]) if isinstance(p, PartitionPlan) and p.key in guards else p
                for p in d.partitions
            ),
        )
        for d in plan.log_dirs
    )
    return replace(plan, log_dirs=tuple(log_dirs))


def _joined(first: PartitionPlan, second: PartitionPlan, deleted: int) -> PartitionPlan:
    """Return the second plan, with the segments that the first plan deleted in front."""
    segments = first.facts.segments[:deleted] + second.facts.segments
    facts = replace(second.facts, segments=segments)
    count = deleted + (len(second.deletion.segments) if second.deletion else 0)
    verdicts = first.verdicts[:deleted] + second.verdicts
    return replace(second, facts=facts, verdicts=verdicts, deletion=deletion_of(facts, verdicts, count))
