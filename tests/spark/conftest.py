"""One Spark session for all tests here, and tables of Python values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark import open_session
from cleaner.spark.options import parse_options
from cleaner.spark.source import KafkaLogReader
from storage.errors import SparkUnavailable


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    config = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    try:
        session = open_session("local[2]", config | {"spark.sql.shuffle.partitions": "2"})
    except SparkUnavailable as reason:
        if os.environ.get("LOGCLEANER_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(reason))
    yield session
    session.stop()


def read_without_spark(path: Path, filters: tuple[Any, ...] = (), **options: str) -> list[dict[str, Any]]:
    """The rows that the workers would hand to Spark."""
    parsed = parse_options({"path": str(path)} | options)
    reader = KafkaLogReader(parsed, parsed.columns)
    reader.pushFilters(list(filters))
    partitions = reader.partitions()
    return [row for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]
