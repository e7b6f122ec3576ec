"""One Spark session for all tests here. Starting it and each query cost seconds: most tests do without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark import open_session
from cleaner.spark.errors import SparkUnavailable
from tests.interop.jvms import QUICK
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_SUBMIT_OPTS", " ".join(QUICK))
        session = _session()
    yield session
    session.stop()


def _session() -> Any:
    config = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    try:
        return open_session("local[2]", config | {"spark.sql.shuffle.partitions": "2"})
    except SparkUnavailable as reason:
        if os.environ.get("LOGCLEANER_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics, three segments, keys a to d and x."""
    path = tmp_path_factory.mktemp("data")
    orders = PartitionDir(path, "orders-0").segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "c=3", "d"))
    clicks = PartitionDir(path, "clicks-1").segment(5, keyed(5, "x=1", timestamp_ms=NOW_MS - 1000))
    return committed(path, orders, clicks)
