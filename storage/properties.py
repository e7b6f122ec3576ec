"""Java ``.properties`` files: server.properties and meta.properties.

Source: java.util.Properties.load. Differs in two things: the text may be UTF-8 (Java reads Latin-1), and each
    value keeps the line it was said on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import InvalidConfig, as_unreadable

_BLANKS: Final = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A value and the line, from 1, on which its key stands."""

    value: str
    line: int


def read_properties(path: Path) -> dict[str, Property]:
    """Read a file.

    Raises:
        UnreadableFile: it is missing, or may not be read.
        InvalidConfig: a malformed ``\\uXXXX``, at which Java gives up as well.
    """
    with as_unreadable(path):
        return parse_properties(path.read_bytes(), str(path))


def parse_properties(data: bytes, name: str) -> dict[str, Property]:
    """Parse the bytes of a file; where a key stands twice, the last one holds.

    Args:
        data: Latin-1 or UTF-8.
        name: what an error calls the file.

    Raises:
        InvalidConfig: a malformed ``\\uXXXX``.
    """
    found = {}
    for line, text in _logical_lines(_decode(data)):
        end_of_key = _end(_KEY, text, 0)
        start_of_value = _end(_SEPARATOR, text, end_of_key)
        written = text[:end_of_key]
        key = _unescape(written, written, f"{name} line {line}")
        found[key] = Property(_unescape(text[start_of_value:], key, f"{name} line {line}"), line)
    return found


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines, joined if one ends in an odd number of backslashes, without blank and comment lines."""
    joined, first = "", 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined, first = joined + (line[:-1] if goes_on else line), first or number
        if not goes_on:
            yield first, joined
            joined, first = "", 0
    if joined:  # the last line ended in a backslash
        yield first, joined


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    assert found is not None  # both patterns match the empty text
    return found.end()


def _unescape(text: str, key: str, where: str) -> str:
    """Replace the escapes. An error names the key alone, because the value may be a password."""

    def replacement(escape: re.Match[str]) -> str:
        said = escape[1]
        if said == "u":
            raise InvalidConfig(key, None, "malformed \\uXXXX", where)
        return chr(int(said[1:], 16)) if len(said) > 1 else _CONTROLS.get(said, said)

    return _ESCAPE.sub(replacement, text)
