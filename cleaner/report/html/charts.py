"""The charts of a page, as SVG: pygal draws them, with classes in place of colours, and without script and style.

Each chart is drawn twice, for wide and for narrow pages, so that its words are read without zooming. The page's style
gives the classes their colours, so light, dark and print hold in the charts, too.

Not chosen: Vega-Lite by vl-convert, whose JavaScript engine writes machine code, which the systemd units forbid
(``MemoryDenyWriteExecute``); plotly.js and BokehJS, whose scripts are larger than the page may be; matplotlib, which
takes a second to load and 50 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.etree import ElementTree

from cleaner.printable import printable
from cleaner.report.html.content import Chart, ChartTable, Legend
from policies.reasons import duration

if TYPE_CHECKING:
    from pygal.graph.graph import Graph

WIDTHS: Final = {"wide": 640, "narrow": 330}
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SVG: Final = "{http://www.w3.org/2000/svg}"
_DRAWN: Final = frozenset({"svg", "g", "path", "line", "rect", "circle", "text"})
_LEFT_OUT: Final = frozenset({"title", "desc", "defs", "style", "script"})
_KEPT: Final = frozenset({
    *("class", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform", "viewBox"),
})  # fmt: skip
_BARS_MAX: Final = 15
_ROW_HEIGHT: Final = 24
_FRAME_HEIGHT: Final = 58
"""The axis below bars, with its title."""
_LEGEND_LETTERS: Final = 32
_DAY_MS: Final = 86_400_000
_TOPIC_COLOURS: Final = tuple(f"topic-{number}" for number in range(1, 7))
_COLOURS: Final = {
    "delete": ("delete-1", "delete-2", "delete-3"),
    "compact": ("compact",),
    "keep": ("keep-1", "keep-2", "keep-3", "keep-4"),
}
"""Action -> the colours of its reasons, the commonest first; all further reasons share the last colour."""


class Series(NamedTuple):
    """One colour of a chart: its name, the class that has its colour, and a value for each place."""

    name: str
    colour: str
    values: Sequence[int]


class CurveMark(NamedTuple):
    """A limit that a curve marks."""

    limit: int
    words: str
    colour: str


Draw = Callable[[int], "Graph"]


def stacked_bars(
    key: str, title: str, caption: str, names: Sequence[str], series: Sequence[Series], first: str
) -> Chart | None:
    """Return horizontal bars of bytes, of several colours: the first names with a bar each, the rest as one bar.

    Args:
        key: the identity of the chart in the page.
        title, caption: what it shows, and what to do.
        names: of the bars.
        series: the colours, with a value for each bar.
        first: the heading of the names.
    """
    if not names or not any(any(one.values) for one in series):
        return None
    shown, values = _folded(names, series)
    unit, divisor = _unit(max(sum(column) for column in zip(*values, strict=True)))
    rows_told = zip(names[:_BARS_MAX], *(one.values[:_BARS_MAX] for one in series), strict=True)
    table = ChartTable((first, *(one.name for one in series)), tuple(rows_told))

    def draw(width: int) -> Graph:
        import pygal  # noqa: PLC0415 - of the extra "report"

        chart = pygal.HorizontalStackedBar(**_options(width, _bars_height(shown)), x_title=unit)
        chart.x_labels = _names(shown, width)
        for found in values:
            chart.add("", [value / divisor or None for value in reversed(found)])
        return chart

    legend = tuple(Legend(one.name, one.colour) for one in series)
    return _chart(key, title, caption, draw, legend if len(legend) > 1 else (), [one.colour for one in series], table)


def reason_bars(
    key: str,
    title: str,
    caption: str,
    found: Sequence[tuple[str, Sequence[Mapping[str, Any]]]],
    first: str,
    *,
    would: bool,
) -> Chart | None:
    """Return bars of bytes by action and reason. The bytes that go stand first, with their commonest reason in front.

    Args:
        key, title, caption, first: as of ``stacked_bars``.
        found: for each bar its name, and objects with ``action``, ``code`` and ``bytes``.
        would: the run is a dry one.
    """
    sizes: dict[tuple[str, str], list[int]] = {}
    for place, (_, reasons) in enumerate(found):
        for reason in reasons:
            values = sizes.setdefault((reason["action"], reason["code"]), [0] * len(found))
            values[place] += reason["bytes"]
    series = list(_series(sizes, would=would))
    return stacked_bars(key, title, caption, [name for name, _ in found], series, first)


def _series(sizes: Mapping[tuple[str, str], Sequence[int]], *, would: bool) -> Iterator[Series]:
    """Yield the reasons of each action, the commonest first; reasons beyond the colours share the last one."""
    words = {"delete": "delete" if would else "deleted", "compact": "compact" if would else "compacted", "keep": "keep"}
    for action, colours in _COLOURS.items():
        codes = sorted((code for act, code in sizes if act == action), key=lambda code: -sum(sizes[action, code]))
        for place, code in enumerate(code for code in codes if any(sizes[action, code])):
            yield Series(f"{words[action]}: {code}", colours[min(place, len(colours) - 1)], sizes[action, code])


def shares(
    key: str, title: str, caption: str, names: Sequence[str], values: Sequence[float], limits: Sequence[float | None]
) -> Chart | None:
    """Return bars of shares from 0 to 1, each beside its limit. Arguments: as of ``stacked_bars``."""
    if not names:
        return None
    found = list(zip(names, values, limits, strict=True))[:_BARS_MAX]
    table = ChartTable(("Topic", "Dirty share", "Compacted from"), tuple(found))

    def draw(width: int) -> Graph:
        import pygal  # noqa: PLC0415 - of the extra "report"

        options = _options(width, _bars_height(found) + _ROW_HEIGHT // 2 * len(found))
        chart = pygal.HorizontalBar(**options, x_title="share of dirty bytes, %", range=(0, 100))
        chart.x_labels = _names([name for name, _, _ in found], width)
        chart.add("", [None if limit is None else 100 * limit for _, _, limit in reversed(found)])
        chart.add("", [100 * value for _, value, _ in reversed(found)])
        return chart

    legend = (Legend("dirty share", "compact"), Legend("compacted from this share on", "keep-3"))
    return _chart(key, title, caption, draw, legend, ["keep-3", "compact"], table)


def growth_areas(key: str, title: str, caption: str, growth: Mapping[str, Any]) -> Chart | None:
    """Return the growth by day of some topics as areas upon each other; one without a name stands for all others.

    Args:
        key, title, caption: as of ``stacked_bars``.
        growth: ``days``, and ``series`` with ``topic`` and ``bytes``, as documents have them.
    """
    found, days = growth["series"], growth["days"]
    if not found:
        return None
    names = ["others" if one["topic"] is None else printable(one["topic"]) for one in found]
    unit, divisor = _unit(max(sum(column) for column in zip(*(one["bytes"] for one in found), strict=True)))
    table = ChartTable(("Day", *names), tuple(zip(days, *(one["bytes"] for one in found), strict=True)))

    def draw(width: int) -> Graph:
        import pygal  # noqa: PLC0415 - of the extra "report"

        options = _options(width, 250)
        chart = pygal.StackedLine(**options, fill=True, show_dots=False, y_title=f"{unit} a day", x_title="day (UTC)")
        chart.x_labels = [day[5:] for day in days]
        every = 5 if width > WIDTHS["narrow"] else 10
        chart.x_labels_major = [day[5:] for place, day in enumerate(reversed(days)) if place % every == 0]
        chart.show_minor_x_labels = False
        for one in found:
            chart.add("", [size / divisor for size in one["bytes"]])
        return chart

    legend = tuple(Legend(_short(name, _LEGEND_LETTERS), c) for name, c in zip(names, _TOPIC_COLOURS, strict=False))
    return _chart(key, title, caption, draw, legend, _TOPIC_COLOURS, table)


def curve(
    key: str, title: str, caption: str, places: Sequence[tuple[int, int]], marks: Sequence[CurveMark], table: ChartTable
) -> Chart:
    """Return the bytes that each limit keeps as a line, with marks. ``places``: limit in ms, and bytes."""
    unit, divisor = _unit(max(kept for _, kept in places))
    span, word = (_DAY_MS, "days") if places[-1][0] > 2 * _DAY_MS else (_DAY_MS // 24, "hours")
    points = [(limit / span, kept / divisor) for limit, kept in places]
    steps = [points[0]]
    for limit, kept in points[1:]:
        steps += [(steps[-1][0], kept), (limit, kept)]  # a limit keeps what the next greater one keeps
    top = max(kept for _, kept in points) * (1.1 + 0.09 * len(marks)) or 1

    def draw(width: int) -> Graph:
        import pygal  # noqa: PLC0415 - of the extra "report"

        options = _options(width, 270)
        chart = pygal.XY(
            **options, show_dots=False, range=(0, top), xrange=(0, points[-1][0]), y_title=f"{unit} kept",
            x_title=f"retention.ms, in {word}",
        )  # fmt: skip
        chart.add("", steps)
        for mark in marks:
            chart.add("", [(mark.limit / span, 0), (mark.limit / span, top)])
        return chart

    legend = (Legend("kept", "kept"), *(Legend(mark.words, mark.colour) for mark in marks))
    colours = ["kept", *(mark.colour for mark in marks)]
    return _chart(key, title, caption, draw, legend, colours, table, [mark.words for mark in marks])


def marks_of(limits: Sequence[tuple[int, str, str]]) -> Iterator[CurveMark]:
    """Yield a mark for each limit, words and colour."""
    for limit, words, colour in limits:
        yield CurveMark(limit, f"{duration(limit)} {words}".strip(), colour)


def _options(width: int, height: int) -> dict[str, Any]:
    from pygal.style import Style  # noqa: PLC0415 - of the extra "report"

    sizes = {f"{what}_font_size": 12 for what in ("label", "major_label", "value", "title", "legend")}
    return {
        "width": width, "height": height, "explicit_size": False, "js": (), "css": (), "style": Style(**sizes),
        "show_legend": False, "disable_xml_declaration": True, "truncate_label": -1, "margin": 6, "spacing": 6,
        "max_scale": 8 if width > WIDTHS["narrow"] else 5, "formatter": "{:g}".format, "value_formatter": "{:g}".format,
        "x_value_formatter": "{:g}".format, "order_min": None, "no_data_text": "",
    }  # fmt: skip


def _bars_height(bars: Sequence[object]) -> int:
    return _ROW_HEIGHT * len(bars) + _FRAME_HEIGHT


def _names(names: Sequence[str], width: int) -> list[str]:
    """Return the names of bars, as long as they fit, from below."""
    letters = 30 if width > WIDTHS["narrow"] else 14
    return [_short(printable(name), letters) for name in reversed(names)]


def _chart(
    key: str,
    title: str,
    caption: str,
    draw: Draw,
    legend: Sequence[Legend],
    colours: Sequence[str],
    table: ChartTable,
    marks: Sequence[str] = (),
) -> Chart:
    drawn = {name: _plain(draw(width).render(is_unicode=True), colours, marks) for name, width in WIDTHS.items()}
    return Chart(key, title, caption, drawn["wide"], drawn["narrow"], tuple(legend), table)


def _plain(svg: str, colours: Sequence[str], marks: Sequence[str]) -> str:
    """Return the drawing without the parts that only a script would use; screen readers skip it.

    The page has a name and a table for each chart, which say more than a hundred shapes do.

    Args:
        svg: as pygal made it.
        colours: the class of each series.
        marks: words for the last series, which are upright lines.

    Raises: ValueError if the drawing holds anything but shapes and words.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 - pygal wrote it
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.removeprefix(_SVG) in _LEFT_OUT or "overlay" in child.get("class", ""):
                parent.remove(child)
    marked: list[tuple[ElementTree.Element, str]] = []
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.tag not in _DRAWN:
            raise ValueError(f"a chart holds the element {element.tag}")
        element.attrib = {name: value for name, value in element.attrib.items() if name in _KEPT}
        kinds = element.get("class", "").split()
        if "series" in kinds:
            number = int(next(kind for kind in kinds if kind.startswith("serie-")).removeprefix("serie-"))
            element.set("class", f"series {colours[number]}")
            if number >= len(colours) - len(marks):
                marked.append((element, marks[number - len(colours)]))
    for row, (group, words) in enumerate(marked):
        _label(root, group, words, row)
    root.attrib.update({"aria-hidden": "true", "focusable": "false"})
    return ElementTree.tostring(root, encoding="unicode")


def _label(root: ElementTree.Element, group: ElementTree.Element, words: str, row: int) -> None:
    """Write the words of a mark beside its line, above all lines, on the side where there is more room."""
    line, plot = group.find("path"), next((one for one in root.iter("g") if one.get("class") == "plot"), None)
    if line is None or plot is None:
        return
    x = float(line.get("d", "M0").split()[0].lstrip("M").split(",")[0])
    is_left = x > float(root.get("viewBox", "0 0 0 0").split()[2]) / 2
    place = {"x": f"{x - 5 if is_left else x + 5:.1f}", "y": str(14 + 15 * row)}
    text = ElementTree.SubElement(plot, "text", {**place, "class": "mark left" if is_left else "mark"})
    text.text = words


def _short(name: str, letters: int) -> str:
    """Return a name without its middle if it has more letters."""
    return name if len(name) <= letters else f"{name[: letters // 2]}…{name[-(letters - letters // 2 - 1) :]}"


def _folded(names: Sequence[str], series: Sequence[Series]) -> tuple[list[str], list[list[int]]]:
    """Return the bars that are shown: the first bars, and one bar for all further names."""
    if len(names) <= _BARS_MAX:
        return list(names), [list(one.values) for one in series]
    shown = [*names[: _BARS_MAX - 1], f"{len(names) - _BARS_MAX + 1:,} others"]
    values = [[*one.values[: _BARS_MAX - 1], sum(one.values[_BARS_MAX - 1 :])] for one in series]
    return shown, values


def _unit(greatest: int) -> tuple[str, int]:
    """Return the unit in which a size has the fewest digits before its point, and the bytes of that unit."""
    place = min(max(greatest.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return _UNITS[place], 1 << (10 * place)
