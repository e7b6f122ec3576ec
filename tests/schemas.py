"""Each document that a report makes, in whatever test, is held against the schema that the wheel carries for it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

import cleaner.report

SCHEMAS: Final = Path(cleaner.report.__file__).with_name("schemas")
_ITEMS_MAX: Final = 200


def names() -> list[str]:
    """The names of all schemas: ``logcleaner.plan/1``."""
    return sorted(f"logcleaner.{path.stem.replace('-', '/')}" for path in SCHEMAS.iterdir())


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of that name, as it is published. It lets keys through that a later version adds."""
    path = SCHEMAS / f"{name.removeprefix('logcleaner.').replace('/', '-')}.json"
    assert path.exists(), f"{name} has no schema: write {path}"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def check(document: Any) -> None:
    """Fail unless the document, as JSON, is as its schema says, and has no key that the schema does not have."""
    plain = json.loads(json.dumps(_shortened(document)))
    for error in _validator(plain["schema"]).iter_errors(plain):
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
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(schema(name)))


def _shortened(value: Any) -> Any:
    """The ends of long lists: a hundred thousand segments are alike."""
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [*value[: _ITEMS_MAX // 2], *value[-_ITEMS_MAX // 2 :]] if len(value) > _ITEMS_MAX else value
        return [_shortened(item) for item in items]
    return value
