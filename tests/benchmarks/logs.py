"""The logs of the workloads: generated once, copied for every round."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage.checkpoints import format_offset_checkpoint
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from storage.scan.page_cache import absent_ranges, let_go
from tests.benchmarks.workloads import Workload
from tests.interop.referee import Config, Referee

PARTITION: Final = TopicPartition("bench", 0)
READ_BYTES: Final = 1 << 24
COLD_PART_MIN: Final = 0.99
FORMATS: Final[Mapping[int, Config]] = {0: {"message.format.version": "0.9.0"}, 1: {"message.format.version": "0.10.2"}}
"""The configuration with which Kafka 2.8.2 writes v0 and v1."""


def partitions_of(workload: Workload) -> list[TopicPartition]:
    """The partitions of a workload's log dir."""
    return [PARTITION._replace(partition=number) for number in range(workload.partitions)]


def log_dir_of(workload: Workload, scratch: Path) -> Path:
    """Where the workload's log lies once it is generated."""
    return scratch / f"{workload.name}-{workload.records}"


def generated(workload: Workload, scratch: Path, referee: Referee) -> Path:
    """A log dir with the workload's log, as Kafka's classes write it; its name appears once it is complete."""
    log_dir = log_dir_of(workload, scratch)
    if log_dir.is_dir():
        return log_dir
    unfinished = scratch / f"{log_dir.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    numbered = [(partition, *each) for partition in partitions_of(workload) for each in enumerate(workload.parts)]
    for partition, number, part in numbered:
        referee.generate(
            unfinished / str(partition),
            records=part.records,
            keys=part.keys,
            first_key=part.first_key,
            in_order=part.in_order,
            value_bytes=workload.value_bytes,
            codec=workload.codec,
            segment_bytes=workload.segment_bytes,
            seed=number + partition.partition * len(workload.parts),
            config=FORMATS.get(workload.magic),
        )
    if workload.is_first_part_clean:
        checkpoint = format_offset_checkpoint({PARTITION: workload.first_dirty_offset})
        (unfinished / CLEANER_OFFSET_CHECKPOINT).write_bytes(checkpoint)
    return unfinished.rename(log_dir)


class StaysWarm(Exception):
    """A file system keeps a log in the page cache; nothing can be measured on a cold log there."""


@contextmanager
def fresh_copy(source: Path, scratch: Path, *, is_cold: bool = False) -> Iterator[Path]:
    """A copy, on disk, and in the page cache or not. Not hard links: a cleaner may write into a file it was given.

    Raises: StaysWarm.
    """
    with tempfile.TemporaryDirectory(dir=scratch, prefix="copy-") as holder:
        log_dir = Path(holder, "logs")
        subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(log_dir)], check=True)
        os.sync()  # else the copy is still being written while the first cleaner is timed
        for path in log_dir.rglob("*.log"):
            make_cold(path) if is_cold else _read_through(path)
        yield log_dir


def make_cold(path: Path) -> None:
    """Take a file out of the page cache. Other files stay there, as ``drop_caches`` would not let them.

    Raises: StaysWarm.
    """
    size_bytes = path.stat().st_size
    with path.open("rb") as opened:
        if size_bytes:
            let_go(opened.fileno(), [(0, size_bytes)])
            absent_bytes = sum(end - start for start, end in absent_ranges(opened.fileno(), 0, size_bytes))
            if absent_bytes < size_bytes * COLD_PART_MIN:
                raise StaysWarm(f"{path}: {size_bytes - absent_bytes} bytes stay in the page cache")


def _read_through(path: Path) -> None:
    buffer = bytearray(READ_BYTES)
    with path.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass
