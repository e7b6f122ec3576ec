"""The command ``erase``: it takes the records of some keys out of logs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from cleaner import __version__
from cleaner.cli.certificates import (
    Prepared,
    add_certificate_arguments,
    check_certificate,
    check_certificate_usage,
    show_pending,
)
from cleaner.cli.confirming import add_danger_arguments, confirm, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import place, warn_of_sole_replicas
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.record_keys import OPERAND, add_key_arguments, given_keys
from cleaner.cli.showing import show
from cleaner.cli.values import at_least_one, span_ms
from cleaner.cli.waiting import Waiting, stopping_on_signals
from cleaner.journald import Level
from storage.errors import InvalidConfig, LogCleanerError, Stopped

if TYPE_CHECKING:
    from cleaner.documents.erasing import ErasureCertificateDocument
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.erase.erasing import Erasure, ErasureRequest
    from cleaner.engine.means import OpenLogDirs

_WRITES_IT: Final = "what was erased stays erased, and the same command, run again, writes the certificate"
HELP: Final = "take the records of some keys out of logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``erase``."""
    parser.usage = (
        f"%(prog)s --topic GLOB [{OPERAND} ...] [--keys FILE] [-n] [options]\n"
        f"       %(prog)s --topic GLOB [{OPERAND} ...] [--keys FILE] --output DIR [options]\n"
        "       %(prog)s --check CERTIFICATE [options]\n"
        "       %(prog)s --pending CERTIFICATE ... [options]"
    )
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED,
        ExitStatus.REFUSED, ExitStatus.NOT_YET, ExitStatus.WORK_TO_DO,
        also={
            ExitStatus.FAILED: "a partition could not be read or changed; the others were processed",
            ExitStatus.REFUSED: "not confirmed, or a partition of which nothing is erased",
            ExitStatus.DAMAGED: "--check: a file differs; or a signature is wrong or missing",
            ExitStatus.WORK_TO_DO: "a record of a key stays for now; --pending: a replica is owed",
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
        "--output",
        type=place,
        metavar="DIR",
        help="leave the log dir as it is, and write a copy of these topics without the records, with a manifest, to "
        "DIR: absent or empty, or a URL",
    )
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
    add_certificate_arguments(parser)
    add_danger_arguments(parser.add_argument_group("danger"), "the erasure")
    add_log_dir_arguments(parser, with_topics=False, with_tier=True)
    parser.set_defaults(tier_apart=True, reads_stores=True)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document, schema logcleaner.erase/1; of --check "
        "schema logcleaner.erasure_check/1, of --pending "
        "schema logcleaner.erasure_pending/1",
    )


def run(args: argparse.Namespace) -> int:
    """Read the logs, ask, erase under the lock, and show what was done."""
    check_certificate_usage(args)
    if args.check:
        return check_certificate(args)
    if args.pending:
        return show_pending(args)
    return _erase(args)


def _erase(args: argparse.Namespace) -> int:
    _check_usage(args)
    given = given_keys(args)
    confirm_force_lock(args)
    from storage.kernels import check_usable

    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.erase.erasing import ErasureRequest
    from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
    from cleaner.events import EventLog, format_of
    from policies.plan import Request

    keys = wanted_keys(given, KeyEncoding(args.encoding))
    request = Request(
        SystemClock().now_ms(), confirmed=args.yes, in_place=not args.output, topics=tuple(args.topic),
        assume_committed=args.assume_committed, delete_delay_ms=0 if args.output else args.delete_delay,
    )  # fmt: skip
    asked = ErasureRequest(request, keys, args.tombstones, output=args.output)
    if args.output and args.assume_committed and not args.dry_run:
        confirm(args, "--assume-committed also erases records that may never have been committed")
    with ProgressBar("reading") as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        one_for = "--output" if args.output else None
        opened = open_cleaner(args, listener, threads=args.threads, patience=Waiting(), one_log_dir_for=one_for)
        for found in opened.missing:
            complain(str(found))
        if not args.output:
            warn_of_sole_replicas(opened.loaded, args.topic)
        prepared = Prepared.of(args, (*opened.loaded.log_dirs, *filter(None, [args.output])))
        certifying = None
        if prepared is not None:
            asked = asked._replace(certified_as=prepared.secret.request)
            certifying = _Certifying(args, opened.cleaner, asked, prepared)
        erasure, signalled = _act(args, opened.cleaner, asked, bar, certifying)
    written = certifying.write() if certifying else ExitStatus.DONE  # before stdout, which may take nothing
    _tell(args, erasure)
    return signalled or _status(erasure, is_whole=not opened.missing) or written


class _Certifying:
    """Makes the certificate while the locks are held, and writes it afterwards."""

    def __init__(self, args: argparse.Namespace, cleaner: Cleaner, asked: ErasureRequest, prepared: Prepared) -> None:
        from cleaner.engine.erase.certificate import Certifier
        from cleaner.engine.prove_erased.wanted import KeyEncoding

        self._prepared = prepared
        view = getattr(args, "view", None)
        encoding = KeyEncoding(args.encoding)
        self._certifier = Certifier(cleaner, asked, encoding, prepared.secret, __version__, view)
        self._certificate: ErasureCertificateDocument | None = None
        self._why_not = "no copy was finished" if args.output else "nothing was erased"

    def begin(self) -> None:
        """Keep a new secret in its file. Raises: UnusableSecret, UnwritableFile."""
        self._prepared.keep_secret()

    def take(self, opened: OpenLogDirs, done: Erasure) -> None:
        """Make the certificate, unless the run is stopped, or a directory cannot be read."""
        try:
            self._certificate = self._certifier.certified(opened, done)
        except LogCleanerError as error:
            why = "the run was stopped" if isinstance(error, Stopped) else str(error)
            self._why_not = f"{why}; {_WRITES_IT}"

    def write(self) -> int:
        """Write the certificate, and return the exit status."""
        path = self._prepared.path
        if self._certificate is None:
            complain(f"{path}: not written: {self._why_not}", Level.ERROR)
            return ExitStatus.FAILED
        try:
            return self._prepared.write(self._certificate)
        except LogCleanerError as error:
            complain(f"{error}; {_WRITES_IT}", Level.ERROR)
            return ExitStatus.FAILED


def _tell(args: argparse.Namespace, erasure: Erasure) -> None:
    from cleaner.report.erase import EraseReport

    show(EraseReport(erasure, dry_run=args.dry_run), as_json=args.json)
    untouched = "the copy has it as it is" if erasure.output else "nothing was erased there"
    for partition in erasure.partitions:
        name = partition.topic_partition
        if partition.refused:
            complain(f"{partition.refused.code}: {name}: {partition.refused.text}; {untouched}")
        if partition.error:
            complain(f"{name}: {partition.error}", Level.ERROR)
    for error in erasure.errors:
        complain(error, Level.ERROR)
    if args.output and not args.dry_run and not erasure.output:
        complain(f"{args.output}: no copy was written, because nothing may be erased", Level.ERROR)


def _act(
    args: argparse.Namespace, cleaner: Cleaner, asked: ErasureRequest, bar: ProgressBar, certifying: _Certifying | None
) -> tuple[Erasure, int]:
    """Plan, or erase. Without ``--yes``, ask about the plan first.

    Return also the exit status of a signal that came meanwhile, else 0. Raises: NotConfirmed.
    """
    from cleaner.engine.erase.erasing import erase, plan_erasure
    from cleaner.report.erase import danger_of

    if args.output:
        from cleaner.engine.erase.copying import erase_into_copy, plan_erased_copy

        if args.dry_run:
            return plan_erased_copy(cleaner, asked), 0
        with stopping_on_signals(cleaner) as signals:
            done = erase_into_copy(cleaner, asked, tool_version=__version__, certify=certifying)
            return done, 128 + signals[0] if signals else 0
    agreed = None
    if args.dry_run or not args.yes:
        agreed = plan_erasure(cleaner, asked, measured=args.dry_run)
        if args.dry_run or not (agreed.records or certifying):
            return agreed, 0
        if agreed.records:
            confirm(args, danger_of(agreed))
        bar.begin_again()
    with stopping_on_signals(cleaner) as signals:
        done = erase(cleaner, asked, agreed, certifying)
        return done, 128 + signals[0] if signals else 0


def _check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not fit. Raises: InvalidConfig."""
    if not args.topic:
        raise InvalidConfig("--topic", None, "name the topics to erase in: --topic clicks")
    if args.delete_delay:
        reason = "only 0 is possible: the replaced files are unlinked in this run, or wait for file.delete.delay.ms"
        raise InvalidConfig("--delete-delay", str(args.delete_delay), reason)
    if args.delete_delay is not None and args.output:
        raise InvalidConfig("--output", str(args.output), "does not go with --delete-delay: nothing waits in a copy")
    if args.tier is not None and not (args.certificate and (args.log_dir or args.config)):
        raise InvalidConfig("--tier", str(args.tier), "nothing is erased there: it needs --certificate and log dirs")


def _status(erasure: Erasure, *, is_whole: bool) -> ExitStatus:
    """Return the exit status for the worst outcome."""
    if erasure.errors or not is_whole or any(partition.error for partition in erasure.partitions):
        return ExitStatus.FAILED
    refused = [partition.refused for partition in erasure.partitions if partition.refused]
    if any(not one.is_for_now for one in refused):
        return ExitStatus.REFUSED
    stays = any(stays.reason.is_for_now for partition in erasure.partitions for stays in partition.stays)
    return ExitStatus.WORK_TO_DO if stays or refused else ExitStatus.DONE
