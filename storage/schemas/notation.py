"""The notation in which the tables of this folder state Kafka's message schemas.

A message begins at the margin: its name, its key (``apiKey``; ``-`` for none), its versions, and the versions that are
flexible, if any. Below it is a line for each field, in Kafka's order, two blanks further in::

    OffsetCommitValue 1 0-4 flexible 4+
      offset int64
      leaderEpoch int32 3+ default -1
      topicId uuid 4+ tag 0

A field states its name, its type, its versions if it is not in all of them, ``null`` if it may be null (``null 2+`` in
some versions only), the ``tag`` of a tagged field, and its ``default``. Without ``default`` Kafka's default counts:
zero, empty or false. A type is a primitive, ``[]type``, or the name of a struct. The fields of a struct stand below the
field of that type, two blanks further in; if several fields have the type, below a line ``struct Name`` at the
message's end.

Source: Kafka ``clients/src/main/resources/common/message/README.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

PRIMITIVES: Final = frozenset({
    *("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"),
    *("string", "bytes", "records", "uuid"),
})  # fmt: skip
_INDENT: Final = "  "


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    def holds(self, version: int) -> bool:
        """Return whether a version lies in the range."""
        return self.first <= version <= self.last


class Field(NamedTuple):
    """A field of a message or of a struct.

    Attributes:
        kind: a primitive, or the name of a struct.
        is_array: whether the field holds a list of them.
        versions: those that have the field.
        nullable: those in which it may be null; None for no version.
        tag: of a tagged field; None for a plain one.
        default: as the table states it; None where it states nothing.
        fields: of the struct; empty for a primitive.
    """

    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: str | None
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """The schema of one message in all its versions. ``flexible`` are those with compact lengths and tagged fields."""

    name: str
    api_key: int | None
    versions: Versions
    flexible: Versions | None
    fields: tuple[Field, ...]


class _Line(NamedTuple):
    words: tuple[str, ...]
    children: tuple[_Line, ...]


def parse_messages(table: str) -> dict[str, Message]:
    """Return the messages of a table by their names."""
    lines = [line for line in table.splitlines() if line.strip()]
    messages = map(_message, _nested(lines, 0))
    return {message.name: message for message in messages}


def _nested(lines: list[str], depth: int) -> Iterator[_Line]:
    """Take the lines from the front of a list that are as deep as ``depth``, each with the lines below it."""
    while lines and _depth(lines[0]) == depth:
        words = tuple(lines.pop(0).split())
        yield _Line(words, tuple(_nested(lines, depth + 1)))


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // len(_INDENT)


def _message(line: _Line) -> Message:
    name, api_key, versions_text, *more = line.words
    versions = _versions(versions_text, None)
    flexible = _versions(more[1], versions) if more else None
    structs = {child.words[1]: child.children for child in line.children if child.words[0] == "struct"}
    own = tuple(child for child in line.children if child.words[0] != "struct")
    fields = _fields(own, versions, structs)
    return Message(name, None if api_key == "-" else int(api_key), versions, flexible, fields)


def _fields(
    lines: tuple[_Line, ...], versions: Versions, structs: Mapping[str, tuple[_Line, ...]]
) -> tuple[Field, ...]:
    return tuple(_field(line, versions, structs) for line in lines)


def _field(line: _Line, all_versions: Versions, structs: Mapping[str, tuple[_Line, ...]]) -> Field:
    name, type_text, *rest = line.words
    words = dict(_options(rest))
    kind = type_text.removeprefix("[]")
    versions = _versions(words["versions"], all_versions) if "versions" in words else all_versions
    fields: tuple[Field, ...] = ()
    if kind not in PRIMITIVES:
        fields = _fields(line.children or structs[kind], versions, structs)
    nullable = _versions(words["null"], versions) if "null" in words else None
    tag = int(words["tag"]) if "tag" in words else None
    return Field(name, kind, kind != type_text, versions, nullable, tag, words.get("default"), fields)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options in the words behind the type of a field; versions stand alone, and ``null`` may."""
    while words:
        word = words.pop(0)
        if word in ("tag", "default") or (word == "null" and words and words[0][0].isdigit()):
            yield word, words.pop(0)
        elif word == "null":
            yield word, "0+"
        else:
            yield "versions", word


def _versions(text: str, within: Versions | None) -> Versions:
    """Parse ``3``, ``1-2`` or ``4+``, which ends where ``within`` does."""
    if text.endswith("+"):
        assert within is not None
        return Versions(max(int(text[:-1]), within.first), within.last)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))
