"""Anomalies judged by where a file stands: what is damage in one segment is healthy in another."""

from __future__ import annotations

import pytest

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.of_files import (
    HollowSwapFacts,
    early_end_findings,
    file_findings,
    missing_findings,
    swap_findings,
)
from storage.anomalies import Anomaly, SeenAnomaly
from storage.names import FileKind
from tests.policies.findings.logs import log, segment, standing

OF_OPEN_INDEX = (Anomaly.ENTRIES_ZERO, Anomaly.TIMES_ZERO, Anomaly.TIME_END)
OF_AN_END = (Anomaly.TAIL, Anomaly.ZERO_TAIL)


def seen(anomaly: Anomaly, kind: FileKind = FileKind.LOG) -> SeenAnomaly:
    return SeenAnomaly(anomaly, kind, 61, 7, "something is there")


@pytest.mark.parametrize("anomaly", list(Anomaly))
def test_every_anomaly_of_a_sealed_segment_is_a_finding(anomaly):
    (found,) = file_findings([seen(anomaly)], standing())
    assert (found.position, found.offset) == (61, 7)
    assert found.text.startswith("Something is there")
    assert found.text.endswith(".")
    assert found.remedy.endswith(".")


@pytest.mark.parametrize("anomaly", OF_OPEN_INDEX)
def test_an_open_index_is_healthy_beside_a_broker_and_where_one_was_killed(anomaly):
    one = [seen(anomaly, FileKind.TIME_INDEX)]
    assert file_findings(one, standing(is_last=True, is_live=True)) == []
    assert file_findings(one, standing(is_last=True, is_recovered=True)) == []
    assert len(file_findings(one, standing(is_last=True))) == 1
    assert len(file_findings(one, standing(is_live=True))) == 1


@pytest.mark.parametrize(("anomaly", "worst"), list(zip(OF_AN_END, (Harm.DATA_LOST, Harm.NO_START), strict=True)))
def test_the_end_of_a_log_is_torn_while_a_broker_writes_and_behind_a_crash(anomaly, worst):
    assert file_findings([seen(anomaly)], standing(is_last=True, is_live=True)) == []
    (crashed,) = file_findings([seen(anomaly)], standing(is_last=True, is_recovered=True))
    (stopped,) = file_findings([seen(anomaly)], standing(is_last=True))
    assert (crashed.harm, stopped.harm) == (Harm.SLOW_START, worst)
    assert ".kafka_cleanshutdown" in stopped.remedy
    (sealed,) = file_findings([seen(anomaly)], standing(is_recovered=True))
    assert (sealed.harm, "later segments" in sealed.text) == (Harm.DATA_LOST, True)


def test_what_recovery_builds_anew_is_less_harm():
    one = [seen(Anomaly.ENTRY_ASTRAY, FileKind.INDEX)]
    assert [found.harm for found in file_findings(one, standing(is_recovered=True))] == [Harm.SLOW_START]
    assert [found.harm for found in file_findings(one, standing())] == [Harm.WRONG_ANSWER]


def test_what_can_be_derived_again_names_its_repair():
    (index,) = file_findings([seen(Anomaly.ENTRY_ASTRAY, FileKind.INDEX)], standing(42))
    (log,) = file_findings([seen(Anomaly.CRC)], standing(42))
    (zeros,) = file_findings([seen(Anomaly.ZERO_TAIL)], standing(42))
    assert (index.repair, log.repair, zeros.repair) == (RepairGroup.DERIVED, None, RepairGroup.ZERO_TAIL)
    assert index.path == "/data/orders-0/00000000000000000042.index"


def test_a_missing_index_is_told_where_there_is_something_to_index():
    both = (FileKind.INDEX, FileKind.TIME_INDEX)
    assert missing_findings(both, 0, standing()) == []
    assert missing_findings(both, 61, standing(is_last=True, is_live=True)) == []
    assert missing_findings(both, 61, standing(is_last=True, is_recovered=True)) == []  # killed behind the first append
    assert missing_findings(both, 61, standing(is_recovered=True)) != []
    found = missing_findings(both, 61, standing())
    assert [(one.code, one.harm) for one in found] == [
        (FindingCode.INDEX_MISSING, Harm.SLOW_START),
        (FindingCode.INDEX_MISSING, Harm.WRONG_ANSWER),
    ]


@pytest.mark.parametrize(
    ("damage", "replaced", "what", "so", "position"),
    [
        (None, None, "The file is empty", "makes it a part of the log, with the damage", None),
        (
            "CRC",
            "0.log",
            "The file is damaged at byte 1,061 (CRC)",
            "puts it in the place of 0.log, which has records",
            1061,
        ),
        (None, "5.log", "The file is empty", "puts it beside 5.log, whose records from there on go unread", None),
    ],
)
@pytest.mark.parametrize("is_undone", [False, True])
def test_a_hollow_swap_is_told_with_what_the_next_start_does_with_it(
    damage: str | None, replaced: str | None, what: str, so: str, position: int | None, is_undone: bool
) -> None:
    (found,) = swap_findings([HollowSwapFacts("/data/orders-0/0.log.swap", damage, 1061, replaced, is_undone)])
    assert found.text == f"{what}: the next start of the broker {so}."
    assert (found.code, found.harm, found.position) == (FindingCode.SWAP_LEFT, Harm.DATA_LOST, position)
    assert ("which throws the .swap away" in found.remedy) is is_undone
    assert ("the start also deletes the .deleted files" in found.remedy) is not is_undone


LOG = f"/data/orders-0/{10:020d}.log"


@pytest.mark.parametrize(
    ("counted", "is_damaged", "told_already", "is_told"),
    [
        (19, False, None, True),
        (20, False, None, False),
        (None, False, None, False),
        (19, True, None, False),
        (19, False, (FindingCode.TORN_TAIL, LOG), False),
        (19, False, (FindingCode.ZERO_TAIL, LOG), False),
        (19, False, (FindingCode.BATCH_CORRUPT, LOG), True),
        (19, False, (FindingCode.TORN_TAIL, "/data/orders-0/other"), True),
    ],
)
@pytest.mark.parametrize("is_lost", [False, True])
def test_whole_batches_that_a_start_does_not_count_are_told_once(
    counted: int | None, is_damaged: bool, told_already: tuple[FindingCode, str] | None, is_told: bool, is_lost: bool
) -> None:
    history = log(segment(0, 10), segment(10, 20, is_damaged=is_damaged))
    already = [] if told_already is None else [Finding(told_already[0], Harm.DATA_LOST, told_already[1], "", "")]
    found = early_end_findings(history, already, counted, is_lost=is_lost)
    index = LOG.replace(".log", ".index")
    expected = (
        (FindingCode.TORN_TAIL, LOG, RepairGroup.LOG_END)
        if is_lost
        else (FindingCode.OFFSET_INDEX_WRONG, index, RepairGroup.DERIVED)
    )
    assert [(one.code, one.path, one.repair) for one in found] == [expected] * is_told
    assert all("takes offset 19 for the end, and gives the offsets 19 to 19, which" in one.text for one in found)
    assert early_end_findings(log(), [], 0, is_lost=is_lost) == []
