"""The schemas themselves: sound, complete, and able to refuse."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cleaner.engine.outcome import Outcome
from cleaner.engine.space.account import SpaceKind
from cleaner.report.cleaning import CleaningReport
from policies.config.policy import Layer
from policies.reasons import ReasonCode
from policies.restore import RestoreCode
from tests.cleaner.report.plans import a_partition, a_plan
from tests.schemas import SCHEMAS, check, names, report_classes, schema


@pytest.mark.parametrize("name", names())
def test_a_schema_is_one_of_2020_12_and_describes_every_key(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["title"] == found["properties"]["schema"]["const"] == name
    assert [key for key, part in properties(found) if not part.get("description", "").endswith((".", ")"))] == []


def properties(part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, dict):
        yield from part.get("properties", {}).items()
        for value in part.values():
            yield from properties(value)


def test_every_document_of_the_command_line_has_a_schema() -> None:
    told = {name for path in (SCHEMAS.parents[1] / "cli").rglob("*.py") for name in re.findall(
        r"schema (logcleaner\.\w+/\d+)", path.read_text("utf-8"))}  # fmt: skip
    assert told
    assert told | {"logcleaner.manifest/1"} == set(names())
    assert len(list(report_classes())) >= len(told)


def test_the_lists_that_are_closed_are_those_of_the_code() -> None:
    reason = schema("logcleaner.plan/1")["properties"]["partitions"]["items"]["properties"]["segments"]["items"][
        "properties"]["reason"]["properties"]  # fmt: skip
    assert reason["code"]["enum"] == [code.value for code in ReasonCode]
    assert reason["limit"]["properties"]["layer"]["enum"] == [layer.title for layer in Layer]
    topics = schema("logcleaner.topics/1")["properties"]
    for part in (topics["partitions"], topics["log_dirs"]):
        assert part["items"]["properties"]["kinds"]["propertyNames"]["enum"] == [kind.value for kind in SpaceKind]
    restored = schema("logcleaner.restore/1")["properties"]["partitions"]["items"]["properties"]["segments"]["items"]
    assert restored["properties"]["code"]["enum"] == [code.value for code in RestoreCode]
    copied = schema("logcleaner.manifest/1")["properties"]["partitions"]["items"]["properties"]["segments"]["items"]
    assert copied["properties"]["code"]["enum"] == [*(code.value for code in ReasonCode), "FAILED", "ROUND_ENDED"]


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
    with pytest.raises(AssertionError, match=r"logcleaner.whim/1 has no schema: write .*whim-1.json"):
        check({"schema": "logcleaner.whim/1"})


def test_a_user_reads_a_schema_out_of_the_installed_package() -> None:
    command = 'import importlib.resources as r; print((r.files("cleaner.report") / "schemas/plan-1.json").read_text())'
    done = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True)
    assert '"title": "logcleaner.plan/1"' in done.stdout
