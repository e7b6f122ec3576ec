"""The bounded form of the soak: the whole daemon for ten seconds beside a producer."""

from __future__ import annotations

from tests.soak import BRIEF, idle, soak


def test_ten_seconds_lose_miss_and_double_nothing(tmp_path):
    findings = soak(tmp_path, 10, BRIEF)
    assert findings.is_good, "\n".join(findings.lines())
    assert findings.deleted
    assert findings.rounds["compaction"]


def test_having_nothing_to_do_costs_next_to_nothing(tmp_path):
    cost = idle(tmp_path, partitions=20, seconds=3)
    assert cost.wake_ups_per_second < 50
    assert cost.rss_bytes < 150 << 20
