"""A date that is certain is exact: then a run takes the segment or its record, and a millisecond before none does."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy import BrokerPolicy
from policies.explain.fates import Case, case_of
from policies.plan import Request
from policies.planning import plan_partition
from policies.prove_erased import Departure, DepartureCode, FileHolding, Need, departure
from policies.reasons import Action
from tests.builders import NOW_MS, a_log, a_policy
from tests.policies.explain.cases import DAY_MS, Drawn, drawn, partitions

EXAMPLES_MAX: Final = 300
SEEN: Final[Counter[str]] = Counter()


def case(found: Drawn, **request: bool) -> Case:
    asked = Request(NOW_MS, **request)
    return case_of(plan_partition(found.facts, found.policy, asked), found.seen, asked, BrokerPolicy())


def takes(of: Case, one: Departure, holding: FileHolding, at_ms: int) -> bool:
    """Whether a run at a moment takes what the departure is about."""
    planned = of.planned_at(at_ms)
    if one.code is DepartureCode.RETENTION:
        verdicts = {verdict.base_offset: verdict.action for verdict in planned.verdicts}
        return verdicts[holding.base_offset] is Action.DELETE
    return planned.compaction is not None and planned.compaction.round.end_offset > holding.latest_offset


@settings(max_examples=EXAMPLES_MAX)
@given(partitions(future=("off",)), st.floats(0, 1), st.floats(0, 1))
def test_a_certain_date_is_exact(found: Drawn, segment: float, latest: float) -> None:
    of, facts = case(found), found.facts
    base = facts.segments[round(segment * (len(facts.segments) - 1))].base_offset
    offset = base + round(latest * max(facts.log_end_offset - 1 - base, 0))
    holding = FileHolding(base, offset, False, False, None)
    one = departure(of, holding)
    SEEN[f"{one.code} {one.is_certain}"] += 1
    assert one.text.endswith(".")
    assert one.at_ms is not None or one.needs
    if not one.is_certain or one.at_ms is None:
        return
    due_ms = one.at_ms - found.policy.file_delete_delay_ms
    assert due_ms >= NOW_MS
    assert takes(of, one, holding, due_ms)
    is_active = base == facts.active.base_offset  # whose date is that of a log to which somebody writes
    if due_ms > NOW_MS and not is_active:
        assert not takes(of, one, holding, due_ms - 1)


def test_dates_and_needs_were_drawn() -> None:
    if sum(SEEN.values()) >= EXAMPLES_MAX:
        wanted = {"RETENTION True", "SUPERSEDED True", "SUPERSEDED False", "KEPT False"}
        assert {one for one in wanted if not SEEN[one]} == set()


OLD: Final = a_log().segment(newest_ms=NOW_MS - DAY_MS).segment(newest_ms=NOW_MS - DAY_MS)


def test_latest_value_waits_for_a_tombstone_unless_retention_is_sooner() -> None:
    holding = FileHolding(0, 3, True, False, None)
    compacted = drawn(OLD, a_policy("compact"))
    assert departure(case(compacted), holding)[:3] == (DepartureCode.LATEST_VALUE, None, (Need.DELETE_KEY,))
    both = drawn(OLD, a_policy("compact,delete", retention_ms=2 * DAY_MS))
    one = departure(case(both), holding)
    assert (one.code, one.at_ms, one.is_certain) == (DepartureCode.RETENTION, NOW_MS + DAY_MS + 1 + 60_000, True)


def test_tombstone_of_a_quiet_log_has_its_horizon_at_the_earliest() -> None:
    quiet = drawn(OLD.empty_active().compacted_to(20), a_policy("compact", min_cleanable_dirty_ratio=0.0))
    one = departure(case(quiet), FileHolding(0, 3, True, True, NOW_MS + 5))
    assert one[:3] == (DepartureCode.TOMBSTONE, NOW_MS + 5 + 60_000, (Need.ROLL, Need.WRITE))
    written = drawn(OLD.empty_active().compacted_to(10), a_policy("compact", min_cleanable_dirty_ratio=0.0))
    one = departure(case(written), FileHolding(0, 3, True, True, NOW_MS + 5))
    assert one[:3] == (DepartureCode.TOMBSTONE, NOW_MS + 5 + 60_000, ())


def test_size_alone_needs_that_more_is_written() -> None:
    sized = drawn(OLD, a_policy(retention_bytes=1000))
    assert departure(case(sized), FileHolding(0, 3, True, False, None))[:3] == (
        DepartureCode.RETENTION, None, (Need.WRITE,),
    )  # fmt: skip


def test_what_nobody_limits_is_removed_by_a_person() -> None:
    assert departure(case(drawn(OLD, a_policy())), FileHolding(0, 3, True, False, None)).needs == (Need.REMOVE,)


def test_a_guard_rail_wants_a_confirmation() -> None:
    guarded = drawn(OLD, a_policy(retention_ms=10, max_delete_ratio=0.5))
    one = departure(case(guarded, in_place=True), FileHolding(0, 3, True, False, None))
    assert one.code is DepartureCode.RETENTION
    assert Need.CONFIRM in one.needs


def test_active_segment_that_is_written_to_goes_later() -> None:
    log = a_log().segment(newest_ms=NOW_MS - 10)
    one = departure(case(drawn(log, a_policy(retention_ms=100, segment_ms=1000))), FileHolding(0, 3, True, False, None))
    assert one.at_ms == NOW_MS + 1000 + 100 + 60_000
