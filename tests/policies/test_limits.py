"""What a reason rests on: key, value, place, and the number that was compared with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.compaction import Cleanable, cause
from policies.config.policy import BrokerPolicy, Layer, Stated, TopicPolicy
from policies.facts import ClockFacts, LogDirFacts
from policies.plan import Request
from policies.planning import plan, plan_partition
from policies.reasons import Limit, Reason, ReasonCode
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

PLACE = {"layer": Layer.SERVER_PROPERTIES, "origin": "/etc/s.properties line 5", "file": "/etc/s.properties", "line": 5}
WEEK_MS = 7 * 86_400_000


def reasons(log: LogBuilder, policy: TopicPolicy, broker: BrokerPolicy | None = None) -> list[Reason]:
    return [verdict.reason for verdict in plan_partition(log.facts(), policy, Request(NOW_MS), broker).verdicts]


def numbers(log: LogBuilder, policy: TopicPolicy) -> list[tuple[str, float | None] | None]:
    return [r.limit and (f"{r.limit.key}={r.limit.value}", r.limit.actual) for r in reasons(log, policy)]


def test_a_limit_says_where_it_stands() -> None:
    stated = Stated("retention.ms", WEEK_MS, name="log.retention.hours", **PLACE)
    policy = TopicPolicy(topic="orders", cleanup_policy="delete", retention_ms=WEEK_MS, stated={"retention.ms": stated})
    (reason,) = reasons(a_log().segment(newest_ms=NOW_MS - 5), policy)
    limit = reason.limit
    assert limit is not None
    assert (limit.key, limit.value, limit.layer, limit.actual) == ("retention.ms", WEEK_MS, Layer.SERVER_PROPERTIES, 5)
    assert (limit.origin, limit.file, limit.line) == (PLACE["origin"], PLACE["file"], PLACE["line"])


def test_a_limit_that_no_layer_stated_has_no_place() -> None:
    policy = TopicPolicy(topic="orders", cleanup_policy="delete", retention_ms=WEEK_MS)
    (reason,) = reasons(a_log().segment(newest_ms=NOW_MS), policy)
    assert reason.limit is not None
    assert (reason.limit.layer, reason.limit.file, reason.limit.line) == (Layer.KAFKA_DEFAULT, None, None)
    assert reason.limit.origin == "nobody stated it"


BY_TIME = a_policy(retention_ms=100)
BY_SIZE = a_policy(retention_bytes=100)


@pytest.mark.parametrize(
    ("story", "log", "policy", "found"),
    [
        (
            "ages",
            a_log().segment(newest_ms=NOW_MS - 101).segment(newest_ms=NOW_MS - 3),
            BY_TIME,
            [("retention.ms=100", 101), ("retention.ms=100", 3)],
        ),
        (
            "a future time, and the expired segment that it holds",
            a_log().segment(newest_ms=NOW_MS + 7).segment(newest_ms=NOW_MS - 900),
            BY_TIME,
            [("retention.ms=100", -7), ("retention.ms=100", 900)],
        ),
        (
            "the bytes that stay without a segment",
            a_log().segments(50, 60, 70),
            BY_SIZE,
            [("retention.bytes=100", 130), ("retention.bytes=100", 70), ("retention.bytes=100", 0)],
        ),
        ("no limit: two keys, of which none decides", a_log().segments(50), a_policy(), [None]),
        ("a rule without a limit", a_log().segments(50).high_watermark(0), BY_TIME, [None]),
        ("a policy", a_log().segments(50), a_policy(""), [("cleanup.policy=", None)]),
        (
            "the dirty ratio that does not suffice",
            a_log().segments(50, 50, 50).compacted_to(10),
            a_policy("compact", min_cleanable_dirty_ratio=0.5),
            [("min.cleanable.dirty.ratio=0.5", 0.5), ("min.cleanable.dirty.ratio=0.5", 0.5), None],
        ),
        (
            "the dirty ratio that does",
            a_log().segments(50, 50, 50),
            a_policy("compact", min_cleanable_dirty_ratio=0.5),
            [("min.cleanable.dirty.ratio=0.5", 1.0), ("min.cleanable.dirty.ratio=0.5", 1.0), None],
        ),
        (
            "the lag, which holds all later segments, too",
            a_log().segment(newest_ms=NOW_MS - 9).segments(50),
            a_policy("compact", min_compaction_lag_ms=10),
            [("min.compaction.lag.ms=10", 9), ("min.compaction.lag.ms=10", 9)],
        ),
        (
            "remote storage",
            a_log().segments(50),
            a_policy(remote_storage_enable=True),
            [("remote.storage.enable=True", None)],
        ),
        (
            "the guard of a deletion",
            a_log().segments(75, newest_ms=0).segments(25),
            a_policy(retention_ms=100, max_delete_ratio=0.5),
            [("max.delete.ratio=0.5", 0.75), ("max.delete.ratio=0.5", 0.75)],
        ),
    ],
)
def test_a_reason_names_what_was_compared(
    story: str, log: LogBuilder, policy: TopicPolicy, found: list[tuple[str, float | None] | None]
) -> None:
    assert numbers(log, policy) == found, story


def test_an_overdue_record_makes_a_round_due_before_any_ratio() -> None:
    log = a_log().segments(50, 50).facts()
    oldest, active = log.segments
    log = replace(log, segments=(oldest._replace(first_batch_ms=NOW_MS - 11), active))
    policy = a_policy("compact", max_compaction_lag_ms=10, min_cleanable_dirty_ratio=0.5)
    section = Cleanable(0, 10, Reason(ReasonCode.ACTIVE_SEGMENT, ""), clean_bytes=0, dirty_bytes=50)
    found = cause(log, policy, section, NOW_MS)
    assert found == Limit(policy.value_of("max.compaction.lag.ms"), 11)


def test_a_guard_and_a_switch_of_the_broker_name_its_values() -> None:
    off = Stated("log.cleaner.enable", False, name="log.cleaner.enable", **PLACE)
    broker = BrokerPolicy(log_cleaner_enable=False, stated={"log.cleaner.enable": off})
    (disabled,) = reasons(a_log().segments(50), a_policy("compact"), broker)
    assert disabled.limit == Limit(off)
    jumped = ClockFacts(NOW_MS, None, None, NOW_MS - 100)
    log_dir = LogDirFacts("/data", None, 1, 1, (a_log().segments(50).facts(),), clock=jumped)
    planned = plan([log_dir], lambda _: a_policy(), Request(NOW_MS), BrokerPolicy(clock_jump_max_ms=99))
    (held,) = planned.partitions
    assert held.guard is not None
    assert held.guard.limit is not None
    assert (held.guard.limit.key, held.guard.limit.value, held.guard.limit.actual) == ("clock.jump.max", 99, 100)
