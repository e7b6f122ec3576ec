"""The text of a report, as it is printed where stdout is no terminal, or on one."""

from __future__ import annotations

from rich.text import Text

from cleaner.report.page import Page, Report
from cleaner.report.rollup.view import View


def text_of(
    report: Report,
    width: int = 80,
    *,
    every_segment: bool = False,
    view: View | None = None,
    is_terminal: bool = False,
) -> str:
    view = view or View(every_segment)
    parts = report.text(Page(width, view.every_segment, view=view, shortens=is_terminal))
    return "".join(part.plain for part in parts if isinstance(part, Text))
