"""The benchmark of writing, on little: each sink is measured, and what it wrote is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks.spark_write import SINKS, measure


def test_each_sink_is_measured(spark: Any, tmp_path: Path) -> None:
    found = measure(spark, tmp_path, 1000, 1)
    assert [name for name, *_ in found] == list(SINKS)
    assert all(seconds > 0 and used >= 0 for _, seconds, used in found)
    assert len(list(tmp_path.glob("*/bench-0"))) == len(SINKS) - 1
