"""The values that a page shows beside the plan: they add up, and say what the plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.html.of_plan import content_of
from policies.plan import Only, Plan, Request
from policies.planning import plan
from policies.reasons import moment
from tests.cleaner.report.html.reports import a_large_plan, report_of
from tests.cleaner.report.plans import DAY_MS, MIB, NOW_MS, POLICIES, a_partition, a_plan, a_run, unreadable


def overview(planned: Plan) -> dict[str, Any]:
    found: dict[str, Any] = report_of(planned).document()["report"]
    return found


@pytest.fixture(scope="module")
def mixed() -> dict[str, Any]:
    return overview(
        a_plan(
            a_partition("clicks-0", 9, 5, 2, 1),
            a_partition("clicks-1", 2.5, 0.5),
            a_partition("orders-0", 4, 3, 2),
            a_partition("copied-0", 9, 1),
            unreadable("clicks-2", "EIO"),
        )
    )


def test_the_topics_add_up_to_the_totals(mixed: dict[str, Any]) -> None:
    totals, topics = mixed["totals"], mixed["topics"]
    for name in ("partitions", "segments", "bytes", "deleted_bytes", "compacted_bytes", "kept_bytes"):
        assert sum(topic[name] for topic in topics) == totals[name], name
    assert totals["segments"] == totals["deleted_segments"] + totals["compacted_segments"] + totals["kept_segments"]
    assert sum(one["deleted_bytes"] for one in mixed["partitions"]) == totals["deleted_bytes"] == 2 * MIB
    assert sum(reason["segments"] for reason in mixed["reasons"]) == totals["segments"]
    assert sum(topic["later_bytes"] for topic in topics) == mixed["later"]["bytes"]


def test_what_goes_later_has_its_first_moment_and_its_days(mixed: dict[str, Any]) -> None:
    later = mixed["later"]
    assert later["first_ms"] == NOW_MS + round(0.5 * DAY_MS) + 1
    assert (later["first_bytes"], later["bytes"]) == (MIB + 4096, 4 * (MIB + 4096))
    assert sum(day["bytes"] for day in later["by_day"]) == later["bytes"]
    assert later["by_day"][0]["day"] == moment(later["first_ms"])[:10]


@pytest.mark.parametrize(("newest_ms", "days"), [(27 * DAY_MS - 2, 1), (27 * DAY_MS - 1, 0)])
def test_the_days_of_what_goes_later_are_those_of_a_month(newest_ms: int, days: int) -> None:
    later = overview(a_plan(a_partition("clicks-0", -newest_ms / DAY_MS, 0)))["later"]
    assert later["first_ms"] == NOW_MS + newest_ms + 3 * DAY_MS + 1
    assert len(later["by_day"]) == days


def test_the_curve_says_what_a_run_with_that_limit_would_delete() -> None:
    planned = a_large_plan(20, 2, 12)
    curve = overview(planned)["retention_curve"]
    assert [place["limit_ms"] for place in curve["round"]][:4] == [DAY_MS // 24, DAY_MS // 4, DAY_MS // 2, DAY_MS]
    for place in (*curve["round"], *curve["places"][::9]):
        assert place["freed_bytes"] == freed_with(planned, place["limit_ms"])
    assert {place["kept_bytes"] + place["freed_bytes"] for place in curve["places"]} == {
        sum(s.size_bytes + s.companions_bytes for p in planned.partitions for s in p.facts.segments)
    }
    assert [one["topics"] for one in curve["in_force"]] == [4, 4, 4, 4, 2]


def test_the_curve_has_what_goes_below_the_start_of_a_compacted_log() -> None:
    trimmed = replace(a_partition("orders-0", 4, 3, 2), log_start_offset=100)
    planned = a_plan(a_partition("clicks-0", 9, 5, 1), trimmed)
    assert planned.partitions[1].deletion
    places = overview(planned)["retention_curve"]["round"]
    assert len(places) > 4
    for place in places:
        assert place["freed_bytes"] == freed_with(planned, place["limit_ms"])


def freed_with(planned: Plan, limit_ms: int) -> int:
    """What a run deletes if every topic that deletes has this limit."""
    policies = {
        p.policy.topic: replace(p.policy, retention_ms=limit_ms, stated={}) if p.policy.cleanup_delete else p.policy
        for p in planned.partitions
    }
    facts = [log_dir.facts for log_dir in planned.log_dirs]
    other = plan(facts, lambda log: policies[log.topic_partition.topic], Request(NOW_MS))
    return sum(p.deletion.size_bytes for p in other.partitions if p.deletion)


def test_there_is_no_curve_where_no_limit_of_time_deletes() -> None:
    assert overview(a_plan(a_partition("orders-0", 4, 3)))["retention_curve"] is None
    facts = [log_dir.facts for log_dir in a_plan(a_partition("clicks-0", 9, 1)).log_dirs]
    only = plan(facts, lambda log: POLICIES[log.topic_partition.topic], Request(NOW_MS, Only.COMPACTION))
    assert overview(only)["retention_curve"] is None
    assert overview(only)["later"]["first_ms"] is None


def test_growth_has_the_topics_of_which_most_was_written_and_the_rest_as_one() -> None:
    growth = overview(a_large_plan(8, 1, 6))["growth"]
    assert [one["topic"] is None for one in growth["series"]] == [False] * 5 + [True]
    assert len(growth["days"]) == 30
    assert all(len(one["bytes"]) == 30 for one in growth["series"])


def test_findings_name_what_a_person_has_to_do(mixed: dict[str, Any]) -> None:
    found = {finding["code"]: finding for finding in mixed["findings"]}
    assert found["FAILED"]["text"] == "EIO"
    assert (found["CONFIG_UNKNOWN"]["topic"], found["CONFIG_UNKNOWN"]["remedy"]) == ("copied", "State it.")
    guarded = overview(a_plan(a_partition("guarded-0", 9, 8, 7, 1)))["findings"]
    assert [finding["code"] for finding in guarded] == ["MAX_DELETE_RATIO"]
    assert "--yes" in guarded[0]["remedy"]
    future = overview(a_plan(a_partition("clicks-0", -3, 2, 1), locked_by="a broker (pid 7)"))["findings"]
    assert [finding["code"] for finding in future] == ["LOCKED", "FUTURE_TIMESTAMP"]
    assert future[1]["bytes"] == 3 * MIB


def test_findings_beyond_the_first_hundred_are_counted() -> None:
    found = overview(a_plan(*(unreadable(f"clicks-{number}", "EIO") for number in range(103))))
    assert (len(found["findings"]), found["findings_left_out"]) == (100, 3)


@pytest.mark.parametrize(
    ("planned", "sentence"),
    [
        (
            a_plan(a_partition("clicks-0", 9, 5, 1), a_partition("orders-0", 4, 3)),
            "This run would delete 2 segments of 1 partition (2.0 MiB) and compact 1 partition "
            "(1.0 MiB, all of it dirty); 2.0 MiB of 5.0 MiB stay as they are. "
            "Disk: never full by the growth of 1 of 2 partitions.",
        ),
        (
            a_plan(a_partition("copied-0", 9)),
            "This run would change nothing; 1.0 MiB of 1.0 MiB stay as they are. Disk: not known.",
        ),
    ],
)
def test_the_sentence_says_what_the_run_does(planned: Plan, sentence: str) -> None:
    assert overview(planned)["sentence"] == sentence


def test_the_sentence_tells_of_files_that_are_unlinked_for_good() -> None:
    planned = a_plan(a_partition("clicks-0", 1))
    for dry_run, does in ((True, "would unlink"), (False, "unlinked")):
        outcome = Outcome(dry_run, {}, swept_bytes=24 * MIB, swept_disk_bytes=23 * MIB)
        found = report_of(planned, outcome).document()["report"]
        assert found["sentence"].startswith(f"This run {does} 24.0 MiB in .deleted files of earlier runs for good; ")
        assert found["totals"]["bytes_now"] == (123 if dry_run else 100) * MIB
        assert found["totals"]["freed_at_once_bytes"] == 23 * MIB
        assert found["freed_when"] == "23.0 MiB of 123.0 MiB"


def test_what_failed_is_not_told_as_done() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 5, 1), a_partition("orders-0", 4, 3), a_partition("orders-1", 4, 3, 2))
    results = dict(a_run(planned).results)
    failed = planned.partitions[2].key
    results[failed] = PartitionResult(Basis.DONE, error="damaged")
    report = report_of(planned, Outcome(False, results))
    document = report.document()
    found = document["report"]
    assert found["sentence"] == (
        "This run deleted 2 segments of 1 partition (2.0 MiB) and compacted 1 partition (1.0 MiB to 512.0 KiB); "
        "1 partition failed; 5.0 MiB of 8.0 MiB stay as they are. Disk: never full by the growth of 1 of 3 partitions."
    )
    assert (found["totals"]["compacted_segments"], found["totals"]["compacted_bytes"]) == (1, MIB)
    assert [one["compacted_bytes"] for one in found["partitions"]] == [0, MIB, 0]
    assert {"action": "keep", "code": "NOT_DONE", "segments": 2, "bytes": 2 * MIB} in found["topics"][1]["reasons"]
    content = content_of(document)
    assert content.notes == ("orders-1: damaged",)
    assert content.headlines[3].words == "not known"
    assert content.headlines[3].note.startswith("not by 1 of 3 partitions: retention keeps up with their ")
    codes = [content.segments["reasons"][place][:2] for place in content.segments["reason"]]
    assert [code for code in codes if code[1] == "NOT_DONE"] == [["keep", "NOT_DONE"]] * 2


def test_a_page_tells_what_an_estimate_leaves_open_and_what_state_a_run_shows() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 1), a_partition("orders-0", 4, 3))
    dry, done = content_of(report_of(planned).document()), content_of(report_of(planned, a_run(planned)).document())
    assert dry.headlines[1].words == "at least 1.5 MiB in 1 minute"
    assert dry.headlines[1].note.startswith("of 100.0 MiB in 1 minute, by the next clean (--delete-delay 0: at once). ")
    assert "max.unkeyed.ratio" in dry.headlines[1].note
    assert "max.unkeyed.ratio" not in done.headlines[1].note
    assert done.heading.endswith("what was there before, and what became of it")
