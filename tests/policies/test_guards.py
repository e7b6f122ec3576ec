"""Guard rails: what holds a plan back until ``--yes`` is said."""

from __future__ import annotations

import pytest

from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.facts import Boot, ClockFacts, LastRun, LogDirFacts
from policies.guards import clock_guard, delete_ratio_guard
from policies.plan import Only, Request
from policies.planning import plan, plan_partition
from policies.reasons import Action, ReasonCode
from tests.builders import NOW_MS, a_log, a_policy

DAY_MS = 86_400_000
MAX_MS = 30 * DAY_MS
BOOT = Boot("this", NOW_MS - DAY_MS)


def clock(
    *,
    last_run_days: float | None = None,
    booted_days: float | None = None,
    newest_file_days: float | None = None,
    other_boot: bool = False,
) -> ClockFacts:
    """How many days before now the last run and the newest file were; how far the boot moved since the last run."""
    boot = Boot("that" if other_boot else "this", BOOT.booted_ms - round((booted_days or 0) * DAY_MS))
    has_boot = booted_days is not None or other_boot
    last_run = LastRun(days_ago(last_run_days), boot if has_boot else None) if last_run_days is not None else None
    return ClockFacts(NOW_MS, BOOT, last_run, None if newest_file_days is None else days_ago(newest_file_days))


def days_ago(days: float) -> int:
    return NOW_MS - round(days * DAY_MS)


@pytest.mark.parametrize(
    ("story", "facts", "told"),
    [
        ("an empty dir", clock(), None),
        ("files of today", clock(newest_file_days=0), None),
        ("at the limit", clock(newest_file_days=30), None),
        ("a cold dir, or a clock far ahead", clock(newest_file_days=31), "31d later than the newest file"),
        ("files of the future: a clock far back", clock(newest_file_days=-31), "31d earlier than the newest file"),
        ("a run lately", clock(last_run_days=1, newest_file_days=99), None),
        ("a run lately, and files of the future", clock(last_run_days=1, newest_file_days=-99), None),
        ("a broker since the last run", clock(last_run_days=99, newest_file_days=1), None),
        ("nobody since the last run", clock(last_run_days=99, newest_file_days=100), "99d later than the last journal"),
        ("a run in the future", clock(last_run_days=-31, newest_file_days=1), "31d earlier than the last journal"),
        ("long ago, and the boot clock agrees", clock(last_run_days=99, booted_days=0, newest_file_days=99), None),
        (
            "lately, and the boot clock does not",
            clock(last_run_days=29, booted_days=31),
            "31d later than what the boot",
        ),
        (
            "set back since, by the boot clock",
            clock(last_run_days=1, booted_days=-31),
            "31d earlier than what the boot",
        ),
        ("files vouch for nothing there", clock(last_run_days=1, booted_days=31, newest_file_days=0), "31d later"),
        ("another boot tells nothing", clock(last_run_days=1, booted_days=99, other_boot=True), None),
    ],
)
def test_clock_is_believed_unless_it_jumped(story: str, facts: ClockFacts, told: str | None) -> None:
    found = clock_guard(facts, BrokerPolicy(clock_jump_max_ms=MAX_MS))
    assert (found is None) is (told is None), story
    if found and told:
        assert told in found.text
        assert "clock.jump.max=30d" in found.text


def test_log_dir_with_a_clock_that_jumped_is_left_as_it_is_until_confirmed() -> None:
    facts = LogDirFacts("/data", None, 1, 1, (EXPIRED_HALF.facts(),), clock=clock(newest_file_days=31))
    held, confirmed, wider = (
        plan([facts], lambda _: a_policy(retention_ms=100), request, BrokerPolicy(clock_jump_max_ms=max_ms))
        for request, max_ms in [
            (Request(NOW_MS), MAX_MS),
            (Request(NOW_MS, confirmed=True), MAX_MS),
            (Request(NOW_MS), 2 * MAX_MS),
        ]
    )
    assert {v.reason.code for p in held.partitions for v in p.verdicts} == {ReasonCode.CLOCK_JUMPED}
    assert not held.has_work
    (line,) = held.guards
    assert line.startswith("CLOCK_JUMPED: /data: the clock says 2027-01-15T08:00:00Z, 31d later")
    assert confirmed.has_work
    assert wider.has_work


def test_unknown_topic_says_so_also_where_the_clock_jumped() -> None:
    facts = LogDirFacts("/data", None, 1, 1, (EXPIRED_HALF.facts(),), clock=clock(newest_file_days=31))
    unknown = TopicPolicy(topic="orders", unknown_because="nobody spoke")
    held = plan([facts], lambda _: unknown, Request(NOW_MS))
    assert held.partitions[0].config_is_unknown


EXPIRED_HALF = a_log().segments(50, 50, newest_ms=0).segments(50, 50)


@pytest.mark.parametrize(
    ("story", "ratio", "deleted", "held"),
    [
        ("no ratio lets everything go", None, 4, False),
        ("exactly the ratio may go", 0.5, 2, False),
        ("a segment more may not", 0.5, 3, True),
        ("1 lets everything go", 1.0, 4, False),
        ("0 lets nothing go", 0.0, 1, True),
        ("and is not asked where nothing goes", 0.0, 0, False),
    ],
)
def test_delete_ratio_is_of_the_bytes_of_the_partition(story, ratio, deleted, held) -> None:
    found = delete_ratio_guard(EXPIRED_HALF.facts(), deleted, a_policy(max_delete_ratio=ratio))
    assert (found is not None) is held, story


def test_delete_ratio_says_what_would_go_and_which_limit_holds() -> None:
    found = delete_ratio_guard(EXPIRED_HALF.facts(), 2, a_policy(max_delete_ratio=0.25))
    assert found is not None
    assert "2 of 4 segments, 100 of 200 bytes" in found.text
    assert "max.delete.ratio=0.25 (--set)" in found.text


def test_partition_over_the_ratio_is_left_as_it_is_with_its_reason() -> None:
    policy = a_policy("compact,delete", retention_ms=100, max_delete_ratio=0.4)
    held = plan_partition(EXPIRED_HALF.facts(), policy, Request(NOW_MS))
    assert not held.has_work
    assert {(v.action, v.reason.code) for v in held.verdicts} == {(Action.KEEP, ReasonCode.MAX_DELETE_RATIO)}
    assert held.guard is held.verdicts[0].reason


@pytest.mark.parametrize("request_", [Request(NOW_MS, confirmed=True), Request(NOW_MS, only=Only.COMPACTION)])
def test_ratio_holds_nothing_back_once_confirmed_or_where_nothing_is_deleted(request_: Request) -> None:
    policy = a_policy("compact,delete", retention_ms=100, max_delete_ratio=0.4)
    planned = plan_partition(EXPIRED_HALF.facts(), policy, request_)
    assert planned.has_work
    assert planned.guard is None
