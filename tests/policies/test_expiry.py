from dataclasses import replace

import pytest

from policies.plan import Only, Request
from policies.planning import next_expiry_ms, plan_partition
from tests.builders import NOW_MS, a_log, a_policy

DAY_MS = 86_400_000
YOUNG = a_log().segments(50, 50, newest_ms=NOW_MS - DAY_MS)
OLD = a_log().segments(50, newest_ms=NOW_MS - 3 * DAY_MS).segments(50)
IN_A_DAY = NOW_MS + DAY_MS + 1


@pytest.mark.parametrize("only", [None, Only.COMPACTION])
@pytest.mark.parametrize(
    ("story", "log", "policy", "expected"),
    [
        ("not yet", YOUNG, a_policy(retention_ms=2 * DAY_MS), IN_A_DAY),
        ("already", OLD, a_policy(retention_ms=2 * DAY_MS), NOW_MS),
        ("a compacted topic has a limit too", YOUNG, a_policy("compact,delete", retention_ms=2 * DAY_MS), IN_A_DAY),
        ("a guard rail does not move it", OLD, a_policy(retention_ms=2 * DAY_MS, max_delete_ratio=0.1), NOW_MS),
        ("no limit", YOUNG, a_policy(), None),
        ("only compacted", YOUNG, a_policy("compact", retention_ms=2 * DAY_MS), None),
        ("below the log start", YOUNG.log_start(10), a_policy("compact"), NOW_MS),
        ("nobody knows", OLD, replace(a_policy(retention_ms=1), unknown_because="nobody said"), None),
    ],
)
def test_next_expiry(story: str, log, policy, expected, only) -> None:
    planned = plan_partition(log.facts(), policy, Request(NOW_MS, only))
    assert next_expiry_ms(planned, NOW_MS) == expected, story
