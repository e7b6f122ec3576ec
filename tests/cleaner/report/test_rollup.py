"""Reports over many partitions: what changes first, within 60 lines; the user chooses order, number and detail."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.report.cleaning import CleaningReport
from cleaner.report.page import LINES_MAX, shortened
from cleaner.report.rollup.listing import compacted
from cleaner.report.rollup.view import Sort, View
from cleaner.report.topics import TopicsReport
from policies import Plan, Request, plan
from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts
from policies.forecast.runway import runway
from policies.planning import deletion_steps
from policies.rescue import Volume
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


def many(topics: int, partitions: int, *ages_days: float, log_dirs: int = 1) -> Plan:
    """Topics in turn: one expires, one stays, one is compacted; each log dir has all of them."""

    def policy_of(facts: PartitionFacts) -> TopicPolicy:
        topic = facts.topic_partition.topic
        if topic.startswith("compacts"):
            return TopicPolicy(topic=topic, cleanup_policy="compact")
        days = 3 if topic.startswith("expires") else 300
        return TopicPolicy(topic=topic, cleanup_policy="delete", retention_ms=days * DAY_MS)

    kinds = ("expires", "stays", "compacts")
    found = [
        a_partition(f"{kinds[topic % 3]}{topic:04}-{number}", *(ages_days or (9, 8, 1)))
        for topic in range(topics)
        for number in range(partitions)
    ]
    paths = [f"/data{number}" for number in range(log_dirs)]
    facts = [
        LogDirFacts(path, None, 1 << 34, 100 * MIB, tuple(replace(one, log_dir=path) for one in found))
        for path in paths
    ]
    return plan(facts, policy_of, Request(NOW_MS))


def told(planned: Plan, view: View | None = None, *, width: int = 80, is_terminal: bool = False) -> list[str]:
    report = CleaningReport(planned, a_dry_run(planned))
    return text_of(report, width, view=view, is_terminal=is_terminal).splitlines()


@pytest.mark.parametrize(
    ("topics", "partitions", "log_dirs"),
    [(200, 10, 1), (200, 1, 10), (2000, 1, 1), (1, 2000, 1), (1, 200, 12), (40, 50, 1), (7, 3, 2), (12, 1, 1)],
)
def test_report_fits_60_lines_whatever_lies_there(topics: int, partitions: int, log_dirs: int) -> None:
    planned = many(topics, partitions, log_dirs=log_dirs)
    assert len(told(planned)) <= LINES_MAX
    assert len(text_of(TopicsReport(planned)).splitlines()) <= LINES_MAX


def test_report_fits_60_lines_where_nothing_can_be_read() -> None:
    planned = a_plan(*(unreadable(f"orders{number}-0", "/data: " + "gone " * 30) for number in range(500)))
    assert len(told(planned)) <= LINES_MAX
    assert len(text_of(TopicsReport(planned)).splitlines()) <= LINES_MAX


def test_topics_come_by_bytes_reclaimed_then_what_waits_for_a_person_then_the_unchanged() -> None:
    planned = a_plan(
        a_partition("clicks-0", 9, 1),
        a_partition("copied-0", 1),
        an_empty_partition("empty-0"),
        a_partition("orders-0", 9, 8, 7, 6, 5, 1),
    )
    lines = told(planned)
    first = [next(n for n, line in enumerate(lines) if line.startswith(f"{name}")) for name in
             ("orders-0", "clicks-0", "copied-0", "empty ")]  # fmt: skip
    assert first == sorted(first)


def test_figures_of_topics_that_stay_end_together_and_their_words_begin_together() -> None:
    clicks = (a_partition(f"clicks-{number}", 1, 1) for number in range(12))
    lines = told(a_plan(*clicks, a_partition("orders-0", 1), an_empty_partition("empty-0")))
    begin = lines.index("clicks  delete   12 partitions  24.0 MiB  TIME_NOT_REACHED")
    assert lines[begin + 1 : begin + 3] == [
        "orders  compact    1 partition   1.0 MiB  ACTIVE_SEGMENT",
        "empty   compact    1 partition   0 bytes  ACTIVE_SEGMENT",
    ]


@pytest.mark.parametrize(
    ("act", "name", "is_told"),
    [(a_dry_run, "orders-0", True), (a_dry_run, "clicks-0", False), (a_run, "orders-0", False)],
)
def test_exact_is_named_where_a_compaction_was_estimated(
    act: Callable[[Plan], Outcome], name: str, is_told: bool
) -> None:
    planned = a_plan(a_partition(name, 9, 8, 1))
    report = text_of(CleaningReport(planned, act(planned)))
    assert ("The compacted size is not known without reading the data; --exact reads it." in report) is is_told


def test_what_is_left_out_is_counted_by_what_happens_to_it() -> None:
    lines = told(many(300, 2))
    shown = {word: sum(line.startswith(word) for line in lines) for word in ("expires", "stays", "compacts")}
    assert f"and {100 - shown['stays']} more topics unchanged: {(100 - shown['stays']) * 6}.0 MiB" in lines
    changed = 200 - shown["expires"] - shown["compacts"]
    assert any(line.startswith(f"and {changed} more topics with changes: ") for line in lines)


def test_short_row_still_names_the_limit() -> None:
    assert "  would delete   4 segments, 4.0 MiB  RETENTION_TIME  retention.ms=3d" in told(many(300, 2))


def test_limit_lists_so_many_topics() -> None:
    lines = told(many(300, 2), View(limit=80))
    assert sum("2 partitions" in line for line in lines) == 80
    assert len(lines) > LINES_MAX


@pytest.mark.parametrize(
    ("sort", "first"),
    [(Sort.BYTES, "large"), (Sort.RECLAIM, "old"), (Sort.DIRTY, "dirty"), (Sort.EXPIRY, "old"), (None, "dirty")],
)
def test_sort_says_what_comes_first(sort: Sort | None, first: str) -> None:
    def policy_of(facts: PartitionFacts) -> TopicPolicy:
        topic = facts.topic_partition.topic
        policy = "compact" if topic in ("dirty", "clean") else "delete"
        return TopicPolicy(topic=topic, cleanup_policy=policy, retention_ms=3 * DAY_MS)

    found = (
        a_partition("clean-0", 9, 8, 1, cleaned=200),
        a_partition("dirty-0", 2, 1),
        a_partition("large-0", *[1] * 9),
        a_partition("old-0", 9, 8, 7, 1),
    )
    planned = plan([LogDirFacts("/data", None, 1 << 34, 100 * MIB, found)], policy_of, Request(NOW_MS))
    report = TopicsReport(planned)
    rows = text_of(report, view=View(sort=sort)).splitlines()
    assert rows[1].startswith("clean-0" if sort is None else f"{first}-0")
    assert len(text_of(report, view=View(sort=sort, limit=1)).splitlines()) == 4


def test_quiet_report_is_the_end_of_the_whole_one() -> None:
    planned = many(4, 2)
    summary = told(planned, View(summary_only=True))
    assert summary[0].startswith("Would delete")
    assert told(planned)[-len(summary) :] == summary
    (line,) = text_of(TopicsReport(planned), view=View(summary_only=True)).splitlines()
    assert line == "8 partitions of 4 topics: 24 segments, 24.0 MiB"


def test_verbose_report_names_every_partition() -> None:
    report = "\n".join(told(many(60, 2), View(every_segment=True)))
    assert all(f"{kind}{topic:04}-1  " in report for topic, kind in enumerate(("expires", "stays", "compacts") * 20))
    assert len(told(many(60, 2), View(every_segment=True, limit=1))) < LINES_MAX
    rows = text_of(TopicsReport(many(60, 2)), view=View(every_segment=True)).splitlines()
    assert len(rows) == 1 + 120 + 1


def test_topics_rolls_up_what_does_not_fit() -> None:
    rows = text_of(TopicsReport(many(30, 10))).splitlines()
    assert rows[0].split() == ["TOPIC", "POLICY", "PARTS", "SEGS", "SIZE", "DIRTY", "EXPIRY"]
    assert rows[1].split() == ["compacts0002", "compact", "10", "30", "30.0", "MiB", "1.00", "-"]
    assert rows[11].split()[-1] == "now"
    assert rows[-1] == "300 partitions of 30 topics: 900 segments, 300.0 MiB".replace("300.0", "900.0")


def test_topic_that_has_a_failed_partition_is_told_with_the_failure() -> None:
    found = [a_partition(f"orders-{number}", 1) for number in range(99)]
    report = text_of(TopicsReport(a_plan(*found, unreadable("orders-99", "/data/orders-99: gone"))))
    assert "FAILED orders-99: /data/orders-99: gone" in report


class TestNames:
    LONG = "orders." + "very-" * 30 + "long"

    @pytest.mark.parametrize("report", ["clean", "topics"])
    def test_on_a_terminal_they_lose_their_middle_and_the_row_its_line_break(self, report: str) -> None:
        named = a_partition("clicks-0", 1)
        long = replace(named, topic_partition=named.topic_partition._replace(topic=self.LONG))
        planned = plan(
            [LogDirFacts("/data", None, 1 << 34, 100 * MIB, (long,))],
            lambda _: TopicPolicy(topic=self.LONG, cleanup_policy="delete", retention_ms=3 * DAY_MS),
            Request(NOW_MS),
        )
        one = CleaningReport(planned, a_dry_run(planned)) if report == "clean" else TopicsReport(planned)
        shown = [line for line in text_of(one, is_terminal=True).splitlines() if line.startswith("orders.")]
        assert [len(line) <= 80 and "..." in line and "long" in line for line in shown] == [True]
        (piped,) = [line for line in text_of(one).splitlines() if self.LONG in line]
        assert piped.split()[-1] in {"TIME_NOT_REACHED", "2d"}

    def test_what_fits_stays_and_the_rest_has_its_ends(self) -> None:
        assert shortened("__consumer_offsets-49", 21) == "__consumer_offsets-49"
        assert shortened("__consumer_offsets-49", 16) == "__consu...ets-49"
        assert shortened("abcdefgh", 3) == "a...h"


class TestWhatIsFree:
    PLAN = a_plan(a_partition("clicks-0", 9, 1), a_partition("orders-0", 9, 8, 1))

    def freed(self, outcome: Outcome, **request: int) -> str:
        planned = replace(self.PLAN, request=replace(self.PLAN.request, **request))
        lines = text_of(CleaningReport(planned, outcome), 200).splitlines()
        return next(line for line in lines if line.startswith(("Freed", "Would free")))

    def test_compacted_files_stay_so_what_is_free_later_is_less_by_them(self) -> None:
        assert self.freed(a_run(self.PLAN)) == (
            "Freed          nothing yet; 2.0 MiB of 100.0 MiB at 08:02 UTC, by the next clean (--delete-delay 0: now); "
            "until then 1.0 MiB more are in use: the old and the compacted files"
        )

    @pytest.mark.parametrize("swept_bytes", [0, MIB // 2, 5 * MIB])
    def test_now_and_later_add_up_to_what_a_run_without_delay_frees(self, swept_bytes: int) -> None:
        outcome = replace(a_run(self.PLAN), swept_bytes=swept_bytes, swept_disk_bytes=swept_bytes)
        figures = [float(n) for n in re.findall(r"(?:Freed +|; )([\d.]+) MiB (?:of|more at)", self.freed(outcome))]
        at_once = self.freed(outcome, delete_delay_ms=0)
        assert f"{sum(figures):.1f} MiB of" in at_once

    def test_files_of_earlier_runs_count_on_both_sides(self) -> None:
        swept = replace(a_run(self.PLAN), swept_bytes=300 * MIB, swept_disk_bytes=300 * MIB)
        assert self.freed(swept, delete_delay_ms=0) == "Freed          302.0 MiB of 400.0 MiB"

    def test_what_earlier_runs_left_is_free_now(self) -> None:
        swept = replace(a_run(self.PLAN), swept_bytes=5 * MIB, swept_disk_bytes=5 * MIB)
        assert "4.0 MiB of 105.0 MiB; 3.0 MiB more at 08:02 UTC" in self.freed(swept)

    def test_at_once_all_of_it_is(self) -> None:
        assert self.freed(a_run(self.PLAN), delete_delay_ms=0) == "Freed          2.0 MiB of 100.0 MiB"

    def test_another_day_is_told_with_its_date(self) -> None:
        assert "at 2027-01-16 08:01 UTC" in self.freed(a_run(self.PLAN), delete_delay_ms=DAY_MS)

    def test_dry_run_says_how_much_later(self) -> None:
        assert "Would free     2.0 MiB or more of 100.0 MiB in 1 minute, by the next clean" in self.freed(
            a_dry_run(self.PLAN)
        )

    def test_of_a_compaction_that_was_not_read_nothing_is_promised(self) -> None:
        estimate = PartitionResult(Basis.ESTIMATE, compacted_from_bytes=2 * MIB, compacted_to_bytes=2 * MIB)
        outcome = Outcome(dry_run=True, results={self.PLAN.partitions[1].key: estimate})
        assert self.freed(outcome) == "Would free     what compaction saves, which nobody knows without --exact"

    def test_copy_frees_nothing(self) -> None:
        report = text_of(CleaningReport(self.PLAN, a_run(self.PLAN), is_copy=True))
        assert "Left out       2.0 MiB of 100.0 MiB" in report
        assert "Freed" not in report


@pytest.mark.parametrize(
    ("to_bytes", "dirty_bytes", "words"),
    [
        (MIB, 3 * MIB, "3.0 MiB to 1.0 MiB"),
        (None, 3 * MIB, "3.0 MiB, all of it dirty"),
        (None, MIB, "3.0 MiB, 1.0 MiB of it dirty"),
    ],
)
def test_compaction_of_unknown_size_tells_what_is_dirty_and_not_that_it_stays_as_large(
    to_bytes: int | None, dirty_bytes: int, words: str
) -> None:
    assert compacted(3 * MIB, to_bytes, dirty_bytes) == words


def test_rescue_lists_its_deletions_in_the_order_in_which_it_makes_them() -> None:
    planned = a_plan(a_partition("clicks-0", 9, 8, 7, 1), a_partition("clicks-1", 9, 1), a_partition("clicks-2", 9, 8))
    report = text_of(CleaningReport(planned, a_dry_run(planned), is_rescue=True)).splitlines()
    begin = report.index("Deletions, in this order:") + 1
    rows = report[begin : report.index("", begin)]
    steps = deletion_steps(planned.log_dirs[0], at_once=True)
    assert [row.split()[0] for row in rows] == [str(step.facts.topic_partition) for step in steps]
    assert rows[0].split()[:4] == ["clicks-1", "0", "1.0", "MiB"]


def test_rescue_leaves_room_for_the_lines_that_come_behind_its_report() -> None:
    planned = many(300, 2)
    runways = tuple(runway(Volume((f"/data{place}",), 1 << 40, 1 << 34, 1 << 30), planned) for place in range(3))
    outcome = replace(a_dry_run(planned), runways=runways)
    assert len(text_of(CleaningReport(planned, outcome, is_rescue=True)).splitlines()) <= LINES_MAX - len(runways) - 1
