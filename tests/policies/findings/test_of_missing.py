"""Records that are gone: what is evidence of them, and what is only an index that is wrong by itself."""

from __future__ import annotations

from typing import Any

import pytest

from policies.findings.findings import FindingCode, Harm
from policies.findings.of_files import EmptiedSegment, IndexedTail, NamedBatch, NamedTime, missing_record_findings
from policies.findings.repairs import RepairCode, RepairFacts, RepairKind, Target, repair, targets_of
from tests.policies.findings.logs import log, segment, standing

GONE = EmptiedSegment(0, "00000000000000000000.index", True)
TAIL = IndexedTail(10, 500, 1000, (), (), ())
HOLED = log(segment(0, 10), segment(10, 15), segment(20, 30, standing=standing(20, is_last=True)))


@pytest.mark.parametrize(
    ("story", "changes", "is_lost"),
    [
        ("no index names more", {}, False),
        ("a batch behind the end", {"batches": [NamedBatch(16, 500)]}, True),
        ("an offset alone is wrong", {"batches": [NamedBatch(16, 499)]}, False),
        ("a position alone is wrong", {"batches": [NamedBatch(14, 500)]}, False),
        ("an offset of the next segment", {"batches": [NamedBatch(20, 500)]}, False),
        ("a later time behind the end", {"times": [NamedTime(1001, 16)]}, True),
        ("an offset alone is wrong", {"times": [NamedTime(1000, 16)]}, False),
        ("a marker behind the end", {"aborted": [16]}, True),
        ("the index leads behind its batches", {"shift_bytes": 61}, True),
    ],
)
def test_evidence(story: str, changes: dict[str, Any], is_lost: bool) -> None:
    found = missing_record_findings(HOLED, (), [TAIL._replace(**changes)], 0, None)
    assert (story, bool(found)) == (story, is_lost)
    assert all((one.code, one.harm) == (FindingCode.OFFSET_GAP, Harm.DATA_LOST) for one in found)


def test_where_no_offset_is_missing_an_index_is_only_wrong() -> None:
    whole = log(segment(0, 10), segment(10, 20), segment(20, 30, standing=standing(20, is_last=True)))
    named = IndexedTail(10, 500, 1000, [NamedBatch(20, 500)], [NamedTime(1001, 20)], [20])
    assert missing_record_findings(whole, (), [named], 0, None) == []
    at_end = IndexedTail(20, 500, 1000, [NamedBatch(30, 500)], (), ())
    assert missing_record_findings(whole, (), [at_end], 0, None)
    assert missing_record_findings(whole, (), [at_end], 0, 30) == [], "the broker stopped cleanly at this end"


@pytest.mark.parametrize(("base", "is_lost"), [(15, True), (17, True), (30, True), (12, False), (25, False)])
def test_an_index_without_a_log(base: int, is_lost: bool) -> None:
    assert bool(missing_record_findings(HOLED, [GONE._replace(base_offset=base)], (), 0, None)) == is_lost


@pytest.mark.parametrize(
    ("base", "whole_to", "is_live", "is_lost"),
    [
        (15, None, False, True),
        (40, None, False, True),
        (40, 40, False, False),
        (40, 50, False, True),
        (40, None, True, False),
    ],
)
def test_an_empty_log_whose_index_has_entries(base: int, whole_to: int | None, is_live: bool, is_lost: bool) -> None:
    """At the end of the log, where the broker stopped cleanly or still writes, an index is only wrong, or ahead."""
    empty = segment(base, base, standing=standing(base, is_last=base == 40, is_live=is_live))
    behind = [] if base == 40 else [segment(20, 40, standing=standing(20, is_last=True))]
    history = log(segment(0, base), empty, *behind)
    one = EmptiedSegment(base, f"{base:020d}.index", False)
    tail = IndexedTail(base, 0, -1, [NamedBatch(base + 1, 0)], (), ())
    for tails in ((), [tail]):
        found = missing_record_findings(history, [one], tails, 0, whole_to)
        text = f"Records are missing: {base:020d}.index has entries, and its .log is empty."
        assert [one.text for one in found] == [text] * is_lost
        assert missing_record_findings(history, [one], tails[:0], base + 1, whole_to) == []


def test_an_index_below_the_log_start_is_none() -> None:
    late = log(segment(20, 30, standing=standing(20, is_last=True)))
    assert missing_record_findings(late, [GONE], (), 0, None)
    assert missing_record_findings(late, [GONE], (), 20, None) == []


def test_evidence_is_not_made_anew() -> None:
    (lost,) = missing_record_findings(HOLED, (), [TAIL._replace(aborted=[16])], 0, None)
    names = [
        "00000000000000000010.index", "00000000000000000010.timeindex", "00000000000000000000.txnindex",
        "00000000000000000020.snapshot", "leader-epoch-checkpoint", "00000000000000000020.index", "partition.metadata",
    ]  # fmt: skip
    wrong = [lost._replace(path=f"/data/orders-0/{name}", harm=Harm.WRONG_ANSWER, repair="x") for name in names]
    targets = targets_of([lost, *wrong], frozenset(RepairKind))
    refused = {target.name for target in targets if repair(RepairFacts(target, 1)).code is RepairCode.RECORDS_MISSING}
    assert refused == {*names[:5]}, "what lies in another segment, or is of no log, is no evidence"
    elsewhere = targets_of([lost, wrong[0]._replace(path=f"/data/clicks-0/{names[0]}")], frozenset(RepairKind))
    assert [target.missing for target in elsewhere] == [None]


def test_a_log_that_ends_below_what_a_checkpoint_states_has_nothing_made_of_it() -> None:
    target = Target("/d/a-0/00000000000000000000.snapshot", RepairKind.SNAPSHOT, ("X",))
    facts = RepairFacts(target, 16, 8, stated_above=(("replication-offset-checkpoint", 7),))
    assert repair(facts).code is RepairCode.RECORDS_MISSING


def test_begun_deletion_is_told_beside_the_loss_which_stays_one() -> None:
    (lost,) = missing_record_findings(HOLED, [GONE._replace(base_offset=15)], (), 0, None)
    (told,) = missing_record_findings(HOLED, [GONE._replace(base_offset=15, deletion_ms=1_000)], (), 0, None)
    assert (told.code, told.harm, told.path) == (lost.code, lost.harm, lost.path)
    assert told.text.endswith(
        "A deletion that was to take this segment and all below it began at 1970-01-01T00:00:01Z."
    )
    assert told.remedy.startswith("If logcleaner clean -n deletes all below it,")
    assert told.remedy.endswith(lost.remedy)
