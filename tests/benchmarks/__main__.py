"""Compaction against Kafka's own cleaner, on the same logs, on the same machine, in turn.

    python -m tests.benchmarks --scratch DIR --json FILE [--gib 4] [--rounds 5] [--only NAME ...]

The file is written anew behind every workload, and what it holds is not measured again: a run that was cut goes on.
``python -m tests.benchmarks.table FILE`` makes the tables and the plot of docs/benchmarks.md of it.
How each side is timed: tests/benchmarks/compaction.py. The scratch directory needs room for three copies of a log.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from tests.benchmarks.compaction import Bench, DifferentRecords
from tests.benchmarks.logs import StaysWarm, log_dir_of
from tests.benchmarks.many import many
from tests.benchmarks.results import OtherRun, Report, Settings, resumed
from tests.benchmarks.sides import OUR_COMMAND
from tests.benchmarks.table import markdown
from tests.benchmarks.workloads import MANY_KEYS, Workload, many_keys, many_partitions, workloads
from tests.interop.kafka_jars import OLD, KafkaUnavailable, judging_version, kafka_classpath
from tests.interop.referee import KAFKA_2, Referee


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is wanted and not yet measured, print the table; 1 where Kafka is missing or the records differ."""
    options = _parser().parse_args(arguments)
    options.scratch.mkdir(parents=True, exist_ok=True)
    cache = str(options.scratch.absolute() / "cache")  # for our kernels, and what rounds note
    try:
        version = judging_version()
        report = resumed(options.json, Settings(options.gib, options.rounds, options.many_keys), version)
        with ExitStack() as stack:
            referee = stack.enter_context(Referee(kafka_classpath(version)))
            old_referee = stack.enter_context(Referee(kafka_classpath(OLD), main=KAFKA_2))
            stack.enter_context(patch.dict(os.environ, CACHE_DIRECTORY=cache))
            _measure(Bench(options.scratch, referee, old_referee, options.ours_command), report, options)
            _measure_many(referee, report, options)
    except (KafkaUnavailable, DifferentRecords, OtherRun) as reason:
        print(reason, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failure:
        print(f"{shlex.join(failure.cmd)}: exit {failure.returncode}", file=sys.stderr)
        print(failure.output.decode(errors="replace"), file=sys.stderr)
        return 1
    print(markdown(report))
    return 0


def _measure(bench: Bench, report: Report, options: argparse.Namespace) -> None:
    for workload in workloads(options.gib):
        if workload.name not in options.only or workload.name in {*report.comparisons, *report.cold}:
            continue
        if workload.is_cold:
            try:
                report.cold[workload.name] = bench.cold(workload, options.rounds)
            except StaysWarm as reason:
                print(f"NOT MEASURED: {workload.name}: {reason}", file=sys.stderr)
        else:
            report.comparisons[workload.name] = bench.compare(workload, options.rounds)
        _done(report, workload, options)
    if MANY_KEYS in options.only and report.many_keys is None:
        workload = many_keys(options.many_keys)
        report.many_keys = bench.many_keys(workload, with_kafka=options.kafka)
        _done(report, workload, options)


def _measure_many(referee: Referee, report: Report, options: argparse.Namespace) -> None:
    for workload in many_partitions(options.gib):
        if workload.name in options.only and workload.name not in report.many:
            report.many[workload.name] = many(
                workload, options.scratch, referee, options.ours_command, rounds=options.rounds
            )
            _done(report, workload, options)


def _done(report: Report, workload: Workload, options: argparse.Namespace) -> None:
    report.save(options.json)
    if not options.keep:
        shutil.rmtree(log_dir_of(workload, options.scratch))


def _parser() -> argparse.ArgumentParser:
    names = [*(workload.name for workload in (*workloads(1), *many_partitions(1))), MANY_KEYS]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--gib", type=float, default=4, help="of a log, before compression")
    parser.add_argument("--rounds", type=_at_least_one, default=5)
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--many-keys", type=_at_least_one, default=100_000_000, metavar="KEYS")
    parser.add_argument("--kafka", action="store_true", help="measure Kafka's rounds over the many keys, too")
    parser.add_argument("--keep", action="store_true", help="leave the generated logs in DIR, to be used again")
    places = "{log_dir}, {segment_bytes} and {threads} are filled in"
    parser.add_argument("--ours-command", default=OUR_COMMAND, metavar="COMMAND", help=places)
    return parser


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
