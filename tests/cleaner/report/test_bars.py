"""Bars and sparklines beside the figures: their lengths, and that nothing but a terminal gets them."""

from __future__ import annotations

import pytest

from cleaner.cli import showing
from cleaner.report.page import BAR_MAX, BAR_MIN, FREED, KEPT, Drawn, Page, bar, beside, disk, sparkline
from cleaner.report.topics import TopicsReport
from tests.cleaner.report.plans import a_partition, a_plan

DAYS = 7


@pytest.mark.parametrize(
    ("amounts", "drawn"),
    [([], ""), ([0, 0], "  "), ([1, 0, 8], "▁ █"), ([7, 7, 7], "███"), ([1, 1 << 60], "▁█")],
)
def test_a_sparkline_has_a_column_for_each_amount(amounts: list[int], drawn: str) -> None:
    assert sparkline(amounts) == drawn


def test_a_bar_is_as_long_as_its_share_and_shows_every_part() -> None:
    assert bar([(KEPT, 30), (FREED, 10)], 40, 20) == KEPT * 15 + FREED * 5
    assert bar([(KEPT, 10**12), (FREED, 1)], 10**12 + 1, 10) == KEPT * 10
    assert bar([(KEPT, 1), (FREED, 0)], 10**12, 10) == KEPT
    assert bar([(KEPT, 0), (FREED, 0)], 0, 10) == ""


@pytest.mark.parametrize("columns", [0, BAR_MIN + 1, BAR_MIN + 2, 30, 200])
def test_nothing_is_wider_than_the_room_that_is_left(columns: int) -> None:
    rows = [Drawn(100, 50, (0, 1, 2, 3, 4, 5, 6)), Drawn(0, 0, ()), Drawn(7, 0, (0,) * DAYS)]
    lines = ["".join(text for text, _ in pieces) for pieces in beside(rows, columns, DAYS)]
    assert len(lines) == len(rows) + 1
    assert all(len(line) <= columns for line in lines)
    assert bool(lines[0]) == (columns >= BAR_MIN + 2)
    assert lines[1].count(KEPT) + lines[1].count(FREED) <= BAR_MAX + DAYS


def test_a_disk_fills_the_columns_up_to_twice_a_bar() -> None:
    for columns, filled in ((40, 40), (66, 66), (67, 66), (200, 66)):
        drawn, legend = disk(10, 60, 20, 10, columns).plain.splitlines()
        assert len(drawn) == filled
        assert legend == "  ▒ other files  █ logs that stay  ░ freed  · free"


def test_only_a_page_that_draws_has_bars() -> None:
    report = TopicsReport(a_plan(a_partition("clicks-0", 9, 1)))
    assert KEPT in "".join(part.plain for part in report.text(Page(120, draws=True)))
    assert KEPT not in "".join(part.plain for part in report.text(Page(120)))


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_a_pipe_and_a_terminal_without_colours_get_none(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if variables:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert not showing.draws()
