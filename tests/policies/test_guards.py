"""Guard rails: what holds a plan back until ``--yes`` is said."""

from __future__ import annotations

import pytest

from policies.guards import delete_ratio_guard
from policies.plan import Only, Request, plan_partition
from policies.reasons import Action, ReasonCode
from tests.builders import NOW_MS, a_log, a_policy

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
