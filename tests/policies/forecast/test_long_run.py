from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.config.policy import TopicPolicy
from policies.forecast.runway import UNKNOWN, LongRun, long_run, total
from policies.plan import Request
from policies.planning import plan_partition
from tests.builders import NOW_MS, a_log, a_policy
from tests.policies.forecast.writing import DAY_MS, HOUR_MS, Topic

RATE = 100
"""Bytes an hour."""


@st.composite
def limited(draw: st.DrawFn) -> TopicPolicy:
    hours = st.integers(10, 24 * 6)
    by_time = draw(st.none() | hours.map(lambda hour: hour * HOUR_MS))
    by_size = draw(
        hours.map(lambda hour: hour * RATE) if by_time is None else st.none() | hours.map(lambda h: h * RATE)
    )
    values = {"retention_ms": by_time, "retention_bytes": by_size}
    return a_policy(
        "delete",
        segment_bytes=draw(st.integers(2 * RATE, 40 * RATE)),
        segment_ms=draw(st.integers(2, 48)) * HOUR_MS,
        **{name: value for name, value in values.items() if value is not None},
    )


@given(limited(), st.integers(0, 60))
def test_a_topic_comes_to_hold_what_is_said_of_it(policy: TopicPolicy, hours_more: int) -> None:
    """After a month it holds that, or up to one segment less: retention deletes whole segments."""
    topic = Topic(RATE, policy).hours(24 * 15 + hours_more)
    assume(len(topic.segments) > 2)  # with one or two, it may hold too little to tell
    said = long_run(topic.planned(), topic.now_ms).size_bytes
    segment_bytes = min(policy.segment_bytes, RATE * policy.segment_ms // HOUR_MS)
    assert said - 1.15 * segment_bytes - 3 * RATE <= topic.size_bytes <= said + 0.15 * said + 3 * RATE


@pytest.mark.parametrize(
    ("story", "policy", "rate", "expected"),
    [
        ("nothing limits it", a_policy("delete"), 100, LongRun(growing_bytes_per_day=2400)),
        ("its policy is empty", a_policy(""), 100, LongRun(growing_bytes_per_day=2400)),
        ("a limit of 300 years is none", a_policy(retention_ms=300 * 365 * DAY_MS), 10, LongRun(0, 240)),
        ("a limit that no size reaches is none", a_policy(retention_bytes=1 << 60), 10, LongRun(0, 240)),
        ("it is compacted", a_policy("compact"), 100, UNKNOWN),
        ("it is compacted, too", a_policy("compact,delete", retention_ms=DAY_MS), 100, UNKNOWN),
        ("a run does not touch it", replace(a_policy(), unknown_because="nobody said"), 100, UNKNOWN),
        ("remote storage is on", a_policy(remote_storage_enable=True), 100, UNKNOWN),
    ],
)
def test_long_run(story: str, policy: TopicPolicy, rate: int, expected: LongRun) -> None:
    topic = Topic(rate, replace(policy, segment_bytes=rate * 10)).hours(24 * 12)
    found = long_run(topic.planned(), topic.now_ms)
    assert found.unknown == expected.unknown, story
    assert found.size_bytes == expected.size_bytes, story
    assert found.growing_bytes_per_day == pytest.approx(expected.growing_bytes_per_day, rel=0.1), story


@pytest.mark.parametrize(
    ("story", "policy", "expected"),
    [
        ("time takes all of it", a_policy(retention_ms=20 * DAY_MS), 0),
        ("size takes nothing of what is below it", a_policy(retention_bytes=1000), 100),
        ("size takes what is above it, once", a_policy(retention_bytes=40), 50),
        ("nothing takes anything", a_policy(), 100),
    ],
)
def test_a_topic_that_nobody_writes_any_more(story: str, policy: TopicPolicy, expected: int) -> None:
    facts = a_log().segments(50, 50, newest_ms=NOW_MS - 10 * DAY_MS).facts()
    assert long_run(plan_partition(facts, policy, Request(NOW_MS)), NOW_MS) == LongRun(expected), story


def test_partitions_add_up() -> None:
    assert total([LongRun(5), LongRun(0, 7), UNKNOWN, LongRun(6)]) == LongRun(11, 7, 1)
    assert total([]) == LongRun()


def test_a_partition_without_a_record_holds_nothing_whatever_its_policy() -> None:
    facts = a_log().empty_active().facts()
    assert long_run(plan_partition(facts, a_policy("compact"), Request(NOW_MS)), NOW_MS) == LongRun()


def test_a_partition_on_hold_is_not_known() -> None:
    facts = replace(a_log().segments(50, 50, newest_ms=NOW_MS - 10 * DAY_MS).facts(), held_since_ms=NOW_MS)
    assert long_run(plan_partition(facts, a_policy(), Request(NOW_MS)), NOW_MS) == UNKNOWN


@pytest.mark.parametrize(
    ("found", "is_known"),
    [
        (LongRun(0, 0, 7), False),  # beside empty partitions, which come to 0 bytes
        (LongRun(0, 0, 0), True),
        (LongRun(1, 0, 7), True),
        (LongRun(0, 1, 7), True),
    ],
)
def test_nothing_is_no_answer_where_partitions_are_unknown(found: LongRun, is_known: bool) -> None:
    assert found.is_known is is_known
