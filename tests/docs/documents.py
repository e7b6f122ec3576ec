"""The reference of the JSON documents, made of the schemas: the site has it below docs/json.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cleaner.documents.schemas import file_name
from tests.docs.tables import table
from tests.schemas import keys, names, schema

_CHOICES_MAX: Final = 3


def documents() -> str:
    """Return a section for each schema: what the document is, and a row for each of its keys."""
    return "\n\n".join(map(_section, names()))


def _section(name: str) -> str:
    found = schema(name)
    file = file_name(name)
    link = f"Schema: [{file}](schemas/{file})"
    parts = {path: key.part for path, key in keys(found).items()}
    rows = ((f"`{path}`", _type(part), part["description"].replace("|", "\\|")) for path, part in parts.items())
    return f"## {name}\n\n{found['description']} {link}\n\n{table(('Key', 'Type', ''), rows)}"


def _type(part: dict[str, Any]) -> str:
    if "const" in part:
        return f"`{part['const']}`"
    if choices := part.get("enum"):
        return " or ".join(f"`{choice}`" for choice in choices) if len(choices) <= _CHOICES_MAX else "string"
    types: Sequence[str] = [part["type"]] if isinstance(part["type"], str) else part["type"]
    return " or ".join(types)
