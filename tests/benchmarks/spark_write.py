"""Writing a log through Spark: ``kafka-log`` against Spark's ``noop`` sink, which takes the same rows and drops them.

    python -m tests.benchmarks.spark_write [--rows 2000000] [--rounds 4] [--master 'local[2]'] [--scratch DIR]

The JVM makes the rows: keys of 16 bytes, values of 100, one partition that all tasks write. Rounds take turns; the best
counts, for the first warms the JVM up. The processor's time is that of the JVM and the workers, and what remains behind
that of ``noop`` is the sink's: Spark's way to Python is a part of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cleaner.spark import open_session, register
from tests.benchmarks.spark_read import processor_seconds

SINKS: Final = ("noop", "none", "lz4", "zstd")
"""Spark's own, and the codecs of ours."""
_COLUMNS: Final = (
    "cast(lpad(string(id), 16, '0') as binary) key",
    "cast(concat(lpad(string(id), 20, 'v'), repeat('0123456789abcdef', 5)) as binary) value",
    "timestamp_millis(1700000000000 + id) timestamp",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each sink."""
    options = _parser().parse_args(arguments)
    spark = open_session(options.master)
    try:
        with tempfile.TemporaryDirectory(prefix="logcleaner-benchmark-", dir=options.scratch) as scratch:
            for name, seconds, used in measure(spark, Path(scratch), options.rows, options.rounds):
                each = f"{seconds / options.rows * 1e9:7.0f} ns{used / options.rows * 1e9:7.0f} ns of CPU"
                print(f"{name:5}{options.rows:12,} rows{options.rows / seconds / 1e6:7.2f} M/s{each}", flush=True)
    finally:
        spark.stop()
    return 0


def measure(spark: SparkSession, scratch: Path, rows: int, rounds: int) -> list[tuple[str, float, float]]:
    """Return of each sink the seconds of its best round, and the least of the processor's."""
    register(spark)
    frame = spark.range(0, rows, 1, 2).selectExpr(*_COLUMNS)
    found: dict[str, list[tuple[float, float]]] = {sink: [] for sink in SINKS}
    for place in range(rounds):
        for sink, costs in found.items():
            target = scratch / f"{sink}-{place}"
            target.mkdir()
            started, used = time.perf_counter(), processor_seconds()
            _write(frame, sink, target)
            costs.append((time.perf_counter() - started, processor_seconds() - used))
            for path in target.glob("*/*.log"):
                path.unlink()  # nobody reads them, and the disk may be memory
    return [(sink, *(min(cost) for cost in zip(*costs, strict=True))) for sink, costs in found.items()]


def _write(frame: DataFrame, sink: str, target: Path) -> None:
    if sink == "noop":
        frame.write.format("noop").mode("overwrite").save()
    else:
        written = frame.write.format("kafka-log").option("topic", "bench").option("compression", sink)
        written.mode("append").save(str(target))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_write", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--scratch", type=Path, help="where the logs are written; one takes 150 bytes a row")
    return parser


if __name__ == "__main__":
    sys.exit(main())
