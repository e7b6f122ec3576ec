"""The protocol of a report, which is printed as text or as JSON, and the page that the text fills.

On a terminal, bars and sparklines stand beside the figures. A piped report has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from cleaner.printable import printable
from cleaner.report.rollup.view import View
from policies.reasons import counted, size

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

YEAR_9999_MS: Final = 253_402_300_799_000
"""The latest time that is shown as a date."""
ATTENTION: Final = "bold magenta"
"""The style of text that a person should not miss. Yellow is hard to read on a light terminal."""
LINES_MAX: Final = 60
"""The most lines of a report, unless the user asks for more."""
_CUT: Final = "..."
_DIGITS_MAX: Final = 3

NAME_MIN: Final = 16
"""The least columns of a name, even if the line gets longer than the page."""

KEPT: Final = "█"
FREED: Final = "░"
ELSEWHERE: Final = "▒"
FREE: Final = "·"
KEPT_STYLE: Final = "cyan"
FREED_STYLE: Final = "red"
GROWTH_STYLE: Final = "cyan"
BAR_MIN: Final = 14
"""The least columns of a bar. A shorter bar tells no more than the figures, and the headings need as many columns."""
BAR_MAX: Final = 32
_STEPS: Final = "▁▂▃▄▅▆▇█"
_GAP: Final = "  "
Pieces = tuple[tuple[str, str], ...]
"""Texts, each with its style."""


class Report(Protocol):
    """The findings or acts of a command. Its two forms, ``text`` and ``document``, come from the same values."""

    def document(self) -> Mapping[str, Any]:
        """Return the JSON document that ``--json`` prints: a value of a type of ``cleaner.documents``."""
        ...

    def text(self, page: Page) -> Iterator[Lines | Table]:
        """Fill a page, and yield the parts of the report in order."""
        ...


class Page:
    """The lines of a report while it is written."""

    def __init__(
        self,
        width: int = 80,
        every_segment: bool = False,
        *,
        view: View | None = None,
        shortens: bool = False,
        draws: bool = False,
    ) -> None:
        """Begin an empty page.

        Args:
            width: in columns; a line is longer only if one of its words is.
            every_segment: do not fold neighbouring segments.
            view: what else the user wants.
            shortens: whether long names lose their middle, so that a row fits the width; a piped report has them in
                full.
            draws: whether bars stand beside the figures.
        """
        self.width, self.every_segment = width, every_segment
        self.view, self.shortens, self.draws = view or View(), shortens, draws
        self.text = Lines()

    def draft(self) -> Page:
        """Return an empty page of the same kind."""
        return Page(self.width, self.every_segment, view=self.view, shortens=self.shortens, draws=self.draws)

    @property
    def lines(self) -> int:
        """The number of lines so far."""
        return self.text.number

    def name(self, words: str, columns: int) -> str:
        """Return a name shortened to some columns, if the page shortens names."""
        told = printable(words)
        return shortened(told, columns) if self.shortens else told

    def line(
        self, words: str = "", style: str = "", *, indent: int = 0, hanging: int = 0, styled: int | None = None
    ) -> None:
        """Add a line, wrapped at the page's width.

        Args:
            words: of the line.
            style: see ``Lines.add``.
            indent: columns before the words.
            hanging: so many more columns before a continuation.
            styled: so many columns of the words have the style; by default all.
        """
        line = " " * indent + printable(words)
        if len(line) > self.width:
            line = wrapped(line, self.width, indent + hanging)
        self.text.add(line, style, None if styled is None else indent + styled)

    def row(self, words: str, style: str = "", beside: Sequence[tuple[str, str]] = ()) -> None:
        """Add a row of a table. It is wrapped only on a terminal that is narrower than the row's figures.

        Args:
            words: of the row.
            style: of the words.
            beside: what is drawn behind them, each piece with its style.
        """
        if beside:
            self.text.pieces([(printable(words), style), *beside])
        elif self.shortens and len(words) > self.width:
            self.line(words, style, hanging=2)
        else:
            self.text.add(printable(words), style)

    def note(self, words: str, style: str = "") -> None:
        """Add an indented line about the line before; its continuation is indented further."""
        self.line(words, style, indent=2, hanging=2)

    def fate(self, word: str, rest: str, style: str) -> None:
        """Add a note whose first word has a style. The rest has no style, so that every terminal shows it readably."""
        self.line(word + rest, style, indent=2, hanging=2, styled=len(word))


class Lines:
    """Lines of a report, each with its style. Only a terminal shows the styles, so only there rich is loaded."""

    def __init__(self, *lines: tuple[str, str]) -> None:
        """Begin with some lines and their styles; see ``add``."""
        self._styled: list[tuple[str, str]] = []
        for line, style in lines:
            self.add(line, style)

    def add(self, line: str, style: str = "", columns: int | None = None) -> None:
        """Add a line without its line break. ``style``: in the words of rich, of so many columns, by default of all."""
        if columns is None:
            self._styled.append((line + "\n", style))
        else:
            self._styled += (line[:columns], style), (line[columns:] + "\n", "")

    def pieces(self, pieces: Sequence[tuple[str, str]]) -> None:
        """Add a line of some texts, each with its style."""
        self._styled += [*pieces, ("\n", "")]

    def extend(self, lines: Lines) -> None:
        """Add other lines with their styles."""
        self._styled += lines._styled

    @property
    def number(self) -> int:
        """The number of lines."""
        return self.plain.count("\n")

    @property
    def plain(self) -> str:
        """The lines without their styles."""
        return "".join(line for line, _ in self._styled)

    def styled(self) -> Text:
        """Return the lines as rich prints them."""
        from rich.text import Text  # noqa: PLC0415 - on a terminal only

        return Text.assemble(*self._styled)


def wrapped(line: str, columns: int, indent: int) -> str:
    """Return a line as lines of at most so many columns, without breaking a word.

    ``textwrap`` does the same and takes five times as long, which a report of all segments would feel.

    Args:
        line: may begin with spaces, which stay.
        columns: a longer word gets a line that is longer.
        indent: spaces before each further line.
    """
    lines, line = list[str](), line.rstrip(" ")
    begin = len(line) - len(line.lstrip(" "))
    if begin >= columns:
        line, begin = " " * indent + line[begin:], indent
    while len(line) > columns:
        space = line.rfind(" ", begin, columns + 1)
        if space < 0:
            space = line.find(" ", max(begin, columns))
        if space < 0:
            break
        lines.append(line[:space].rstrip(" "))
        line, begin = " " * indent + line[space:].lstrip(" "), indent
    return "\n".join((*lines, line))


def shortened(name: str, columns: int) -> str:
    """Return a name without its middle if it takes more columns: beginning and end tell names apart."""
    if len(name) <= columns:
        return name
    kept = max(columns - len(_CUT), 2)
    return f"{name[: kept - kept // 2]}{_CUT}{name[len(name) - kept // 2 :]}"


def two_sizes(one_bytes: int, other_bytes: int) -> tuple[str, str]:
    """Return two sizes for people that stand side by side; different ones get as many digits as tell them apart."""
    both = one_bytes, other_bytes
    for digits in range(1, _DIGITS_MAX + 1):
        one, other = (size(bytes_, digits) for bytes_ in both)
        if one != other or one_bytes == other_bytes:
            return one, other
    return counted(one_bytes, "byte"), counted(other_bytes, "byte")


def sparse(size_bytes: int, disk_bytes: int) -> str:
    """Return the size of files; with what their blocks take, if that is less than half, as of preallocated indexes."""
    return f"{size(size_bytes)} ({size(disk_bytes)} on disk)" if 2 * disk_bytes < size_bytes else size(size_bytes)


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
    """Return a bar whose parts stand in a row.

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
    """Return the pictures to the right of a table: a line of headings, then a line for each row.

    Args:
        rows: of the table.
        columns: the columns of the terminal that are left. If they are too few, no row gets a picture.
        days: of a sparkline. If space is short, the sparkline is left out first.
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


def _pictures(row: Drawn, full: int, columns: int, growth_columns: int) -> Pieces:
    whole = bar([(KEPT, row.kept_bytes), (FREED, row.freed_bytes)], full, columns)
    kept = whole.rstrip(FREED)
    growth = f"{_GAP}{sparkline(row.by_day):{growth_columns - len(_GAP)}}" if growth_columns else ""
    return (growth, GROWTH_STYLE), (_GAP, ""), (kept, KEPT_STYLE), (whole[len(kept) :], FREED_STYLE)
