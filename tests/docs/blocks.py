"""The code blocks and the commands in the README and in docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"(^|\s+)# .*$|^#.*$")
_INLINE: Final = re.compile(r"`((?:logcleaner|python -m|pipx?|source) [^`]*)`")


class Block(NamedTuple):
    """A fenced block."""

    page: str
    place: int
    """The how manieth block of the page."""
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Return the lines without comments, empty ones left out."""
        return [line for line in (_COMMENT.sub("", line).strip() for line in self.text.splitlines()) if line]

    def __str__(self) -> str:
        return f"{self.page}-{self.place}"


def blocks(language: str) -> list[Block]:
    """Return every block of a language; for an empty name, the blocks that name no language."""
    return [
        Block(path.name, place, *found.groups())
        for path in PAGES
        for place, found in enumerate(_FENCED.finditer(path.read_text("utf-8")))
        if found[1] == language
    ]


def languages() -> set[str]:
    """Return the languages of all blocks."""
    return {found[1] for path in PAGES for found in _FENCED.finditer(path.read_text("utf-8"))}


def inline_commands() -> list[str]:
    """Return the commands that stand in running text and in tables, each once."""
    texts = (_FENCED.sub("", path.read_text("utf-8")) for path in PAGES)
    return sorted({found for text in texts for found in _INLINE.findall(text)})


def command_of_all_tests() -> str:
    """Return the command of the README that runs every test; ``.ci/run`` finds it by the same marker."""
    (found,) = re.findall(r"^<!-- test command -->\n```sh\n(.*)\n```$", PAGES[0].read_text("utf-8"), re.MULTILINE)
    return str(found)


def needs_spark(text: str) -> bool:
    """Return whether a command or an example opens a Spark session."""
    return bool(re.search(r"logcleaner analyze|--engine spark|cleaner\.spark|^spark\.md", text))
