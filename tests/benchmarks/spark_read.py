"""Reading a log through Spark: ``kafka-log``, by columns asked for, against a Python source that yields rows and
against one that only hands Arrow to Spark, which is as fast as a source can be.

    python -m tests.benchmarks.spark_read [--gib 1,2,4,8] [--record-bytes 100] [--master 'local[*]']

The log is one partition of uncompressed 16 KiB batches, in segments of 1 GiB, in the page cache. Each figure is the
best of some reads into Spark's ``noop`` sink (or, for the deduplication, of an aggregation by key), the first of which
warms the JVM up. The rows are yielded by the readable reader, on a log of 32 MiB: time a record does not depend on the
length.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, max_by

from cleaner.spark import chunks, columns, open_session
from cleaner.spark.options import parse_options
from cleaner.spark.schema import KEY_COLUMNS, RECORD_COLUMNS
from cleaner.spark.source import KafkaLogReader
from storage.indexes import IndexBuilder
from storage.names import FileKind, segment_file_name
from storage.records import Record, encode_batch, iter_batches
from tests.benchmarks.spark_sources import BareSource, RowSource

SEGMENT_BYTES: Final = 1 << 30
BATCH_BYTES: Final = 16_384
POOL_BATCHES: Final = 1024
ROWS_LOG_BYTES: Final = 32 << 20
INDEX_INTERVAL_BYTES: Final = 4096
NOW_MS: Final = 1_800_000_000_000
KERNELS: Final = {
    chunks: ("scan_batches", "first_bad_crc", "locate_records"),
    columns: ("gather_bytes", "gather_headers"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """The best of some reads."""

    name: str
    gib: float
    records: int
    seconds: float

    @property
    def million_records_a_second(self) -> float:
        """How fast."""
        return self.records / self.seconds / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    options = _parser().parse_args(arguments)
    spark = open_session(options.master, {"spark.driver.memory": "2g"})
    spark.dataSource.register(RowSource)
    spark.dataSource.register(BareSource)
    figures = []
    with tempfile.TemporaryDirectory(prefix="logcleaner-benchmark-", dir=options.scratch) as scratch:
        rows_log = Path(scratch, "rows")
        records = write_log(rows_log / "bench-0", ROWS_LOG_BYTES, options.record_bytes)
        rows = spark.read.format("rows").load(str(rows_log / "bench-0"))
        figures.append(_best("rows yielded", rows, into_nothing, records, ROWS_LOG_BYTES, 2))
        for gib in options.gib:
            log_dir = Path(scratch, "log")
            records = write_log(log_dir / "bench-0", int(gib * (1 << 30)), options.record_bytes)
            for name, frame, sink in _reads(spark, log_dir, records):
                figures.append(_best(name, frame, sink, records, gib * (1 << 30), options.rounds))
                print(_line(figures[-1]), file=sys.stderr)
            for line in kernels_share(log_dir):
                print(line, file=sys.stderr)
            for path in (log_dir / "bench-0").iterdir():
                path.unlink()
            (log_dir / "bench-0").rmdir()
    print("\n".join(map(_line, figures)))
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n", encoding="utf-8")
    return 0


def _reads(
    spark: SparkSession, log_dir: Path, records: int
) -> Iterator[tuple[str, DataFrame, Callable[[DataFrame], None]]]:
    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka-log").options(**options).load(str(log_dir))

    def bare(columns: Sequence[str]) -> DataFrame:
        return spark.read.format("bare").options(columns=",".join(columns), records=records).load()

    yield "bare Arrow, all columns", bare(RECORD_COLUMNS), into_nothing
    yield "bare Arrow, keysOnly", bare(KEY_COLUMNS), into_nothing
    yield "bare Arrow, latest by key", bare(("key", "offset")), latest_by_key
    yield "all columns", read(), into_nothing
    yield "includeMetadata", read(includeMetadata="true"), into_nothing
    yield "keysOnly", read(keysOnly="true"), into_nothing
    yield "columns=key", read(columns="key"), into_nothing
    yield "columns=key,offset, latest by key", read(columns="key,offset"), latest_by_key


def into_nothing(frame: DataFrame) -> None:
    """Read every column of every row."""
    frame.write.format("noop").mode("overwrite").save()


def latest_by_key(frame: DataFrame) -> None:
    """What a compaction keeps."""
    into_nothing(frame.groupBy("key").agg(max_by(col("offset"), col("offset")).alias("offset")))


def _best(
    name: str, frame: DataFrame, sink: Callable[[DataFrame], None], records: int, size_bytes: float, rounds: int
) -> Figure:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        sink(frame)
        seconds.append(time.perf_counter() - started)
    return Figure(name, size_bytes / (1 << 30), records, min(seconds))


def _line(figure: Figure) -> str:
    rate = figure.million_records_a_second
    return f"{figure.gib:7.3f} GiB  {figure.name:36}{figure.records:12,} records{figure.seconds:9.2f} s{rate:8.2f} M/s"


def kernels_share(log_dir: Path) -> Iterator[str]:
    """Where the CPU time of reading all columns goes, without Spark: this thread's, by kernel, and the rest."""
    spent = {name: _timed(module, name) for module, names in KERNELS.items() for name in names}
    options = parse_options({"path": str(log_dir)})
    reader = KafkaLogReader(options, options.columns)
    started, records = time.thread_time(), 0
    for partition in reader.partitions():
        records += sum(batch.num_rows for batch in reader.read(partition))
    total = time.thread_time() - started
    yield f"{total:.2f} s of CPU time for {records:,} records in one thread: {records / total / 1e6:.2f} M/s"
    for name, seconds in spent.items():
        yield f"  {name:20}{sum(seconds) / total:7.1%}"
    yield f"  {'Python, numpy, read':20}{1 - sum(map(sum, spent.values())) / total:7.1%}"


def _timed(module: ModuleType, name: str) -> list[float]:
    """Have each call of a kernel note its CPU seconds from now on."""
    kernel, seconds = getattr(module, name), []

    def timed(*arguments: Any) -> Any:
        started = time.thread_time()
        try:
            return kernel(*arguments)
        finally:
            seconds.append(time.thread_time() - started)

    setattr(module, name, timed)
    return seconds


def write_log(directory: Path, size_bytes: int, record_bytes: int) -> int:
    """A partition with indexes, made of a pool of batches over and over: a batch's offset is not under its CRC.

    Returns: how many records it holds.
    """
    directory.mkdir(parents=True)
    pool = [bytearray(batch) for batch in _pool(record_bytes)]
    counts = [next(iter_batches(bytes(batch), directory)).header.record_count for batch in pool]
    offset, written = 0, 0
    while written < size_bytes:
        base, position, log_bytes = offset, 0, min(SEGMENT_BYTES, size_bytes - written)
        index = IndexBuilder(base, INDEX_INTERVAL_BYTES, directory)
        with (directory / segment_file_name(base, FileKind.LOG)).open("wb") as log:
            while position < log_bytes:
                place = offset // counts[0] % len(pool)
                batch, count = pool[place], counts[place]
                batch[:8] = offset.to_bytes(8, "big")
                log.write(batch)
                index.append(position, len(batch), offset + count - 1, NOW_MS)
                offset, position = offset + count, position + len(batch)
        offset_index, time_index = index.seal()
        (directory / segment_file_name(base, FileKind.INDEX)).write_bytes(offset_index)
        (directory / segment_file_name(base, FileKind.TIME_INDEX)).write_bytes(time_index)
        written += position
    return offset


def _pool(record_bytes: int) -> Iterator[bytes]:
    """Batches of equally many records, each about ``record_bytes`` on disk, a key of 16 bytes in it."""
    value = bytes(range(97, 123)) * (record_bytes // 26 + 1)
    value = value[: record_bytes - 16 - 9]  # length, attributes, deltas, lengths, header count
    count = BATCH_BYTES // record_bytes
    for batch in range(POOL_BATCHES):
        keys = (f"key-{(batch * count + place) % 1_000_000:012d}".encode() for place in range(count))
        yield encode_batch([Record(place, NOW_MS, key, value) for place, key in enumerate(keys)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_read", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--gib", type=lambda text: [float(one) for one in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--scratch", type=Path, help="where the log is written; it takes the largest --gib")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
