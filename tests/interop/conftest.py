"""Kafka for the tests of this folder: skipped aloud where it cannot run, never silently passed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from cleaner.engine.compaction import round as round_module
from tests.interop import tiering
from tests.interop.java_clients import JavaClients
from tests.interop.kafka_jars import (
    NEWEST,
    OLD,
    KafkaUnavailable,
    judging_version,
    kafka_classpath,
    streams_classpath,
    tiering_classpath,
    tools_classpath,
)
from tests.interop.referee import KAFKA_2, OLD_JVM_OPTIONS, Referee
from tests.interop.tiering import Tiered

REQUIRED = "LOGCLEANER_REQUIRE_KAFKA"


@pytest.fixture(scope="package", autouse=True)
def kafkas_moment() -> Iterator[None]:
    """Have our rounds count from the moment of the request, however long ago: Kafka gets it as its clock."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(round_module, "RUN_MS_MAX", 1 << 62)
        yield


@pytest.fixture(scope="session")
def kafka() -> str:
    """Class path of the Kafka that judges us."""
    return classpath_or_skip(judging_version())


@pytest.fixture(scope="session")
def old_kafka() -> str:
    """Class path of a Kafka that still writes and keeps the formats v0 and v1."""
    return classpath_or_skip(OLD)


@pytest.fixture(scope="session")
def newest_kafka() -> str:
    """Class path of the newest Kafka, whose messages we know."""
    return classpath_or_skip(NEWEST)


@pytest.fixture(scope="session")
def newest_tools() -> str:
    """Class path of what shows files of the newest Kafka."""
    return classpath_or_skip(NEWEST, tools_classpath)


@pytest.fixture(scope="session")
def kafka_tools() -> str:
    """Class path of the Kafka that judges us, with command line tools: its own, or those of another release."""
    return classpath_or_skip(judging_version(), tools_classpath)


def classpath_or_skip(version: str, classpath: Callable[[str], str] = kafka_classpath) -> str:
    """The class path of a Kafka; with LOGCLEANER_REQUIRE_KAFKA=1 its absence is a failure."""
    try:
        return classpath(version)
    except KafkaUnavailable as unavailable:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but real Kafka {version} cannot run here: {unavailable.reason}")
        pytest.skip(f"real Kafka {version} cannot run here: {unavailable.reason}")


@pytest.fixture(scope="session")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Tiered:
    """Return what a broker left that tiered and was killed; nothing of it may be changed."""
    classpath = classpath_or_skip(judging_version(), tiering_classpath)
    return tiering.tiered(classpath, tmp_path_factory.mktemp("tiered"))


@pytest.fixture(scope="session")
def java_clients() -> Iterator[JavaClients]:
    """One JVM with Kafka's own consumer and Streams for the whole test session."""
    with JavaClients(classpath_or_skip(judging_version(), streams_classpath)) as running:
        yield running


@pytest.fixture(scope="session")
def referee(kafka: str) -> Iterator[Referee]:
    """One JVM for the whole test session."""
    with Referee(kafka) as running:
        yield running


@pytest.fixture(scope="session")
def old_referee(old_kafka: str) -> Iterator[Referee]:
    """One JVM with the old Kafka for the whole test session."""
    with Referee(old_kafka, OLD_JVM_OPTIONS, KAFKA_2) as running:
        yield running
