"""Kafka's cleaner and ours, each timed on a fresh copy of a log."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage.log.listing import list_partition
from storage.log.read import floor_place
from storage.names import CLEANER_OFFSET_CHECKPOINT
from tests.benchmarks.logs import FORMATS, PARTITION, fresh_copy
from tests.benchmarks.processes import Cost, memory_bytes, run
from tests.benchmarks.workloads import Workload
from tests.interop.referee import Config, Referee

WARMUPS: Final = 2
OUR_COMMAND: Final = (
    f"{shlex.quote(sys.executable)} -m cleaner clean --log-dir {{log_dir}} --kafka-defaults "
    "--set cleanup.policy=compact --set segment.bytes={segment_bytes} --assume-committed --yes --only compaction "
    "--force-compaction --threads {threads}"
)
OUR_VERSION_COMMAND: Final = (sys.executable, "-m", "cleaner", "--version")


@dataclass(frozen=True, slots=True)
class Left:
    """What a cleaner left of a log."""

    records: int
    sha256: str


def kafka_round(
    workload: Workload, source: Path, scratch: Path, referee: Referee, *, warmups: int
) -> tuple[Cost, Left, int]:
    """``Cleaner.doClean`` alone, behind warm-ups on further copies; with the bytes that it read of the log."""
    if workload.is_cold and warmups:  # its copies would warm the log
        kafka_round(replace(workload, is_cold=False), source, scratch, referee, warmups=warmups - 1)
        warmups = 0
    with fresh_copy(source, scratch, is_cold=workload.is_cold) as log_dir:
        config: Config = {"segment.bytes": workload.segment_bytes, **FORMATS.get(workload.magic, {})}
        done = referee.bench(log_dir / str(PARTITION), warmups=warmups, config=config)
        assert done.first_dirty_offset == workload.first_dirty_offset
        assert referee.pid is not None
        resident, anonymous = (memory_bytes(referee.pid, name) for name in ("VmHWM", "RssAnon"))
        return Cost(done.seconds, resident, anonymous), left(log_dir, referee), done.bytes_read


def our_round(
    workload: Workload, source: Path, scratch: Path, referee: Referee, command: str, threads: int
) -> tuple[Cost, Left]:
    """A whole process. Raises: subprocess.CalledProcessError."""
    with fresh_copy(source, scratch, is_cold=workload.is_cold) as log_dir:
        if workload.is_cleaned_by_us:
            _first_round(workload, log_dir, our_words(workload, log_dir, command, threads))
        cost = run(our_words(workload, log_dir, command, threads))
        return cost, left(log_dir, referee)


def _first_round(workload: Workload, log_dir: Path, words: Sequence[str]) -> None:
    """Ours over the segments of the first part, before the log has more; it finds nothing that could go."""
    partition_dir = log_dir / str(PARTITION)
    (log_dir / CLEANER_OFFSET_CHECKPOINT).unlink()
    segments = list_partition(partition_dir).segments
    active = floor_place(segments, workload.first_dirty_offset)
    with tempfile.TemporaryDirectory(dir=log_dir.parent) as aside:
        for segment in segments[active + 1 :]:
            for file in segment.files.values():
                file.path.rename(Path(aside, file.file_name))
        run(words)
        for path in Path(aside).iterdir():
            path.rename(partition_dir / path.name)
    os.sync()


def our_words(workload: Workload, log_dir: Path, command: str, threads: int) -> list[str]:
    """The command with its places filled in."""
    places = {"log_dir": shlex.quote(str(log_dir)), "segment_bytes": workload.segment_bytes, "threads": threads}
    return shlex.split(command.format(**places))


def left(log_dir: Path, referee: Referee) -> Left:
    """As Kafka reads it."""
    (digest,) = referee.digest([log_dir / str(PARTITION)])
    return Left(digest.records, digest.sha256)
