"""Reading without Spark, in one thread: CPU time, and how much of it each kernel takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from cleaner.arrow import columns
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.source import KafkaLogReader
from storage.scan import chunks, reader, slices

KERNELS: Final = {
    reader: ("scan_batches",),
    slices: ("first_bad_crc",),
    chunks: ("locate_records",),
    columns: ("gather_bytes", "gather_headers"),
}


def read_in_one_thread(log_dir: Path) -> tuple[int, float, dict[str, float]]:
    """All columns of a log: records, seconds of CPU time, and those in each kernel; the rest is Python and numpy."""
    options = parse_options({"path": str(log_dir)})
    log_reader = KafkaLogReader(options, options.columns)
    with ExitStack() as stack:
        spent = {name: stack.enter_context(_timed(at, name)) for at, names in KERNELS.items() for name in names}
        started, records = time.thread_time(), 0
        for partition in log_reader.partitions():
            records += sum(batch.num_rows for batch in log_reader.read(partition))
        seconds = time.thread_time() - started
    return records, seconds, {name: sum(calls) for name, calls in spent.items()}


@contextmanager
def _timed(module: ModuleType, name: str) -> Iterator[list[float]]:
    """Have each call of a kernel note its CPU seconds."""
    kernel, seconds = getattr(module, name), []

    def timed(*arguments: Any) -> Any:
        started = time.thread_time()
        try:
            return kernel(*arguments)
        finally:
            seconds.append(time.thread_time() - started)

    setattr(module, name, timed)
    try:
        yield seconds
    finally:
        setattr(module, name, kernel)
