import re
from dataclasses import replace
from pathlib import Path

import pytest

from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.report.cleaning import CleaningReport
from cleaner.report.rollup.view import View
from policies import Plan
from policies.facts import ConfigFacts
from policies.reasons import ReasonCode
from tests.cleaner.report.plans import (
    DAY_MS,
    MIB,
    NOW_MS,
    a_dry_run,
    a_partition,
    a_plan,
    a_run,
    an_empty_partition,
    unreadable,
)
from tests.cleaner.report.texts import text_of

GOLDEN = Path(__file__).parents[2] / "golden"


def everything() -> Plan:
    return a_plan(
        a_partition("clicks-0", 9, 8, 7, 2, 1),
        a_partition("copied-0", 1),
        an_empty_partition("empty-0"),
        an_empty_partition("empty-1"),
        an_empty_partition("empty-2"),
        a_partition("orders-0", 9, 8, 7, 1),
        unreadable("orders-1", "/data/orders-1: cannot be read: Permission denied"),
        locked_by="process 4711",
    )


def rendered(
    plan: Plan, outcome: Outcome, *, width: int = 80, every_segment: bool = False, is_terminal: bool = False
) -> str:
    return text_of(CleaningReport(plan, outcome), width, every_segment=every_segment, is_terminal=is_terminal)


@pytest.mark.parametrize(
    ("golden", "every_segment", "act"),
    [
        ("clean-dry-run.txt", False, a_dry_run),
        ("clean-dry-run-verbose.txt", True, a_dry_run),
        ("clean-done.txt", False, a_run),
    ],
)
def test_report_reads_as_its_golden_file(golden: str, every_segment: bool, act) -> None:
    plan = everything()
    assert rendered(plan, act(plan), every_segment=every_segment) == (GOLDEN / golden).read_text()


@pytest.mark.parametrize("every_segment", [False, True])
@pytest.mark.parametrize(("width", "is_terminal"), [(40, True), (80, True), (132, True), (80, False), (132, False)])
def test_a_line_is_longer_than_the_page_only_where_one_word_is(
    width: int, is_terminal: bool, every_segment: bool
) -> None:
    plan = everything()
    lines = rendered(
        plan, a_dry_run(plan), width=width, is_terminal=is_terminal, every_segment=every_segment
    ).splitlines()
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_every_segment_is_told_when_asked_for() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 8, 7, 2, 1))
    lines = rendered(plan, a_dry_run(plan), every_segment=True).splitlines()
    assert sum(line.startswith("  would delete") for line in lines) == 3
    assert sum(line.startswith("  keep") for line in lines) == 2


def test_run_tells_the_reason_of_the_segment_at_the_border() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 8, 7, 2, 1))
    report = rendered(plan, a_dry_run(plan))
    assert "200: its newest record is 7d old" in report
    assert "300: its newest record is 2d old" in report
    assert "9d old" not in report


def test_dry_run_says_would_and_never_that_something_was_done() -> None:
    plan = everything()
    report = rendered(plan, a_dry_run(plan))
    assert report.startswith("DRY RUN")
    assert report.rstrip().splitlines()[-1].startswith("DRY RUN")
    assert not re.search(r"(?mi)^ *(deleted|compacted|freed|unlinked)\b", report)


def test_segments_that_a_failed_run_left_are_not_called_deleted() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 8, 1))
    key = ("/data", plan.partitions[0].facts.topic_partition)
    failed = replace(a_run(plan).results[key], deleted_segments=0, deleted_bytes=0, error="disk on fire")
    report = rendered(plan, Outcome(False, {key: failed}))
    assert "not deleted" in report
    assert "FAILED: disk on fire" in report
    assert "Failed         1 partition" in report


def test_an_interrupted_run_says_so_and_marks_what_was_not_begun() -> None:
    plan = a_plan(a_partition("orders-0", 9, 8, 1))
    report = rendered(plan, Outcome(False, {}, interrupted=True))
    assert "Interrupted" in report
    assert "not compacted" in report
    of_a_copy = text_of(CleaningReport(plan, Outcome(False, {}, interrupted=True), is_copy=True), 80)
    assert "Interrupted: what was written is no copy. Remove it, and run again." in of_a_copy


def test_deleted_files_are_said_to_wait_only_where_they_do() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 8, 1))
    assert "nothing yet; 2.0 MiB of 100.0 MiB at 08:02 UTC, by the next clean" in rendered(plan, a_run(plan))
    assert "--delete-delay 0: now" in rendered(plan, a_run(plan))
    at_once = text_of(CleaningReport(with_delay(plan, 0), a_run(plan)))
    assert "Freed          2.0 MiB of 100.0 MiB\n" in at_once


def test_nothing_to_do_is_said() -> None:
    plan = a_plan(a_partition("clicks-0", 1))
    assert "Nothing to do in 1 partition." in rendered(plan, Outcome(True, {}))


@pytest.mark.parametrize("partition", [a_partition("copied-0", 1), unreadable("orders-1", "no")])
def test_nothing_to_do_is_not_said_of_what_could_not_be_looked_at(partition) -> None:
    assert "Nothing to do" not in rendered(a_plan(partition), Outcome(True, {}))


def test_wrong_cleaner_checkpoint_is_told() -> None:
    plan = a_plan(a_partition("orders-0", 1, cleaned=5000))
    assert plan.partitions[0].checkpoint_offset == 0
    assert "first dirty offset 5000 becomes 0" in rendered(plan, a_dry_run(plan)).replace("\n    ", " ")


def test_a_dir_that_is_wrong_as_a_whole_is_told() -> None:
    plan = a_plan(errors=("/data/cleaner-offset-checkpoint line 2: garbled",))
    assert "FAILED: /data/cleaner-offset-checkpoint line 2" in rendered(plan, Outcome(True, {}))


def test_leftovers_of_earlier_runs_count() -> None:
    plan = a_plan(a_partition("clicks-0", 1))
    assert "Unlinked       3.0 MiB" in rendered(plan, Outcome(False, {}, swept_bytes=3 * MIB))


def test_control_characters_in_an_error_do_not_reach_the_terminal() -> None:
    report = rendered(a_plan(unreadable("orders-1", "/data/\x1b[2Jx\udcff")), Outcome(True, {}))
    assert "\x1b" not in report
    report.encode()


def test_topic_of_which_one_partition_changes_says_how_many_do_and_v_names_each() -> None:
    plan = a_plan(an_empty_partition("empty-0"), a_partition("empty-1", 1, 1), an_empty_partition("empty-2"))
    assert plan.partitions[1].has_work
    assert "empty  compact  1 of 3 partitions" in rendered(plan, a_dry_run(plan))
    report = rendered(plan, a_dry_run(plan), every_segment=True)
    assert all(f"\nempty-{number}  compact" in report for number in range(3))


def test_result_of_a_compaction_tells_records() -> None:
    plan = a_plan(a_partition("orders-0", 9, 1))
    assert "1,000 of 2,000 records stay" in rendered(plan, a_run(plan))


def test_unknown_configuration_is_told_with_its_remedy() -> None:
    report = rendered(a_plan(a_partition("copied-0", 1)), Outcome(True, {}))
    assert "policy unknown" in report
    assert ReasonCode.CONFIG_UNKNOWN in report
    assert "state it" in report


def test_partition_without_a_result_was_not_touched() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    key = ("/data", plan.partitions[0].facts.topic_partition)
    assert "not deleted" in rendered(plan, Outcome(False, {}))
    assert "not deleted" in rendered(plan, Outcome(False, {key: PartitionResult(a_run(plan).results[key].basis)}))


@pytest.mark.parametrize(
    ("free_bytes", "delay_ms", "expected"),
    [
        (3 * MIB, None, "while it runs\n"),
        (
            3 * MIB - 1,
            None,
            "while it runs; a compaction that finds no space fails, and its partition stays as it is\n",
        ),
        (4 * MIB, 0, "while it runs\n"),
    ],
)
def test_dry_run_says_what_working_space_is_needed(free_bytes: int, delay_ms: int | None, expected: str) -> None:
    plan = a_plan(a_partition("orders-0", 9, 8, 7, 1))
    (log_dir,) = plan.log_dirs
    short = replace(plan, log_dirs=(replace(log_dir, facts=replace(log_dir.facts, free_bytes=free_bytes)),))
    short = with_delay(short, delay_ms)
    said = text_of(CleaningReport(short, a_dry_run(short)), 200)
    assert f"  compaction needs up to 3.0 MiB of that {expected}" in said
    assert "while it runs" not in text_of(CleaningReport(short, a_run(short)), 200)


def with_delay(plan: Plan, delete_delay_ms: int | None) -> Plan:
    return replace(plan, request=replace(plan.request, delete_delay_ms=delete_delay_ms))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"locked_by": "process 12 (java)"}, "held by process 12 (java): a run without --dry-run would be refused"),
        ({"free_bytes": 0}, "has no space for the journal, so a run changes nothing here"),
    ],
)
def test_what_stops_a_run_is_told_in_the_totals_alone(changed: dict[str, object], words: str) -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    (log_dir,) = plan.log_dirs
    plan = replace(plan, log_dirs=(replace(log_dir, facts=replace(log_dir.facts, **changed)),))
    quiet = View(summary_only=True)
    dry = replace(a_dry_run(plan), full_log_dirs={"/data": "no space"} if "free_bytes" in changed else {})
    assert f"/data: {words}" in text_of(CleaningReport(plan, dry), 200, view=quiet).replace("the file system ", "")
    assert words in text_of(CleaningReport(plan, dry), 200)
    assert words not in text_of(CleaningReport(plan, a_run(plan)), 200, view=quiet)


def test_the_last_line_of_a_dry_run_names_what_a_full_disk_allows() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    same = "run the same command without --dry-run."
    assert same in text_of(CleaningReport(plan, a_dry_run(plan)), 200)
    said = text_of(CleaningReport(plan, replace(a_dry_run(plan), full_log_dirs={"/data": "no space"})), 200)
    assert same not in said
    assert "On a full disk a run needs --delete-delay 0" in said


@pytest.mark.parametrize(
    ("newest_ms", "words"),
    [
        (NOW_MS - DAY_MS, "2027-01-14T08:00:00Z, 1d old"),
        (NOW_MS + DAY_MS, "2027-01-16T08:00:00Z, later than the time of this plan, 2027-01-15T08:00:00Z"),
    ],
)
def test_metadata_that_is_younger_than_the_plan_has_no_age(newest_ms: int, words: str) -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    (log_dir,) = plan.log_dirs
    facts = replace(log_dir.facts, config=ConfigFacts(metadata_newest_ms=newest_ms))
    plan = replace(plan, log_dirs=(replace(log_dir, facts=facts),))
    told = text_of(CleaningReport(plan, a_dry_run(plan)), 200)
    assert f"newest record of the cluster metadata: {words}\n" in told


def test_who_failed_alone_had_no_others() -> None:
    gone = unreadable("orders-1", "/data/orders-1: gone")
    alone, with_others = a_plan(gone), a_plan(gone, a_partition("clicks-0", 1))
    assert "Failed         1 partition\n" in rendered(alone, a_run(alone))
    assert "Failed         1 partition; the others were processed\n" in rendered(with_others, a_run(with_others))


def test_end_of_an_interrupted_run_names_no_mark_where_no_segment_is_shown() -> None:
    plan = a_plan(a_partition("clicks-0", 9, 1))
    cut = CleaningReport(plan, Outcome(False, {}, interrupted=True))
    assert "what is marked 'not' was not finished" in text_of(cut, 200)
    quiet = text_of(cut, 200, view=View(summary_only=True))
    assert "Interrupted: not everything was finished" in quiet
    assert "marked" not in quiet
