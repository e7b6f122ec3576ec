"""The page of a document, whatever its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleaner.report.html import of_analysis, of_explanation, of_plan
from cleaner.report.html.rendering import render

_PAGES = {
    "logcleaner.plan/1": of_plan.content_of,
    "logcleaner.explain/1": of_explanation.content_of,
    "logcleaner.analysis/1": of_analysis.content_of,
}


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of a report's document: HTML that needs no other file."""
    return render(_PAGES[document["schema"]](document))
