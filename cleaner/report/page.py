"""The protocol of a report, which is printed as text or as JSON, and the page that the text fills."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import humanize
from rich.table import Table
from rich.text import Text

from cleaner.printable import printable
from cleaner.report.rollup.view import View


class Report(Protocol):
    """The findings or acts of a command. Its two forms, ``text`` and ``document``, come from the same values."""

    def document(self) -> dict[str, Any]:
        """Return the JSON document that ``--json`` prints."""
        ...

    def text(self, page: Page) -> Iterator[Text | Table]:
        """Fill a page, and yield the parts of the report in order. Each line of a text ends with a line break."""
        ...


YEAR_9999_MS: Final = 253_402_300_799_000
"""A later time is not told as a date."""
LINES_MAX: Final = 60
"""So many lines has a report at most, unless the user asks for more."""
_GAP: Final = "..."


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of a report while it is written.

    Attributes:
        width: in columns; a line is longer only if one of its words is.
        every_segment: do not fold neighbouring segments.
        view: what else the user wants.
        shortens: whether long names lose their middle, so that a row fits the width; a piped report has them in full.
    """

    width: int = 80
    every_segment: bool = False
    text: Text = field(default_factory=Text)
    view: View = field(default_factory=View)
    shortens: bool = False

    def draft(self) -> Page:
        """Return an empty page of the same kind."""
        return replace(self, text=Text())

    @property
    def lines(self) -> int:
        """The number of lines so far."""
        return self.text.plain.count("\n")

    def name(self, words: str, columns: int) -> str:
        """Return a name that takes no more columns, if the page shortens names."""
        told = printable(words)
        return shortened(told, columns) if self.shortens else told

    def line(self, words: str = "", style: str = "", *, indent: int = 0, hanging: int = 0) -> None:
        """Add a line, wrapped at the page's width; the continuation is indented by ``hanging`` more columns."""
        line = " " * indent + printable(words)
        if len(line) > self.width:
            line = textwrap.fill(
                line,
                self.width,
                subsequent_indent=" " * (indent + hanging),
                break_long_words=False,
                break_on_hyphens=False,
            )
        self.text.append(line + "\n", style)

    def row(self, words: str, style: str = "") -> None:
        """Add a row of a table. It is wrapped only on a terminal that is narrower than the row's figures."""
        if self.shortens and len(words) > self.width:
            self.line(words, style, hanging=2)
        else:
            self.text.append(printable(words) + "\n", style)

    def note(self, words: str, style: str = "") -> None:
        """Add a line about what the line before names; it is indented, and its continuation more."""
        self.line(words, style, indent=2, hanging=2)


def shortened(name: str, columns: int) -> str:
    """Return a name without its middle if it takes more columns: beginning and end tell names apart."""
    if len(name) <= columns:
        return name
    kept = max(columns - len(_GAP), 2)
    return f"{name[: kept - kept // 2]}{_GAP}{name[len(name) - kept // 2 :]}"


def size(size_bytes: int) -> str:
    """Return a size for people, such as ``1.2 GiB``."""
    return humanize.naturalsize(size_bytes, binary=True)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 segment`` or ``1,200 segments``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
