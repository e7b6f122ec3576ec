"""The guard rail of records without a key: when it holds a compaction back, and what of its count holds later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.config.policy import Layer, Stated, TopicPolicy
from policies.facts import CountedRound, KeyCount, LogDirFacts, PartitionFacts
from policies.guards import may_drop_unkeyed, unkeyed_guard
from policies.plan import Only, PartitionPlan, Request
from policies.planning import held_back, plan, plan_partition
from policies.reasons import Action, ReasonCode
from storage.names import TopicPartition
from tests.builders import NOW_MS, a_log, a_policy

COMPACT = a_policy("compact", min_cleanable_dirty_ratio=0.0)
LOG = a_log().segments(50, 50).empty_active().facts()
"""Its round is dirty from 0 to 20."""
MANY = KeyCount(records=10, unkeyed=6)


@pytest.mark.parametrize("denominator", [1, 3, 10, 100, 1000])
def test_exactly_the_ratio_is_let_through_and_one_record_more_is_not(denominator: int) -> None:
    for numerator in range(denominator + 1):
        policy = a_policy("compact", max_unkeyed_ratio=round(numerator / denominator, 12))
        for factor in (1, 7, 12_345_678_901):
            records, unkeyed = denominator * factor, numerator * factor
            exact = denominator in (1, 10, 100, 1000)  # a third is no decimal fraction
            if exact:
                assert unkeyed_guard(KeyCount(records, unkeyed), policy) is None
            if unkeyed < records:
                assert unkeyed_guard(KeyCount(records, unkeyed + factor), policy) is not None


@pytest.mark.parametrize("count", [KeyCount(0, 0), KeyCount(1, 1), KeyCount(9, 9)])
def test_1_lets_everything_through(count: KeyCount) -> None:
    assert unkeyed_guard(count, a_policy("compact", max_unkeyed_ratio=1.0)) is None


def test_0_lets_nothing_through_but_what_loses_nothing() -> None:
    policy = a_policy("compact", max_unkeyed_ratio=0.0)
    assert unkeyed_guard(KeyCount(0, 0), policy) is None
    assert unkeyed_guard(KeyCount(10**12, 0), policy) is None
    assert unkeyed_guard(KeyCount(10**12, 1), policy) is not None


def test_who_states_nothing_has_a_half() -> None:
    policy = TopicPolicy(topic="orders", cleanup_policy="compact")
    assert unkeyed_guard(KeyCount(10, 5), policy) is None
    assert unkeyed_guard(KeyCount(10, 6), policy) is not None


def test_reason_has_the_numbers_and_the_limit_with_its_place() -> None:
    stated = Stated("max.unkeyed.ratio", 0.25, Layer.TOPICS_NAME, "x.toml line 3", "max.unkeyed.ratio", "x.toml", 3)
    policy = replace(COMPACT, max_unkeyed_ratio=0.25, stated={"max.unkeyed.ratio": stated})
    reason = unkeyed_guard(MANY, policy)
    assert reason is not None
    assert reason.code is ReasonCode.MAX_UNKEYED_RATIO
    assert reason.text == (
        "compaction would drop 6 of 10 records because they have no key: 0.60, more than max.unkeyed.ratio=0.25 "
        "(x.toml line 3) allows without --yes"
    )
    assert reason.limit is not None
    assert (reason.limit.key, reason.limit.value, reason.limit.actual) == ("max.unkeyed.ratio", 0.25, 0.6)
    assert (reason.limit.file, reason.limit.line) == ("x.toml", 3)


# A later plan


def counted(first_dirty: int = 0, end: int = 20, count: KeyCount = MANY) -> PartitionFacts:
    return replace(LOG, counted=CountedRound(first_dirty, end, count))


def planned(facts: PartitionFacts, request: Request | None = None, **policy: object) -> PartitionPlan:
    return plan_partition(facts, replace(COMPACT, **policy), request or Request(NOW_MS))  # type: ignore[arg-type]


def test_the_same_round_over_the_same_files_is_held_back() -> None:
    held = planned(counted())
    assert held.guard is not None
    assert not held.has_work
    told = [(v.action, v.reason.code) for v in held.verdicts]
    kept = (Action.KEEP, ReasonCode.MAX_UNKEYED_RATIO)
    assert told == [kept, kept, (Action.KEEP, ReasonCode.ACTIVE_SEGMENT)]
    assert held.section is not None  # the dirty ratio is shown all the same


@pytest.mark.parametrize(
    ("story", "facts"),
    [
        ("nothing is known", LOG),
        ("it began elsewhere", counted(first_dirty=1)),
        ("it ended elsewhere", counted(end=10)),
        ("it had few", counted(count=KeyCount(10, 5))),
    ],
)
def test_another_round_is_not(story: str, facts: PartitionFacts) -> None:
    assert planned(facts).guard is None, story
    assert planned(facts).compaction is not None, story


def test_a_round_behind_a_deletion_reads_less() -> None:
    facts = replace(counted(), log_start_offset=10)
    assert planned(facts).deletion is not None
    assert planned(facts).guard is None


def test_count_is_compared_with_the_present_limit() -> None:
    assert planned(counted(), max_unkeyed_ratio=0.6).guard is None
    assert planned(counted(count=KeyCount(10, 1)), max_unkeyed_ratio=0.05).guard is not None


def test_yes_or_the_key_of_this_guard_lets_it_through() -> None:
    held = plan([LogDirFacts("/data", None, 0, 0, (counted(),))], lambda _: COMPACT, Request(NOW_MS))
    assert held.guard_keys
    for request in (Request(NOW_MS, confirmed=True), Request(NOW_MS, confirmed_guards=held.guard_keys)):
        assert planned(counted(), request).compaction is not None
    other = Request(NOW_MS, confirmed_guards=held.guard_keys)
    assert planned(counted(count=KeyCount(10, 7)), other).compaction is None


def test_retention_alone_asks_nothing() -> None:
    assert planned(counted(), Request(NOW_MS, only=Only.RETENTION)).guard is None


# A plan that was carried out


def test_what_was_held_back_meanwhile_is_no_part_of_the_plan_any_more() -> None:
    other = replace(LOG, topic_partition=TopicPartition("other", 0))
    whole = plan([LogDirFacts("/data", None, 0, 0, (LOG, other))], lambda _: COMPACT, Request(NOW_MS))
    guard = unkeyed_guard(MANY, COMPACT)
    assert guard is not None
    held, left = held_back(whole, {("/data", LOG.topic_partition): guard}).partitions
    assert (held.guard, held.compaction) == (guard, None)
    assert [v.reason.code for v in held.verdicts][:2] == [ReasonCode.MAX_UNKEYED_RATIO] * 2
    assert left == whole.partitions[1]
    assert held_back(whole, {}) is whole


@pytest.mark.parametrize(
    ("topic", "may"),
    [("orders", True), ("__other", True), ("__consumer_offsets", False), ("__transaction_state", False)],
)
def test_what_kafka_writes_itself_has_keys(topic: str, may: bool) -> None:
    assert may_drop_unkeyed(planned(replace(LOG, topic_partition=TopicPartition(topic, 0)))) is may


def test_what_is_not_compacted_loses_nothing() -> None:
    assert not may_drop_unkeyed(plan_partition(LOG, a_policy(), Request(NOW_MS)))
