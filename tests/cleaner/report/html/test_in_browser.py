"""Pages in Debian's Chromium: no request, no message, all of it works by keyboard, and axe finds nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from cleaner.cli.main import main
from cleaner.printable import printable
from cleaner.report.analysis import AnalysisReport
from cleaner.report.html.pages import page_of
from cleaner.report.overview.provenance import Provenance
from policies.reasons import moment
from tests.browsers import a_chromium
from tests.cleaner.report.analyses import an_analysis
from tests.cleaner.report.html.reports import a_hostile_plan, a_large_plan, report_of
from tests.sampled import day, is_whole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

READY: Final = "html[data-ready]"
BYTES_MAX: Final = 3_000_000
WCAG: Final = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_chromium() as found:
        yield found


class Opened:
    """A page, and all that it said and asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))


@contextmanager
def opened(
    browser: Browser, path: Path, width: int = 1400, *, with_script: bool = True, **media: Any
) -> Iterator[Opened]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=with_script, reduced_motion="reduce", **media
    )
    found = Opened(context.new_page())
    try:
        found.page.goto(path.as_uri())
        if with_script:
            found.page.wait_for_selector(READY, state="attached", timeout=20_000)
        yield found
        assert found.said == []
        assert found.asked == [path.as_uri()]
    finally:
        context.close()


@pytest.fixture(scope="module")
def pages(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Pages of the demo, each with the document of the same run."""
    directory = tmp_path_factory.mktemp("pages")
    commands = {
        "clean": ("clean", "--dry-run", "--what-if", "retention.ms=1d,5d"),
        "explain": ("explain", "future-0"),
        "timed": ("explain", "clicks-0"),
    }
    return {name: run(directory, name, *command, "--log-dir", str(demo)) for name, command in commands.items()}


def run(directory: Path, name: str, *command: str) -> tuple[Path, dict[str, Any]]:
    """Run a command with ``--html`` and ``--json``, and return the page with the document."""
    page, printed = directory / f"{name}.html", directory / f"{name}.json"
    with printed.open("w") as out, pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout", out)
        main([*command, "--html", str(page), "--json"])
    return page, json.loads(printed.read_text())


def widths_and_schemes() -> list[tuple[int, str]]:
    """Each width, in a plain run with one colour scheme by turn: both of them are in every sample."""
    every = [*product((360, 900, 1400), ("light", "dark"))]
    return every if is_whole() else [every[2 * place + (day() + place) % 2] for place in range(3)]


@pytest.mark.parametrize("name", ["clean", "explain"])
@pytest.mark.parametrize(("width", "scheme"), widths_and_schemes())
def test_a_page_fits_each_width_and_axe_finds_nothing(
    browser: Browser, pages: Any, name: str, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, pages[name][0], width, color_scheme=scheme) as found:
        open_all(found.page)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(found.page, options=WCAG).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []


def until(page: Page, expression: str) -> None:
    """Wait until something holds. The page's policy forbids Playwright's own waiting, which evaluates a text."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never: {expression}")


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_of_an_analysis_fits_and_axe_finds_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    provenance = Provenance("9.9.9", ("logcleaner", "analyze"), 0, ("/data",))
    document = AnalysisReport(an_analysis(problems=("<b>gone</b>",)), provenance).document()
    path = tmp_path / "page.html"
    path.write_text(page_of(document), "utf-8")
    known = set(numbers(document))
    with opened(browser, path, width) as found:
        open_all(found.page)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(found.page, options=WCAG).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations] == []
        values = found.page.eval_on_selector_all("data", "all => all.map(one => one.value)")
        assert len(values) > 20
        assert [value for value in values if float(value) not in known] == []


def open_all(page: Page) -> None:
    """Open every chart's figures, every partition and every reason."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    for button in page.locator(".of-table > .scroll > table > tbody > tr > th > button.opens").all():
        if button.get_attribute("aria-expanded") == "false":
            button.click()
    page.evaluate("document.querySelectorAll('td.inside button.opens').forEach(one => one.click())")


def test_the_axis_begins_with_the_first_record_where_that_is_known(browser: Browser, pages: Any) -> None:
    path, document = pages["timed"]
    segments, now_ms = document["partitions"][0]["segments"], document["now"]
    times = [segments[0]["first_timestamp_ms"], *(segment["newest_timestamp_ms"] for segment in segments)]
    bars = "all => all.map(one => [Number(one.getAttribute('x')), Number(one.getAttribute('width'))])"
    with opened(browser, path) as found:
        assert f"Left: {moment(times[0])}; " in found.page.locator("#segments td.inside > p").first.inner_text()
        drawn = found.page.locator("#segments svg.axis rect").evaluate_all(bars)
        assert found.page.locator("svg.axis rect.open").count() == 0
    assert [x for x, _ in drawn] == pytest.approx(
        [8 + 984 * (at - times[0]) / (now_ms - times[0]) for at in times[:-1]]
    )
    with opened(browser, pages["clean"][0]) as found:
        open_all(found.page)
        said = "".join(found.page.locator("#partitions td.inside > p").all_inner_texts())
        newest_ms = segments[0]["newest_timestamp_ms"]
        assert f"the first bar, dashed, ends at {moment(newest_ms)}, and nobody knows when it began" in said


def test_a_printed_page_has_all_rows_and_no_tools(browser: Browser, pages: Any) -> None:
    with opened(browser, pages["clean"][0], color_scheme="dark") as found:
        found.page.emulate_media(media="print")
        assert not found.page.locator(".tools").first.is_visible()
        assert not found.page.locator("nav").is_visible()
        assert found.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert found.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        hidden = (
            "[...document.querySelectorAll('.scroll')].filter(one => one.scrollHeight > one.clientHeight + 2).length"
        )
        assert found.page.evaluate(hidden) == 0
        assert found.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["clean", "explain"])
def test_every_figure_of_a_page_is_in_the_document_of_the_run(browser: Browser, pages: Any, name: str) -> None:
    path, document = pages[name]
    known = set(numbers(document))
    with opened(browser, path) as found:
        open_all(found.page)
        values = found.page.eval_on_selector_all("data", "all => all.map(one => one.value)")
        assert len(values) > 30
        assert [value for value in values if float(value) not in known] == []
        texts = found.page.eval_on_selector_all("p.sentence", "all => all.map(one => one.textContent)")
        segments = [segment for partition in document["partitions"] for segment in partition["segments"]]
        assert sorted(texts) == sorted(map(sentence, segments))
        origins = found.page.eval_on_selector_all("p.origin code", "all => all.map(one => one.textContent)")
        limits = [s["reason"]["limit"] for s in segments if s["reason"]["limit"]]
        assert sorted(origins) == sorted(f"{limit['key']}={limit['value']}" for limit in limits)


def numbers(value: Any) -> Iterator[float]:
    """Every number of a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def sentence(segment: dict[str, Any]) -> str:
    said = "; ".join(f"{rule['rule']}: {rule['text']}" for rule in segment.get("rules", ()))
    return said or segment["reason"]["text"]


def test_a_table_is_sorted_filtered_and_opened_by_keyboard(browser: Browser, pages: Any) -> None:
    with opened(browser, pages["clean"][0]) as shown:
        page = shown.page
        table = page.locator("#partitions table[data-table]")
        names = "all => all.map(one => one.textContent)"

        def firsts() -> list[str]:
            found: list[str] = table.locator("> tbody > tr > th").evaluate_all(names)
            return found

        page.focus("#partitions input")
        page.keyboard.type("orders")
        until(page, "document.querySelectorAll('#partitions tbody > tr').length === 3")
        assert firsts() == ["orders-0", "orders-1", "orders-2"]
        assert page.locator("#said").text_content() == "3 of 8 rows"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Partition"
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
        assert firsts() == ["orders-2", "orders-1", "orders-0"]
        total = table.locator("tfoot td.bytes data").first
        document = pages["clean"][1]
        assert total.get_attribute("value") == str(
            sum(p["bytes"] for p in document["partitions"] if p["topic"] == "orders")
        )
        page.focus("#partitions tbody button.opens")
        page.keyboard.press("Space")
        assert page.locator("#partitions svg.axis rect").count() == 4
        page.focus("#partitions td.inside button.opens")
        page.keyboard.press("Enter")
        assert page.locator("#partitions p.sentence").count() == 1
        page.focus("#partitions tbody button.opens")
        page.keyboard.press("Space")
        assert page.locator("#partitions td.inside").count() == 0


def test_a_table_is_copied_with_exact_figures(browser: Browser, pages: Any) -> None:
    with opened(browser, pages["clean"][0], permissions=["clipboard-read", "clipboard-write"]) as found:
        found.page.locator("#topics .tools button").click()
        until(found.page, "document.getElementById('said').textContent.includes('copied')")
        lines = found.page.evaluate("navigator.clipboard.readText()").splitlines()
        head, *rows = [line.split("\t") for line in lines]
        topics = pages["clean"][1]["report"]["topics"]
        assert head[:5] == ["Topic", "Policy", "Partitions", "Segments", "Size"]
        assert [(row[0], int(row[4])) for row in rows] == [(topic["topic"], topic["bytes"]) for topic in topics]


def test_a_page_says_the_most_without_its_script(browser: Browser, pages: Any) -> None:
    with opened(browser, pages["clean"][0], with_script=False) as found:
        assert found.page.locator("figure svg").count() == 10
        assert found.page.locator("#topics tbody tr").count() == 6
        assert found.page.locator("#reasons tbody tr").count() > 3


def test_no_name_breaks_a_page(browser: Browser, tmp_path: Path) -> None:
    document = report_of(a_hostile_plan()).document()
    path = tmp_path / "page.html"
    path.write_text(page_of(document), "utf-8")
    told = [printable(f"{p['topic']}-{p['partition']}") for p in document["partitions"]]
    assert any("\\u202e" in name for name in told)
    for width in (360, 1400):
        with opened(browser, path, width) as found:
            open_all(found.page)
            shown = found.page.locator("#partitions table[data-table] > tbody > tr > th bdi")
            assert shown.evaluate_all("all => all.map(one => one.textContent)") == told
            texts = found.page.eval_on_selector_all("p.sentence", "all => all.map(one => one.textContent)")
            segments = [segment for partition in document["partitions"] for segment in partition["segments"]]
            assert sorted(texts) == sorted(printable(sentence(segment)) for segment in segments)
            offsets = found.page.eval_on_selector_all("th.number data", "all => all.map(one => one.value)")
            assert sorted(offsets) == sorted(str(segment["base_offset"]) for segment in segments)
            assert found.page.locator("main script, main img, main iframe, main b").count() == 0
            assert found.page.evaluate("document.documentElement.scrollWidth") <= width
            assert found.page.title() == "logcleaner dry run, 2027-01-15T08:00:00Z"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A page, and its document."""
    path = tmp_path_factory.mktemp("large") / "page.html"
    document = report_of(a_large_plan()).document()
    path.write_text(page_of(document), "utf-8")
    return path, document


def test_5000_partitions_are_a_page_of_3_mb_that_shows_200_at_first(browser: Browser, large: tuple[Path, Any]) -> None:
    path, _ = large
    assert path.stat().st_size <= BYTES_MAX
    with opened(browser, path) as found:
        rows = found.page.locator("#partitions table[data-table] > tbody > tr")
        assert rows.count() == 201  # the last one has the button for the others
        found.page.fill("#partitions input", "topic-0499")
        until(found.page, "document.querySelectorAll('#partitions tbody > tr').length === 10")
        rows.last.locator("button").click()
        assert found.page.locator("#partitions svg.axis rect").count() == 20
        found.page.fill("#partitions input", "")
        until(found.page, "document.querySelectorAll('#partitions tbody > tr').length > 200")
        found.page.locator("#partitions button.more-rows").click()
        assert rows.count() >= 5000


def test_the_verdicts_of_100000_segments_are_all_in_the_page(browser: Browser, large: tuple[Path, Any]) -> None:
    path, document = large
    with opened(browser, path) as found:
        for number in (0, 4321, 4999):
            partition = document["partitions"][number]
            name = f"{partition['topic']}-{partition['partition']}"
            found.page.fill("#partitions input", name)
            button = found.page.get_by_role("button", name=name, exact=True)
            until(found.page, "document.querySelectorAll('#partitions tbody > tr').length < 20")
            button.click()
            inside = found.page.locator("#partitions td.inside").first
            inside.locator("button.opens").evaluate_all("all => all.forEach(one => one.click())")
            texts = inside.locator("p.sentence").evaluate_all("all => all.map(one => one.textContent)")
            assert texts == [segment["reason"]["text"] for segment in partition["segments"]]
            values = inside.locator("th.number data").evaluate_all("all => all.map(one => one.value)")
            assert values == [str(segment["base_offset"]) for segment in partition["segments"]]
            button.click()


_UNSAFE: Final = re.compile(r"unsafe-(eval|inline)|https?://(?!www\.w3\.org)")


@pytest.mark.parametrize("name", ["clean", "explain"])
def test_a_page_names_nothing_elsewhere(pages: Any, name: str) -> None:
    assert _UNSAFE.search(pages[name][0].read_text("utf-8")) is None
