"""Spend the plan of a run over all its log dirs; what changed since it was planned is planned anew, once.

The lock keeps brokers and cleaners out, not a person with ``cp``, ``touch`` or ``rsync``. Such a partition is skipped,
and behind all others a second plan has its turn with it; where that does not fit either, the partition has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cleaner.engine.executor import Executor
from policies.plan import Plan
from policies.replanning import limited_to, replanned


def spend(
    planned: Plan, executors: Sequence[Executor], plan_anew: Callable[[], Plan], doable: Callable[[Plan], Plan]
) -> Plan:
    """Carry a plan out.

    Args:
        planned: the plan.
        executors: one for each of its log dirs, in their order.
        plan_anew: plans the same run by what lies there now.
        doable: gives what of a plan can be carried out.

    Returns:
        The plan, with what was planned anew in its place.
    """
    _execute(doable(planned), executors)
    deleted = {key: executor.results[key].deleted_segments for executor in executors for key in executor.changed}
    if not deleted:
        return planned
    again = limited_to(plan_anew(), deleted)
    for executor in executors:
        executor.retry(again)
    _execute(doable(again), executors)
    return replanned(planned, again, deleted)


def _execute(planned: Plan, executors: Sequence[Executor]) -> None:
    for executor, log_dir_plan in zip(executors, planned.log_dirs, strict=True):
        executor.delete(log_dir_plan)
    for executor in executors:
        executor.settle()
    for executor, log_dir_plan in zip(executors, planned.log_dirs, strict=True):
        executor.compact(log_dir_plan)
