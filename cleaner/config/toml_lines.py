"""The line of each key in a TOML file, which ``tomllib`` does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

KeyPath = tuple[str, ...]
"""The parts of a key in TOML: ``topics."orders".retention.ms`` has four."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key and table header of a valid TOML text.

    A statement is the smallest run of lines that TOML accepts alone. So quoting, dotted keys and values over many lines
    need no parser here.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, statement, parsed in _statements(text):
        if statement.startswith("["):
            table, _ = next(leaves(parsed))
            lines.setdefault(table, number)
        else:
            for path, _ in leaves(parsed):
                lines.setdefault((*table, *path), number)
    return lines


def leaves(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and value of every key that is not a table; an empty table counts as a value."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield the line, text and parsed value of each statement: a key or a table header."""
    statement, first = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement, first = (f"{statement}\n{line}", first) if statement else (line, number)
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # the value continues in the next line
        if parsed:
            yield first, statement.lstrip(), parsed
        statement = ""
