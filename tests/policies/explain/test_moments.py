"""Every moment of an explanation is exact: a millisecond before it the partition is as now, and then it is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.explain.changes import ChangeCode
from policies.explain.fates import case_of
from policies.explain.observations import ActiveUse
from policies.explain.rolling import jitter_max_ms, roll_of
from policies.plan import PartitionPlan, Request
from policies.planning import plan_partition
from policies.reasons import INT64_MAX, Action, ReasonCode
from policies.retention import retention
from storage.log.config import LogConfig
from storage.log.roll import ActiveFacts, Arrival, must_roll
from tests.builders import NOW_MS, a_log, a_policy
from tests.policies.explain.cases import AROUND_MS, Drawn, drawn, partitions, policies
from tests.sampled import is_whole

EXAMPLES_MAX: Final = 1_000 if is_whole() else 200
LATER_MS: Final = st.integers(1, 4 * AROUND_MS)
SEEN: Final[Counter[str]] = Counter()
"""How often each change came: a property of what never happens proves nothing."""


def fates(planned: PartitionPlan) -> dict[int, Action]:
    return {verdict.base_offset: verdict.action for verdict in planned.verdicts}


def section_of(planned: PartitionPlan) -> tuple[int, int] | None:
    section = planned.section
    return (section.first_dirty_offset, section.first_uncleanable_offset) if section else None


COUNTED_BY_FILE_NO_MORE: Final = drawn(
    a_log().segment(newest_ms=NOW_MS - 11).segment(newest_ms=NOW_MS + 5, mtime_ms=NOW_MS - 18),
    a_policy(retention_ms=20, retention_future_timestamps="mtime"),
)
"""The second segment expires by its file time, until its newest record no longer lies in the future."""


@settings(max_examples=EXAMPLES_MAX)
@given(partitions(), st.booleans())
def test_the_intended_plan_is_that_of_a_run_that_a_person_confirms(found: Drawn, confirmed: bool) -> None:
    asked = Request(NOW_MS, confirmed=confirmed)
    planned = plan_partition(found.facts, found.policy, asked)
    assert case_of(planned, found.seen, asked, BrokerPolicy()).intended == found.planned(NOW_MS)


@settings(max_examples=EXAMPLES_MAX)
@given(partitions("delete", "compact,delete"))
@example(COUNTED_BY_FILE_NO_MORE)
def test_a_segment_that_expires_at_a_moment_is_kept_before_and_deleted_then(found: Drawn) -> None:
    """Retention runs at each expiry, as a broker's does: what goes first is gone when the next one is looked at."""
    expiries = {
        fate.facts.base_offset: fate.expires_ms
        for fate in found.explained().segments
        if fate.expires_ms is not None and fate.expires_ms > NOW_MS
    }
    deleted = retention(found.facts, found.policy, NOW_MS).deleted
    facts = found.facts.without_oldest(min(len(found.facts.segments) - 1, deleted))
    for at_ms in sorted(set(expiries.values())):
        before, then = retention(facts, found.policy, at_ms - 1), retention(facts, found.policy, at_ms)
        assert before.deleted == 0
        assert {v.base_offset for v in then.gone} == {base for base, ms in expiries.items() if ms == at_ms}
        facts = facts.without_oldest(min(len(facts.segments) - 1, then.deleted))
        SEEN["expiry after expiry"] += 1


@settings(max_examples=EXAMPLES_MAX)
@given(partitions("delete", "compact,delete", future=("off",)))
def test_one_run_at_the_moment_deletes_it_too_and_no_run_before_does(found: Drawn) -> None:
    for fate in found.explained().segments:
        base, at_ms = fate.facts.base_offset, fate.expires_ms
        if at_ms is None or at_ms >= INT64_MAX:
            continue
        assert fates(found.planned(at_ms - 1))[base] is not Action.DELETE
        if at_ms > NOW_MS:
            assert fates(found.planned(at_ms))[base] is Action.DELETE
        else:
            assert fate.retention is not None
            assert fate.retention.code is ReasonCode.RETENTION_TIME


DUE_BY_ITS_OLDEST_RECORD: Final = drawn(
    a_log().segment(first_batch_ms=NOW_MS - 5, newest_ms=NOW_MS - 5).segment(),
    a_policy("compact", max_compaction_lag_ms=10, min_cleanable_dirty_ratio=1.0),
)
"""One sealed segment, whose first batch is overdue before any ratio is reached."""


@settings(max_examples=2 * EXAMPLES_MAX)
@given(partitions(future=("off",)), LATER_MS)
@example(DUE_BY_ITS_OLDEST_RECORD, 6)
def test_every_change_comes_at_its_moment_and_nothing_before_the_first(found: Drawn, later_ms: int) -> None:
    changes = found.explained(confirmed=True).changes
    now = found.planned(NOW_MS)
    first_ms = changes[0].at_ms if changes else INT64_MAX
    before = found.planned(min(NOW_MS + later_ms, first_ms - 1))
    assert (fates(before), section_of(before)) == (fates(now), section_of(now))
    for place, change in enumerate(changes):
        SEEN[change.code] += 1
        before, then = found.planned(change.at_ms - 1), found.planned(change.at_ms)
        match change.code:
            case ChangeCode.EXPIRY:
                assert fates(before)[change.first_base_offset or 0] is not Action.DELETE
                assert fates(then)[change.first_base_offset or 0] is Action.DELETE
                assert fates(then)[change.last_base_offset or 0] is Action.DELETE
            case ChangeCode.COMPACTION:
                assert (now.compaction, before.compaction) == (None, None)
                assert then.compaction is not None
                assert change.size_bytes == then.compaction.size_bytes
            case ChangeCode.COMPACTION_LAG_OVER if place == 0 or not found.policy.cleanup_delete:
                ends = [section_of(planned) for planned in (now, before, then)]
                assert ends[0] == ends[1]
                assert ends[1] is not None
                assert ends[2] is None or ends[2][1] > ends[1][1] == change.first_base_offset
    if changes:
        then = found.planned(first_ms)
        assert (fates(then), section_of(then)) != (fates(now), section_of(now))


def test_every_change_was_seen() -> None:
    if not SEEN:
        pytest.skip("the properties were not run")
    assert {*SEEN} == {"expiry after expiry", ChangeCode.EXPIRY, ChangeCode.COMPACTION, ChangeCode.COMPACTION_LAG_OVER}
    assert min(SEEN.values()) >= (5 if is_whole() else 1)


@settings(max_examples=EXAMPLES_MAX)
@given(partitions())
def test_the_fates_are_those_of_the_plan_and_a_guard_rail_lets_nothing_come_by_itself(found: Drawn) -> None:
    explained = found.explained()
    confirmed = found.explained(confirmed=True)
    assert [fate.verdict for fate in confirmed.segments] == list(found.planned(NOW_MS).verdicts)
    if explained.planned.guard is not None:
        assert not explained.changes
        assert any(blocker.code.value == explained.planned.guard.code.value for blocker in explained.blockers)
    held = Drawn(replace(found.facts, held_since_ms=NOW_MS), found.policy, found.seen).explained()
    assert not held.changes
    assert [blocker.code for blocker in held.blockers][:1] == ["HELD"]


FIRST_MS = st.one_of(st.integers(NOW_MS - AROUND_MS, NOW_MS), st.just(-1))


@settings(max_examples=EXAMPLES_MAX)
@given(
    policies(),
    FIRST_MS,
    st.integers(1, 100),
    st.integers(1, AROUND_MS),
    st.integers(0, AROUND_MS),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 200),
)
def test_the_active_segment_is_closed_exactly_where_a_broker_closes_it(
    policy: TopicPolicy,
    first_ms: int,
    bytes_: int,
    segment_ms: int,
    jitter_ms: int,
    entries: int,
    time_entries: int,
    batch: int,
) -> None:
    policy = replace(
        policy, segment_ms=segment_ms, segment_jitter_ms=jitter_ms, segment_bytes=100, segment_index_bytes=96
    )
    log = a_log().segment(bytes=bytes_).facts()
    roll = roll_of(log, policy, ActiveUse(first_ms, entries, time_entries))
    assert roll is not None
    limit_ms = min(segment_ms, policy.max_compaction_lag_ms) if policy.cleanup_compact else segment_ms
    active = ActiveFacts(0, bytes_, first_ms, NOW_MS, entries * 8, time_entries * 12)

    def closes(at_ms: int, size_bytes: int, jitter: int) -> bool:
        config = LogConfig(100, limit_ms, segment_index_bytes=96)
        return must_roll(active._replace(jitter_ms=jitter), Arrival(size_bytes, at_ms, 9), config, NOW_MS)

    if not roll.index_entries_left:
        assert closes(first_ms, 1, 0)
        return
    quiet_ms = max(first_ms, 0)
    assert closes(quiet_ms, batch, 0) == (batch > roll.bytes_left)
    if roll.earliest_ms is None or roll.latest_ms is None:
        assert first_ms < 0
        return
    if roll.bytes_left:
        jitter = jitter_max_ms(policy)
        assert not closes(roll.latest_ms - 1, 1, 0)
        assert closes(roll.latest_ms, 1, 0)
        assert not closes(roll.earliest_ms - 1, 1, jitter)
        assert closes(roll.earliest_ms, 1, jitter)


def test_an_empty_active_segment_is_never_closed() -> None:
    assert roll_of(a_log().segment().empty_active().facts(), a_policy(), ActiveUse()) is None


@pytest.mark.parametrize("entries", [11, 12])
def test_a_full_index_leaves_no_entry(entries: int) -> None:
    policy = a_policy(segment_index_bytes=96)
    roll = roll_of(a_log().segment().facts(), policy, ActiveUse(NOW_MS, entries, 0))
    assert roll is not None
    assert roll.index_entries_left == 12 - entries if entries == 12 else roll.index_entries_left == 1
