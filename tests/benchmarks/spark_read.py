"""Reading a log through Spark: ``kafka-log`` against a source that only hands over Arrow made beforehand, which is as
fast as a source can be, and against a Python source that yields rows. What is shuffled, also by a bulk compaction.

    python -m tests.benchmarks.spark_read [--gib 0.1,1,2,4,8] [--master 'local[2]'] [--scratch DIR] [--json FILE]

The log lies in the page cache, if that has room: one partition of 100-byte records, uncompressed. Rounds take turns,
each reads into Spark's ``noop`` sink; the best one counts, for the first warms the JVM up. Beside its time stands the
processor's, of the JVM and the workers: the least of the rounds, which other programs disturb less. The rows are
yielded by the readable reader on a log of 32 MiB: its time a record does not depend on the length. Takes a tenth more
disk than the largest log; 8 GiB take about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import max as greatest

from cleaner.arrow.schema import KEY_COLUMNS, RECORD_COLUMNS
from cleaner.spark import open_session, read_logs
from cleaner.spark.bulk.bulk import Bulk
from tests.benchmarks.spark_log import write_log
from tests.benchmarks.spark_profile import read_in_one_thread
from tests.benchmarks.spark_sources import BareSource, RowSource
from tests.partition_dirs import COMPACT, configured
from tests.spark.rounds import cleaned

ROWS_LOG_BYTES: Final = 32 << 20
SETTINGS: Final = {"spark.driver.memory": "2g", "spark.ui.liveUpdate.period": "0"}
"""The latter for what is shuffled to be told at once."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The best of some rounds."""

    name: str
    gib: float
    records: int
    seconds: float
    bare_seconds: float | None = None
    """Of the bare source in the same run, for as many records."""
    processor_seconds: float | None = None
    shuffle_bytes: int = 0
    profile: str = ""

    @property
    def per_second(self) -> float:
        """Records."""
        return self.records / self.seconds

    def __str__(self) -> str:
        of_bare = f"{self.bare_seconds / self.seconds:8.0%} of bare" if self.bare_seconds else ""
        shuffled = f"{self.shuffle_bytes / self.records:8.1f} bytes shuffled a record" if self.shuffle_bytes else ""
        rate = f"{self.seconds:9.2f} s{self.per_second / 1e6:8.2f} M/s{self.seconds / self.records * 1e9:9.0f} ns"
        if self.processor_seconds:
            rate += f"{self.processor_seconds / self.records * 1e9:9.0f} ns of CPU"
        return f"{self.gib:7.3f} GiB  {self.name:34}{self.records:12,} records{rate}{of_bare}{shuffled}{self.profile}"


@dataclass(frozen=True, slots=True)
class Read:
    """What is measured beside the bare source."""

    name: str
    frame: DataFrame
    bare: DataFrame


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    options = _parser().parse_args(arguments)
    spark = open_session(options.master, SETTINGS)
    spark.dataSource.register(RowSource)
    spark.dataSource.register(BareSource)
    figures: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="logcleaner-benchmark-", dir=options.scratch) as scratch:
            for figure in _figures(spark, Path(scratch), options):
                figures.append(figure)
                print(figure, flush=True)
    finally:
        spark.stop()
    if options.json:
        machine = {"cpus": os.cpu_count(), "pyspark": pyspark.__version__, "master": options.master}
        told = {**machine, "rounds": options.rounds, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


def _figures(spark: SparkSession, scratch: Path, options: argparse.Namespace) -> Iterator[Figure]:
    yield _of_rows(spark, scratch / "rows", options)
    for gib in options.gib:
        log_dir = scratch / "log"
        records = write_log(log_dir, int(gib * (1 << 30)), options.record_bytes)
        yield from _of_reads(spark, list(_reads(spark, log_dir, records)), gib, records, options.rounds)
        yield _of_one_thread(log_dir, gib)
        if not options.reads_only:
            yield _of_compaction(spark, log_dir, gib)
        shutil.rmtree(log_dir)


def _of_rows(spark: SparkSession, log_dir: Path, options: argparse.Namespace) -> Figure:
    records = write_log(log_dir, ROWS_LOG_BYTES, options.record_bytes)
    frame = spark.read.format("rows").load(str(log_dir / "bench-0"))
    return Figure("rows yielded", ROWS_LOG_BYTES / (1 << 30), records, min(_seconds(frame) for _ in range(2)))


def _seconds(frame: DataFrame) -> float:
    """Of computing every column of every row."""
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def _reads(spark: SparkSession, log_dir: Path, records: int) -> Iterator[Read]:
    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka-log").options(**options).load(str(log_dir))

    def bare(columns: Sequence[str]) -> DataFrame:
        return spark.read.format("bare").options(columns=",".join(columns), records=records).load()

    yield Read("all columns", read(), bare(RECORD_COLUMNS))
    yield Read("keysOnly", read(keysOnly="true"), bare(KEY_COLUMNS))
    yield Read("columns=key", read(columns="key"), bare(("key",)))
    yield Read("read_logs, all columns", read_logs(spark, log_dir), bare(RECORD_COLUMNS))
    yield Read("read_logs, key", read_logs(spark, log_dir, columns=["key"]), bare(("key",)))
    pairs = (_latest_by_key(frame) for frame in (read(columns="key,offset"), bare(("key", "offset"))))
    yield Read("columns=key,offset, latest by key", *pairs)


def _latest_by_key(frame: DataFrame) -> DataFrame:
    """What a compaction keeps."""
    return frame.groupBy("key").agg(greatest("offset"))


def _of_reads(spark: SparkSession, reads: list[Read], gib: float, records: int, rounds: int) -> Iterator[Figure]:
    seconds, processor = [list[float]() for _ in reads], [list[float]() for _ in reads]
    bare, shuffled = [list[float]() for _ in reads], [0 for _ in reads]
    for place in [place for _ in range(rounds) for place in range(len(reads))]:
        read = reads[place]
        bare[place].append(_seconds(read.bare))
        before, used = _shuffle_bytes(spark), processor_seconds()
        seconds[place].append(_seconds(read.frame))
        processor[place].append(processor_seconds() - used)
        shuffled[place] = _shuffle_bytes(spark) - before
    for place, read in enumerate(reads):
        best = min(seconds[place]), min(bare[place]), min(processor[place])
        yield Figure(read.name, gib, records, *best, shuffled[place])


def processor_seconds() -> float:
    """Return what this process, and all that it started, has used of the processor."""
    used: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            used[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, (parent, _) in used.items() if parent in mine} - mine:
        mine |= more
    return sum(used[pid][1] for pid in mine) / os.sysconf("SC_CLK_TCK")


def _of_compaction(spark: SparkSession, log_dir: Path, gib: float) -> Figure:
    """In place, the last step."""
    before, started = _shuffle_bytes(spark), time.perf_counter()
    outcome = cleaned(log_dir, configured(bench=COMPACT), Bulk(lambda: spark), confirmed=True)
    seconds = time.perf_counter() - started
    records = sum(result.records_read for result in outcome.results.values())
    return Figure("bulk compaction", gib, records, seconds, shuffle_bytes=_shuffle_bytes(spark) - before)


def _shuffle_bytes(spark: SparkSession) -> int:
    """Return the bytes that all executors wrote so far."""
    context = spark.sparkContext._jsc.sc()  # Python has no way to ask
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    return sum(executors.apply(place).totalShuffleWrite() for place in range(executors.size()))


def _of_one_thread(log_dir: Path, gib: float) -> Figure:
    """CPU time: what is left of it is Spark's. A record's does not grow with the log."""
    records, seconds, kernels = read_in_one_thread(log_dir)
    shares = ", ".join(f"{name} {spent / seconds:.0%}" for name, spent in kernels.items())
    return Figure("one thread, without Spark", gib, records, seconds, profile=f"  of it {shares}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_read", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--gib", type=lambda text: [float(one) for one in text.split(",")], default=[0.1, 1, 2, 4, 8])
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--scratch", type=Path, help="where the log is written; it takes the largest --gib")
    parser.add_argument("--reads-only", action="store_true", help="no bulk compaction")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
