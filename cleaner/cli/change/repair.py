"""The option ``--repair`` of ``verify``: it mends what a check found, after a question, under the locks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic as stopwatch
from typing import TYPE_CHECKING, Final, Protocol

from cleaner.cli.confirming import add_danger_arguments, ask, confirm_force_lock, needs_answer
from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.opening import open_cleaner
from cleaner.cli.screen.views import quiet_view
from cleaner.cli.showing import hold_failures, show
from cleaner.cli.stopping import stopping_on_signals
from cleaner.cli.waiting import Waiting
from storage.errors import InvalidConfig
from storage.names import parse_topic_partition

if TYPE_CHECKING:
    from cleaner.engine.means import Means
    from cleaner.engine.repair.repairing import RepairRequest, Repairs
    from cleaner.engine.verify.checked import Checked, CheckRequest
    from cleaner.events import EventLog
    from policies.findings.repairs import RepairKind
    from storage.log_dir import LogDir

_UNCHANGED: Final = "nothing was mended"
_NOTHING_MENDED: Final = f"{_UNCHANGED}; every file is as it was"


class Checking(Protocol):
    """Carries a check out; returns an exit status if a signal ended it."""

    def __call__(
        self, args: argparse.Namespace, log_dirs: Sequence[LogDir], request: CheckRequest, *, keeps_notes: bool = False
    ) -> Checked | ExitStatus:
        """Check log dirs. Arguments: as of ``cleaner.cli.look.verify.check``."""


_DERIVED: Final = "derived"
KINDS: Final = (_DERIVED, "topic-id", "zero-tail", "log-end")
"""The repairs that people name. The first is that of a bare ``--repair``."""


class _Repair(argparse.Action):
    """Takes ``--repair`` and ``--repair=KIND``, also several with commas.

    A value that is no KIND is an operand behind a bare ``--repair``.
    """

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        kinds = values.split(",") if isinstance(values, str) else [_DERIVED]
        if not set(kinds) <= set(KINDS):
            namespace.repair_places = [*namespace.repair_places, values]
            kinds = [_DERIVED]
        namespace.repair = [*namespace.repair, *kinds]


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
        " topic-id (partition.metadata, from the cluster metadata), zero-tail (cut zeros off the end of a log),"
        " log-end (recover the end of a log that a start would not find);"
        " several with commas, or repeated",
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


@contextmanager
def before_repairs() -> Iterator[None]:
    """Say of a Ctrl-C that nothing was mended yet."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\n")  # behind a question, or a ^C
        complain(_NOTHING_MENDED)
        raise


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
    from cleaner.report.page import counted
    from cleaner.report.verify.verified import VerifyReport

    confirm_force_lock(args)
    is_asked = needs_answer(args, _danger(args))
    args.log_dir = [log_dir.path for log_dir in log_dirs]
    listener = EventLog(args.verbose, format_of(args.log_format))
    hold_failures(listener, as_json=args.json)
    began_seconds = stopwatch()
    try:
        with before_repairs():
            run = _Run(args, request, checking, listener)
        repairs, signalled = run.repairs(is_asked=is_asked)
    except _Ended as ended:
        complain(_NOTHING_MENDED)
        return ended.status
    report = VerifyReport(repairs.checked, stopwatch() - began_seconds, repairs)
    told = show(report, as_json=args.json, view=quiet_view(args), pager=args.pager and args.dry_run)
    listener.release_failures(told)
    for problem in repairs.checked.problems:
        complain(problem)
    if signalled:
        done = f"{counted(repairs.done, 'file')} {'was' if repairs.done == 1 else 'were'} mended before that"
        complain(f"interrupted: {done}, and the rest is as it was" if repairs.done else f"interrupted: {_UNCHANGED}")
        return signalled
    return _status(repairs)


def _danger(args: argparse.Namespace) -> str:
    cuts = " and cuts zeros off logs" if "zero-tail" in args.repair else ""
    ends = " and cuts logs behind their last whole batch, with a copy" if "log-end" in args.repair else ""
    return f"--repair replaces damaged files{cuts}{ends}; what it replaces waits as .deleted"


class _Run:
    """One run: it plans, asks where it must, and mends."""

    def __init__(self, args: argparse.Namespace, request: CheckRequest, checking: Checking, listener: EventLog) -> None:
        from cleaner.engine.repair.repairing import RepairRequest

        self._args, self._checking = args, checking
        self._wanted = RepairRequest(request, _kinds(args.repair))
        self._waiting = Waiting()
        self._signals: list[int] = []
        self._cleaner = open_cleaner(args, listener, patience=self._waiting).cleaner

    def repairs(self, *, is_asked: bool) -> tuple[Repairs, int]:
        """Return what was mended, or would be, and the exit status of a signal that came meanwhile, else 0.

        Args:
            is_asked: plan without locks, show the plan, and ask. Then only what was shown is mended.

        Raises: NotConfirmed, LogDirLocked, _Ended.
        """
        from cleaner.engine.repair.repairing import plan_of

        if not is_asked and not self._args.dry_run:
            return self._mended(self._wanted)
        with before_repairs():
            plan = plan_of(self._cleaner.opened(), self._wanted, partial(self._check, keeps_notes=is_asked))
            if not is_asked or not plan.repairable:
                return plan, 0
            self._ask(plan)
        repairs, signalled = self._mended(self._wanted._replace(shown=frozenset(plan.repairable)))
        if not signalled:
            _tell_sound(plan, repairs)
        return repairs, signalled

    def _mended(self, wanted: RepairRequest) -> tuple[Repairs, int]:
        from cleaner.engine.repair.repairing import repair_log_dirs
        from storage.lock import LogDirLocked

        with stopping_on_signals(self._cleaner) as self._signals:
            self._waiting.stopping = lambda: bool(self._signals)
            try:
                with self._cleaner.locked() as opened:
                    repairs = repair_log_dirs(opened, wanted, self._check)
            except LogDirLocked:
                if self._signals:
                    raise _Ended(self._signalled) from None
                raise
        return repairs, self._signalled if self._signals else 0

    @property
    def _signalled(self) -> ExitStatus:
        return ExitStatus(128 + self._signals[0])

    def _check(
        self, log_dirs: Sequence[LogDir], asked: CheckRequest, _: Means, *, keeps_notes: bool = False
    ) -> Checked:
        if self._signals:
            raise _Ended(self._signalled)
        checked = self._checking(self._args, log_dirs, asked, keeps_notes=keeps_notes)
        if isinstance(checked, ExitStatus):
            raise _Ended(checked)
        return checked

    def _ask(self, plan: Repairs) -> None:
        """Show what would be mended, and ask. Raises: NotConfirmed."""
        from cleaner.report.page import counted

        complain(f"--repair would mend {counted(len(plan.repairable), 'file')}:")
        for result in plan.results:
            repair = result.planned.repair
            if repair.is_repairable:
                complain(f"{repair.target.kind.value}: {repair.target.path}: {repair.text}")
        ask(f"{_danger(self._args)}. Go on?")


def _tell_sound(plan: Repairs, repairs: Repairs) -> None:
    """Name the files that were to be mended and that need no repair any more, by the check under the locks."""
    damaged = {finding.path for finding in repairs.checked.findings}
    for path in sorted(
        {shown.path for shown in plan.repairable} - {r.planned.repair.target.path for r in repairs.results}
    ):
        so = "is left as it is: it has another damage by now" if path in damaged else "needs no repair by now"
        complain(f"{path}: changed since you were asked, and {so}")


def _kinds(asked: Sequence[str]) -> frozenset[RepairKind]:
    from policies.findings.repairs import DERIVED, RepairKind

    named = {RepairKind(kind) for kind in asked if kind != _DERIVED}
    return DERIVED | named if _DERIVED in asked else frozenset(named)


def _status(repairs: Repairs) -> ExitStatus:
    if repairs.has_failed:
        return ExitStatus.FAILED
    if repairs.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if repairs.checked.problems else ExitStatus.DONE
