"""What a sweep does with each leftover that a person names, and what it says."""

from __future__ import annotations

import pytest

from policies.findings.findings import FindingCode, Harm
from policies.findings.only_copies import OnlyCopy
from policies.findings.sweeping import (
    LeftoverFacts,
    LeftoverKind,
    SweepAct,
    SweepVerdict,
    only_copy_findings,
    sweep_verdict,
)
from policies.preflight.lost import SetAside
from storage.names import TopicPartition

NOW_MS = 1_700_000_000_000
LOG, INDEX = (f"orders-0/00000000000000000010.{kind}.deleted" for kind in ("log", "index"))
COPY = OnlyCopy(10, 19, ())
FILE, INDEX_FILE = (LeftoverFacts(name, LeftoverKind.DELETED_FILE, due_ms=NOW_MS) for name in (LOG, INDEX))
DELETE = LeftoverFacts("orders-0.f00-delete", LeftoverKind.DELETE_DIRECTORY, due_ms=NOW_MS)
STRAY = LeftoverFacts("orders-0.f00-stray", LeftoverKind.STRAY_DIRECTORY, new_name="orders-0.f00-delete")
SOLE = SetAside("orders-0.f00-stray", TopicPartition("orders", 0), "id", 5, 20)
BACK = "while the broker is stopped, take .deleted off its name"
REPAIR = "and run logcleaner verify --repair orders-0; or move the file to a safe place"


@pytest.mark.parametrize(
    ("facts", "act", "text"),
    [
        (FILE, SweepAct.UNLINK, "its delay is over"),
        (DELETE, SweepAct.UNLINK, "its delay is over"),
        (STRAY, SweepAct.RENAME, "a stray directory is renamed first, and unlinked after the delay"),
        (
            FILE._replace(due_ms=NOW_MS + 1),
            SweepAct.LEAVE,
            "its delay (file.delete.delay.ms) ends at 2023-11-14T22:13:20Z",
        ),
        (
            STRAY._replace(new_name=None),
            SweepAct.LEAVE,
            "its name as that of a deleted partition is taken, or would not be one of Kafka's",
        ),
        (
            DELETE._replace(nested="lost+found"),
            SweepAct.LEAVE,
            "holds a directory, lost+found, which is not Kafka's: look at it first",
        ),
        (
            FILE._replace(is_held=True),
            SweepAct.LEAVE,
            "its partition is on hold after a restore, and may get it back: restore --release ends the hold",
        ),
        (
            STRAY._replace(sole_copy=SOLE),
            SweepAct.LEAVE,
            "may be the only copy of orders-0, offsets 5 to 19, which belongs here: while no broker runs, rename the"
            " directory to orders-0; or move the directory to a safe place",
        ),
        (
            STRAY._replace(sole_copy=SOLE._replace(topic_id=None, beside="orders-0")),
            SweepAct.LEAVE,
            "may be the only copy of orders-0, offsets 5 to 19, which belongs here: while no broker runs, move orders-0"
            " out of the log dir, and rename the directory to orders-0, and run logcleaner verify --repair=topic-id; or"
            " move the directory to a safe place",
        ),
        (
            FILE._replace(unknown_because="the log cannot be read"),
            SweepAct.LEAVE,
            "nobody knows whether the log needs it: the log cannot be read",
        ),
        (
            FILE._replace(only_copy=COPY),
            SweepAct.LEAVE,
            f"may be the only copy of offsets 10 to 19, which the log lacks: {BACK}, {REPAIR}",
        ),
        (
            FILE._replace(only_copy=COPY._replace(others=("a.index.deleted", "a.timeindex.deleted"))),
            SweepAct.LEAVE,
            f"may be the only copy of offsets 10 to 19, which the log lacks: {BACK}, and off those beside it"
            f" (a.index.deleted, a.timeindex.deleted), {REPAIR}",
        ),
        (
            FILE._replace(only_copy=COPY._replace(is_taken=True)),
            SweepAct.LEAVE,
            "may be the only copy of offsets 10 to 19, which the log lacks: move the file to a safe place before the"
            " broker starts; 00000000000000000010.log is there, too: compare the two",
        ),
        (
            INDEX_FILE._replace(only_copy=COPY),
            SweepAct.LEAVE,
            "belongs to 00000000000000000010.log.deleted, which may be the only copy of offsets 10 to 19, which the log"
            " lacks",
        ),
        (LeftoverFacts("x", LeftoverKind.MISSING), SweepAct.LEAVE, "is not there"),
        (
            LeftoverFacts("x", LeftoverKind.OTHER),
            SweepAct.LEAVE,
            "is no leftover: a sweep takes .deleted files, and -delete and -stray directories",
        ),
        (
            LeftoverFacts("x.swap", LeftoverKind.UNFINISHED_FILE),
            SweepAct.LEAVE,
            "belongs to a compaction that was interrupted: it goes by recovery only, with the next start of the broker"
            " or the next clean",
        ),
    ],
)
def test_each_leftover_goes_or_stays_for_a_reason(facts: LeftoverFacts, act: SweepAct, text: str) -> None:
    assert sweep_verdict(facts, NOW_MS) == SweepVerdict(act, text)


def test_the_only_copy_of_records_is_a_finding_that_says_how_it_comes_back() -> None:
    (found,) = only_copy_findings([(f"/data/{LOG}", COPY)])
    assert (found.code, found.harm, found.path, found.offset) == (
        FindingCode.OFFSET_GAP, Harm.DATA_LOST, f"/data/{LOG}", 10,
    )  # fmt: skip
    assert found.text == (
        "Records are missing: the log lacks offsets 10 to 19, and 00000000000000000010.log.deleted has them. Do not"
        " start the broker: its start deletes this file."
    )
    assert found.remedy == f"While{BACK.removeprefix('while')}, {REPAIR}."
