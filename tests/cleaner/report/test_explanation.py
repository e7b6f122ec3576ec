"""The report of ``explain``: text for people and one JSON document, from the same values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.explain.choosing import ChosenSegment
from cleaner.engine.explain.contents import RecordFound, SegmentContents
from cleaner.report.explanation import ExplanationReport
from policies.config.policy import Layer, Stated
from policies.explain.blockers import BlockerCode
from policies.explain.changes import ChangeCode
from policies.explain.observations import (
    ActiveUse,
    DeleteHorizons,
    OpenTransaction,
    SegmentTimes,
    TopicHere,
    WaitingFiles,
)
from tests.builders import NOW_MS, a_log, a_policy
from tests.cleaner.report.plans import unreadable
from tests.cleaner.report.texts import text_of
from tests.policies.explain.cases import Drawn, drawn
from tests.schemas import keys, schema

GOLDEN: Final = Path(__file__).parents[2] / "golden"
DAY_MS: Final = 86_400_000
STATED: Final = Stated(
    "retention.ms", 7 * DAY_MS, Layer.SERVER_PROPERTIES, "server.properties line 5", "log.retention.hours"
)


def deleted_from() -> Drawn:
    """Old segments, one with a future timestamp, and young ones behind it."""
    log = a_log("clicks-0").segments(4 << 20, 4 << 20, newest_ms=NOW_MS - 9 * DAY_MS)
    log = log.segment(bytes=4 << 20, newest_ms=NOW_MS + 30 * DAY_MS, newest_record_offset=29)
    log = log.segments(4 << 20, 1 << 20, newest_ms=NOW_MS - DAY_MS)
    policy = replace(a_policy(retention_ms=7 * DAY_MS), stated={"retention.ms": STATED})
    waiting = WaitingFiles(3, 4 << 20, 4 << 20, 0, NOW_MS + 30_000, NOW_MS + 40_000)
    return drawn(log, policy, topic=TopicHere(3, 60 << 20), waiting=waiting)


def compacted() -> Drawn:
    """A dirty section that is too small, and an open transaction behind it."""
    log = a_log().segments(6 << 20, 2 << 20, 3 << 20, 3 << 20, 1 << 20, newest_ms=NOW_MS - 3_600_000)
    return drawn(
        log.compacted_to(10).last_stable(25),
        a_policy("compact", min_compaction_lag_ms=1000),
        active=ActiveUse(NOW_MS - DAY_MS, 5, 5),
        transactions=(OpenTransaction(4001, 2, 25, NOW_MS - 7_200_000),),
        horizons=DeleteHorizons(12, 1 << 20, NOW_MS - DAY_MS, NOW_MS + DAY_MS),
        locked_by="process 4711 (java)",
    )


def report(*found: Drawn) -> ExplanationReport:
    return ExplanationReport(NOW_MS, [one.explained() for one in found])


@pytest.mark.parametrize(("golden", "every_segment"), [("explain.txt", False), ("explain-verbose.txt", True)])
def test_report_reads_as_its_golden_file(golden: str, every_segment: bool) -> None:
    told = text_of(report(deleted_from(), compacted()), every_segment=every_segment)
    assert told == (GOLDEN / golden).read_text()


def test_report_on_a_narrow_page_reads_as_its_golden_file() -> None:
    log = a_log("dated-0").segment(newest_ms=NOW_MS - 2 * DAY_MS).segment(newest_ms=NOW_MS - DAY_MS).segment()
    dated = drawn(log, replace(a_policy(retention_ms=7 * DAY_MS), stated={"retention.ms": STATED}))
    assert text_of(report(deleted_from(), compacted(), dated), 40) == (GOLDEN / "explain-narrow.txt").read_text()


@pytest.mark.parametrize("width", [40, 80, 132])
def test_a_line_is_longer_than_the_page_only_where_one_word_is(width: int) -> None:
    lines = text_of(report(deleted_from(), compacted()), width).splitlines()
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_the_document_holds_what_the_text_says() -> None:
    document = json.loads(json.dumps(report(deleted_from(), compacted()).document()))
    first, second = document["partitions"]
    assert [one["action"] for one in first["segments"]] == ["delete", "delete", "keep", "keep", "keep"]
    assert first["changes"][0] == {
        "at_ms": NOW_MS + 30_000,
        "code": "DELETED_FILES",
        "text": "the first of 3 .deleted files (4.0 MiB) can be unlinked by clean",
        "first_base_offset": None,
        "last_base_offset": None,
        "bytes": 4 << 20,
    }
    assert first["config"]["retention.ms"]["layer"] == "server.properties"
    assert [one["code"] for one in second["blockers"]] == [
        "OPEN_TRANSACTION", "DIRTY_RATIO_LOW", "TOMBSTONES_WAIT", "ACTIVE_SEGMENT",
    ]  # fmt: skip
    assert second["open_transactions"][0]["producer_id"] == 4001


def test_the_lists_of_the_schema_are_those_of_the_code() -> None:
    of, plan = keys(schema("logcleaner.explain/1")), keys(schema("logcleaner.plan/1"))
    assert of["partitions[].blockers[].code"].part["enum"] == [code.value for code in BlockerCode]
    assert of["partitions[].changes[].code"].part["enum"] == [code.value for code in ChangeCode]
    reason = "partitions[].segments[].reason"
    told = {path: key for path, key in of.items() if path.startswith(f"{reason}.")}
    assert told == {path: key for path, key in plan.items() if path.startswith(f"{reason}.")} != {}


def test_a_partition_that_cannot_be_read_is_told() -> None:
    failed = ExplanationReport(NOW_MS, (), failures=[unreadable("orders-1", "/data/orders-1: no")])
    assert "FAILED: /data/orders-1: no" in text_of(failed)
    assert failed.document()["partitions"] == [
        {"topic": "orders", "partition": 1, "log_dir": "/data", "error": "/data/orders-1: no"}
    ]


def test_a_chosen_segment_has_its_contents_and_the_blockers_that_name_it() -> None:
    explained = compacted().explained()
    contents = SegmentContents(
        (), 7, 70, {"lz4": 5, "none": 2}, 3, 1, 2, DeleteHorizons(1, 9, 0, 5), "cut short at byte 9"
    )
    record = RecordFound(23, NOW_MS, 3, None, 20, 29, 77, "lz4", 4001, True, False)
    chosen = ChosenSegment(explained.segments[2], contents, 23, record)
    told = text_of(ExplanationReport(NOW_MS, [explained], [chosen]))
    assert "70 records in 7 batches (5 lz4, 2 not compressed)" in told
    assert "the rest cannot be read: cut short at byte 9" in told
    assert "tombstone of 2027-01-15T08:00:00Z, a key of 3 bytes, no value" in told
    assert "batch 20 to 29 at byte 77, compression lz4, producer 4001, transactional" in told
    assert "OPEN_TRANSACTION" in told
    assert "DIRTY_RATIO_LOW" not in told
    assert "Segments, oldest first" not in told
    (partition,) = ExplanationReport(NOW_MS, [explained], [chosen]).document()["partitions"]
    assert len(partition["segments"]) == 1
    assert partition["chosen"]["record"]["offset"] == 23


def test_what_is_not_known_is_told() -> None:
    explained = drawn(a_log().segment(), a_policy(), problems=("/data/x: cannot be read",)).explained()
    told = text_of(ExplanationReport(NOW_MS, [explained]))
    assert "Not known, because it cannot be read: /data/x: cannot be read" in told


def test_an_unknown_policy_a_hold_and_a_broker_at_work_are_in_the_head() -> None:
    unknown = replace(a_policy(retention_ms=1), unknown_because="nobody stated it; state it")
    told = text_of(ExplanationReport(NOW_MS, [drawn(a_log().segment(), unknown, locked_by="process 7").explained()]))
    assert "policy   unknown" in told
    assert "lock     process 7 holds the log dir: a clean would be refused" in told
    assert "Now   clean changes nothing here" in told


def test_the_times_of_a_segment_are_those_of_its_first_and_newest_record_and_say_so() -> None:
    """A range would read as if every record of the segment lay between the two."""
    log = a_log("clicks-0").segment(newest_ms=NOW_MS).segment(newest_ms=NOW_MS + DAY_MS)
    one = drawn(log, a_policy(retention_ms=7 * DAY_MS))
    times = (SegmentTimes(NOW_MS - DAY_MS, NOW_MS), SegmentTimes(NOW_MS + DAY_MS, NOW_MS + DAY_MS))
    told = text_of(report(replace(one, seen=replace(one.seen, times=times))), every_segment=True)
    assert "first 2027-01-14T08:00:00Z, newest 2027-01-15T08:00:00Z" in told
    assert "first and newest record 2027-01-16T08:00:00Z" in told
