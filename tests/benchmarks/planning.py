"""Planning a log dir of very many segments: ``clean --dry-run`` as a process, from its start to its exit.

    python -m tests.benchmarks.planning [--segments 100000] [--partitions 2000] [--rounds 5] [--scratch DIR]

A third of the partitions has segments that expire, a third keeps all, a third is compacted. The files hold one batch
each and are made in half a minute. Prints seconds and peak memory; the exit status is 1 where the best round is above
``--seconds-max`` or any above ``--mb-max``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from storage.checkpoints import format_offset_checkpoint
from storage.indexes import IndexBuilder
from storage.log.producer_state import format_snapshot
from storage.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    FileKind,
    TopicPartition,
    segment_file_name,
)
from storage.records import Record, encode_batch
from tests.benchmarks.processes import Cost, run

DAY_MS: Final = 86_400_000
SEGMENT_RECORDS: Final = 10
INDEX_INTERVAL_BYTES: Final = 4096
CONFIG: Final = """\
[topics."expires-*"]
cleanup.policy = "delete"
retention.ms = "3d"

[topics."stays-*"]
cleanup.policy = "delete"
retention.ms = "3650d"

[topics."compacts-*"]
cleanup.policy = "compact"
"""
TOPICS: Final = ("expires", "stays", "compacts")
PARTITIONS_A_TOPIC: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the log dir, plan it some times, print."""
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.scratch, prefix="planning-")))
        make_log_dir(scratch / "logs", options.segments, options.partitions, int(time.time() * 1000))
        (scratch / "config.toml").write_text(CONFIG, encoding="utf-8")
        costs = [planned(scratch / "logs", scratch / "config.toml") for _ in range(options.rounds)]
    seconds = [cost.seconds for cost in costs]
    mb = max(cost.resident_bytes for cost in costs) / 1e6
    print(f"{options.segments:,} segments in {options.partitions:,} partitions, {options.rounds} rounds: "
          f"median {median(seconds):.2f} s, best {min(seconds):.2f} s, peak {mb:.0f} MB")  # fmt: skip
    return int(min(seconds) > options.seconds_max or mb > options.mb_max)


def planned(log_dir: Path, config: Path) -> Cost:
    """One dry run. Raises: subprocess.CalledProcessError."""
    return run([sys.executable, "-m", "cleaner", "clean", "--dry-run", "--log-dir", str(log_dir), "--config",
                str(config)])  # fmt: skip


def make_log_dir(log_dir: Path, segments: int, partitions: int, now_ms: int) -> None:
    """Partitions of as many segments each as make ``segments`` in all; the end of a day is the end of a segment."""
    each = max(1, segments // partitions)
    ends = {}
    for number in range(partitions):
        place, kind = divmod(number, len(TOPICS))
        topic_partition = TopicPartition(f"{TOPICS[kind]}-{place // PARTITIONS_A_TOPIC}", place % PARTITIONS_A_TOPIC)
        ends[topic_partition] = _write_partition(log_dir / str(topic_partition), each, now_ms)
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))
    (log_dir / CLEAN_SHUTDOWN_FILE).touch()


def _write_partition(directory: Path, segments: int, now_ms: int) -> int:
    """An empty active segment with a producer snapshot behind sealed ones; gives the log end offset."""
    directory.mkdir(parents=True)
    active = (segments - 1) * SEGMENT_RECORDS
    for base_offset in range(0, active, SEGMENT_RECORDS):
        newest_ms = now_ms - (active - base_offset) // SEGMENT_RECORDS * DAY_MS
        offsets = range(base_offset, base_offset + SEGMENT_RECORDS)
        data = encode_batch([Record(offset, newest_ms, b"%d" % (offset % 100), b"value" * 4) for offset in offsets])
        _write_segment(directory, base_offset, data, *_indexes(base_offset, newest_ms))
    _write_segment(directory, active, b"", b"", b"")
    (directory / segment_file_name(active, FileKind.SNAPSHOT)).write_bytes(format_snapshot([]))
    return active


def _write_segment(directory: Path, base_offset: int, data: bytes, index: bytes, time_index: bytes) -> None:
    for kind, content in ((FileKind.LOG, data), (FileKind.INDEX, index), (FileKind.TIME_INDEX, time_index)):
        (directory / segment_file_name(base_offset, kind)).write_bytes(content)


def _indexes(base_offset: int, newest_ms: int) -> tuple[bytes, bytes]:
    builder = IndexBuilder(base_offset, INDEX_INTERVAL_BYTES, Path("planning"))
    builder.append(0, 1, base_offset + SEGMENT_RECORDS - 1, newest_ms)
    return builder.seal()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.planning", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--segments", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, metavar="DIR")
    parser.add_argument("--seconds-max", type=float, default=5)
    parser.add_argument("--mb-max", type=float, default=300)
    return parser


if __name__ == "__main__":
    sys.exit(main())
