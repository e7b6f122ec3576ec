"""Findings are told worst first."""

from __future__ import annotations

from policies.findings.findings import Finding, FindingCode, Harm, worst_first


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
