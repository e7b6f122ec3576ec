"""Kafka for the tests of this folder: skipped aloud where it cannot run, never silently passed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cleaner.engine.compaction import round as round_module
from tests.interop.kafka_jars import KafkaUnavailable, kafka_classpath
from tests.interop.referee import KAFKA_2, OLD_JVM_OPTIONS, Referee

KAFKA_VERSION = "4.3.1"
OLD_KAFKA_VERSION = "2.8.2"
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
    return classpath_or_skip(KAFKA_VERSION)


@pytest.fixture(scope="session")
def old_kafka() -> str:
    """Class path of a Kafka that still writes and keeps the formats v0 and v1."""
    return classpath_or_skip(OLD_KAFKA_VERSION)


def classpath_or_skip(version: str) -> str:
    """The class path of a Kafka; with LOGCLEANER_REQUIRE_KAFKA=1 its absence is a failure."""
    try:
        return kafka_classpath(version)
    except KafkaUnavailable as unavailable:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but real Kafka {version} cannot run here: {unavailable.reason}")
        pytest.skip(f"real Kafka {version} cannot run here: {unavailable.reason}")


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
