"""``diff``: proves that only superseded, expired or aborted records are gone."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cleaner.cli.exit_status import ExitStatus, help_on
from cleaner.cli.values import moment

HELP = "prove that only superseded, expired or aborted records are gone between two states of a log dir"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``diff`` takes."""
    parser.epilog = help_on(
        ExitStatus.DONE,
        ExitStatus.FAILED,
        ExitStatus.USAGE,
        also={ExitStatus.DAMAGED: "a record is gone, changed or new, and no cleaning accounts for it"},
    )
    parser.add_argument("before", type=Path, metavar="BEFORE", help="a log dir or a partition directory")
    parser.add_argument("after", type=Path, metavar="AFTER", help="its later state, or a copy with a manifest")
    parser.add_argument(
        "--topic",
        action="extend",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="only topics or partitions of these names",
    )
    parser.add_argument("--now", type=moment, metavar="TIME", help="delete horizons up to it have come")
    parser.add_argument("--json", action="store_true", help="one document on stdout, schema logcleaner.diff/1")


def run(args: argparse.Namespace) -> int:
    """Open both, compare, show."""
    from cleaner.engine.clock import SystemClock  # noqa: PLC0415 - not for --help
    from cleaner.engine.comparing import Place, compared  # noqa: PLC0415 - not for --help
    from cleaner.report.differences import document, lines  # noqa: PLC0415 - not for --help

    clock_ms = SystemClock().now_ms()
    before, after = Place.open(args.before, args.topic), Place.open(args.after, args.topic)
    files = [*before.damaged_files(), *after.damaged_files()]
    found = list(compared(before, after, args.now(clock_ms) if args.now else clock_ms))
    told = document(found, files)
    if args.json:
        json.dump(told, sys.stdout)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(found, files))
    return ExitStatus.DAMAGED if told["damaged"] else ExitStatus.DONE
