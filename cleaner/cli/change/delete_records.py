"""The command ``delete-records``: it deletes the oldest records of a partition, as a broker's DeleteRecords does."""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.cli.confirming import add_danger_arguments, confirm, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, OnePartition, check_partition, warn_of_sole_replicas
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show
from cleaner.cli.values import moment, offset, partition_or_text
from cleaner.cli.waiting import Waiting
from cleaner.journald import Level
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cleaner.engine.delete_records import DeletedRecords
    from policies.record_deletion import Before

HELP = "delete the oldest records of a partition, as a broker does"
_HIGH_WATERMARK = "-1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``delete-records``."""
    parser.usage = f"%(prog)s {OPERAND} --before-offset N | --before TIME [-n] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.REFUSED, ExitStatus.NOT_YET,
        also={
            ExitStatus.FAILED: "the partition could not be read or changed",
            ExitStatus.USAGE: "wrong usage or configuration, or an offset or time that a broker, too, would refuse",
            ExitStatus.REFUSED: "not confirmed, or a topic whose records a broker would not delete",
        },
    )  # fmt: skip
    parser.add_argument(
        "topic_partition", action=OnePartition, named=partition_or_text, metavar=OPERAND, help="the partition"
    )
    before = parser.add_mutually_exclusive_group(required=True)
    before.add_argument(
        "--before-offset",
        type=_offset,
        metavar="N",
        help="delete the records below this offset; -1 means the high watermark: all that is committed",
    )
    before.add_argument(
        "--before",
        type=moment,
        metavar="TIME",
        help="delete the records in front of the first one at or behind this time: epoch ms, ISO 8601, -7d",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what would go")
    add_danger_arguments(parser.add_argument_group("danger"), "the deletion")
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.deletion/1")


def run(args: argparse.Namespace) -> int:
    """Decide, ask, decide again under the lock, delete, and show what was done."""
    from cleaner.engine.delete_records import UnsurveyedPartition, delete_records, plan_deletion
    from cleaner.engine.journal import ensure_space
    from cleaner.events import EventLog, format_of
    from cleaner.report.delete_records import RecordDeletionReport, danger_of
    from policies.plan import Request
    from policies.record_deletion import RefusedDeletion

    confirm_force_lock(args)
    listener = EventLog(args.verbose, format_of(args.log_format))
    cleaner, loaded, missing = open_cleaner(args, listener, patience=Waiting())
    _check_place(args, loaded.log_dirs)
    for found in missing:
        complain(str(found))
    warn_of_sole_replicas(loaded, [str(args.topic_partition)])
    now_ms = _clock_ms()
    before = _before(args, now_ms)
    request = Request(now_ms, confirmed=args.yes, in_place=True, topics=(str(args.topic_partition),))
    try:
        shown = _counted(plan_deletion(cleaner, args.topic_partition, before, request))
        if args.dry_run or isinstance(shown.decided, RefusedDeletion):
            status = _show(args, shown)
            if not isinstance(shown.decided, RefusedDeletion) and shown.decided.has_work:
                ensure_space(Path(shown.log_dir))
            return status
        if shown.decided.has_work:
            confirm(args, danger_of(shown))
        with _telling_of_a_stop(shown):
            done = delete_records(cleaner, args.topic_partition, before, request, agreed=shown)
    except UnsurveyedPartition as error:
        complain(f"{error}; nothing was deleted", Level.ERROR)
        return ExitStatus.FAILED
    if not done.is_done:
        return _show(args, done)
    show(
        RecordDeletionReport(replace(done, records=shown.records, damage=shown.damage), dry_run=False),
        as_json=args.json,
    )
    return ExitStatus.DONE


@contextmanager
def _telling_of_a_stop(shown: DeletedRecords) -> Iterator[None]:
    """Print, after a Ctrl-C, how far the deletion has come."""
    before = _log_start(shown)
    try:
        yield
    except KeyboardInterrupt:
        name, offset = shown.topic_partition, _log_start(shown)
        if offset == before:
            complain(f"{name}: stopped before a record became unreadable: the log starts at offset {offset}, as before")
        else:
            remedy = f"the same command, run again, finishes the rest; logcleaner restore {name} takes it back"
            complain(f"{name}: stopped half-way, the log starts at offset {offset} now: {remedy}")
        raise


def _log_start(shown: DeletedRecords) -> int:
    from storage.log.listing import list_partition
    from storage.log_dir import LogDir
    from storage.names import LOG_START_OFFSET_CHECKPOINT

    log_dir, name = LogDir(Path(shown.log_dir)), shown.topic_partition
    first_base = next((s.base_offset for s in list_partition(log_dir.path / str(name)).segments), 0)
    return max(log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(name, 0), first_base)


def _show(args: argparse.Namespace, shown: DeletedRecords) -> int:
    """Show a decision that is not carried out. Return the exit status."""
    from cleaner.report.delete_records import RecordDeletionReport
    from policies.record_deletion import RefusedDeletion

    show(RecordDeletionReport(shown, args.dry_run), as_json=args.json)
    refused = shown.decided
    if not isinstance(refused, RefusedDeletion):
        return ExitStatus.DONE
    complain(f"{refused.code}: {args.topic_partition}: {refused.text}; nothing was deleted", Level.ERROR)
    return ExitStatus.USAGE if refused.is_about_the_offset else ExitStatus.REFUSED


def _counted(shown: DeletedRecords) -> DeletedRecords:
    """Add the number of records that become unreadable, as far as they can be read."""
    from cleaner.engine.delete_records import count_in
    from policies.record_deletion import RecordDeletion

    decided = shown.decided
    if not isinstance(decided, RecordDeletion) or not decided.moves_the_start:
        return shown
    with ProgressBar("counting") as bar:
        directory = Path(shown.log_dir) / str(shown.topic_partition)
        return replace(shown, **count_in(directory, decided, bar.expect, bar.advance)._asdict())


def _offset(text: str) -> int:
    """Parse an offset, or -1 for the high watermark."""
    return -1 if text == _HIGH_WATERMARK else offset(text)


def _before(args: argparse.Namespace, now_ms: int) -> Before:
    from policies.record_deletion import Before

    return Before(args.before_offset) if args.before is None else Before(time_ms=args.before(now_ms))


def _check_place(args: argparse.Namespace, paths: tuple[Path, ...]) -> None:
    """Refuse a partition that no log dir holds, or more than one. Raises: InvalidConfig."""
    from storage.log_dir import LogDir

    log_dirs, wanted = [LogDir(path) for path in paths], args.topic_partition
    check_partition(wanted, (found for log_dir in log_dirs for found, _ in log_dir.partitions()), log_dirs)
    holding = [d for d in log_dirs if any(found == wanted for found, _ in d.partitions())]
    if len(holding) > 1:
        both = " and ".join(str(log_dir.path) for log_dir in holding)
        raise InvalidConfig(OPERAND, str(wanted), f"lies in {both} (replicas?); name one with --log-dir")


def _clock_ms() -> int:
    from cleaner.engine.clock import SystemClock

    return SystemClock().now_ms()
