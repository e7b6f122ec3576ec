"""The text of a report, as it is printed where stdout is no terminal."""

from __future__ import annotations

from cleaner.report.page import Lines, Page, Report


def text_of(report: Report, width: int = 80, *, every_segment: bool = False) -> str:
    parts = report.text(Page(width, every_segment))
    return "".join(part.plain for part in parts if isinstance(part, Lines))
