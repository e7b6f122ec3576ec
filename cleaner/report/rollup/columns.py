"""Rows of text in columns, of which the first has names: on a terminal they lose their middle, not their line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from cleaner.report.page import Page

NAME_MIN: Final = 16
"""A name keeps so many columns, even where the line gets longer than the page."""


def in_columns(
    rows: Sequence[Sequence[str]], page: Page, right: Collection[int] = (), gap: str = "  "
) -> Iterator[str]:
    """Yield a line for each row.

    Args:
        rows: cells; all rows have as many. The first cell is a name.
        page: says how wide a line may be, and whether names are shortened.
        right: the places of the cells that end together, as figures do.
        gap: stands between two cells.
    """
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    others = sum(widths[1:]) + len(gap) * (len(widths) - 1)
    names = [page.name(row[0], max(page.width - others, NAME_MIN)) for row in rows]
    widths[0] = max(map(len, names))
    sides = [">" if place in right else "<" for place in range(len(widths))]
    for name, (_, *cells) in zip(names, rows, strict=True):
        one = zip((name, *cells), sides, widths, strict=True)
        yield gap.join(f"{cell:{side}{width}}" for cell, side, width in one).rstrip()
