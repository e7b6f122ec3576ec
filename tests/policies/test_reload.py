"""The segments that a saved edit alone lets go; tests/cleaner/daemon/test_reload_guard.py shows what waits for them."""

from __future__ import annotations

import pytest

from policies.config.policy import TopicPolicy
from policies.plan import Request
from policies.reload import Edit, newly_due
from tests.builders import NOW_MS, a_log, a_policy

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
