"""The tables and the plot of results in docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks.results import Report
from tests.benchmarks.samples import SETTINGS, a_report
from tests.benchmarks.table import MARKERS, ROOT, NoMarkers, main, markdown, svg, with_table

SVG = "{http://www.w3.org/2000/svg}"


def test_a_row_holds_medians_ratios_rates_and_memory() -> None:
    assert (
        "| lz4, 100 B | 41.0 s | 4.50 s | 2.20 s | **9.1x** | 10.2x | 2.05x | 55, 500 | 0.8 M, 7.6 M "
        "| 900 MB, 200 MB | 44 % | 75 % |"
    ) in markdown(a_report()).splitlines()


def test_every_part_is_told() -> None:
    text = markdown(a_report())
    assert "| start-up |  | 0.50 s |" in text
    assert "copies 8.1 GB/s and checks (CRC-32C) 9.2 GB/s" in text
    assert "| 1 % new | 41.0 s | 4.50 s | 2.20 s | **9.1x** | 10.2x | 900 MB, 200 MB |" in text
    assert "| none, 100 B | 51.0 s | 6.00 s | **8.5x** | 4.00 s | 4.50 s | 1.33 |" in text
    assert (
        "| 2,000 of 1 MiB, 100 B | 61.0 s | 10.0 s | 5.00 s | **12.2x** | 2.00x | 33, 400 | 30.5 ms, 2.5 ms "
        "| 0.00 s, 0.00 s | 900 MB, 200 MB | 20, 10 % |"
    ) in text
    assert "60.0 s in one rewrite, memory 300 MB, within" in text
    assert "at least 20 rounds (measured: 2, 30.0 s)" in text


def test_rows_have_as_many_cells_as_their_head() -> None:
    tables = [block.splitlines() for block in markdown(a_report()).split("\n\n") if block.startswith("|")]
    assert [{row.count("|") for row in table} for table in tables] == [{13}, {8}, {8}, {12}]


def test_nothing_measured_gives_nothing() -> None:
    assert markdown(Report(SETTINGS, "4.3.1")) == ""


def test_the_plot_has_a_bar_for_each_side_and_the_longest_is_kafkas() -> None:
    root = ElementTree.fromstring(svg(a_report()))
    bars = [float(bar.get("width", "")) for bar in root.iter(f"{SVG}rect") if bar.get("width") != "10"]
    assert bars == pytest.approx([420, 46.1, 22.5] * 2, abs=0.05)
    assert "lz4, 100 B" in [text.text for text in root.iter(f"{SVG}text")]


def test_only_what_lies_between_the_markers_changes() -> None:
    start, end = MARKERS
    assert with_table(f"a\n{start}\nold\n{end}\nb", r"new \1") == f"a\n{start}\nnew \\1\n{end}\nb"
    with pytest.raises(NoMarkers):
        with_table("a", "new")


def test_the_command_writes_page_and_plot(tmp_path: Path) -> None:
    file, page, plot = (tmp_path / name for name in ("results.json", "benchmarks.md", "plot.svg"))
    page.write_text((ROOT / "docs/benchmarks.md").read_text())
    a_report().save(file)
    assert main([str(file), "--page", str(page), "--svg", str(plot)]) == 0
    assert "**9.1x**" in page.read_text()
    assert "](benchmark.svg)\n<!-- end" in page.read_text()
    assert plot.read_text().startswith("<svg")


def test_a_page_without_markers_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "results.json", tmp_path / "benchmarks.md"
    page.write_text("text\n")
    a_report().save(file)
    assert main([str(file), "--page", str(page)]) == 1
    assert page.read_text() == "text\n"
    assert "0 places" in capsys.readouterr().err
