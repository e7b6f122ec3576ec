"""The page of a document, whatever its schema: the template, its style and its script.

The page's policy allows style and script by their hashes alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cleaner.printable import printable
from cleaner.report.html import of_analysis, of_explanation, of_plan
from cleaner.report.html.content import Chart, Column, DataTable, Kind, PageContent, packed
from cleaner.report.page import YEAR_9999_MS
from policies.reasons import duration, moment, size

_STATIC_ROWS: Final = 25
"""The number of rows of a table that show without the script, too."""

_WORDS: Final[Mapping[Kind, Callable[[Any], str]]] = {
    Kind.BYTES: size,
    Kind.RATIO: "{:.0%}".format,
    Kind.SPAN: duration,
    Kind.MOMENT: lambda ms: moment(ms) if ms < YEAR_9999_MS else "never",
    Kind.NUMBER: "{:,}".format,
}

_PAGES = {
    "logcleaner.plan/1": of_plan.content_of,
    "logcleaner.explain/1": of_explanation.content_of,
    "logcleaner.analysis/1": of_analysis.content_of,
}


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of a report's document: HTML that needs no other file."""
    return render(_PAGES[document["schema"]](document))


def render(content: PageContent) -> str:
    """Return the page as one text of HTML."""
    style, script = _resource("page.css"), _resource("page.js")
    data = {"now": content.now_ms, "tables": [_table(table) for table in content.tables], "segments": content.segments}
    return (
        _environment()
        .get_template("page.html")
        .render(
            content=content,
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            policy=_policy(style, script),
            data=packed(data),
            static_rows=_STATIC_ROWS,
        )
    )


def _resource(name: str) -> str:
    return files(__package__ or "").joinpath(name).read_text("utf-8")


def _table(table: DataTable) -> dict[str, Any]:
    return {
        "key": table.key,
        "opens": table.opens,
        "columns": [
            {"heading": c.heading, "kind": c.kind.value, "total": c.has_total, "values": c.values}
            for c in table.columns
        ],
    }


def _policy(style: str, script: str) -> str:
    """Return the content security policy: no request, no other script or style than the page's own."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(__package__ or "", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters.update(
        size=size, moment=moment, printable=printable, figure=_figure, drawing=_drawing, cell=_cell, count=_count
    )
    return found


def _figure(value: object) -> Markup:
    """Return a value of a chart's table: sizes and shares with the exact figure, anything else as its text."""
    match value:
        case int():
            return _data(value, size(value))
        case float():
            return _data(value, f"{value:.0%}")
        case None:
            return Markup("")
    return Markup("<bdi>{}</bdi>").format(printable(str(value)))


def _data(value: float, words: str) -> Markup:
    return Markup('<data value="{}">{}</data>').format(value, words)


def _drawing(chart: Chart, name: str) -> Markup:
    """Return one of a chart's drawings, which ``charts`` has made and looked through."""
    return Markup(chart.wide if name == "wide" else chart.narrow)  # noqa: S704 - made of shapes alone


def _cell(column: Column, row: int) -> Markup:
    """Return a cell as the script would make it."""
    value = column.values[row]
    if value is None or value == "":
        return Markup("")
    number = int(value) if isinstance(value, str) and column.kind in _WORDS else value
    return (
        _data(number, _WORDS[column.kind](number)) if column.kind in _WORDS else Markup("<bdi>{}</bdi>").format(value)
    )


def _count(value: int) -> Markup:
    return _data(value, f"{value:,}")
