"""The segments that a saved edit alone lets go, and log dirs that have not confirmed what holds for all topics.

tests/cleaner/daemon/test_reload_guard.py shows what waits for them.
"""

from __future__ import annotations

from typing import Final

import pytest

from policies.config.config_layers import ConfigLayers
from policies.config.policy import TopicPolicy
from policies.plan import Request
from policies.reload import Confirmed, Edit, judge, newly_due
from tests.builders import NOW_MS, a_log, a_policy
from tests.partition_dirs import configured

UNLIMITED = a_policy()
ALL = [0, 10, 20]


@pytest.mark.parametrize(
    ("high_watermark", "assumes", "kept", "due"),
    [
        (30, False, UNLIMITED, ALL),
        (30, False, a_policy(retention_ms=2_000), [10, 20]),
        (30, False, a_policy(retention_ms=100), []),
        (30, False, a_policy(retention_ms=100, remote_storage_enable=True), ALL),
        (30, False, a_policy("compact"), ALL),
        (None, False, UNLIMITED, []),
        (None, True, UNLIMITED, ALL),
        (10, True, UNLIMITED, [0]),  # what the broker noted holds
    ],
)
def test_what_an_edit_alone_lets_go(
    high_watermark: int | None, assumes: bool, kept: TopicPolicy, due: list[int]
) -> None:
    log = a_log().segment(newest_ms=NOW_MS - 3_000).segments(50, 50, newest_ms=NOW_MS - 1_000)
    edit = Edit(kept, (), is_return=False)
    request = Request(NOW_MS, assume_committed=assumes)
    found = newly_due(log.high_watermark(high_watermark).facts(), a_policy(retention_ms=100), edit, request)
    assert [segment.base_offset for segment in found] == due


KEY: Final = "clock.jump.max"


def saying(hours: int) -> ConfigLayers:
    return configured(f"{KEY}={hours}h")


STRICT, MIDDLE, LOOSE = saying(1), saying(2), saying(3)


@pytest.mark.parametrize(
    ("confirmed", "waits", "held_hours"),
    [
        ([Confirmed((STRICT,), STRICT)], True, 1),
        ([Confirmed((STRICT,), STRICT), Confirmed((STRICT,), STRICT)], True, 1),
        ([Confirmed((STRICT,), STRICT), Confirmed((LOOSE,), LOOSE)], True, 1),
        ([Confirmed((LOOSE,), LOOSE), Confirmed((MIDDLE,), MIDDLE)], True, 2),
        ([Confirmed((LOOSE, STRICT), LOOSE)], False, 3),
        ([Confirmed((STRICT, MIDDLE), STRICT)], True, 1),
        ([Confirmed((LOOSE,), LOOSE), Confirmed((LOOSE,), LOOSE)], False, 3),
        ([Confirmed()], False, 3),
        ([], False, 3),
    ],
)
def test_a_weaker_guard_rail_waits_in_all_log_dirs_until_the_last_one_confirmed_it(
    confirmed: list[Confirmed], waits: bool, held_hours: int
) -> None:
    log_dirs = {f"/data{place}": one for place, one in enumerate(confirmed)}
    found = judge((), lambda _: a_policy(), Request(NOW_MS), LOOSE.broker_policy(), log_dirs)
    assert found.log_dirs == found.of_all.keys() == (log_dirs.keys() if waits else set())
    assert found.broker.value_of(KEY).value == held_hours * 3_600_000
    assert all("a guard rail grows weaker" in reason.text for reason in found.of_all.values())
