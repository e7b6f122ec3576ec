"""The page as text: its policy, its size, and that its figures can be unpacked."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleaner.report.html import is_drawable
from cleaner.report.html.charts import CurveMark, Series, curve, shares, stacked_bars
from cleaner.report.html.content import Chart, ChartTable, Packer
from cleaner.report.html.pages import page_of
from cleaner.report.overview.provenance import Provenance
from tests.cleaner.report.html.reports import a_hostile_plan, a_large_plan, report_of
from tests.cleaner.report.plans import a_partition, a_plan
from tests.cleaner.report.test_explanation import compacted, report

ASSETS = Path(__file__).parents[4] / "cleaner/report/html"


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(report_of(a_plan(a_partition("clicks-0", 9, 5, 1), a_partition("orders-0", 4, 3))).document())


def test_the_extra_is_there() -> None:
    assert is_drawable()


def test_the_policy_allows_the_script_and_the_style_of_the_page_alone(page: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": sha256_of("page.js"),
        "style-src": sha256_of("page.css"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(re.findall(r"<script(?! type)", page)) == len(re.findall("<style", page)) == 1
    assert not re.findall(r"\s(?:style|on\w+|src)=", page.partition("<body>")[2].partition("<script")[0])


def test_findings_stand_before_the_charts() -> None:
    page = page_of(report_of(a_hostile_plan()).document())
    assert page.index('<section id="findings"') < page.index('<section id="charts"')
    assert page.index('href="#findings"') < page.index('href="#charts"')


@pytest.mark.parametrize("left_out", [0, 3])
def test_findings_that_a_page_leaves_out_are_counted(left_out: int) -> None:
    document = report_of(a_hostile_plan()).document()
    document["report"]["findings_left_out"] = left_out
    assert re.findall(r">(\d+)</data> more are left out", page_of(document)) == ["3"] * (left_out == 3)


def test_a_page_of_an_explanation_leaves_no_finding_out() -> None:
    provenance = Provenance("9.9.9", ("logcleaner", "explain"), 0, ("/data",))
    page = page_of(replace(report(compacted()), provenance=provenance).document())
    assert '<section id="findings"' in page
    assert "more are left out" not in page


def sha256_of(name: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256((ASSETS / name).read_bytes()).digest()).decode()}'"


def test_no_name_becomes_markup() -> None:
    text = page_of(report_of(a_hostile_plan()).document())
    body = text.partition("<body>")[2]
    assert not re.findall(r"<(?:b|i|u|s|em|img|iframe|object)[\s>]", body)
    assert not {character for character in body if character in "\u202e\u2066\x1b"}
    assert "49{% raw %}" not in body
    text.encode("utf-8")


def test_a_large_page_is_small() -> None:
    page = page_of(report_of(a_large_plan()).document())
    assert len(page.encode("utf-8")) <= 3_000_000


def test_a_sentence_stands_once_for_all_segments_that_differ_in_figures() -> None:
    document = report_of(a_large_plan(4, 5, 20)).document()
    packer = Packer()
    for partition in document["partitions"]:
        packer.add(partition)
    packed = packer.packed()
    sentences = {s["reason"]["text"] for p in document["partitions"] for s in p["segments"]}
    assert len(packed["reasons"]) < len(sentences) / 4


def test_the_data_of_a_page_is_compressed_json(page: str) -> None:
    (letters,) = re.findall(r'id="data">([^<]*)<', page)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(letters)))
    assert [table["key"] for table in found["tables"]] == ["topics", "limits", "partitions", "reasons"]


def test_the_same_document_gives_the_same_page() -> None:
    document = report_of(a_plan(a_partition("clicks-0", 9, 5, 1))).document()
    assert page_of(document) == page_of(document)


def test_more_bars_than_fit_are_one() -> None:
    names = [f"topic-{number}" for number in range(40)]
    chart = stacked_bars("a", "A", "a", names, [Series("x", "keep-1", range(40, 0, -1))], "Topic")
    assert chart is not None
    assert "26 others" in chart.wide
    assert len(chart.table.rows) == 15


@pytest.mark.parametrize(
    ("names", "values", "is_drawn"),
    [([], [[]], False), (["a", "b"], [[0, 0], [0, 0]], False), (["a", "b"], [[0, 0], [0, 1]], True)],
)
def test_nothing_is_drawn_of_nothing(names: list[str], values: list[list[int]], is_drawn: bool) -> None:
    series = [Series("x", "keep-1", one) for one in values]
    assert (stacked_bars("a", "A", "a", names, series, "Topic") is not None) is is_drawn


def test_a_bar_beside_its_mark_has_half_as_much_room_again() -> None:
    def height(chart: Chart | None) -> int:
        assert chart is not None
        (found,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', chart.wide)
        return int(found)

    names = ["a", "b", "c", "d"]
    alone = [height(stacked_bars("a", "A", "a", names[:n], [Series("x", "keep-1", [1] * n)], "Topic")) for n in (2, 4)]
    marked = [height(shares("a", "A", "a", names[:n], [0.1] * n, [0.5] * n)) for n in (2, 4)]
    assert marked[1] - marked[0] == 1.5 * (alone[1] - alone[0])


def test_the_words_of_a_mark_stand_where_there_is_room() -> None:
    marks = [CurveMark(1_000, "near", "asked"), CurveMark(9_000, "far", "asked")]
    chart = curve("a", "A", "a", [(0, 5), (10_000, 9)], marks, ChartTable((), ()))
    words = re.findall(r'y="(\d+)" class="(mark[^"]*)">(\w+)<', chart.wide)
    assert words == [("14", "mark", "near"), ("29", "mark left", "far")]
