"""The CPU that Spark's driver takes to plan a read, and to start a stream, over very many partitions of sparse files.

    python -m tests.benchmarks.spark_plans --partitions 100000 --scratch /dev/shm   # three minutes, two million files

Prints the processor seconds of a plan of all, of a plan of one topic, of the start of a stream, and of an idle trigger,
and the peak memory. No Spark is started. The last segment alone has a batch; the others are holes of 16 MiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql.streaming.datasource import ReadAllAvailable

from cleaner.spark.table.options import parse_options
from cleaner.spark.table.planning import plan_read
from cleaner.spark.table.stream import KafkaLogStreamReader
from storage.checkpoints import format_offset_checkpoint
from storage.names import HIGH_WATERMARK_CHECKPOINT, FileKind, TopicPartition, segment_file_name
from tests.partition_dirs import keyed

SEGMENT_BYTES: Final = 1 << 24
SEGMENT_OFFSETS: Final = 1000
INDEX_BYTES: Final = 8192
PARTITIONS_A_TOPIC: Final = 50

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the log dir, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_plans", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--segments", type=int, default=10, help="of each partition")
    parser.add_argument("--scratch", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="plans-") as scratch:
        make_log_dir(Path(scratch), options.partitions, options.segments)
        path = {"path": scratch}
        planned = measured("a plan", lambda: plan_read(parse_options(path)))
        print(f"{sum(map(len, planned)):,} extents in {len(planned):,} tasks")
        measured("a plan of one topic", lambda: plan_read(parse_options({**path, "subscribe": "topic-0"})))
        asked = parse_options(path)
        stream = KafkaLogStreamReader(asked, asked.columns)
        begun = measured("a stream begins", stream.initialOffset)
        for name in ("its first trigger", "an idle trigger"):
            measured(name, lambda: stream.latestOffset(begun, ReadAllAvailable()))
    return 0


def measured(name: str, ask: Callable[[], T]) -> T:
    """Print what a question takes, and return its answer."""
    started = time.process_time()
    answer = ask()
    seconds, peak_kib = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{name:24} {seconds:7.2f} s of CPU, peak {peak_kib / 1024:,.0f} MiB", flush=True)
    return answer


def make_log_dir(log_dir: Path, partitions: int, segments: int) -> None:
    """Make partitions of as many segments each, whose high watermark is the log end."""
    last = (segments - 1) * SEGMENT_OFFSETS
    batch, ends = keyed(last, "key=value"), {}
    for number in range(partitions):
        name = TopicPartition(f"topic-{number // PARTITIONS_A_TOPIC}", number % PARTITIONS_A_TOPIC)
        directory = log_dir / str(name)
        directory.mkdir()
        for base in range(0, last, SEGMENT_OFFSETS):
            for kind, size_bytes in ((FileKind.LOG, SEGMENT_BYTES), (FileKind.INDEX, INDEX_BYTES)):
                path = directory / segment_file_name(base, kind)
                path.touch()
                os.truncate(path, size_bytes)
        (directory / segment_file_name(last, FileKind.LOG)).write_bytes(batch)
        (directory / segment_file_name(last, FileKind.INDEX)).touch()
        ends[name] = last + 1
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))


if __name__ == "__main__":
    sys.exit(main())
