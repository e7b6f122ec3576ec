"""The command ``erase``: it takes the records of some keys out of logs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from cleaner.cli.confirming import add_danger_arguments, confirm, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import warn_of_sole_replicas
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.record_keys import OPERAND, add_key_arguments, given_keys
from cleaner.cli.showing import show
from cleaner.cli.values import at_least_one, span_ms
from cleaner.cli.waiting import Waiting, stopping_on_signals
from cleaner.journald import Level
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.erase.erasing import Erasure, ErasureRequest

HELP: Final = "take the records of some keys out of logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``erase``."""
    parser.usage = f"%(prog)s --topic GLOB [{OPERAND} ...] [--keys FILE] [-n] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.REFUSED,
        ExitStatus.NOT_YET, ExitStatus.WORK_TO_DO,
        also={
            ExitStatus.FAILED: "a partition could not be read or changed; the others were processed",
            ExitStatus.REFUSED: "not confirmed, or a partition of which nothing is erased",
            ExitStatus.WORK_TO_DO: "a record of a key stays for now; the report says why",
        },
    )  # fmt: skip
    add_key_arguments(parser, "erase")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="GLOB",
        help="erase in the topics (clicks) or partitions (clicks-0) that this glob matches; may be repeated",
    )
    parser.add_argument(
        "--tombstones", action="store_true", help="erase records without a value, too: then nothing tells of the keys"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would go")
    parser.add_argument(
        "--assume-committed",
        action="store_true",
        help="take partitions without a checkpointed high watermark, as in a backup, as committed to their end",
    )
    parser.add_argument(
        "--delete-delay",
        type=span_ms,
        metavar="0",
        help="unlink the replaced files in this run; by default they wait for file.delete.delay.ms",
    )
    parser.add_argument(
        "--threads", type=at_least_one, default=1, metavar="N", help="threads for reading and writing (default: 1)"
    )
    add_danger_arguments(parser.add_argument_group("danger"), "the erasure")
    add_log_dir_arguments(parser, with_topics=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.erase/1")


def run(args: argparse.Namespace) -> int:
    """Read the logs, ask, erase under the lock, and show what was done."""
    _check_usage(args)
    given = given_keys(args)
    confirm_force_lock(args)
    from storage.kernels import check_usable

    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.erase.erasing import ErasureRequest
    from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
    from cleaner.events import EventLog, format_of
    from cleaner.report.erase import EraseReport
    from policies.plan import Request

    keys = wanted_keys(given, KeyEncoding(args.encoding))
    request = Request(
        SystemClock().now_ms(), confirmed=args.yes, in_place=True, topics=tuple(args.topic),
        assume_committed=args.assume_committed, delete_delay_ms=args.delete_delay,
    )  # fmt: skip
    asked = ErasureRequest(request, keys, args.tombstones)
    with ProgressBar("reading") as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        opened = open_cleaner(args, listener, threads=args.threads, patience=Waiting())
        for found in opened.missing:
            complain(str(found))
        warn_of_sole_replicas(opened.loaded.log_dirs, args.topic)
        erasure, signalled = _act(args, opened.cleaner, asked, bar)
    show(EraseReport(erasure, dry_run=args.dry_run), as_json=args.json)
    for partition in erasure.partitions:
        name = partition.topic_partition
        if partition.refused:
            complain(f"{partition.refused.code}: {name}: {partition.refused.text}; nothing was erased there")
        if partition.error:
            complain(f"{name}: {partition.error}", Level.ERROR)
    for error in erasure.errors:
        complain(error, Level.ERROR)
    return signalled or _status(erasure, is_whole=not opened.missing)


def _act(args: argparse.Namespace, cleaner: Cleaner, asked: ErasureRequest, bar: ProgressBar) -> tuple[Erasure, int]:
    """Plan, or erase. Without ``--yes``, ask about the plan first.

    Return also the exit status of a signal that came meanwhile, else 0. Raises: NotConfirmed.
    """
    from cleaner.engine.erase.erasing import erase, plan_erasure
    from cleaner.report.erase import danger_of

    agreed = None
    if args.dry_run or not args.yes:
        agreed = plan_erasure(cleaner, asked, measured=args.dry_run)
        if args.dry_run or not agreed.records:
            return agreed, 0
        confirm(args, danger_of(agreed))
        bar.begin_again()
    with stopping_on_signals(cleaner) as signals:
        return erase(cleaner, asked, agreed), 128 + signals[0] if signals else 0


def _check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not fit. Raises: InvalidConfig."""
    if not args.topic:
        raise InvalidConfig("--topic", None, "name the topics to erase in: --topic clicks")
    if args.delete_delay:
        reason = "only 0 is possible: the replaced files are unlinked in this run, or wait for file.delete.delay.ms"
        raise InvalidConfig("--delete-delay", str(args.delete_delay), reason)


def _status(erasure: Erasure, *, is_whole: bool) -> ExitStatus:
    """Return the exit status for the worst outcome."""
    if erasure.errors or not is_whole or any(partition.error for partition in erasure.partitions):
        return ExitStatus.FAILED
    refused = [partition.refused for partition in erasure.partitions if partition.refused]
    if any(not one.is_for_now for one in refused):
        return ExitStatus.REFUSED
    stays = any(stays.reason.is_for_now for partition in erasure.partitions for stays in partition.stays)
    return ExitStatus.WORK_TO_DO if stays or refused else ExitStatus.DONE
