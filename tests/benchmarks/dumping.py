"""The speed of ``dump`` against Kafka's own tool, in pairs over the same segment, and of ``dump --json``.

    python -m tests.benchmarks.dumping DIR [--mib 128] [--rounds 5]

``DIR`` gets the segments and what is printed, and loses them again; on a tmpfs no disk is measured. The start counts on
neither side: ours is a process less what the same process takes for an empty segment; of Kafka's tool only its
``main`` is timed, once in a fresh JVM, as an operator runs it, and then once more in the same JVM, whose code is
compiled by then. The JVM has the options of ``kafka-run-class.sh``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from storage.records import Record, encode_batch
from tests.interop.kafka_jars import judging_version, tools_classpath
from tests.interop.tool import DUMP_LOG, Tool

VALUE_BYTES: Final = (100, 1 << 10)
TOOL_JVM_OPTIONS: Final = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_BATCH_BYTES: Final = 16 << 10
_TIMESTAMP_MS: Final = 1_700_000_000_000
_DRAWS: Final = 2000
_STARTS: Final = 3


class Round(NamedTuple):
    """Seconds of the clock of one round: ours; Kafka's tool in a fresh JVM, and in the same one again."""

    start: float
    text: float
    json: float
    fresh: float
    warm: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print some lines for each size of values; 1 where the two texts differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--mib", type=float, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    for value_bytes in VALUE_BYTES:
        with TemporaryDirectory(dir=options.directory) as scratch:
            log = Path(scratch, "00000000000000000000.log")
            records = write_segment(log, value_bytes, int(options.mib * (1 << 20)))
            rounds = [measure(log) for _ in range(options.rounds)]
        print(f"values of {value_bytes} bytes, {options.mib:g} MiB, {records:,} records, {options.rounds} rounds")
        print(f"  text, against Kafka's tool: {ratio([one.fresh / one.text for one in rounds])}")
        print(f"  text, against its second run in one JVM: {ratio([one.warm / one.text for one in rounds])}")
        print(f"  start of ours: {statistics.median(one.start for one in rounds):.2f} s, not counted")
        print(f"  JSON: {records / statistics.median(one.json for one in rounds) / 1e6:.1f} million records a second")
    return 0


def measure(log: Path) -> Round:
    """Show one segment with both tools. Raises: AssertionError where the texts differ."""
    ours, empty = log.with_name("ours"), log.with_name("00000000000000000001.log")
    empty.touch()
    start = min(timed([*_OURS, str(empty), "--print-data-log"], ours) for _ in range(_STARTS))
    text = timed([*_OURS, str(log), "--print-data-log"], ours) - start
    json = timed([*_OURS, str(log), "--json", "--print-data-log"], log.with_name("json")) - start
    with Tool(tools_classpath(judging_version()), DUMP_LOG, TOOL_JVM_OPTIONS) as referee:
        fresh = referee.dump(log, "--print-data-log")
        warm = referee.dump(log, "--print-data-log")
    assert fresh.out == ours.read_bytes(), "the two texts differ"
    return Round(start, text, json, fresh.seconds, warm.seconds)


_OURS: Final = (sys.executable, "-m", "cleaner", "dump")


def timed(command: Sequence[str], out: Path) -> float:
    """Return the seconds of a process that prints to a file. Raises: subprocess.CalledProcessError."""
    with out.open("wb") as file:
        started = time.perf_counter()
        subprocess.run(command, stdout=file, check=True)
        return time.perf_counter() - started


def ratio(ratios: Sequence[float]) -> str:
    """Return the median of the ratios of all pairs, with a 95 % interval from draws with replacement."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(_DRAWS))
    low, high = medians[int(_DRAWS * 0.025)], medians[int(_DRAWS * 0.975) - 1]
    return f"{statistics.median(ratios):.1f} times as fast [{low:.1f}, {high:.1f}]"


def write_segment(log: Path, value_bytes: int, log_bytes: int) -> int:
    """Write batches of 16 KiB with readable values. Returns the number of records."""
    draw, each = random.Random(value_bytes), max(1, _BATCH_BYTES // (value_bytes + 20))
    offset = size = 0
    with log.open("wb") as file:
        while size < log_bytes:
            records = [
                Record(offset + place, _TIMESTAMP_MS + offset + place, b"key-%08d" % draw.randrange(10**8), value)
                for place, value in enumerate(os.urandom(value_bytes // 2).hex().encode() for _ in range(each))
            ]
            size += file.write(encode_batch(records))
            offset += each
    return offset


if __name__ == "__main__":
    raise SystemExit(main())
