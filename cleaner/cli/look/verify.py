"""The command ``verify``: it reads log dirs, or some of their partitions, and tells what is damaged."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import monotonic as stopwatch
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.cli.change.repair import add_repair_arguments, before_repairs, check_repair_usage, run_repairs
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import check_partition, check_topics
from cleaner.cli.opening import add_place_arguments, open_log_dirs
from cleaner.cli.progress import ProgressBar
from cleaner.cli.screen.views import add_quiet_argument, quiet_view
from cleaner.cli.showing import show
from cleaner.cli.values import at_least_one, bytes_per_second
from cleaner.journald import Level
from storage.errors import InvalidConfig, LogCleanerError
from storage.names import CLUSTER_METADATA_TOPIC, TopicPartition, parse_topic_partition

if TYPE_CHECKING:
    from cleaner.engine.verify.checked import Checked, CheckRequest
    from cleaner.engine.verify.notes import Notes
    from storage.log_dir import LogDir

HELP: Final = "check every checksum, index, snapshot and checkpoint"
_OPERAND: Final = "TOPIC-PARTITION|DIR"
_NOTES: Final = "verify"
_METADATA_DIR: Final = f"{CLUSTER_METADATA_TOPIC}-0"


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
    add_place_arguments(parser)
    reading = parser.add_argument_group("reading")
    reading.add_argument("--deep", action="store_true", help="also decompress every batch, and read every record")
    reading.add_argument(
        "--threads", type=at_least_one, metavar="N", help="read so many files side by side; by default one a core"
    )
    reading.add_argument(
        "--rate", type=bytes_per_second, metavar="SIZE", help="read at most so much a second, e.g. 100MiB"
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


class _Bar:
    """Has a progress bar hear what the engine tells."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar

    def event(self, name: str, **fields: object) -> None:
        """Ignore events: a check changes nothing."""

    def expect(self, size_bytes: int) -> None:
        """Add to the total."""
        self._bar.expect(size_bytes)

    def progress(self, done_bytes: int) -> None:
        """Move the bar."""
        self._bar.advance(done_bytes)


def run(args: argparse.Namespace) -> int:
    """Check what is named, and show the findings."""
    from cleaner.report.verify.verified import VerifyReport
    from storage.kernels import check_usable

    check_repair_usage(args)
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
            how = "the same command with --resume goes on from here" if notes else "nothing was noted to go on from"
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
        rate: read at most so many bytes a second.
        notes: of an earlier check; what is read now is added.
    """
    from cleaner.engine.means import Means, Stopped
    from cleaner.engine.verify.checking import check_log_dirs
    from policies.config.policy import BrokerPolicy

    with ProgressBar("verifying") as bar, _noting_signals() as came:
        broker = BrokerPolicy(log_cleaner_io_max_bytes_per_second=rate) if rate else BrokerPolicy()
        means = Means(listener=_Bar(bar), broker=broker, threads=request.threads, stopping=lambda: bool(came))
        try:
            checked = check_log_dirs(log_dirs, request, means, notes)
        except Stopped:
            checked = None
        if checked is None or came:  # or all was read when the signal came
            return ExitStatus.SIGINT if came[0] == signal.SIGINT else ExitStatus.SIGTERM
        return checked


class _Named(NamedTuple):
    """The log dirs and partitions that the operands and options name."""

    log_dirs: list[LogDir]
    partitions: frozenset[TopicPartition] | None
    """The partitions that are checked; None for all of them."""


def _asked(args: argparse.Namespace) -> tuple[list[LogDir], CheckRequest]:
    """Return the log dirs, and what of them is checked. Raises: InvalidConfig, NotALogDir, UnreadableFile."""
    log_dirs, partitions = _named(args)
    check_topics(args.topic, log_dirs)
    return log_dirs, request_of(log_dirs, args.topic, partitions, args.threads, is_deep=args.deep)


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
    from cleaner.engine.inventory import is_named
    from cleaner.engine.verify.checked import CheckRequest

    def wants(name: TopicPartition) -> bool:
        return (partitions is None or name in partitions) and is_named(name, topics)

    is_whole = partitions is None and not topics
    return CheckRequest(wants, is_whole, is_deep, threads or len(os.sched_getaffinity(0)), _topic_ids(log_dirs))


def _named(args: argparse.Namespace) -> _Named:
    from storage.directory import followed
    from storage.log_dir import IsAPartitionDir, LogDir

    log_dirs: dict[Path, LogDir] = {}
    partitions: set[TopicPartition] = set()
    by_name: list[TopicPartition] = []
    is_whole = not args.places
    for text in args.places:
        path, name = Path(text), parse_topic_partition(text)
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


def _notes(
    args: argparse.Namespace, log_dirs: Sequence[LogDir], opened: ExitStack
) -> tuple[Notes | None, Callable[[], None]]:
    """Open the notes of an earlier check, or begin new ones; return them, and what removes them.

    Raises: InvalidConfig if there is nothing to go on from, or ``--notes`` names no file that can be written.
    """
    import hashlib

    from cleaner.engine.verify.notes import open_notes
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
            raise InvalidConfig("--resume", None, "no check of these log dirs was interrupted: leave it out") from error
        raise InvalidConfig("--notes", str(args.notes), "cannot be written: its directory does not exist") from error
    except (OSError, RuntimeError) as error:
        if args.notes or args.resume:
            where = str(args.notes) if args.notes else None
            raise InvalidConfig("--notes" if args.notes else "--resume", where, f"cannot be used: {error}") from error
        complain(f"{error}; so an interrupted check cannot go on, unless --notes names a file", Level.INFO)
        return None, lambda: None
    return notes, lambda: directory.remove(name)


@contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM instead of ending at once; a second one ends the command at once. Yields: what came."""
    came: list[int] = []
    previous = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, previous[number])

    for number in previous:
        signal.signal(number, note)
    try:
        yield came
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
