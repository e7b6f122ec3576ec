"""The command ``history``: it shows every change that the journal tells, with its time, reason and bytes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, help_on
from cleaner.cli.naming import LOG_DIR, OPERAND, OnePartition, check_remembered, warn_of_symlinks
from cleaner.cli.opening import add_place_arguments, open_log_dirs, wanted_partitions
from cleaner.cli.showing import show
from cleaner.cli.values import partition_or_text

if TYPE_CHECKING:
    from cleaner.cli.parser import Parser

HELP = "show what was changed, when and why, from the journal"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``history``."""
    parser.usage = f"%(prog)s [{OPERAND}] [options]"
    parser.for_several = f"history takes one {OPERAND}, for several say --topic GLOB GLOB"
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET)
    parser.add_argument(
        "topic_partition",
        nargs="?",
        action=OnePartition,
        named=partition_or_text,
        metavar=f"{OPERAND}|{LOG_DIR}",
        help="show only this partition",
    )
    add_place_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.history/1")


def run(args: argparse.Namespace) -> int:
    """Read the journals, and show their entries."""
    from cleaner.engine.restore import read_history
    from cleaner.report.history import HistoryReport

    log_dirs = open_log_dirs(args)
    check_remembered(args.topic, args.topic_partition, log_dirs)
    warn_of_symlinks(log_dirs)
    wanted = wanted_partitions(args)
    histories = [read_history(log_dir, wanted) for log_dir in log_dirs]
    show(HistoryReport(histories), as_json=args.json, pager=args.pager)
    return ExitStatus.DONE
