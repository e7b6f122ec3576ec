"""The tables of docs/json.md, made of the schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.docs.tables import table
from tests.schemas import names, schema

_CHOICES_MAX: Final = 3


def documents() -> str:
    """Return a section for each schema: what the document is, and a row for each of its keys."""
    return "\n\n".join(map(_section, names()))


def _section(name: str) -> str:
    found = schema(name)
    file = f"{name.removeprefix('logcleaner.').replace('/', '-')}.json"
    link = f"Schema: [{file}](../cleaner/report/schemas/{file})"
    rows = ((f"`{path}`", _type(part), part["description"].replace("|", "\\|")) for path, part in _keys(found, ""))
    return f"## {name}\n\n{found['description']} {link}\n\n{table(('Key', 'Type', ''), rows)}"


def _keys(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key below a part with its path: ``partitions[].segments[].bytes``."""
    for key, value in part.get("properties", {}).items():
        here = f"{path}{key}"
        yield here, value
        yield from _keys(value, f"{here}.")
        yield from _keys(value.get("items") or {}, f"{here}[].")
        yield from _keys(value.get("additionalProperties") or {}, f"{here}.KEY.")


def _type(part: dict[str, Any]) -> str:
    if "const" in part:
        return f"`{part['const']}`"
    if choices := part.get("enum"):
        return " or ".join(f"`{choice}`" for choice in choices) if len(choices) <= _CHOICES_MAX else "string"
    types: Sequence[str] = [part["type"]] if isinstance(part["type"], str) else part["type"]
    return " or ".join(types)
