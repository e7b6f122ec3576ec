"""Each document that a report makes, in whatever test, is held against its schema, and against that of version 0.1.

The schemas are made of the types (``cleaner.documents``), as the build makes them for the wheel.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from jsonschema import Draft202012Validator

import cleaner.report
from cleaner.documents.schemas import FOLDER, file_name, schemas

PROMISED: Final = Path(__file__).parent / "golden" / "schemas-0.1"
"""The schemas of version 0.1.0: what is valid today is valid by them."""
_ITEMS_MAX: Final = 200


class Key(NamedTuple):
    """A key of a document: what its schema says of it."""

    path: str
    """For example ``partitions[].segments[].bytes``."""
    part: dict[str, Any]
    is_required: bool


def names() -> list[str]:
    """The names of all schemas: ``logcleaner.plan/1``."""
    return sorted(_schemas())


def schema(name: str) -> dict[str, Any]:
    """The schema of that name, as it is published. It lets keys through that a later version adds."""
    assert name in _schemas(), f"{name} has no schema: write its type in cleaner/documents"
    return _schemas()[name]


def promised(name: str) -> dict[str, Any]:
    """The schema of that name in version 0.1.0."""
    found: dict[str, Any] = json.loads((PROMISED / file_name(name)).read_text("utf-8"))
    return found


def keys(found: dict[str, Any]) -> dict[str, Key]:
    """Every key of the documents of a schema by its path, in the schema's order."""
    return {key.path: key for key in _keys(found, found, "")}


def check(document: Any) -> None:
    """Fail unless the document, as JSON, is as its schemas say, and has no key that the newest does not have."""
    plain = json.loads(json.dumps(_shortened(document)))
    for validator in _validators(plain["schema"]):
        for error in validator.iter_errors(plain):
            pytest.fail(f"{plain['schema']}: {error.json_path}: {error.message}")


def report_classes() -> Iterator[type]:
    """Every class that makes a document."""
    for module in pkgutil.walk_packages(cleaner.report.__path__, "cleaner.report."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and "document" in vars(kind) and not getattr(kind, "_is_protocol", False):
                yield kind


def hold_to_schemas(patched: pytest.MonkeyPatch) -> None:
    """Have every report check the documents that it makes."""
    for kind in report_classes():
        patched.setattr(kind, "document", _checked(kind.document))  # type: ignore[attr-defined]


def closed(part: Any) -> Any:
    """A schema, or a part of one, that lets no other keys through than it names."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    own = {"additionalProperties": False} if isinstance(part.get("properties"), dict) else {}
    return own | {key: closed(value) for key, value in part.items()}


def _checked(document: Any) -> Any:
    def checked(report: Any) -> Any:
        made = document(report)
        check(made)
        return made

    return checked


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    by_hand = {f"logcleaner.{path.stem.replace('-', '/')}": json.loads(path.read_text()) for path in FOLDER.iterdir()}
    return {**by_hand, **schemas()}


@cache
def _validators(name: str) -> list[Draft202012Validator]:
    of_before = [promised(name)] if (PROMISED / file_name(name)).exists() else []
    return [Draft202012Validator(found) for found in (closed(schema(name)), *of_before)]


def _keys(part: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[Key]:
    for key, value in part.get("properties", {}).items():
        found = _resolved(value, root)
        yield Key(f"{path}{key}", found, key in part.get("required", ()))
        yield from _below(found, root, f"{path}{key}")


def _below(part: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[Key]:
    yield from _keys(part, root, f"{path}.")
    for kind, end in (("items", "[]"), ("additionalProperties", ".KEY")):
        if isinstance(part.get(kind), dict):
            yield from _below(_resolved(part[kind], root), root, f"{path}{end}")


def _resolved(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A part with what it names by a reference; of one or null, with both types."""
    if "$ref" in part:
        return {**root["$defs"][part["$ref"].rpartition("/")[2]], **part}
    if "anyOf" in part:
        first, null = part["anyOf"]
        found = _resolved(first, root)
        return {**found, **part, "type": [found["type"], null["type"]]}
    return part


def _shortened(value: Any) -> Any:
    """The ends of long lists: a hundred thousand segments are alike."""
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [*value[: _ITEMS_MAX // 2], *value[-_ITEMS_MAX // 2 :]] if len(value) > _ITEMS_MAX else value
        return [_shortened(item) for item in items]
    return value
