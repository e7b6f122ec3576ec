"""The text of a report, as it is printed where stdout is no terminal."""

from __future__ import annotations

from rich.text import Text

from cleaner.report.page import Page, Report


def text_of(report: Report, width: int = 80, *, every_segment: bool = False) -> str:
    parts = report.text(Page(width, every_segment))
    return "".join(part.plain for part in parts if isinstance(part, Text))
