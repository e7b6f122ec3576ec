"""The command ``move``: it moves partitions into another log dir of a broker that is stopped."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.cli.confirming import add_danger_arguments, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, check_partition, warn_of_sole_replicas
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner, target_of
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show, tell
from cleaner.cli.values import partition_or_text
from cleaner.cli.waiting import Waiting
from cleaner.journald import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cleaner.cli.parser import Parser
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.moving import Move
    from storage.log_dir import LogDir

HELP = "move partitions to another log dir, if the broker is stopped"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``move``."""
    parser.is_intermixed = True
    parser.usage = f"%(prog)s {OPERAND}... --to-dir DIR [-n] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.REFUSED, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "every partition is in DIR, and nowhere else",
            ExitStatus.FAILED: "a partition was not moved: its line says why. Run again to go on",
            ExitStatus.LOCKED: "a log dir is held by another process: a broker that runs moves partitions itself",
            ExitStatus.REFUSED: "--force-lock was not confirmed",
        },
    )  # fmt: skip
    parser.add_argument("partitions", nargs="+", type=partition_or_text, metavar=OPERAND, help="the partitions to move")
    parser.add_argument(
        "--to-dir", type=Path, required=True, metavar="DIR", help="the log dir of the same broker that gets them"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would be done")
    parser.add_argument(
        "--print-reassignment",
        action="store_true",
        help="change nothing, and print the JSON by which kafka-reassign-partitions has a running broker do the same",
    )
    add_danger_arguments(parser.add_argument_group("danger"), "what is dangerous")
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.move/1")


def run(args: argparse.Namespace) -> int:
    """Plan, move, and show what was done."""
    from cleaner.events import EventLog, format_of

    confirm_force_lock(args)
    if args.log_dir:
        args.log_dir = list(dict.fromkeys([*args.log_dir, args.to_dir]))
    with ProgressBar("moving") as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        cleaner, loaded, missing = open_cleaner(args, listener, patience=Waiting())
        for found in missing:
            complain(str(found))
        log_dirs = cleaner.opened().log_dirs
        target = target_of(args.to_dir, log_dirs)
        for wanted in args.partitions:
            check_partition(wanted, (found for log_dir in log_dirs for found, _ in log_dir.partitions()), log_dirs)
        warn_of_sole_replicas(loaded, [str(wanted) for wanted in args.partitions])
        if args.print_reassignment:
            return _print_reassignment(args, cleaner)
        moves = _moves(args, cleaner, target)
    return _show(args, moves, target)


def _print_reassignment(args: argparse.Namespace, cleaner: Cleaner) -> int:
    from cleaner.engine.moving import reassignment

    tell(json.dumps(reassignment(cleaner.opened(), args.to_dir.absolute(), args.partitions)))
    return ExitStatus.DONE


def _moves(args: argparse.Namespace, cleaner: Cleaner, target: LogDir) -> list[Move]:
    from cleaner.engine.moving import Mover

    wanted = list(dict.fromkeys(args.partitions))
    if args.dry_run:
        opened = cleaner.opened()
        return list(Mover(opened.log_dirs, target, opened.means).rehearsed(wanted))
    done: list[Move] = []
    with cleaner.locked() as opened:
        try:
            target = target_of(args.to_dir, opened.log_dirs)
            done.extend(Mover(opened.log_dirs, target, opened.means).move(wanted))
        except KeyboardInterrupt:
            complain("stopped: the same command, run again, goes on")
            raise
    return done


def _show(args: argparse.Namespace, moves: Sequence[Move], target: LogDir) -> int:
    from cleaner.report.moves import MoveReport

    show(MoveReport(moves, str(target.path), args.dry_run), as_json=args.json)
    failed = [move.error for move in moves if move.error is not None]
    for error in failed:
        complain(error, Level.ERROR)
    return ExitStatus.FAILED if failed else ExitStatus.DONE
