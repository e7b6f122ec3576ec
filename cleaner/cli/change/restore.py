"""The command ``restore``: it takes back deletions whose ``.deleted`` files still wait, or lists them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.cli.confirming import add_danger_arguments, confirm, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import LOG_DIR, OPERAND, OnePartition, check_remembered, warn_of_symlinks
from cleaner.cli.opening import add_place_arguments, open_log_dirs, wanted_partitions
from cleaner.cli.showing import hold_failures, show
from cleaner.cli.values import partition_or_text
from cleaner.cli.waiting import Waiting
from cleaner.journald import Level
from policies.moving import MoveStep
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cleaner.cli.parser import Parser
    from cleaner.engine.moving import Move
    from cleaner.engine.restore import Restorer
    from cleaner.events import EventLog
    from storage.log_dir import LogDir

HELP = "take back deletions that still wait; hold the partition"


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``restore``."""
    parser.usage = f"%(prog)s [{OPERAND} | --all] [--release] [-n] [options]"
    parser.for_several = f"restore takes one {OPERAND}, for several say --all --topic GLOB GLOB"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.REFUSED, ExitStatus.NOT_YET
    )  # fmt: skip
    parser.add_argument(
        "topic_partition",
        nargs="?",
        action=OnePartition,
        named=partition_or_text,
        metavar=f"{OPERAND}|{LOG_DIR}",
        help="the partition to restore; without it, restore only lists restorable deletions and holds",
    )
    parser.add_argument("--all", action="store_true", help="restore every partition, or those that --topic names")
    parser.add_argument("--repairs", action="store_true", help="take back repairs of verify, and no deletions")
    parser.add_argument("--moves", action="store_true", help="take back moves between log dirs, and no deletions")
    parser.add_argument("--release", action="store_true", help="end the hold: retention and compaction go on")
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would be done")
    group = parser.add_argument_group("danger")
    add_danger_arguments(group, "what is dangerous")
    add_place_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.restore/1")


def run(args: argparse.Namespace) -> int:
    """Restore, release or list, and show the result."""
    from cleaner.engine.locks import OwnLocks
    from cleaner.engine.means import Means
    from cleaner.engine.restore import Restorer
    from cleaner.events import EventLog, format_of

    _check_usage(args)
    confirm_force_lock(args)
    log_dirs = open_log_dirs(args)
    check_remembered(args.topic, args.topic_partition, log_dirs)
    warn_of_symlinks(log_dirs)
    listener = EventLog(args.verbose, format_of(args.log_format))
    hold_failures(listener, as_json=args.json)
    locks = OwnLocks(forced=args.force_lock, patience=Waiting())
    restorer = Restorer(log_dirs, Means(listener=listener), locks)
    if args.repairs:
        return _revert(args, restorer, listener)
    if args.moves:
        return _move_back(args, restorer, log_dirs)
    return _release(args, restorer) if args.release else _restore(args, restorer, listener, log_dirs)


def _check_usage(args: argparse.Namespace) -> None:
    if args.all and args.topic_partition:
        raise InvalidConfig("--all", None, f"names every partition already: leave {OPERAND} out")
    if args.release and not (args.all or args.topic_partition):
        raise InvalidConfig("--release", None, f"needs {OPERAND} or --all")
    if args.moves and (args.release or args.repairs):
        raise InvalidConfig("--moves", None, "leave out --release and --repairs: a move has neither")
    if args.release and args.repairs:
        raise InvalidConfig("--release", None, "a repair puts no partition on hold: leave out --release or --repairs")


def _restore(args: argparse.Namespace, restorer: Restorer, listener: EventLog, log_dirs: Sequence[LogDir]) -> int:
    from cleaner.engine.restore import compactions
    from cleaner.report.restores import RestoreReport

    wanted = wanted_partitions(args)
    is_asked = args.all or args.topic_partition is not None
    acts = is_asked and not args.dry_run
    planned = restorer.rehearsed if is_asked else restorer.plan
    results = restorer.restore(wanted) if acts else planned(wanted)
    compacted = compactions(log_dirs, wanted)
    told = show(RestoreReport(results, not acts, compacted), as_json=args.json, pager=args.pager and not acts)
    listener.release_failures(told)
    if args.topic_partition and not results:
        was = "; its compaction cannot be undone" if args.topic_partition in compacted else ""
        complain(f"{args.topic_partition}: no deletion in the journal can be taken back{was}; see logcleaner history")
        return ExitStatus.FAILED
    failed = any(result.error for result in results)
    refused = is_asked and any(result.restoration and result.restoration.has_refused for result in results)
    return ExitStatus.FAILED if failed or refused else ExitStatus.DONE


def _revert(args: argparse.Namespace, restorer: Restorer, listener: EventLog) -> int:
    from cleaner.report.restores import RevertReport

    wanted = wanted_partitions(args)
    is_asked = args.all or args.topic_partition is not None
    acts = is_asked and not args.dry_run
    planned = restorer.repairs_rehearsed if is_asked else restorer.repairs
    results = restorer.revert(wanted) if acts else planned(wanted)
    told = show(RevertReport(results, dry_run=not acts), as_json=args.json, pager=args.pager and not acts)
    listener.release_failures(told)
    failed = any(result.error or (is_asked and len(result.revertible) < len(result.verdicts)) for result in results)
    if args.topic_partition and not results:
        complain(f"{args.topic_partition}: no repair in the journal can be taken back; see logcleaner history")
    return ExitStatus.FAILED if failed or (args.topic_partition and not results) else ExitStatus.DONE


def _move_back(args: argparse.Namespace, restorer: Restorer, log_dirs: Sequence[LogDir]) -> int:
    from cleaner.report.moves import MoveReport

    wanted = wanted_partitions(args)
    acts = (args.all or args.topic_partition is not None) and not args.dry_run
    moves = restorer.moves(wanted)
    if acts:
        for move in moves:
            if move.error is None and move.step is MoveStep.RETURN and move.source is None:
                _confirm_that_it_is_nowhere(args, move, log_dirs)
        moves = restorer.move_back(wanted)
    show(MoveReport(moves, None, dry_run=not acts), as_json=args.json, pager=args.pager and not acts)
    failed = [move.error for move in moves if move.error is not None]
    for error in failed:
        complain(error, Level.ERROR)
    if args.topic_partition and not moves:
        complain(f"{args.topic_partition}: no move in the journal can be taken back; see logcleaner history")
        return ExitStatus.FAILED
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _confirm_that_it_is_nowhere(args: argparse.Namespace, move: Move, log_dirs: Sequence[LogDir]) -> None:
    """Ask before an old directory takes the place of a partition that another log dir may have.

    Raises: InvalidConfig, NotConfirmed.
    """
    from cleaner.engine.moving import moved_away

    name, log_dir = move.topic_partition, next(d for d in log_dirs if str(d.path) == move.target)
    away = moved_away(log_dir, name)
    if away is None:
        return
    if Path(away.target).exists() and Path(away.target) not in [one.path for one in log_dirs]:
        raise InvalidConfig("--log-dir", None, f"name {away.target}, too: {name} was moved there, and may be there")
    confirm(args, f"{name}: is not in {away.target} any more; what a broker wrote to it there is lost to it")


def _release(args: argparse.Namespace, restorer: Restorer) -> int:
    from cleaner.report.restores import ReleaseReport

    wanted = wanted_partitions(args)
    released = restorer.held(wanted) if args.dry_run else restorer.release(wanted)
    show(ReleaseReport(released, args.dry_run), as_json=args.json, pager=args.pager and args.dry_run)
    return ExitStatus.DONE
