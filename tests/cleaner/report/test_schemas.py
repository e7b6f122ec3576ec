"""The schemas themselves: sound, complete, and able to refuse."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cleaner.documents.schemas import FOLDER, file_name
from cleaner.engine.outcome import Outcome
from cleaner.engine.space import SpaceKind
from cleaner.report.cleaning import CleaningReport
from policies.config.policy import Layer
from policies.reasons import ReasonCode
from policies.restore import RestoreCode
from tests.cleaner.report.plans import a_partition, a_plan
from tests.schemas import PROMISED, check, keys, names, promised, report_classes, schema


@pytest.mark.parametrize("name", names())
def test_a_schema_is_one_of_2020_12_and_describes_every_key(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["title"] == found["properties"]["schema"]["const"] == name
    assert [p for p, key in keys(found).items() if not key.part.get("description", "").endswith((".", ")"))] == []


@pytest.mark.parametrize("name", [name for name in names() if (PROMISED / file_name(name)).exists()])
def test_a_schema_keeps_what_version_0_1_promised(name: str) -> None:
    """Each key is still there, required if it was, with the same types, values and limits."""
    before, now = keys(promised(name)), keys(schema(name))
    assert [path for path in before if path not in now] == []
    assert [path for path, key in before.items() if key.is_required and not now[path].is_required] == []
    changed = {path: (said(key.part), said(now[path].part)) for path, key in before.items()
               if said(key.part) != said(now[path].part)}  # fmt: skip
    assert changed == {}


def said(part: dict[str, Any]) -> dict[str, Any]:
    """What a schema says of the value of a key, however it is written; keys below it are not told."""
    if "const" in part or "enum" in part:
        return {"values": {json.dumps(value) for value in part.get("enum", [part.get("const")])}}
    types = part.get("type", [])
    limited = ("minimum", "maximum", "pattern", *(() if "prefixItems" in part else ("minItems", "maxItems")))
    limits = {key: part[key] for key in limited if key in part}
    inner = {key: part[key] for key in ("items", "additionalProperties", "propertyNames") if key in part}
    plain = {key: said(value) for key, value in inner.items() if isinstance(value, dict) and "$ref" not in value}
    ours = [key for key, value in plain.items() if "object" in value.get("types", ())]
    return {"types": {types} if isinstance(types, str) else {*types}, **limits,
            **{key: value for key, value in plain.items() if key not in ours}}  # fmt: skip


def test_every_document_of_the_command_line_has_a_schema() -> None:
    told = {name for path in (FOLDER.parents[1] / "cli").rglob("*.py") for name in re.findall(
        r"schema (logcleaner\.\w+/\d+)", path.read_text("utf-8"))}  # fmt: skip
    assert told
    assert told | {"logcleaner.manifest/1"} == set(names())
    assert len(list(report_classes())) >= len(told)


def test_the_lists_that_are_closed_are_those_of_the_code() -> None:
    plan, topics = keys(schema("logcleaner.plan/1")), keys(schema("logcleaner.topics/1"))
    assert plan["partitions[].segments[].reason.code"].part["enum"] == [code.value for code in ReasonCode]
    assert plan["partitions[].segments[].reason.limit.layer"].part["enum"] == [layer.title for layer in Layer]
    for path in ("partitions[].kinds", "log_dirs[].kinds"):
        assert topics[path].part["propertyNames"]["enum"] == [kind.value for kind in SpaceKind]
    restored = keys(schema("logcleaner.restore/1"))["partitions[].segments[].code"].part["enum"]
    assert restored == [code.value for code in RestoreCode]
    copied = keys(schema("logcleaner.manifest/1"))["partitions[].segments[].code"].part["enum"]
    assert copied == [*(code.value for code in ReasonCode), "FAILED", "ROUND_ENDED"]


@pytest.mark.parametrize(
    ("story", "spoil", "complaint"),
    [
        ("a key more", lambda segment: segment.update(more=1), "'more' was unexpected"),
        ("a key less", lambda segment: segment.pop("action"), "'action' is a required property"),
        ("another type", lambda segment: segment.update(bytes="1"), "not of type 'integer'"),
        ("another code", lambda segment: segment["reason"].update(code="WHIM"), "'WHIM' is not one of"),
    ],
)
def test_a_document_that_is_not_as_its_schema_says_is_refused(story: str, spoil: Any, complaint: str) -> None:
    document = copy.deepcopy(CleaningReport(a_plan(a_partition("clicks-0", 9, 1)), Outcome(True, {})).document())
    spoil(document["partitions"][0]["segments"][0])
    with pytest.raises(pytest.fail.Exception, match=complaint):
        check(document)


def test_a_document_without_a_schema_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"logcleaner.whim/1 has no schema: write its type"):
        check({"schema": "logcleaner.whim/1"})
