"""Guard rails: they hold a plan back that the configuration allows, until a person says ``--yes``.

Pure functions: each takes facts, and returns the reason to stop or None. The plan asks the guard rails, so that a dry
run and a run agree. Only ``unkeyed_guard`` needs a count that only a compaction makes. The round asks it before its
first write; a later plan asks it again, with the count of the round that was held back.
"""

from __future__ import annotations

from dataclasses import replace

from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.facts import ClockFacts, ConfigFacts, KeyCount, PartitionFacts
from policies.plan import PartitionPlan, Request, guard_key
from policies.reasons import Action, Limit, Reason, ReasonCode, age_beside, moment, share_beside
from storage.names import INTERNAL_TOPICS


def clock_guard(clock: ClockFacts, broker: BrokerPolicy) -> Reason | None:
    """Return why the wall clock cannot be believed, so that everything would expire, or nothing.

    None if it can be believed.

    If the last run was in this boot, the boot clock tells how much time has passed since. Otherwise the wall clock is
    compared with the last journal entry. If that entry is far away, the later of the entry and the newest file counts.

    Args:
        clock: the wall clock, and the times that it is compared with.
        broker: states ``clock.jump.max``: the most that the compared times may differ.
    """
    now_ms, last_run = clock.now_ms, clock.last_run
    if last_run and last_run.boot and clock.boot and last_run.boot.boot_id == clock.boot.boot_id:
        jumped_ms = clock.boot.booted_ms - last_run.boot.booted_ms
        return _jumped(clock, jumped_ms, broker, "what the boot clock makes of the last journal entry")
    if last_run and abs(now_ms - last_run.time_ms) <= broker.clock_jump_max_ms:
        return None
    seen = [(last_run.time_ms, "the last journal entry")] if last_run else []
    if clock.newest_file_ms is not None:
        seen.append((clock.newest_file_ms, "the newest file"))
    if not seen:
        return None
    latest_ms, what = max(seen)
    return _jumped(clock, now_ms - latest_ms, broker, f"{what}, {moment(latest_ms)}")


def _jumped(clock: ClockFacts, distance_ms: int, broker: BrokerPolicy, compared_with: str) -> Reason | None:
    if abs(distance_ms) <= broker.clock_jump_max_ms:
        return None
    stated = broker.value_of("clock.jump.max")
    side = "later" if distance_ms > 0 else "earlier"
    distance = age_beside(abs(distance_ms), broker.clock_jump_max_ms)
    text = f"{distance} {side} than {compared_with}, more than {stated.sentence}"
    limit = Limit(stated, abs(distance_ms))
    return Reason(ReasonCode.CLOCK_JUMPED, f"the clock says {moment(clock.now_ms)}, {text}", limit=limit)


def may_be_an_old_copy(clock_reason: str) -> bool:
    """Return whether a ``clock_guard`` says that nothing was written for long, as in an old copy."""
    return " later than " in clock_reason


def config_guard(config: ConfigFacts) -> Reason | None:
    """Return why a configuration is not the one of the log dir's broker; None if nothing speaks against it.

    Args:
        config: the ids that the configuration and the log dir state.
    """
    if (cause := _foreign_because(config)) is not None:
        return Reason(ReasonCode.FOREIGN_CONFIG, f"{cause}: its limits may be another broker's")
    return Reason(ReasonCode.FOREIGN_CONFIG, config.missing) if config.missing else None


def _foreign_because(config: ConfigFacts) -> str | None:
    if None not in (config.stated_node_id, config.own_node_id) and config.stated_node_id != config.own_node_id:
        own = f"meta.properties of this log dir has {config.own_node_id}"
        return f"{config.stated_by} is for node.id {config.stated_node_id}, {own}"
    if None not in (ids := (config.metadata_cluster_id, config.own_cluster_id)) and ids[0] != ids[1]:
        return f"the cluster metadata is of cluster {ids[0]}, this log dir of cluster {ids[1]}"
    if not config.names_log_dir:
        return f"log.dirs in {config.stated_by} does not name this log dir"
    return None


def delete_ratio_guard(facts: PartitionFacts, deleted: int, policy: TopicPolicy) -> Reason | None:
    """Return why a deletion needs a person's yes: it takes more of a partition than ``max.delete.ratio``. None if not.

    Args:
        facts: the partition.
        deleted: the number of its oldest segments that the plan deletes.
        policy: states the ratio, a share of the bytes of all ``.log`` files; None is no limit.
    """
    ratio, all_bytes = policy.max_delete_ratio, facts.size_bytes
    deleted_bytes = sum(segment.size_bytes for segment in facts.segments[:deleted])
    if ratio is None or deleted_bytes <= ratio * all_bytes:
        return None
    share, stated = deleted_bytes / all_bytes, policy.value_of("max.delete.ratio")
    what = f"{deleted} of {len(facts.segments)} segments, {deleted_bytes} of {all_bytes} bytes, would be deleted"
    text = f"{what}: {share_beside(share, ratio)}, more than {stated.sentence} allows without --yes"
    return Reason(ReasonCode.MAX_DELETE_RATIO, text, limit=Limit(stated, share))


def may_drop_unkeyed(planned: PartitionPlan) -> bool:
    """Return whether a compaction may meet records without a key: every compaction, except of a topic that Kafka itself
    writes.
    """
    return planned.compaction is not None and planned.facts.topic_partition.topic not in INTERNAL_TOPICS


def unkeyed_guard(count: KeyCount, policy: TopicPolicy) -> Reason | None:
    """Return why a compaction needs a person's yes: it drops more records than ``max.unkeyed.ratio``, because they have
    no key. None if it does not.

    Args:
        count: the records of the round.
        policy: states the ratio, a share of these records; exactly this share may go.
    """
    if not count.unkeyed:
        return None
    from fractions import Fraction  # noqa: PLC0415 - takes 3 ms to load, and few compactions get here

    if count.unkeyed <= Fraction(str(policy.max_unkeyed_ratio)) * count.records:
        return None
    what = f"compaction would drop {count.unkeyed} of {count.records} records because they have no key"
    share, stated = count.unkeyed / count.records, policy.value_of("max.unkeyed.ratio")
    text = f"{what}: {share_beside(share, policy.max_unkeyed_ratio)}, more than {stated.sentence} allows without --yes"
    return Reason(ReasonCode.MAX_UNKEYED_RATIO, text, limit=Limit(stated, share))


def counted_guard(planned: PartitionPlan) -> Reason | None:
    """Return why the compaction of a plan was held back before, if it would read the same records again; else None."""
    counted, compaction = planned.facts.counted, planned.compaction
    if counted is None or compaction is None or planned.deletion:
        return None
    bounds = compaction.round.first_dirty_offset, compaction.round.end_offset
    return unkeyed_guard(counted.found, planned.policy) if counted[:2] == bounds else None


def compaction_held_back(planned: PartitionPlan, guard: Reason) -> PartitionPlan:
    """Return the plan with its deletion alone: the segments that it would compact stay for the guard's reason."""
    verdicts = tuple(
        verdict._replace(action=Action.KEEP, reason=guard) if verdict.action is Action.COMPACT else verdict
        for verdict in planned.verdicts
    )
    return replace(planned, verdicts=verdicts, compaction=None, guard=guard)


def unless_confirmed(guard: Reason | None, path: str, request: Request) -> Reason | None:
    """Return the guard rail; None if there is none, or if a person confirmed it. ``path``: the file or directory that
    the guard rail holds back.
    """
    is_confirmed = guard is None or request.confirmed or guard_key(guard, path) in request.confirmed_guards
    return None if is_confirmed else guard
