"""The cost of commands over a log dir of very many segments, as processes from start to exit, beside the plan alone.

    python -m tests.benchmarks.planning [--segments 100000] [--partitions 2000] [--rounds 5] [--scratch DIR]

A third of the partitions has segments that expire, a third keeps all, a third is compacted; some names are as long as
Kafka allows. The files hold one batch each and are made in half a minute. Prints for each command the seconds of its
best round, how many times as long as the plan alone that is, and its peak memory. The exit status
is 1 where ``clean --dry-run`` takes more than ``--seconds-max`` or ``--mb-max``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
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
PLAN_ALONE: Final = "the plan alone"
DRY_RUN: Final = "clean --dry-run"
PAGE: Final = "page.html"
_PLAN: Final = """\
import sys
from cleaner.cli.main import _collect_seldom, build_parser
from cleaner.cli.opening import open_cleaner
from cleaner.config.files import CommandFiles
from cleaner.engine.clock import SystemClock
from cleaner.engine.means import Silent
from policies.plan import Request
_collect_seldom()
args = build_parser().parse_args(["topics", *sys.argv[1:]])
args.inputs = CommandFiles()
cleaner, _, _ = open_cleaner(args, Silent())
cleaner.plan(Request(SystemClock().now_ms(), confirmed=True))
"""
COMMANDS: Final = {
    PLAN_ALONE: ("-c", _PLAN),
    **{
        words: ("-m", "cleaner", *words.split())
        for words in (
            DRY_RUN,
            "clean --dry-run -v",
            "clean --dry-run --json",
            f"clean --dry-run --html {PAGE}",
            "topics",
            "topics -v",
            "topics --json",
            "explain expires-0-0",
        )
    },
}
TOPICS: Final = ("expires", "stays", "compacts")
PARTITIONS_A_TOPIC: Final = 10
LONG_NAMED: Final = 8
"""Of so many topics one has the longest name that Kafka allows."""
TOPIC_NAME_LENGTH_MAX: Final = 249


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the log dir, run each command some times, print."""
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.scratch, prefix="planning-")))
        make_log_dir(scratch / "logs", options.segments, options.partitions, int(time.time() * 1000))
        (scratch / "config.toml").write_text(CONFIG, encoding="utf-8")
        rounds = [
            {name: ran(command, scratch / "logs", scratch / "config.toml") for name, command in COMMANDS.items()}
            for _ in range(options.rounds)
        ]
    best = {name: min((costs[name] for costs in rounds), key=lambda cost: cost.seconds) for name in COMMANDS}
    mb = max(cost.resident_bytes for costs in rounds for cost in costs.values()) / 1e6
    print(
        f"{options.segments:,} segments in {options.partitions:,} partitions, {options.rounds} rounds, peak {mb:.0f} MB"
    )
    for name, cost in best.items():
        times = cost.seconds / best[PLAN_ALONE].seconds
        print(f"{name:32} {cost.seconds:6.2f} s  {times:5.2f} x  {cost.resident_bytes / 1e6:4.0f} MB")
    return int(best[DRY_RUN].seconds > options.seconds_max or best[DRY_RUN].resident_bytes > options.mb_max * 1e6)


def ran(command: Sequence[str], log_dir: Path, config: Path) -> Cost:
    """Run a command over a log dir. Raises: subprocess.CalledProcessError."""
    words = [str(config.with_name(PAGE)) if word == PAGE else word for word in command]
    return run([sys.executable, *words, "--log-dir", str(log_dir), "--config", str(config)])


def make_log_dir(log_dir: Path, segments: int, partitions: int, now_ms: int) -> None:
    """Partitions of as many segments each as make ``segments`` in all; the end of a day is the end of a segment."""
    each = max(1, segments // partitions)
    ends = {}
    for number in range(partitions):
        place, kind = divmod(number, len(TOPICS))
        topic_partition = TopicPartition(_topic(TOPICS[kind], place // PARTITIONS_A_TOPIC), place % PARTITIONS_A_TOPIC)
        ends[topic_partition] = _write_partition(log_dir / str(topic_partition), each, now_ms)
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))
    (log_dir / CLEAN_SHUTDOWN_FILE).touch()


def _topic(kind: str, number: int) -> str:
    """Return a topic's name; one of ``LONG_NAMED`` is as long as Kafka allows."""
    if number % LONG_NAMED != LONG_NAMED - 1:
        return f"{kind}-{number}"
    return f"{kind}-{number}-".ljust(TOPIC_NAME_LENGTH_MAX, "x")


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
