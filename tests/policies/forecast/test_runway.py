"""The runway of a single look is the time that the disk lasts in a world that goes on as it did."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.config.policy import TopicPolicy
from policies.forecast.runway import Runway, long_run, runway
from policies.rescue import Volume
from tests.builders import a_policy
from tests.policies.forecast.writing import DAY_MS, HOUR_MS, Topic, a_plan

DAYS_MAX = 40


def looked_at(free_bytes: int, *topics: Topic) -> Runway:
    return runway(Volume(("/data",), 1 << 40, free_bytes, 1 << 30), a_plan(*topics))


def lasted_hours(free_bytes: int, *topics: Topic) -> float:
    """Let time pass until the disk is full; infinite if it is not within ``DAYS_MAX``."""
    before = sum(topic.size_bytes for topic in topics)
    for hour in range(1, 24 * DAYS_MAX):
        for topic in topics:
            topic.hours(1)
        if sum(topic.size_bytes for topic in topics) - before >= free_bytes:
            return hour
    return math.inf


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    rate = draw(st.integers(1, 20)) * 10
    by_time = draw(st.sampled_from([-1, 2, 5, 9]))
    by_size = draw(st.sampled_from([-1, 30, 100, 400]))
    policy = a_policy(
        "delete",
        retention_ms=by_time * DAY_MS if by_time > 0 else -1,
        retention_bytes=by_size * rate if by_size > 0 and by_time < 0 else -1,
        segment_bytes=rate * draw(st.integers(2, 8)),
        segment_ms=DAY_MS,
    )
    return Topic(rate, policy)


@given(st.lists(topics(), min_size=1, max_size=3), st.integers(1, 10), st.integers(0, 20_000))
def test_the_disk_lasts_as_long_as_was_said(written: list[Topic], days: int, free_bytes: int) -> None:
    for topic in written:
        topic.hours(24 * days)
    said = looked_at(free_bytes, *written)
    assert said.days is not None
    to_come = sum(long_run(topic.planned(), topic.now_ms).size_bytes - topic.size_bytes for topic in written)
    never = not any(long_run(topic.planned(), topic.now_ms).growing_bytes_per_day for topic in written)
    a_segment = sum(topic.policy.segment_bytes for topic in written)
    assume(not never or abs(free_bytes - to_come) > 2 * a_segment + 0.2 * abs(to_come))  # too close to tell
    lasted = lasted_hours(free_bytes, *written)
    if lasted is math.inf:
        assert said.days > DAYS_MAX * 0.8
    else:
        slowest = min(topic.bytes_per_hour for topic in written)
        assert said.days * 24 == pytest.approx(lasted, rel=0.25, abs=2 * a_segment / slowest + 4)


def test_a_disk_that_fills_until_the_first_segments_expire_does_not_fill_for_ever() -> None:
    topic = Topic(100, a_policy(retention_ms=7 * DAY_MS, segment_bytes=1000)).hours(2 * 24)
    assert looked_at(6 * 2400, topic).is_endless
    full = looked_at(3 * 2400, topic)
    assert full.days == pytest.approx(3, rel=0.1)
    assert (full.counted, full.left_out, full.born_bytes_per_day) == (1, 0, pytest.approx(2400, rel=0.1))


@pytest.mark.parametrize(("beside_bytes", "is_endless"), [(-1, False), (0, False), (1, True)])
def test_a_disk_that_is_full_when_a_limit_stops_the_growth_is_full(beside_bytes: int, is_endless: bool) -> None:
    topic = Topic(HOUR_MS, a_policy(retention_bytes=600 * HOUR_MS, segment_bytes=10 * HOUR_MS)).hours(2 * 24)
    to_come = long_run(topic.planned(), topic.now_ms).size_bytes - topic.size_bytes
    full = looked_at(to_come + beside_bytes, topic)
    assert full.is_endless is is_endless
    assert is_endless or full.days == pytest.approx(to_come / (24 * HOUR_MS))


def test_what_goes_now_is_space_to_come() -> None:
    topic = Topic(100, a_policy(segment_bytes=1000)).hours(10 * 24)
    unlimited = looked_at(2400, topic)
    topic.policy = a_policy(retention_bytes=5 * 2400, segment_bytes=1000)
    assert unlimited.days == pytest.approx(1, rel=0.1)
    assert looked_at(2400, topic).is_endless
    topic.policy = a_policy(retention_ms=9 * DAY_MS, segment_bytes=1000)
    assert looked_at(0, topic).is_endless


def test_compacted_topics_are_left_out_and_alone_they_tell_nothing() -> None:
    compacted = Topic(100, a_policy("compact", segment_bytes=1000)).hours(9 * 24)
    plain = Topic(100, a_policy("delete", segment_bytes=1000)).hours(9 * 24)
    assert looked_at(2400, compacted) == Runway(("/data",), 2400, 0, None, 0, 1)
    both = looked_at(2400, compacted, plain)
    assert (both.counted, both.left_out) == (1, 1)
    assert both.days == pytest.approx(1, rel=0.1)


def test_other_file_systems_do_not_count() -> None:
    topic = Topic(100, a_policy(segment_bytes=1000)).hours(9 * 24)
    assert runway(Volume(("/other",), 1 << 40, 5, 5), a_plan(topic)) == Runway(("/other",), 5, 0, None, 0, 0)


def test_a_full_disk_lasts_no_time() -> None:
    topic = Topic(100, a_policy(segment_bytes=1000)).hours(9 * 24)
    assert looked_at(0, topic).days == 0


@pytest.mark.parametrize("beside", [[], [a_policy(retention_bytes=0, segment_bytes=1000)]])
def test_the_last_byte_of_free_space_counts(beside: list[TopicPolicy]) -> None:
    growing = a_policy(segment_bytes=1000)
    written = [Topic(100, policy).hours(9 * 24) for policy in (growing, *beside)]
    assert looked_at(1, *written).days == pytest.approx(1 / 2400, rel=0.1)


def test_an_idle_disk_does_not_fill() -> None:
    topic = Topic(100, a_policy(segment_bytes=1000)).hours(24)
    topic.bytes_per_hour = 0
    assert looked_at(HOUR_MS, topic.hours(24 * 9)).is_endless
