"""Kafka for the tests of this folder: skipped aloud where it cannot run, never silently passed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.kafka_jars import KafkaUnavailable, kafka_classpath
from tests.interop.referee import TALLY, Referee

KAFKA_VERSION = "4.3.1"
REQUIRED = "LOGCLEANER_REQUIRE_KAFKA"


@pytest.fixture(scope="session")
def kafka() -> str:
    """Class path of the Kafka that judges us; with LOGCLEANER_REQUIRE_KAFKA=1 its absence is a failure."""
    try:
        return kafka_classpath(KAFKA_VERSION)
    except KafkaUnavailable as unavailable:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but real Kafka cannot run here: {unavailable.reason}")
        pytest.skip(f"real Kafka cannot run here: {unavailable.reason}")


@pytest.fixture(scope="session")
def referee(kafka: str) -> Iterator[Referee]:
    """One JVM for the whole test session."""
    with Referee(kafka) as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was compared with the real thing; nothing compared must be seen."""
    terminalreporter.write_line(
        f"real Kafka: {TALLY.jvm_starts} JVM starts, {TALLY.logs} logs and {TALLY.records} records read; "
        f"{TALLY.rounds} rounds by both cleaners, {TALLY.batches} batches compared"
    )
