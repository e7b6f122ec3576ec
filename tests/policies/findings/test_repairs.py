"""What may be mended, and why the rest may not: every verdict, and no repair beyond its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.repairs import (
    DERIVED,
    RepairCode,
    RepairFacts,
    RepairKind,
    TailFacts,
    Target,
    TopicIdFacts,
    kind_of,
    repair,
    targets_of,
)

OURS, OTHER = "WMzPO8fURIaxEuNp7zC_pQ", "HOm0pXrrTJ63md-DgiluXA"
DIRECTORY: Final = "oweCo4A2xmp6qmt6LvDoxQ"
INDEX: Final = RepairFacts(Target("/d/a-0/00000000000000000000.index", RepairKind.INDEX, ("X",)), 16, 8)
TOPIC: Final = TopicIdFacts(1, DIRECTORY, OURS, (1, 2), DIRECTORY, 7, 2, None, (OURS,), ())
METADATA: Final = RepairFacts(Target("/d/a-0/partition.metadata", RepairKind.TOPIC_ID, ("X",)), None, 43, topic=TOPIC)
TAIL: Final = TailFacts(100, 20, 50, (("replication-offset-checkpoint", 20),))
LOG: Final = RepairFacts(Target("/d/a-0/00000000000000000000.log", RepairKind.ZERO_TAIL, ("X",)), 300, 100, tail=TAIL)


@pytest.mark.parametrize(
    ("story", "facts", "code"),
    [
        ("a wrong index", INDEX, RepairCode.REPAIRABLE),
        ("a missing one", replace(INDEX, size_bytes=None), RepairCode.REPAIRABLE),
        ("one that may be empty", replace(INDEX, made_bytes=0), RepairCode.REPAIRABLE),
        ("a missing one that would be empty", replace(INDEX, size_bytes=None, made_bytes=0), RepairCode.NOTHING_TO_DO),
        ("it is right", replace(INDEX, is_same=True), RepairCode.NOTHING_TO_DO),
        ("the log is damaged", replace(INDEX, unmade_because="CRC"), RepairCode.LOG_DAMAGED),
        ("remote storage", replace(INDEX, untouchable_because="remote"), RepairCode.UNTOUCHABLE),
        ("another file waits", replace(INDEX, is_name_taken=True), RepairCode.NAME_TAKEN),
        ("larger than a broker takes", replace(INDEX, bytes_max=7), RepairCode.TOO_LARGE),
        ("as large as a broker takes", replace(INDEX, bytes_max=8), RepairCode.REPAIRABLE),
        ("zeros behind the last batch", LOG, RepairCode.REPAIRABLE),
        ("no zeros", replace(LOG, size_bytes=100), RepairCode.NOTHING_TO_DO),
        ("something else behind it", replace(LOG, unmade_because="bytes"), RepairCode.LOG_DAMAGED),
        ("its topic", METADATA, RepairCode.REPAIRABLE),
        ("a damaged file", replace(METADATA, size_bytes=3), RepairCode.REPAIRABLE),
    ],
)
def test_verdicts(story: str, facts: RepairFacts, code: RepairCode) -> None:
    decided = repair(facts)
    assert (story, decided.code) == (story, code)
    assert decided.is_repairable == (code is RepairCode.REPAIRABLE)
    assert decided.text


@pytest.mark.parametrize(
    ("story", "changes", "code"),
    [
        ("no metadata log", {"topic_id": None}, RepairCode.NOT_ASSIGNED),
        ("no node.id", {"node_id": None}, RepairCode.NOT_ASSIGNED),
        ("no directory.id", {"directory_id": None}, RepairCode.NOT_ASSIGNED),
        ("another broker's", {"replicas": (2, 3)}, RepairCode.NOT_ASSIGNED),
        ("another directory's", {"assigned_directory": "x"}, RepairCode.NOT_ASSIGNED),
        ("metadata without directories", {"assigned_directory": None}, RepairCode.NOT_ASSIGNED),
        ("the file names another topic", {"stated_id": OTHER}, RepairCode.OTHER_TOPIC),
        ("a topic of that name was removed", {"other_ids": (OTHER, OURS)}, RepairCode.OTHER_TOPIC),
        ("a stray of that name", {"namesakes": ("/d/a-0.x-stray",)}, RepairCode.OTHER_TOPIC),
        ("leader epochs of another life", {"newest_epoch": 8}, RepairCode.OTHER_TOPIC),
        ("leader epochs up to the present one", {"newest_epoch": 7}, RepairCode.REPAIRABLE),
        ("no leader epochs", {"newest_epoch": None}, RepairCode.REPAIRABLE),
        ("the file names this topic", {"stated_id": OURS}, RepairCode.REPAIRABLE),
    ],
)
def test_a_topic_id_is_written_only_where_nothing_speaks_of_another(
    story: str, changes: dict[str, Any], code: RepairCode
) -> None:
    assert (story, repair(replace(METADATA, topic=TOPIC._replace(**changes))).code) == (story, code)


@pytest.mark.parametrize(
    ("story", "changes"),
    [
        ("the index names a batch in the zeros", {"indexed_position": 100}),
        ("a checkpoint lies above", {"known_offsets": (("replication-offset-checkpoint", 21),)}),
        ("a snapshot lies above", {"known_offsets": (("recovery-point", 20), ("21.snapshot", 21))}),
    ],
)
def test_no_log_is_cut_where_records_were(story: str, changes: dict[str, Any]) -> None:
    assert (story, repair(replace(LOG, tail=TAIL._replace(**changes))).code) == (story, RepairCode.RECORDS_MISSING)


def test_a_log_is_only_ever_cut_at_the_end_of_its_batches() -> None:
    for start, size, end, indexed, known in product((0, 100), (100, 300), (0, 20), (None, 0, 99, 100), (0, 20, 21)):
        tail = TailFacts(start, end, indexed, (("checkpoint", known),))
        decided = repair(replace(LOG, size_bytes=size, made_bytes=start, tail=tail))
        if decided.is_repairable:
            assert decided.made_bytes == start < size
            assert known <= end
            assert indexed is None or indexed < start


def test_targets_are_the_files_that_were_asked_for() -> None:
    names = {
        "00000000000000000000.index": RepairKind.INDEX,
        "00000000000000000000.timeindex": RepairKind.TIME_INDEX,
        "00000000000000000000.txnindex": RepairKind.TXN_INDEX,
        "00000000000000000000.snapshot": RepairKind.SNAPSHOT,
        "leader-epoch-checkpoint": RepairKind.LEADER_EPOCHS,
        "00000000000000000000.log": RepairKind.ZERO_TAIL,
        "partition.metadata": RepairKind.TOPIC_ID,
        "00000000000000000000.index.deleted": None,
        "replication-offset-checkpoint": None,
    }
    findings = [
        Finding(FindingCode.INDEX_MISSING, Harm.NO_START, f"/d/a-0/{name}", "", "", repair=kind)
        for name in names
        for kind in ("something", None)
    ]
    assert {name: kind_of(f"/d/a-0/{name}") for name in names} == names
    assert {target.kind for target in targets_of(findings, DERIVED)} == DERIVED
    assert [t.name for t in targets_of(findings, {RepairKind.ZERO_TAIL})] == ["00000000000000000000.log"]
    assert {t.kind for t in targets_of(findings, frozenset(RepairKind))} == {*RepairKind} - {RepairKind.LOG_END}
    log = "/d/a-0/00000000000000000000.log"
    ended = Finding(FindingCode.TORN_TAIL, Harm.DATA_LOST, log, "", "", repair=RepairGroup.LOG_END)
    assert [t.kind for t in targets_of([ended], frozenset(RepairKind))] == [RepairKind.LOG_END]
