from __future__ import annotations

import io
import json
import re
from dataclasses import fields

import pytest
from rich.console import Console

from cleaner.cli.showing import show
from cleaner.report.analysis import ROWS_MAX, TITLES, AnalysisReport, sections
from cleaner.report.findings import TABLES, Day, Sizes
from cleaner.report.html.pages import page_of
from cleaner.report.overview.provenance import Provenance
from cleaner.report.page import Page
from tests.cleaner.report.analyses import ORDERS, an_analysis

PROVENANCE = Provenance("9.9.9", ("logcleaner", "analyze"), 0, ("/data",))


def test_document_has_every_table_field_for_field() -> None:
    told = json.loads(json.dumps(AnalysisReport(an_analysis(problems=("a.log: gone",))).document()))
    assert list(told) == ["schema", "now", *TABLES, "problems"]
    assert (told["schema"], told["problems"]) == ("logcleaner.analysis/1", ["a.log: gone"])
    for name, kind in TABLES.items():
        assert list(told[name][0]) == [field.name for field in fields(kind)]
    assert told["top_keys"][0]["key"] == "\\xff<a>\x1b"


def test_every_table_has_a_title() -> None:
    assert TITLES.keys() == TABLES.keys()


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_text_fits_80_columns_and_tells_each_table_in_peoples_words(capsys: pytest.CaptureFixture[str]) -> None:
    show(AnalysisReport(an_analysis()), as_json=False)
    lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in TITLES.values()] == list(TITLES.values())
    text = "\n".join(lines)
    for words in ("5.0 MiB", "12,345", "2.50", r"\xff<a>\x1b", "1d", "any greater", "1970-01-01T00:00:00Z", "1234567"):
        assert words in text
    assert f"{1 << 62:,}"[:9] in text  # beyond the calendar


def test_long_lists_are_cut_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    days = [("days", Day(*ORDERS, f"2027-02-{day:02}", 1, 1)) for day in range(1, 13)]
    analysis = an_analysis(*days)
    section = next(section for section in sections(analysis) if section.title == TITLES["days"])
    assert (len(section.rows), section.left_out) == (ROWS_MAX, 4)
    show(AnalysisReport(analysis), as_json=False)
    assert "4 more rows in --json and --output" in printed(capsys)
    page = page_of(AnalysisReport(analysis, PROVENANCE).document())
    assert re.findall(r"\d+ more rows?", page) == ["4 more rows"]


def test_a_table_without_rows_is_not_told() -> None:
    analysis = an_analysis()
    analysis.tables["producers"].clear()
    assert TITLES["producers"] not in [section.title for section in sections(analysis)]


def test_several_log_dirs_are_told_apart() -> None:
    other = Sizes("/disk2", "orders", 0, None, 1, 1, 1, 1, 1, 1, 1)
    first, *_ = sections(an_analysis(("sizes", other)))
    assert first.headings[:2] == ("PARTITION", "LOG DIR")
    assert [row[:3] for row in first.rows] == [("orders-0", "/data", "compact"), ("orders-0", "/disk2", "-")]


def test_the_page_needs_no_other_file_and_escapes_what_records_say() -> None:
    page = page_of(AnalysisReport(an_analysis(problems=("<b>gone</b>",)), PROVENANCE).document())
    assert "&lt;b&gt;gone" in page
    assert r"\xff&lt;a&gt;\x1b" in page
    assert not {"<a>", "src=", "http"} & set(page.split('"'))
    assert all(title in page for title in TITLES.values())


@pytest.mark.parametrize("name", ["__consumer_offsets", "orders.of-a-team-that-says-all-in-the-name-of-a-topic.v2"])
@pytest.mark.parametrize("log_dirs", [("/data",), ("/var/lib/kafka/data-1", "/var/lib/kafka/data-2")])
@pytest.mark.parametrize(("columns", "is_terminal"), [(80, True), (1000, False)])
def test_names_keep_their_line_on_a_terminal_and_are_whole_in_a_pipe(
    name: str, log_dirs: tuple[str, ...], columns: int, is_terminal: bool
) -> None:
    sizes = (5 << 20, 12_345, 9, 70, 1 << 10, 1)
    rows = [("sizes", Sizes(log_dir, name, 0, "compact", 3, *sizes)) for log_dir in log_dirs]
    output = io.StringIO()
    for part in AnalysisReport(an_analysis(*rows)).text(Page(80, shortens=is_terminal)):
        Console(file=output, width=columns).print(part)
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    first = [line.split()[0] for line in lines if line.startswith(name[:5]) and not line.startswith("orders-0")]
    assert len(first) == len(log_dirs)
    assert all(one.endswith("-0") and ("..." in one or one == f"{name}-0") for one in first)
    assert is_terminal or set(first) == {f"{name}-0"}
