"""Findings are told worst first."""

from __future__ import annotations

import pytest

from policies.findings.findings import (
    Circumstances,
    Finding,
    FindingCode,
    Harm,
    HeaderWalk,
    LogHistory,
    Noted,
    worst_first,
)
from tests.policies.findings.logs import log, segment


def a_finding(code: FindingCode, harm: Harm, path: str = "/a", position: int | None = None) -> Finding:
    return Finding(code, harm, path, "It is wrong.", "Mend it.", position)


def test_findings_sort_by_harm_then_by_place():
    note = a_finding(FindingCode.CHECKPOINT_STALE, Harm.NOTE)
    lost = a_finding(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "/b", 61)
    whole_file = a_finding(FindingCode.TORN_TAIL, Harm.DATA_LOST, "/b")
    earlier_file = a_finding(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "/a", 900)
    assert worst_first([note, lost, whole_file, earlier_file]) == [earlier_file, whole_file, lost, note]


def test_a_code_is_its_own_name():
    assert all(code.name == code.value for code in FindingCode)


def test_harms_are_apart_and_the_worst_comes_first() -> None:
    names = ["DATA_LOST", "WRONG_ANSWER", "NO_START", "SLOW_START", "WASTE", "NOTE"]
    assert [harm.name for harm in sorted(Harm)] == names


@pytest.mark.parametrize(
    ("is_live", "is_clean", "recovery_point", "recovered"),
    [
        (True, False, 0, []),
        (False, True, 0, []),
        (False, False, 0, [0, 10, 20]),
        (False, False, 9, [0, 10, 20]),
        (False, False, 10, [10, 20]),
        (False, False, 20, [20]),
        (False, False, 99, [20]),
    ],
)
def test_a_start_recovers_what_an_unclean_stop_left_behind_the_recovery_point(
    is_live: bool, is_clean: bool, recovery_point: int, recovered: list[int]
) -> None:
    facts = [segment(base, base + 10).facts for base in (0, 10, 20)]
    circumstances = Circumstances(is_live, is_clean, recovery_point, 0, was_compacted=False)
    history = LogHistory.of("/data/orders-0", facts, circumstances)
    assert [one.facts for one in history.segments] == facts
    standings = [one.standing for one in history.segments]
    assert [one.base_offset for one in standings if one.is_recovered] == recovered
    assert [one.base_offset for one in standings if one.is_last] == [20]
    assert {one.is_live for one in standings} == {is_live}
    assert {one.is_clean for one in standings if not one.is_recovered} <= {not is_live}
    assert LogHistory.of("/data/orders-0", [], circumstances).segments == []


def test_a_history_has_its_ends_and_is_whole_unless_something_is_gone() -> None:
    whole = log(segment(5, 10), segment(10, 20))
    assert (whole.start_offset, whole.end_offset, whole.is_whole, whole.is_damaged) == (5, 20, True, False)
    assert (log().start_offset, log().end_offset, log().is_damaged) == (0, 0, False)
    assert not log(segment(5, 9), segment(10, 20)).is_whole
    assert not log(segment(5, 10, is_full=False), segment(10, 20)).is_whole
    damaged = log(segment(5, 10), segment(10, 20, is_damaged=True))
    assert (damaged.is_whole, damaged.is_damaged) == (False, True)


@pytest.mark.parametrize(("first_dirty", "clean"), [(None, 0), (9, 0), (10, 1), (19, 1), (21, 1), (22, 2)])
def test_a_walk_counts_empty_batches_in_the_part_that_was_compacted(first_dirty: int | None, clean: int) -> None:
    counts = [{"batches": 4, "empty_batches": 2, "empty_bytes": 30, "gaps": 1, "size_bytes": 100}] * 2
    facts = [
        segment(base, end).facts._replace(**each) for (base, end), each in zip([(0, 10), (12, 22)], counts, strict=True)
    ]
    found = HeaderWalk.of(facts, first_dirty, 7)
    assert found == HeaderWalk(200, 7, 4 * clean, 2 * clean, 30 * clean, 3)


@pytest.mark.parametrize(
    ("is_live", "was_clean", "is_clean"),
    [(False, False, False), (False, True, True), (True, False, False), (True, True, False)],
)
@pytest.mark.parametrize("first_dirty", [None, 0])
def test_beside_a_live_broker_no_mark_of_a_clean_stop_counts(
    is_live: bool, was_clean: bool, is_clean: bool, first_dirty: int | None
) -> None:
    found = Noted(9, 3, 7, first_dirty).circumstances(is_live=is_live, was_clean=was_clean)
    assert found == Circumstances(is_live, is_clean, 7, 3, was_compacted=first_dirty is not None)
    assert found.whole_to == (7 if is_clean else None)
    unknown = Noted().circumstances(is_live=is_live, was_clean=was_clean)
    assert unknown == Circumstances(is_live, is_clean, 0, 0, was_compacted=False)
