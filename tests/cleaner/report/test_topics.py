from dataclasses import replace

import pytest

from cleaner.cli.showing import show
from cleaner.engine.space import Accounts
from cleaner.report.topics import TopicsReport
from tests.cleaner.report.plans import (
    DAY_MS,
    NOW_MS,
    POLICIES,
    a_partition,
    a_plan,
    an_empty_partition,
    unreadable,
)
from tests.cleaner.report.test_account import ACCOUNT, FILE_SYSTEM
from tests.cleaner.report.texts import text_of

KEYS = [
    "topic",
    "partition",
    "log_dir",
    "cleanup_policy",
    "segments",
    "bytes",
    "log_start_offset",
    "log_end_offset",
    "dirty_ratio",
    "next_expiry_ms",
    "error",
    "files",
    "apparent_bytes",
    "disk_bytes",
    "kinds",
    "removals",
]


@pytest.mark.parametrize(
    ("story", "facts", "expected_ms"),
    [
        ("an expired segment may go now", a_partition("clicks-0", 9, 1), NOW_MS),
        ("a younger one, once retention.ms has passed", a_partition("clicks-0", 1), NOW_MS + 2 * DAY_MS + 1),
        ("a compacted topic knows no expiry", a_partition("orders-0", 9, 1), None),
        ("an unknown topic neither", a_partition("copied-0", 9, 1), None),
        ("nor one on hold", replace(a_partition("clicks-0", 9, 1), held_since_ms=NOW_MS), None),
        ("nor does an empty one", an_empty_partition("clicks-0"), None),
    ],
)
def test_next_expiry(story: str, facts, expected_ms: int | None) -> None:
    assert TopicsReport(a_plan(facts)).rows()[0].next_expiry_ms == expected_ms, story


def test_dirty_ratio_is_that_of_the_compaction() -> None:
    assert TopicsReport(a_plan(a_partition("orders-0", 9, 8, 1, cleaned=100))).rows()[0].dirty_ratio == 0.5
    assert TopicsReport(a_plan(a_partition("clicks-0", 9))).rows()[0].dirty_ratio is None


def test_document_keys_are_those_promised() -> None:
    found = TopicsReport(a_plan(a_partition("clicks-0", 9), unreadable("orders-1", "no"))).document()
    assert list(found) == ["schema", "now", "partitions", "log_dirs", "file_systems"]
    assert found["schema"] == "logcleaner.topics/1"
    assert [list(partition) for partition in found["partitions"]] == [KEYS, KEYS]
    assert found["partitions"][1]["error"] == "no"


def test_piped_table_folds_nothing_and_tells_failures(capsys: pytest.CaptureFixture[str]) -> None:
    name = "t" * 200
    show(
        TopicsReport(a_plan(a_partition("clicks-0", 1), unreadable(f"{name}-1", "/data/x: cannot be read"))),
        as_json=False,
    )
    printed = capsys.readouterr().out
    assert f"{name}-1 FAILED" in printed
    assert "in 2d" in printed
    assert f"FAILED {name}-1: /data/x: cannot be read" in printed


def test_table_of_several_log_dirs_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    one = a_plan(a_partition("clicks-0", 1))
    show(TopicsReport(type(one)(one.request, one.log_dirs * 2)), as_json=False)
    assert "LOG DIR" in capsys.readouterr().out


@pytest.mark.parametrize("log_dirs", [1, 12])
def test_many_topics_and_the_space_that_they_take_fit_60_lines(monkeypatch: pytest.MonkeyPatch, log_dirs: int) -> None:
    names = [f"topic-{number}" for number in range(100)]
    for name in names:
        monkeypatch.setitem(POLICIES, name, replace(POLICIES["clicks"], topic=name))
    accounts = Accounts(tuple(replace(ACCOUNT, path=f"/data/{n}") for n in range(log_dirs)), (FILE_SYSTEM,) * log_dirs)
    report = TopicsReport(a_plan(*(a_partition(f"{name}-0", 1) for name in names)), accounts=accounts)
    told = text_of(report, is_terminal=True)
    assert len(told.splitlines()) <= 60
    assert "more topics; --limit N shows more" in told
    assert "Space in" in told
