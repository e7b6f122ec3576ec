"""The JSON Schemas of all documents, made of their types: ``python -m cleaner.documents.schemas`` writes them.

The build of the package runs it, too. pydantic makes a schema of a type. The descriptions are the texts below the keys
and those of the classes. A key of a common base class has one text.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from pydantic import TypeAdapter

from cleaner.documents.analysis import AnalysisDocument
from cleaner.documents.changes import (
    AsOfDocument,
    DeletionDocument,
    EraseDocument,
    ExportDocument,
    FetchDocument,
    HistoryDocument,
    ImportDocument,
    ManifestDocument,
    MoveDocument,
    RestoreDocument,
    RestoreTierDocument,
    SweepDocument,
)
from cleaner.documents.checks import (
    DiffDocument,
    DigestDocument,
    DoctorDocument,
    ErasureDocument,
    PreflightDocument,
    ReplicasDocument,
    VerifyDocument,
)
from cleaner.documents.erasing import ErasureCertificateDocument, ErasureCheckDocument, ErasurePendingDocument
from cleaner.documents.explain import ExplainDocument
from cleaner.documents.looks import ConfigDocument, LookupDocument, OwnersDocument, TopicsDocument
from cleaner.documents.plan import PlanDocument

FOLDER: Final = Path(__file__).parents[1] / "report" / "schemas"
_DOCUMENTS: Final = (
    AnalysisDocument,
    AsOfDocument,
    ConfigDocument,
    DeletionDocument,
    DiffDocument,
    DigestDocument,
    DoctorDocument,
    EraseDocument,
    ErasureCertificateDocument,
    ErasureCheckDocument,
    ErasureDocument,
    ErasurePendingDocument,
    ExplainDocument,
    ExportDocument,
    FetchDocument,
    HistoryDocument,
    ImportDocument,
    LookupDocument,
    ManifestDocument,
    MoveDocument,
    OwnersDocument,
    PlanDocument,
    PreflightDocument,
    ReplicasDocument,
    RestoreDocument,
    RestoreTierDocument,
    SweepDocument,
    TopicsDocument,
    VerifyDocument,
)


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each document by its name: ``logcleaner.plan/1``."""
    return {name: _schema(name, kind) for kind in _DOCUMENTS for name in get_args(get_type_hints(kind)["schema"])}


def file_name(name: str) -> str:
    """Return the name of the file with the schema of that name: ``plan-1.json``."""
    return f"{name.removeprefix('logcleaner.').replace('/', '-')}.json"


def as_text(schema: dict[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Write every schema to where the package carries it."""
    FOLDER.mkdir(exist_ok=True)
    for name, made in schemas().items():
        (FOLDER / file_name(name)).write_text(as_text(made), "utf-8")


def _schema(name: str, kind: type) -> dict[str, Any]:
    made = TypeAdapter(kind).json_schema()
    parts = made.pop("$defs", {})
    for part_name, part in ((kind.__name__, made), *parts.items()):
        for key, value in part.get("properties", {}).items():
            value["description"] = _descriptions()[part_name][key]
    kept = {key: part for key, part in parts.items() if "properties" in part}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    return {**head, **_plain(made, parts)} | ({"$defs": _plain(kept, parts)} if kept else {})


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    """Return the text of each key of each class; a base class comes before the classes that derive from it."""
    found: dict[str, dict[str, str]] = {}
    modules = sorted(Path(__file__).parent.glob("*.py"), key=lambda path: (path.stem != "parts", path.stem))
    classes = [node for path in modules for node in ast.parse(path.read_text("utf-8")).body]
    for node in classes:
        if isinstance(node, ast.ClassDef):
            inherited = [found[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in found]
            found[node.name] = {key: text for texts in (*inherited, _texts(node)) for key, text in texts.items()}
    return found


def _texts(node: ast.ClassDef) -> dict[str, str]:
    texts = {}
    for key, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
            assert isinstance(text, ast.Expr), f"{node.name}.{key.target.id} has no text"
            assert isinstance(text.value, ast.Constant)
            texts[key.target.id] = " ".join(str(text.value.value).split())
    return texts


def _plain(part: Any, parts: dict[str, Any]) -> Any:
    """Return a part of a schema without pydantic's titles, with enums in their places and types in one list."""
    if isinstance(part, list):
        return [_plain(item, parts) for item in part]
    if not isinstance(part, dict):
        return part
    if "enum" in (named := parts.get(part.get("$ref", "").rpartition("/")[2], {})):
        part = {**part, "enum": named["enum"]}
        del part["$ref"]
    found = {
        key: _plain(value, parts)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "items" and value == {})
    }
    if "description" in found and isinstance(found["description"], str):
        found["description"] = " ".join(found["description"].split())
    return _joined(found)


def _joined(part: dict[str, Any]) -> dict[str, Any]:
    """Return a choice between plain types as a list of types; a choice with a class of ours stays a choice."""
    choices = part.get("anyOf", [])
    if not choices or any("$ref" in choice or "properties" in choice for choice in choices):
        return part
    null = {"type": "null"}
    rest = {key: value for key, value in part.items() if key != "anyOf"}
    limits = {key: value for choice in choices for key, value in choice.items()}
    if "enum" in limits:
        values = [value for choice in choices for value in choice.get("enum", ())]
        return {**rest, "enum": [*values, *([None] if null in choices else [])]}
    return {**rest, **limits, "type": [choice["type"] for choice in choices]}


if __name__ == "__main__":
    write()
