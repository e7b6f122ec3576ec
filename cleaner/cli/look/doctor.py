"""The command ``doctor``: it tells what is wrong with the log dirs, worst first, and removes leftovers that the user
names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.cli.confirming import add_danger_arguments
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.look.preflight import node_of
from cleaner.cli.look.verify import check_unless_signalled, request_of
from cleaner.cli.naming import add_log_dirs_operand
from cleaner.cli.opening import add_log_dir_arguments, load, open_cleaner
from cleaner.cli.showing import add_quiet_argument, quiet_view, show
from storage.directory import is_stored
from storage.errors import Corrupt, InvalidConfig
from storage.stores.paths import want_whole

if TYPE_CHECKING:
    from cleaner.engine.doctor.sweeping import Named
    from cleaner.engine.verify.checked import Checked
    from policies.findings.diagnosis import Diagnosis
    from storage.log_dir import LogDir

HELP: Final = "tell what is wrong, worst first, with a remedy for each"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``doctor``."""
    parser.usage = "%(prog)s [DIR ...] [--deep] [--sweep NAME ...] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED, ExitStatus.REFUSED,
        ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "no damage was found",
            ExitStatus.FAILED: "a leftover could not be swept, or a log dir is missing",
            ExitStatus.REFUSED: "--sweep was not confirmed",
        },
    )  # fmt: skip
    add_log_dirs_operand(parser)
    parser.add_argument(
        "--deep",
        action="store_true",
        help="read every byte, as verify does, and not only the headers of 64 MiB a partition",
    )
    add_quiet_argument(parser)
    add_log_dir_arguments(parser)
    sweeping = parser.add_argument_group("sweep")
    sweeping.add_argument(
        "--sweep",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help="take these leftovers: .deleted files (orders-0/...log.deleted), -delete and -stray directories",
    )
    sweeping.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would be done")
    add_danger_arguments(sweeping, "the sweep")
    parser.set_defaults(reads_stores=True)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document, schema logcleaner.doctor/1; of a sweep, schema logcleaner.sweep/1",
    )


def run(args: argparse.Namespace) -> int:
    """Examine the log dirs and show what is wrong, or sweep the named leftovers."""
    if args.sweep:
        return _sweep(args)
    if args.dry_run or args.yes or args.force_lock:
        raise InvalidConfig("--dry-run" if args.dry_run else "--yes" if args.yes else "--force-lock", None,
                            "goes with --sweep: without it, doctor changes nothing")  # fmt: skip
    from cleaner.report.doctor import DoctorReport

    view = quiet_view(args)
    found = _diagnosis(args)
    if isinstance(found, ExitStatus):
        return found
    diagnosis, problems = found
    show(DoctorReport(diagnosis), as_json=args.json, view=view, pager=args.pager)
    for problem in problems:
        complain(problem)
    if diagnosis.damages or (diagnosis.start and diagnosis.start.starts is False):
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if problems else ExitStatus.DONE


def _diagnosis(args: argparse.Namespace) -> tuple[Diagnosis, list[str]] | ExitStatus:
    """Examine the log dirs. Return the diagnosis, and a line for each thing that could not be examined."""
    from cleaner.cli.progress import ProgressBar
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.doctor.examining import Examination
    from cleaner.engine.doctor.walking import WalkBudget
    from cleaner.engine.means import Silent
    from cleaner.engine.preflight.preflight import start_verdict
    from cleaner.engine.space import file_systems_of
    from policies.findings.diagnosis import with_checked
    from policies.plan import Request
    from policies.preflight.facts import NEWEST
    from storage.log_dir import LogDir

    if not args.topic:
        want_whole(args.log_dir)
    damage: Corrupt | None = None
    try:
        cleaner, loaded, missing = open_cleaner(args, Silent())
    except Corrupt as error:  # the cluster metadata; the plan reads everything else, and notes its errors as facts
        damage = error
        cleaner, loaded, missing = open_cleaner(args, Silent(), with_cluster_metadata=False)
    checked: Checked | None = None
    if args.deep:  # it reads the headers that the examination asks for, too
        opened = [LogDir.open(path) for path in loaded.log_dirs]
        checked_if_not_signalled = check_unless_signalled(opened, request_of(opened, args.topic))
        if isinstance(checked_if_not_signalled, ExitStatus):
            complain("interrupted: there is no report")
            return checked_if_not_signalled
        checked = checked_if_not_signalled
    plan = cleaner.plan(Request(SystemClock().now_ms(), topics=tuple(args.topic)))
    layers = loaded.configured.layers
    with ProgressBar("looking") as bar:
        bar.expect(sum(partition.facts.size_bytes for partition in plan.partitions))
        examination = Examination(
            plan,
            layers,
            layers.broker_policy(),
            WalkBudget(is_deep=args.deep),
            checked.walks if checked else None,
            file_systems_of(cleaner.volumes()),
            bar.advance,
        )
        found = examination.diagnosis(damage)
    problems = [str(absent) for absent in missing]
    if not args.topic and not any(map(is_stored, loaded.log_dirs)):  # no broker starts on what lies in a store
        node = node_of(loaded, NEWEST, named=bool(args.log_dir))
        log_dirs = [*loaded.log_dirs, *(absent.path for absent in missing)]
        found = replace(found, start=start_verdict(log_dirs, node, reads_all=args.deep))
    if checked is None:
        return found, problems
    return with_checked(found, checked.findings, checked.size_bytes), [*problems, *checked.problems]


def _sweep(args: argparse.Namespace) -> int:
    """Sweep the named leftovers once the user confirms, and show the result."""
    from cleaner.cli.confirming import confirm, confirm_force_lock
    from cleaner.cli.waiting import Waiting
    from cleaner.engine.doctor.sweeping import Sweeper
    from cleaner.engine.locks import OwnLocks
    from cleaner.engine.means import Means
    from cleaner.events import EventLog, format_of
    from cleaner.report.doctor import SweepReport
    from policies.findings.sweeping import SweepAct
    from storage.log_dir import LogDir

    if args.deep or args.topic:
        raise InvalidConfig("--deep" if args.deep else "--topic", None, "does not go with --sweep, which takes names")
    confirm_force_lock(args)
    loaded = load(args)
    log_dirs = [LogDir.open(path) for path in loaded.log_dirs]
    named = _named(args.sweep, log_dirs)
    listener = EventLog(args.verbose, format_of(args.log_format))
    locks = OwnLocks(forced=args.force_lock, patience=Waiting())
    sweeper = Sweeper(Means(listener=listener), lambda: load(args).layers, locks, log_dirs)
    results = sweeper.plan(named)
    acting = [result for result in results if result.verdict.act is not SweepAct.LEAVE]
    if acting and not args.dry_run:
        confirm(args, f"--sweep takes {', '.join(result.facts.name for result in acting)} for good")
        results = sweeper.sweep(named)
    show(SweepReport(results, args.dry_run), as_json=args.json)
    is_left = any(result.error or result.verdict.act is SweepAct.LEAVE for result in results)
    return ExitStatus.FAILED if is_left else ExitStatus.DONE


def _named(names: Sequence[str], log_dirs: Sequence[LogDir]) -> list[Named]:
    """Return the log dir of each name, and the path below it. Raises: InvalidConfig for a name in no log dir."""
    from cleaner.engine.doctor.sweeping import Named

    found: list[Named] = []
    for name in dict.fromkeys(names):
        path = Path(os.path.normpath(name))
        own = [d for d in log_dirs if (path.is_relative_to(d.path) if path.is_absolute() else _is_there(d.path / path))]
        if not own:
            raise InvalidConfig("--sweep", name, "is in none of the log dirs; logcleaner doctor lists the leftovers")
        if len(own) > 1:
            raise InvalidConfig("--sweep", name, "is in several of the log dirs; give its whole path")
        found.append(Named(own[0], str(path.relative_to(own[0].path) if path.is_absolute() else path)))
    return found


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)
