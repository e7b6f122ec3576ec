"""The command ``verify``: it reads log dirs, or some of their partitions, and tells what is damaged.

``--repair`` asks, takes the locks, and mends what a check found.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import monotonic as stopwatch
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cleaner.cli.confirming import add_danger_arguments, ask, confirm_force_lock, needs_answer
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import check_partition, check_topics
from cleaner.cli.opening import add_place_arguments, open_cleaner, open_log_dirs
from cleaner.cli.progress import BarListener, ProgressBar
from cleaner.cli.showing import add_quiet_argument, hold_failures, quiet_view, show
from cleaner.cli.values import at_least_one, bytes_per_second
from cleaner.cli.waiting import Waiting, noting_signals, stopping_on_signals
from cleaner.journald import Level
from storage.errors import InvalidConfig, LogCleanerError, Stopped
from storage.names import CLUSTER_METADATA_TOPIC, TopicPartition, parse_topic_partition
from storage.stores.paths import located

if TYPE_CHECKING:
    from cleaner.engine.means import Means
    from cleaner.engine.repair.repairing import RepairRequest, Repairs
    from cleaner.engine.verify.checked import Checked, CheckRequest
    from cleaner.engine.verify.checking import Notes
    from cleaner.events import EventLog
    from policies.findings.repairs import RepairKind
    from storage.log_dir import LogDir

_UNCHANGED: Final = "nothing was mended"
_NOTHING_MENDED: Final = f"{_UNCHANGED}; every file is as it was"

_DERIVED: Final = "derived"
KINDS: Final = (_DERIVED, "topic-id", "zero-tail", "log-end")
"""The kinds of repairs that ``--repair`` takes. The first is the kind of a bare ``--repair``."""

HELP: Final = "check every checksum, index, snapshot and checkpoint"
_OPERAND: Final = "TOPIC-PARTITION|DIR"
_NOTES: Final = "verify"
_METADATA_DIR: Final = f"{CLUSTER_METADATA_TOPIC}-0"


class Checking(Protocol):
    """A function that carries a check out; it returns an exit status if a signal ended the check."""

    def __call__(
        self, args: argparse.Namespace, log_dirs: Sequence[LogDir], request: CheckRequest, *, keeps_notes: bool = False
    ) -> Checked | ExitStatus:
        """Check log dirs. Arguments: as of ``cleaner.cli.look.verify.check``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``verify``."""
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED,
        ExitStatus.REFUSED, ExitStatus.NOT_YET, ExitStatus.SIGINT, ExitStatus.SIGTERM,
        also={ExitStatus.DONE: "nothing is damaged", ExitStatus.FAILED: "something could not be read"},
    )  # fmt: skip
    parser.add_argument(
        "places",
        nargs="*",
        metavar=_OPERAND,
        help="verify these partitions, log dirs or partition directories; by default all of the log dirs",
    )
    add_place_arguments(parser, with_tier=True)
    reading = parser.add_argument_group("reading")
    reading.add_argument("--deep", action="store_true", help="also decompress every batch, and read every record")
    reading.add_argument(
        "--threads", type=at_least_one, metavar="N", help="read N files at a time (default: one for each core)"
    )
    reading.add_argument(
        "--rate", type=bytes_per_second, metavar="SIZE", help="read at most SIZE a second, e.g. 100MiB"
    )
    reading.add_argument(
        "--resume", action="store_true", help="go on where a check was interrupted; read again what changed since"
    )
    reading.add_argument(
        "--notes", type=Path, metavar="FILE", help="keep the notes for --resume in this file, and not in the cache"
    )
    add_repair_arguments(parser)
    add_quiet_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.verify/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Check the named log dirs and partitions, and show the findings."""
    from cleaner.report.verify import VerifyReport
    from storage.kernels import check_usable

    check_repair_usage(args)
    if args.tier is not None:
        return _run_tier(args)
    view = quiet_view(args)
    with before_repairs() if args.repair else nullcontext():
        log_dirs, request = _asked(args)
        check_usable()
    if args.repair:
        return run_repairs(args, log_dirs, request, check)
    began_seconds = stopwatch()
    checked = check(args, log_dirs, request)
    if isinstance(checked, ExitStatus):
        return checked
    report = VerifyReport(checked, stopwatch() - began_seconds)
    show(report, as_json=args.json, view=view, pager=args.pager)
    for problem in checked.problems:
        complain(problem)
    if checked.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if checked.problems else ExitStatus.DONE


def _run_tier(args: argparse.Namespace) -> int:
    """Check a tier; of log dirs only the metadata of the tier and the epochs and ends of logs are read."""
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.verify.checked import CheckRequest
    from cleaner.engine.verify.tier_files import look_at_tier, with_content
    from cleaner.report.verify import VerifyReport
    from storage.kernels import check_usable
    from storage.names import is_named
    from storage.tiers.view import view_at

    for given, option in ((args.repair, "--repair"), (args.resume, "--resume"), (args.places, _OPERAND)):
        if given:
            raise InvalidConfig(
                option, None, "does not go with --tier: the whole tier is checked, or what --topic names"
            )
    check_usable()
    (log_dir,) = open_log_dirs(args)
    check_topics(args.topic, [log_dir])
    view = view_at(log_dir.path)
    assert view is not None
    began_seconds = stopwatch()
    found = look_at_tier(view, lambda name: is_named(name, args.topic), SystemClock().now_ms())
    request = CheckRequest(is_whole=False, is_deep=args.deep, threads=args.threads or len(os.sched_getaffinity(0)))
    checked = check_unless_signalled(found.log_dirs, request, args.rate)
    if isinstance(checked, ExitStatus):
        return checked
    checked = with_content(checked, found, view)
    report = VerifyReport(checked, stopwatch() - began_seconds, is_of_tier=True)
    show(report, as_json=args.json, view=quiet_view(args), pager=args.pager)
    for problem in checked.problems:
        complain(problem)
    args.view = None  # what was left out is told
    if checked.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if checked.problems else ExitStatus.DONE


def check(
    args: argparse.Namespace, log_dirs: Sequence[LogDir], request: CheckRequest, *, keeps_notes: bool = False
) -> Checked | ExitStatus:
    """Check log dirs with progress, notes and signals. Return an exit status if a signal ended the check.

    Args:
        args: of ``verify``.
        log_dirs: that are checked.
        request: what of them is checked.
        keeps_notes: another check follows at once, and uses the notes of this check.
    """
    with ExitStack() as opened:
        notes, forget = _notes(args, log_dirs, opened)
        checked = check_unless_signalled(log_dirs, request, args.rate, notes)
        if isinstance(checked, ExitStatus):
            how = (
                "the same command with --resume goes on from here"
                if notes
                else "the check kept no notes, so the next one begins anew"
            )
            complain(f"interrupted: {how}")
            return checked
        if not keeps_notes:
            forget()
        elif notes:
            args.resume = True
        return checked


def check_unless_signalled(
    log_dirs: Sequence[LogDir], request: CheckRequest, rate: int | None = None, notes: Notes | None = None
) -> Checked | ExitStatus:
    """Check log dirs with progress. Return an exit status if a signal ended the check.

    Args:
        log_dirs: that are checked.
        request: what of them is checked.
        rate: the most bytes to read in a second.
        notes: those of an earlier check; this check adds its own.
    """
    from cleaner.engine.means import Means
    from cleaner.engine.verify.checking import check_log_dirs
    from policies.config.policy import BrokerPolicy

    with ProgressBar("verifying") as bar, noting_signals() as came:
        broker = BrokerPolicy(log_cleaner_io_max_bytes_per_second=rate) if rate else BrokerPolicy()
        means = Means(listener=BarListener(bar), broker=broker, threads=request.threads, stopping=lambda: bool(came))
        try:
            checked = check_log_dirs(log_dirs, request, means, notes)
        except Stopped:
            checked = None
        if checked is None or came:  # or all was read when the signal came
            return ExitStatus.SIGINT if came[0] == signal.SIGINT else ExitStatus.SIGTERM
        return checked


def request_of(
    log_dirs: Sequence[LogDir],
    topics: Sequence[str],
    partitions: frozenset[TopicPartition] | None = None,
    threads: int | None = None,
    *,
    is_deep: bool = False,
) -> CheckRequest:
    """Return what of some log dirs is checked.

    Args:
        log_dirs: the log dirs.
        topics: the globs of ``--topic``.
        partitions: the partitions that operands name; None for all.
        threads: by default one a core.
        is_deep: whether each record is read.
    """
    from cleaner.engine.verify.checked import CheckRequest
    from storage.names import is_named

    def wants(name: TopicPartition) -> bool:
        return (partitions is None or name in partitions) and is_named(name, topics)

    is_whole = partitions is None and not topics
    return CheckRequest(wants, is_whole, is_deep, threads or len(os.sched_getaffinity(0)), _topic_ids(log_dirs))


def add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--repair`` and the options that go with it."""
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
    """Treat a word behind ``--repair`` that is no KIND as an operand. Raises: InvalidConfig."""
    for text in args.repair_places:
        if parse_topic_partition(text) is None and not Path(text).is_dir():
            raise InvalidConfig("--repair", text, f"is no KIND: {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    args.places = [*args.places, *args.repair_places]
    if not args.repair and (args.dry_run or args.yes or args.force_lock):
        option = "--dry-run" if args.dry_run else "--yes" if args.yes else "--force-lock"
        raise InvalidConfig(option, None, "a check changes nothing: it goes with --repair only")


@contextmanager
def before_repairs() -> Iterator[None]:
    """Print, after a Ctrl-C, that nothing was mended yet."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\n")  # behind a question, or a ^C
        complain(_NOTHING_MENDED)
        raise


def run_repairs(args: argparse.Namespace, log_dirs: Sequence[LogDir], request: CheckRequest, checking: Checking) -> int:
    """Check the named log dirs and partitions, mend what may be mended, and show findings and repairs.

    Args:
        args: of ``verify``.
        log_dirs: that are checked.
        request: what of them is checked.
        checking: carries a check out.

    Raises: NotConfirmed, LogDirLocked; as ``open_cleaner``.
    """
    from cleaner.events import EventLog, format_of
    from cleaner.report.verify import VerifyReport
    from policies.reasons import counted

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
    _tell_left_ends(args, repairs)
    if signalled:
        done = f"{counted(repairs.done, 'file')} {'was' if repairs.done == 1 else 'were'} mended before that"
        complain(f"interrupted: {done}, and the rest is as it was" if repairs.done else f"interrupted: {_UNCHANGED}")
        return signalled
    return _status(repairs)


def _asked(args: argparse.Namespace) -> tuple[list[LogDir], CheckRequest]:
    """Return the log dirs, and what of them is checked. Raises: InvalidConfig, NotALogDir, UnreadableFile."""
    log_dirs, partitions = _named(args)
    check_topics(args.topic, log_dirs)
    return log_dirs, request_of(log_dirs, args.topic, partitions, args.threads, is_deep=args.deep)


def _named(args: argparse.Namespace) -> _Named:
    from storage.directory import followed
    from storage.log_dir import IsAPartitionDir, LogDir

    log_dirs: dict[Path, LogDir] = {}
    partitions: set[TopicPartition] = set()
    by_name: list[TopicPartition] = []
    is_whole = not args.places
    for text in args.places:
        path, name = located(text), parse_topic_partition(text)
        if name is not None and os.sep not in text and not path.is_dir():
            by_name.append(name)
            continue
        try:
            found = LogDir.open(path)
            is_whole = True
        except IsAPartitionDir as error:
            found = LogDir.open(followed(error.path).absolute().parent)
            held = parse_topic_partition(error.path.name)
            assert held is not None
            partitions.add(held)
        log_dirs[found.path] = found
    if by_name or not args.places or args.log_dir or args.config:
        for found in open_log_dirs(args):
            log_dirs[found.path] = found
    for name in by_name:
        check_partition(name, (one for found in log_dirs.values() for one, _ in found.partitions()))
    partitions.update(by_name)
    if is_whole and partitions:
        raise InvalidConfig(_OPERAND, " ".join(args.places), "names a log dir and partitions: name one kind at a time")
    return _Named(list(log_dirs.values()), frozenset(partitions) if partitions else None)


class _Named(NamedTuple):
    """The log dirs and partitions that the operands and options name."""

    log_dirs: list[LogDir]
    partitions: frozenset[TopicPartition] | None
    """The partitions that are checked; None for all of them."""


def _notes(
    args: argparse.Namespace, log_dirs: Sequence[LogDir], opened: ExitStack
) -> tuple[Notes | None, Callable[[], None]]:
    """Open the notes of an earlier check, or begin new notes. Return the notes, and a function that removes them.

    Raises: InvalidConfig if there is nothing to go on from, or ``--notes`` names no file that can be written.
    """
    import hashlib

    from cleaner.engine.verify.checking import open_notes
    from storage.private_directory import PrivateDirectory, cache_root

    try:
        if args.notes:
            notes = opened.enter_context(open_notes(args.notes, goes_on=args.resume))
            return notes, lambda: args.notes.unlink(missing_ok=True)
        directory = opened.enter_context(PrivateDirectory.open(cache_root(), _NOTES))
        name = hashlib.sha256("\0".join(sorted(str(one.path) for one in log_dirs)).encode()).hexdigest()[:32]
        notes = opened.enter_context(open_notes(name, directory.descriptor, goes_on=args.resume))
    except FileNotFoundError as error:
        if args.resume:
            raise InvalidConfig(
                "--resume", None, "no check of these log dirs was interrupted: leave --resume out"
            ) from error
        raise InvalidConfig("--notes", str(args.notes), "cannot be written: its directory does not exist") from error
    except (OSError, RuntimeError) as error:
        if args.notes or args.resume:
            where = str(args.notes) if args.notes else None
            raise InvalidConfig("--notes" if args.notes else "--resume", where, f"cannot be used: {error}") from error
        cause = f"{cache_root()}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)
        complain(f"{cause}; so an interrupted check cannot go on, unless --notes names a file", Level.INFO)
        return None, lambda: None
    return notes, lambda: directory.remove(name)


def _topic_ids(log_dirs: Sequence[LogDir]) -> dict[str, str] | None:
    """Return the topic ids that the cluster metadata in the log dirs has; None if none has it, or it cannot be read."""
    from storage.metadata.metadata_log import read_cluster_metadata

    for log_dir in log_dirs:
        directory = log_dir.path / _METADATA_DIR
        if directory.is_dir():
            try:
                return dict(read_cluster_metadata(directory).topic_ids)
            except LogCleanerError as error:
                complain(f"{error}; so topic ids are compared with one another only")
    return None


class _Repair(argparse.Action):
    """The action for ``--repair`` and ``--repair=KIND``, also several kinds with commas.

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


class _Ended(Exception):
    """A signal ended the check."""

    def __init__(self, status: ExitStatus) -> None:
        super().__init__(status)
        self.status = status


def _tell_left_ends(args: argparse.Namespace, repairs: Repairs) -> None:
    """Print why ``--repair=log-end`` leaves logs alone: the start behind an unclean stop finds their ends itself."""
    from policies.findings.findings import FindingCode, Harm, RepairGroup

    if RepairGroup.LOG_END not in args.repair:
        return
    torn = (one for one in repairs.checked.findings if one.code is FindingCode.TORN_TAIL and one.repair is None)
    left = [one for one in torn if one.harm is Harm.SLOW_START]
    if left:
        more = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
        why = "without a clean stop the next start of the broker finds the end itself, and log-end is for clean stops"
        complain(f"--repair=log-end leaves {left[0].path}{more} as it is: {why}")


def _status(repairs: Repairs) -> ExitStatus:
    if repairs.has_failed:
        return ExitStatus.FAILED
    if repairs.is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if repairs.checked.problems else ExitStatus.DONE


def _danger(args: argparse.Namespace) -> str:
    cuts = " and cuts zeros off logs" if "zero-tail" in args.repair else ""
    ends = " and cuts logs behind their last whole batch, with a copy" if "log-end" in args.repair else ""
    return f"--repair replaces damaged files{cuts}{ends}; what it replaces waits as .deleted"


class _Run:
    """One run of repairs: it plans, asks if it must, and mends."""

    def __init__(self, args: argparse.Namespace, request: CheckRequest, checking: Checking, listener: EventLog) -> None:
        from cleaner.engine.repair.repairing import RepairRequest

        self._args, self._checking = args, checking
        self._wanted = RepairRequest(request, _kinds(args.repair))
        self._waiting = Waiting()
        self._signals: list[int] = []
        self._cleaner = open_cleaner(args, listener, patience=self._waiting).cleaner

    def repairs(self, *, is_asked: bool) -> tuple[Repairs, int]:
        """Return the repairs that were done, or would be, and the exit status of a signal that came during them, else
        0.

        Args:
            is_asked: plan without locks, show the plan, and ask. The run mends only what it showed.

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
        from policies.reasons import counted

        complain(f"--repair would mend {counted(len(plan.repairable), 'file')}:")
        for result in plan.results:
            repair = result.planned.repair
            if repair.is_repairable:
                complain(f"{repair.target.kind.value}: {repair.target.path}: {repair.text}")
        ask(f"{_danger(self._args)}. Go on?")


def _kinds(asked: Sequence[str]) -> frozenset[RepairKind]:
    from policies.findings.repairs import DERIVED, RepairKind

    named = {RepairKind(kind) for kind in asked if kind != _DERIVED}
    return DERIVED | named if _DERIVED in asked else frozenset(named)


def _tell_sound(plan: Repairs, repairs: Repairs) -> None:
    """Print the files that no longer need the repair that was shown, by the check under the locks."""
    damaged = {finding.path for finding in repairs.checked.findings}
    for path in sorted(
        {shown.path for shown in plan.repairable} - {r.planned.repair.target.path for r in repairs.results}
    ):
        so = "is left as it is: it has another damage by now" if path in damaged else "needs no repair by now"
        complain(f"{path}: changed since you were asked, and {so}")
