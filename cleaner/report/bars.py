"""Bars and sparklines: what a terminal shows beside the figures. Nothing of them is in a piped report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cleaner.report.page import Lines

KEPT: Final = "█"
FREED: Final = "░"
ELSEWHERE: Final = "▒"
FREE: Final = "·"
KEPT_STYLE: Final = "cyan"
FREED_STYLE: Final = "red"
GROWTH_STYLE: Final = "cyan"
BAR_MIN: Final = 14
"""A shorter bar tells nothing that the figures do not; the headings need as many columns."""
BAR_MAX: Final = 32
_STEPS: Final = "▁▂▃▄▅▆▇█"
_GAP: Final = "  "

Pieces = tuple[tuple[str, str], ...]
"""Texts, each with its style."""


class Drawn(NamedTuple):
    """The figures of one row that are drawn."""

    kept_bytes: int
    freed_bytes: int
    by_day: tuple[int, ...]
    """The bytes written on each of the last days, the oldest first; empty if nothing is known."""


def sparkline(amounts: Sequence[int]) -> str:
    """Return a column for each amount, the largest as high as a line; a blank for nothing."""
    most = max(amounts, default=0)
    return "".join(_STEPS[(len(_STEPS) - 1) * amount // most] if amount else " " for amount in amounts)


def bar(parts: Sequence[tuple[str, int]], full: int, columns: int) -> str:
    """Return a bar of some parts, one behind the other.

    Args:
        parts: a character and an amount each. An amount that is not 0 has at least one column.
        full: the amount that takes all columns.
        columns: of a full bar.
    """
    drawn, behind = "", 0
    for character, amount in parts:
        behind += amount
        if amount > 0:
            drawn += character * max(round(behind * columns / max(full, 1)) - len(drawn), 1)
    return drawn[:columns]


def beside(rows: Sequence[Drawn], columns: int, days: int) -> list[Pieces]:
    """Return what stands to the right of a table: the headings, then the pictures of each row.

    Args:
        rows: of the table.
        columns: that are left of the terminal; with too few of them, each row gets nothing.
        days: of a sparkline, which is left out first.
    """
    with_growth = columns >= BAR_MIN + len(_GAP) + max(days, len("GROWTH")) + len(_GAP) and any(r.by_day for r in rows)
    growth_columns = max(days, len("GROWTH")) + len(_GAP) if with_growth else 0
    bar_columns = min(columns - growth_columns - len(_GAP), BAR_MAX)
    if bar_columns < BAR_MIN or not rows:
        return [() for _ in range(len(rows) + 1)]
    heading = f"{_GAP}KEPT {KEPT} FREED {FREED}"
    if with_growth:
        heading = f"{_GAP}{'GROWTH':{growth_columns - len(_GAP)}}{heading}"
    full = max(row.kept_bytes + row.freed_bytes for row in rows)
    return [((heading, "bold"),), *(_pictures(row, full, bar_columns, growth_columns) for row in rows)]


def _pictures(row: Drawn, full: int, columns: int, growth_columns: int) -> Pieces:
    whole = bar([(KEPT, row.kept_bytes), (FREED, row.freed_bytes)], full, columns)
    kept = whole.rstrip(FREED)
    growth = f"{_GAP}{sparkline(row.by_day):{growth_columns - len(_GAP)}}" if growth_columns else ""
    return (growth, GROWTH_STYLE), (_GAP, ""), (kept, KEPT_STYLE), (whole[len(kept) :], FREED_STYLE)


def disk(elsewhere_bytes: int, kept_bytes: int, freed_bytes: int, free_bytes: int, columns: int) -> Lines:
    """Return the bar of a file system with its legend: two lines at most so many columns wide."""
    parts = (ELSEWHERE, elsewhere_bytes), (KEPT, kept_bytes), (FREED, freed_bytes), (FREE, free_bytes)
    drawn = bar(parts, sum(amount for _, amount in parts), min(columns - len(_GAP), 2 * BAR_MAX))
    lines = Lines()
    pieces = [(_GAP, "")]
    for character, style in ((ELSEWHERE, ""), (KEPT, KEPT_STYLE), (FREED, FREED_STYLE), (FREE, "")):
        pieces.append((character * drawn.count(character), style))
    lines.pieces(pieces)
    lines.add(f"{_GAP}{ELSEWHERE} other files  {KEPT} logs that stay  {FREED} freed  {FREE} free")
    return lines
