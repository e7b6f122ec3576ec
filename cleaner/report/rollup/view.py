"""The part of a report that the user wants to see, and its order. The module loads nothing: the options need it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

Listed = TypeVar("Listed")


class Sort(StrEnum):
    """The order of the topics or partitions of a report."""

    BYTES = "bytes"
    RECLAIM = "reclaim"
    DIRTY = "dirty"
    EXPIRY = "expiry"


class View(NamedTuple):
    """The part of a report that the user wants to see, and its order. Only the text obeys, never the document."""

    every_segment: bool = False
    """Show every partition and every segment (``-v``)."""
    summary_only: bool = False
    """Show the totals and the next step alone (``-q``)."""
    sort: Sort | None = None
    """The order of the topics; None for the report's own order."""
    limit: int | None = None
    """The most topics or partitions to list; None lists as many as fit."""

    def first(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        """Return what the limit allows of a list."""
        return listed[: self.limit]
