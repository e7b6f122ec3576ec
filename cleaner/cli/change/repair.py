"""The option ``--repair`` of ``verify``: it mends what a check found, after a question, under the locks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic as stopwatch
from typing import TYPE_CHECKING, Final

from cleaner.cli.confirming import add_danger_arguments, confirm, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.opening import open_cleaner
from cleaner.cli.showing import hold_failures, show
from cleaner.cli.waiting import Waiting
from storage.errors import InvalidConfig
from storage.names import parse_topic_partition

if TYPE_CHECKING:
    from cleaner.engine.checking.checked import Checked, CheckRequest
    from cleaner.engine.means import Means
    from cleaner.engine.repair.repairing import Repairs
    from cleaner.events import EventLog
    from policies.checking.repairs import RepairKind
    from storage.log_dir import LogDir

Checking = Callable[[argparse.Namespace, Sequence["LogDir"], "CheckRequest"], "Checked | ExitStatus"]
_DERIVED: Final = "derived"
KINDS: Final = (_DERIVED, "topic-id", "zero-tail")
"""The repairs that people name. The first is that of a bare ``--repair``."""


class _Repair(argparse.Action):
    """Takes ``--repair`` and ``--repair=KIND``. A value that is no KIND is an operand behind a bare ``--repair``."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        kind = values if isinstance(values, str) else _DERIVED
        if kind not in KINDS:
            namespace.repair_places = [*namespace.repair_places, kind]
            kind = _DERIVED
        namespace.repair = [*namespace.repair, kind]


def add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that have damage mended."""
    group = parser.add_argument_group("repairs")
    group.add_argument(
        "--repair",
        action=_Repair,
        nargs="?",
        default=[],
        metavar="KIND",
        help="mend what is found: derived (the default: indexes, snapshots, leader epochs, made anew from the log),"
        " topic-id (partition.metadata, from the cluster metadata), zero-tail (cut zeros off the end of a log);"
        " may be given several times",
    )
    group.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would be mended")
    add_danger_arguments(group, "the repairs")
    parser.set_defaults(repair_places=[])


def check_repair_usage(args: argparse.Namespace) -> None:
    """Take what stands behind ``--repair`` and is no KIND for an operand. Raises: InvalidConfig."""
    for text in args.repair_places:
        if parse_topic_partition(text) is None and not Path(text).is_dir():
            raise InvalidConfig("--repair", text, f"is no KIND: {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    args.places = [*args.places, *args.repair_places]
    if not args.repair and (args.dry_run or args.yes or args.force_lock):
        option = "--dry-run" if args.dry_run else "--yes" if args.yes else "--force-lock"
        raise InvalidConfig(option, None, "a check changes nothing: it goes with --repair only")


class _Ended(Exception):
    """A signal ended the check."""

    def __init__(self, status: ExitStatus) -> None:
        super().__init__(status)
        self.status = status


def run_repairs(args: argparse.Namespace, log_dirs: Sequence[LogDir], request: CheckRequest, checking: Checking) -> int:
    """Check what is named, mend what may be mended, and show both.

    Args:
        args: of ``verify``.
        log_dirs: that are checked.
        request: what of them is checked.
        checking: carries a check out.

    Raises: NotConfirmed, LogDirLocked; as ``open_cleaner``.
    """
    from cleaner.events import EventLog, format_of
    from cleaner.report.checking.verified import VerifyReport

    confirm_force_lock(args)
    confirm(args, _danger(args))
    args.log_dir = [log_dir.path for log_dir in log_dirs]
    listener = EventLog(args.verbose, format_of(args.log_format))
    hold_failures(listener, as_json=args.json)
    began_seconds = stopwatch()
    try:
        repairs = _repaired(args, request, checking, listener)
    except _Ended as ended:
        return ended.status
    report = VerifyReport(repairs.checked, stopwatch() - began_seconds, repairs)
    told = show(report, as_json=args.json, pager=args.pager and args.dry_run)
    listener.release_failures(told)
    for problem in repairs.checked.problems:
        complain(problem)
    return _status(repairs)


def _danger(args: argparse.Namespace) -> str:
    cuts = " and cuts zeros off logs" if "zero-tail" in args.repair else ""
    return f"--repair replaces damaged files{cuts}; what it replaces waits as .deleted"


def _repaired(args: argparse.Namespace, request: CheckRequest, checking: Checking, listener: EventLog) -> Repairs:
    from cleaner.engine.repair.repairing import RepairRequest, plan_of, repair_log_dirs

    def check(log_dirs: Sequence[LogDir], asked: CheckRequest, _: Means) -> Checked:
        checked = checking(args, log_dirs, asked)
        if isinstance(checked, ExitStatus):
            raise _Ended(checked)
        return checked

    wanted = RepairRequest(request, _kinds(args.repair))
    cleaner = open_cleaner(args, listener, patience=Waiting()).cleaner
    if args.dry_run:
        return plan_of(cleaner.opened(), wanted, check)
    with cleaner.locked() as opened:
        return repair_log_dirs(opened, wanted, check)


def _kinds(asked: Sequence[str]) -> frozenset[RepairKind]:
    from policies.checking.repairs import DERIVED, RepairKind

    named = {RepairKind(kind) for kind in asked if kind != _DERIVED}
    return DERIVED | named if _DERIVED in asked else frozenset(named)


def _status(repairs: Repairs) -> ExitStatus:
    if repairs.has_failed:
        return ExitStatus.FAILED
    if repairs.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if repairs.checked.problems else ExitStatus.DONE
