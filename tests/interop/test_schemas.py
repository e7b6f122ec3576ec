"""Our tables of Kafka's messages against Kafka: its own schemas, and random messages that its own classes encode."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.schemas.cluster_metadata import CLUSTER_METADATA
from storage.schemas.coordinator import CLIENT_MESSAGES, SHARE_STATE, TRANSACTIONS_TOPIC
from storage.schemas.decoding import NO_UUID, decode
from storage.schemas.notation import Field, Versions
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.schemas.remote_log import REMOTE_LOG
from tests.interop.referee import KAFKA_MESSAGES, OLD_JVM_OPTIONS, Referee

pytestmark = pytest.mark.kafka

PACKAGES = {
    "org.apache.kafka.coordinator.group.generated": OFFSETS_TOPIC,
    "org.apache.kafka.coordinator.transaction.generated": TRANSACTIONS_TOPIC,
    "org.apache.kafka.coordinator.share.generated": SHARE_STATE,
    "org.apache.kafka.common.metadata": CLUSTER_METADATA,
    "org.apache.kafka.server.log.remote.metadata.storage.generated": REMOTE_LOG,
    "org.apache.kafka.common.message": CLIENT_MESSAGES,
}
MESSAGES_OF_EACH_VERSION = 12
BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


@pytest.fixture(scope="module")
def messages(newest_kafka: str) -> Iterator[Referee]:
    with Referee(newest_kafka, OLD_JVM_OPTIONS, KAFKA_MESSAGES) as running:
        yield running


@pytest.fixture(scope="module")
def published(newest_kafka: str) -> dict[str, dict[str, Any]]:
    """Kafka's schemas of all messages that its jars carry, by name."""
    found = {}
    for jar in map(Path, newest_kafka.split(os.pathsep)):
        if not jar.name.startswith("kafka"):
            continue
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if re.search(r"(message|metadata)/\w+\.json$", name):
                    text = re.sub(r"(?m)^\s*//.*$", "", opened.read(name).decode())
                    schema = json.loads(re.sub(r"(?m)//[^\"]*$", "", text))
                    found[schema["name"]] = schema
    return found


def random_value(source: random.Random, field: Field, version: int) -> object:
    """A value of a field in the form of Kafka's JSON."""
    if field.nullable and field.nullable.holds(version) and source.random() < 0.3:
        return None
    if field.is_array:
        return [
            random_element(source, field, version) for _ in range(source.choice((0, 1, 2, 3 if field.fields else 200)))
        ]
    return random_element(source, field, version)


def random_element(source: random.Random, field: Field, version: int) -> object:
    if field.fields:
        return random_fields(source, field.fields, version)
    if field.kind in BOUNDS:
        first, last = BOUNDS[field.kind]
        return source.choice((first, last, 0, -1 if first else 1, source.randint(first, last)))
    choices: dict[str, tuple[object, ...]] = {
        "bool": (False, True),
        "float64": (0.0, -1.5, 1e300),
        "string": ("", "a", "ünï", "x" * 300, "tab\tand quote"),
        "uuid": (NO_UUID, base64.urlsafe_b64encode(source.randbytes(16)).rstrip(b"=").decode()),
        "bytes": ("", base64.b64encode(source.randbytes(200)).decode()),
    }
    return source.choice(choices[field.kind])


def random_fields(source: random.Random, fields: tuple[Field, ...], version: int) -> dict[str, object]:
    """All fields of the version; a tagged one may be left out."""
    there = (field for field in fields if field.versions.holds(version))
    return {
        field.name: random_value(source, field, version)
        for field in there
        if field.tag is None or source.random() < 0.7
    }


def as_json(value: object) -> object:
    """A decoded value in the form of Kafka's JSON."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: as_json(inner) for name, inner in value.items()}
        case list():
            return list(map(as_json, value))
    return value


@pytest.mark.parametrize("package", PACKAGES)
def test_what_kafka_encodes_is_decoded_as_kafka_shows_it(messages: Referee, package: str) -> None:
    source = random.Random(4)
    for name, message in PACKAGES[package].items():
        for version in range(message.versions.first, message.versions.last + 1):
            texts = [
                json.dumps(random_fields(source, message.fields, version)) for _ in range(MESSAGES_OF_EACH_VERSION)
            ]
            answer = messages.encode(f"{package}.{name}", version, texts)
            assert len(answer) == MESSAGES_OF_EACH_VERSION
            for encoded in answer:
                found = decode(message, version, bytes.fromhex(encoded["bytes"]), with_defaults=False)
                assert as_json(found) == encoded["json"], (name, version)
                assert list(found) == list(encoded["json"]), (name, version)


def stated_range(text: str, within: Versions) -> Versions | None:
    """Versions as Kafka's schemas state them; None for none within."""
    if text == "none":
        return None
    first, plus, last = text.rstrip("+"), text.endswith("+"), ""
    if "-" in first:
        first, last = first.split("-")
    found = Versions(max(int(first), within.first), within.last if plus else min(int(last or first), within.last))
    return found if found.first <= found.last else None


def stated_fields(fields: list[dict[str, Any]], within: Versions, structs: dict[str, Any]) -> list[list[object]]:
    """Kafka's schema of some fields, as ``table_fields`` gives ours."""
    found: list[list[object]] = []
    for field in fields:
        versions = stated_range(field.get("versions") or field["taggedVersions"], within)
        assert versions is not None
        kind = field["type"].removeprefix("[]")
        inner = field.get("fields") or structs.get(kind, [])
        name, default = field["name"][0].lower() + field["name"][1:], field.get("default")
        nullable = stated_range(field.get("nullableVersions", "none"), versions)
        below = stated_fields(inner, versions, structs)
        found.append([name, field["type"], versions, nullable, field.get("tag"), default and str(default), below])
    return found


def table_fields(fields: tuple[Field, ...]) -> list[list[object]]:
    return [
        [f.name, "[]" * f.is_array + f.kind, f.versions, f.nullable, f.tag, f.default, table_fields(f.fields)]
        for f in fields
    ]


def without_default(fields: list[Any]) -> list[Any]:
    """A default of zero, stated or not, is the same."""
    return [[*f[:5], None if f[5] in ("0", 0, "false") else f[5], without_default(f[6])] for f in fields]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_tables_state_what_kafkas_own_schemas_state(published: dict[str, dict[str, Any]], package: str) -> None:
    for name, message in PACKAGES[package].items():
        schema = published[name]
        versions = stated_range(schema["validVersions"], Versions(0, 99))
        assert versions == message.versions
        assert (message.api_key, message.flexible) == (
            schema.get("apiKey"), stated_range(schema["flexibleVersions"], versions)
        )  # fmt: skip
        structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
        stated = stated_fields(schema["fields"], versions, structs)
        assert without_default(table_fields(message.fields)) == without_default(stated), name


def test_no_record_of_kafkas_lacks_a_table(published: dict[str, dict[str, Any]]) -> None:
    records = {name for name, schema in published.items() if schema["type"] in ("coordinator-key", "coordinator-value")}
    records |= {name for name, schema in published.items() if schema["type"] == "metadata"}
    assert records - {name for table in PACKAGES.values() for name in table} == set()
