"""What later runs free, and which ``retention.ms`` deletes what: the same as retention itself decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts
from policies.forecast.births import DAY_MS
from policies.forecast.prospects import Expiring, Threshold, releases, thresholds
from policies.plan import Only, PartitionPlan, Request
from policies.planning import plan
from policies.reasons import INT64_MAX
from policies.retention import retention
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy


def planned(log: PartitionFacts, policy: TopicPolicy, only: Only | None = None) -> PartitionPlan:
    facts = LogDirFacts("/data", None, 1 << 40, 0, (log,))
    (found,) = plan([facts], lambda _: policy, Request(NOW_MS, only)).partitions
    return found


def aged(*days: float) -> LogBuilder:
    log = a_log()
    for age in days:
        log = log.segment(newest_ms=NOW_MS - round(age * DAY_MS), companions_bytes=5)
    return log


def test_what_time_lets_go_later_comes_with_its_moment_and_its_index_files() -> None:
    found = planned(aged(9, 5, 1).facts(), a_policy(retention_ms=7 * DAY_MS))
    assert list(releases(found, Request(NOW_MS))) == [
        Expiring(NOW_MS + 2 * DAY_MS + 1, 55),
        Expiring(NOW_MS + 6 * DAY_MS + 1, 55),
    ]


@pytest.mark.parametrize(
    ("story", "policy", "only"),
    [
        ("no limit of time", a_policy(retention_bytes=10), None),
        ("never deleted", a_policy("compact"), None),
        ("nobody knows", replace(a_policy(retention_ms=DAY_MS), unknown_because="nobody stated it; state it"), None),
        ("retention was not asked for", a_policy(retention_ms=DAY_MS), Only.COMPACTION),
    ],
)
def test_nothing_goes_later_where_time_deletes_nothing(story: str, policy: TopicPolicy, only: Only | None) -> None:
    found = planned(aged(0.5, 0.2).facts(), policy, only)
    assert list(releases(found, Request(NOW_MS, only))) == []


def test_what_goes_by_size_goes_with_each_limit_of_time() -> None:
    found = planned(aged(9, 5, 1).facts(), a_policy(retention_ms=7 * DAY_MS, retention_bytes=100))
    assert list(thresholds(found, NOW_MS)) == [
        Threshold(INT64_MAX, 55),
        Threshold(5 * DAY_MS - 1, 55),
        Threshold(DAY_MS - 1, 55),
    ]


def test_topics_of_kafkas_own_keep_their_limit() -> None:
    policy = replace(a_policy(retention_ms=7 * DAY_MS), topic="__consumer_offsets")
    found = planned(aged(9, 5, 1).facts(), policy)
    assert list(thresholds(found, NOW_MS)) == [Threshold(INT64_MAX, 55)]


@given(
    ages=st.lists(st.integers(-3, 12), min_size=1, max_size=8),
    limit=st.integers(0, 12),
    size=st.one_of(st.just(-1), st.integers(0, 400)),
    watermark=st.integers(0, 90),
)
def test_a_threshold_says_what_retention_does(ages: list[int], limit: int, size: int, watermark: int) -> None:
    log = aged(*ages).high_watermark(min(watermark, 10 * len(ages))).facts()
    limit_ms = limit * DAY_MS
    found = planned(log, a_policy(retention_ms=3 * DAY_MS, retention_bytes=size))
    gone = sum(threshold.limit_ms >= limit_ms for threshold in thresholds(found, NOW_MS))
    assert gone == retention(log, a_policy(retention_ms=limit_ms, retention_bytes=size), NOW_MS).deleted
