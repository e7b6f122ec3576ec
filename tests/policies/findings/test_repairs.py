"""What may be mended, and why the rest may not: every verdict, and no repair beyond its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.repairs import (
    DERIVED,
    LogEndFacts,
    RepairCode,
    RepairFacts,
    RepairKind,
    TailFacts,
    Target,
    TopicIdFacts,
    kind_of,
    missing_near,
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


END: Final = LogEndFacts(100, 20, None)
LOG_END: Final = RepairFacts(
    Target("/d/a-0/00000000000000000000.log", RepairKind.LOG_END, ("X",)), 1300, 100, log_end=END
)
NOT_WHOLE: Final = "nothing is derived from a log that is not whole"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (INDEX, "8 bytes, made of the log, in place of 16 bytes"),
        (replace(INDEX, size_bytes=None), "8 bytes, made of the log; it was missing"),
        (METADATA, "43 bytes, made of the cluster metadata; it was missing"),
        (replace(LOG, size_bytes=1300), "1,200 zero bytes behind the last batch are cut off, at byte 100"),
        (
            LOG_END,
            "the log ends at offset 20, byte 100; 1,200 bytes behind that are cut off, and a copy of them stays",
        ),
        (replace(LOG_END, size_bytes=100), "the log ends at offset 20, byte 100"),
        (
            replace(LOG_END, log_end=END._replace(whole_behind=1200)),
            "a whole batch follows at byte 1,200, behind the damage at byte 100: a cut would lose it; copy the "
            "directory, and take another replica",
        ),
        (
            replace(LOG_END, log_end=END._replace(refused=repair(replace(INDEX, is_name_taken=True)))),
            "00000000000000000000.index.deleted waits there, and would be replaced; clean removes it once its delay is "
            "over",
        ),
        (replace(INDEX, bytes_max=7), "8 bytes would be more than segment.index.bytes=7"),
        (replace(INDEX, is_same=True), "it is as it would be made"),
        (replace(INDEX, size_bytes=None, made_bytes=0), "it would be empty, and is missing"),
        (
            replace(INDEX, unmade_because="CRC"),
            f"{NOT_WHOLE}: CRC; only a copy of the records helps, another replica or a backup",
        ),
        (
            replace(INDEX, stated_above=(("a", 9), ("b", 11))),
            "it stays as evidence: a states offset 9, above the end of the log",
        ),
        (
            replace(INDEX, target=INDEX.target._replace(missing="Offsets are gone.")),
            "it stays as evidence: Offsets are gone",
        ),
        (
            replace(LOG, tail=TAIL._replace(indexed_position=100)),
            "records seem to have been lost: the offset index names a batch at byte 100, where there are only zeros",
        ),
        (
            replace(LOG, tail=TAIL._replace(known_offsets=(("a", 20), ("b", 21), ("c", 22)))),
            "records seem to have been lost: b states offset 21, and the batches end at 20",
        ),
        (
            replace(METADATA, topic=TOPIC._replace(newest_epoch=8)),
            "the log has leader epoch 8, above the 7 of the cluster metadata: it may be that of a topic that was "
            "deleted and made again",
        ),
        (
            replace(METADATA, topic=TOPIC._replace(other_ids=(OURS, OTHER))),
            f"the cluster metadata gives the name the id {OURS}, and something here says {OTHER}",
        ),
    ],
)
def test_a_verdict_says_what_is_done_or_why_nothing_is(facts: RepairFacts, text: str) -> None:
    assert repair(facts).text == text


@pytest.mark.parametrize(
    ("path", "kind", "is_near"),
    [
        ("/d/a-0/00000000000000000005.index", RepairKind.INDEX, True),
        ("/d/a-0/00000000000000000006.index", RepairKind.INDEX, False),
        ("/d/a-1/00000000000000000005.index", RepairKind.INDEX, False),
        ("/d/a-0/00000000000000000006.snapshot", RepairKind.SNAPSHOT, True),
        ("/d/a-0/leader-epoch-checkpoint", RepairKind.LEADER_EPOCHS, True),
        ("/d/a-1/leader-epoch-checkpoint", RepairKind.LEADER_EPOCHS, False),
        ("/d/a-0/partition.metadata", RepairKind.TOPIC_ID, False),
    ],
)
def test_records_that_are_gone_keep_the_files_that_are_made_of_them(path: str, kind: RepairKind, is_near: bool) -> None:
    def gap(code: FindingCode, harm: Harm) -> Finding:
        return Finding(code, harm, "/d/a-0/00000000000000000005.log", "They are gone.", "")

    found = missing_near(path, kind, [gap(FindingCode.OFFSET_GAP, Harm.DATA_LOST)])
    assert found == ("They are gone." if is_near else None)
    others = [gap(FindingCode.OFFSET_GAP, Harm.NOTE), gap(FindingCode.TORN_TAIL, Harm.DATA_LOST)]
    assert missing_near(path, kind, others) is None


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
