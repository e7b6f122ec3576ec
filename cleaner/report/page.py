"""A report: one value that is printed as text or as JSON; and the page that its text fills."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import humanize
from rich.table import Table
from rich.text import Text

from cleaner.printable import printable


class Report(Protocol):
    """What a command found or did. Both forms come from the same values."""

    @property
    def width_piped(self) -> int:
        """Return the width of tables, in columns, if stdout is no terminal."""
        ...

    def document(self) -> dict[str, Any]:
        """Return the JSON document that ``--json`` prints."""
        ...

    def text(self, page: Page) -> Iterator[Text | Table]:
        """Fill a page, and yield the parts of the report in order. Each line of a text ends with a line break."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """Lines under construction.

    Attributes:
        width: columns; a line is longer only where one word is.
        every_segment: no folding of neighbours.
    """

    width: int = 80
    every_segment: bool = False
    text: Text = field(default_factory=Text)

    def line(self, words: str = "", style: str = "", *, indent: int = 0, hanging: int = 0) -> None:
        """Add a line, wrapped at the width: continued ``hanging`` columns further in."""
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


def size(size_bytes: int) -> str:
    """``1.2 GiB``."""
    return humanize.naturalsize(size_bytes, binary=True)


def counted(number: int, noun: str) -> str:
    """``1 segment``, ``1,200 segments``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
