"""How the cost of a compaction grows: with the bytes of a log, with its keys, with its segments.

    python -m tests.benchmarks.growth --scratch DIR [--rounds 3] [--only size keys segments] [--most 1]

Each line is a log of uncompressed records, and one thread of ours, start-up included: the median of some whole
processes, each on a fresh copy in the page cache. ``--most 0.1`` makes each log ten times smaller. What a plan costs
over very many segments: ``tests.benchmarks.planning``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks.logs import fresh_copy, generated
from tests.benchmarks.processes import Cost, run
from tests.benchmarks.sides import OUR_COMMAND, our_words
from tests.benchmarks.workloads import Workload, many_keys, workloads
from tests.interop.kafka_jars import KafkaUnavailable, judging_version, kafka_classpath
from tests.interop.referee import Referee

GIB: Final = 1 << 30
SIZES_GIB: Final = (1, 2, 4, 8)
KEYS: Final = (100_000, 1_000_000, 10_000_000, 100_000_000)
SEGMENTS: Final = (1, 10, 100, 1_000)
"""Of one partition of a GiB. The last ones are as small as Kafka allows, 1 MiB."""
TABLES: Final = ("size", "keys", "segments")
HEAD: Final = "| log | seconds | of the processor | a million records | memory |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where Kafka's classes are missing, which write the logs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=TABLES, choices=TABLES, metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--most", type=float, default=1.0, metavar="TIMES")
    options = parser.parse_args(arguments)
    options.scratch.mkdir(parents=True, exist_ok=True)
    try:
        with Referee(kafka_classpath(judging_version())) as referee:
            for table in options.only:
                print(f"{HEAD}\n|---|---|---|---|---|")
                for workload in growing(table, options.most):
                    source = generated(workload, options.scratch, referee)
                    print(row(workload, [_round(workload, source, options.scratch) for _ in range(options.rounds)]))
                print(flush=True)
    except KafkaUnavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


def growing(table: str, most: float) -> Iterator[Workload]:
    """Yield the logs of a table, the smallest first."""
    if table == "size":
        for gib in SIZES_GIB:
            yield replace(_plain(gib * most), title=f"{gib * most:g} GiB")
    elif table == "keys":
        for keys in KEYS:
            yield many_keys(max(1, int(keys * most)))
    else:
        for segments in SEGMENTS:
            bytes_each = max(int(GIB * most) // segments, 1 << 20)
            yield replace(
                _plain(most),
                name=f"segments-{bytes_each}",
                title=f"segments of {bytes_each / (1 << 20):,.0f} MiB",
                segment_bytes=bytes_each,
            )


def row(workload: Workload, costs: Sequence[Cost]) -> str:
    """Return a line of the table."""
    seconds, cpu_seconds = (median(values) for values in zip(*((c.seconds, c.cpu_seconds) for c in costs), strict=True))
    millions = workload.records / 1e6
    memory_mb = max(cost.anonymous_bytes for cost in costs) / 1e6
    return (
        f"| {workload.title} | {seconds:.2f} s | {cpu_seconds:.2f} s | {cpu_seconds / millions:.3f} s "
        f"| {memory_mb:.0f} MB |"
    )


def _plain(gib: float) -> Workload:
    return next(workload for workload in workloads(gib) if workload.name == "none-100")


def _round(workload: Workload, source: Path, scratch: Path) -> Cost:
    with fresh_copy(source, scratch) as log_dir:
        return run(our_words(workload, log_dir, OUR_COMMAND, threads=1))


if __name__ == "__main__":
    sys.exit(main())
