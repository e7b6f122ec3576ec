"""The options ``--repack`` and ``--codec`` of ``clean``: what they mean, and the repacking behind the run."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.waiting import stopping_on_signals
from cleaner.journald import Level
from storage.directory import is_stored
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.outcome import Outcome
    from cleaner.engine.repack.repacking import CopyRepacking, Repacking, RepackRequest
    from cleaner.report.cleaning import CleaningReport
    from policies.plan import Plan, Request

_LEVELS: Final = {"none": None, "gzip": (1, 9), "snappy": None, "lz4": (1, 17), "zstd": (-131072, 22)}
"""The levels of each codec, as Kafka's ``compression.*.level`` take them; None if it has none."""


def add_repack_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options ``--repack`` and ``--codec``."""
    group.add_argument(
        "--repack",
        action="store_true",
        help="then merge small batches: in place if the partition has one replica, else with --output; with a bare "
        "--what-if: only tell what that saves",
    )
    group.add_argument(
        "--codec",
        type=codec_of,
        metavar="NAME[:LEVEL]",
        help="with --repack: also compress anew: none, gzip, snappy, lz4, zstd, or such as zstd:9",
    )


def codec_of(text: str) -> tuple[str, int | None]:
    """Parse a codec with its level, such as ``zstd:9``."""
    name, colon, digits = text.partition(":")
    if name not in _LEVELS:
        raise ArgumentTypeError(f"{text!r} is no codec: say one of {', '.join(_LEVELS)}, or such as zstd:9")
    if not colon:
        return name, None
    levels = _LEVELS[name]
    if levels is None:
        raise ArgumentTypeError(f"{text!r}: {name} has no levels")
    if not digits.removeprefix("-").isdecimal() or not levels[0] <= int(digits) <= levels[1]:
        raise ArgumentTypeError(f"{text!r}: a level of {name} is a number from {levels[0]} to {levels[1]}")
    return name, int(digits)


def check_repack(args: argparse.Namespace) -> None:
    """Refuse options that do not fit. A bare ``--what-if`` makes a dry run. Raises: InvalidConfig."""
    if args.codec and not args.repack:
        raise InvalidConfig("--codec", args.codec[0], "needs --repack")
    if "" in args.what_if and not args.repack:
        raise InvalidConfig("--what-if", None, "name a key and values, KEY=V1,V2; without these it needs --repack")
    if not args.repack:
        return
    if any(args.what_if):
        reason = "does not go with --repack, which takes a bare --what-if; name the log dir before it, or by --log-dir"
        raise InvalidConfig("--what-if", next(filter(None, args.what_if)), reason)
    if args.output and is_stored(args.output):
        raise InvalidConfig("--repack", str(args.output), "a copy is repacked on this machine: name a directory of it")
    args.dry_run, args.what_if = args.dry_run or bool(args.what_if), []


def copy_repacking(args: argparse.Namespace, request: Request) -> CopyRepacking | None:
    """Return what repacks the partitions of a copy; None if nobody asked for it."""
    if not (args.repack and args.output):
        return None
    from cleaner.engine.repack.repacking import CopyRepacking

    return CopyRepacking(_asked(args, request))


def repacked(
    args: argparse.Namespace, cleaner: Cleaner, plan: Plan, outcome: Outcome, copying: CopyRepacking | None
) -> tuple[Repacking | None, int]:
    """Merge batches behind a run, or measure it in a dry run.

    Return what was done, None if nothing was asked for, and the exit status of a signal that came meanwhile, else 0.
    """
    if copying is not None:
        return copying.result, 0
    if not args.repack or outcome.interrupted:
        return None, 0
    from cleaner.engine.repack.repacking import plan_repack, repack
    from storage.kernels import check_usable

    check_usable()
    asked = _asked(args, plan.request)
    if args.dry_run:
        has_deletion = any(p.deletion for p in plan.partitions)
        is_freed = outcome.swept_bytes > 0 or (asked.request.is_at_once and has_deletion)
        return plan_repack(cleaner, asked, plan, is_freed=is_freed), 0
    with stopping_on_signals(cleaner) as signals:
        return repack(cleaner, asked), 128 + signals[0] if signals else 0


def with_repack(report: CleaningReport, repacking: Repacking | None) -> CleaningReport:
    """Return a report with the repacking added; without one, the report as it is."""
    if repacking is None:
        return report
    from cleaner.report.repack import RepackReport

    return RepackReport(
        report.plan, report.outcome, report.ended_ms, report.is_copy, overview=report.overview, repacking=repacking
    )


def tell_repack(repacking: Repacking | None) -> ExitStatus:
    """Print a line for each failure, and for each reason against. Return the exit status for the worst."""
    if repacking is None:
        return ExitStatus.DONE
    from policies.repacking import RepackRefusal

    refused = [one.refused for one in repacking.partitions if one.refused]
    failed = [f"{one.topic_partition}: {one.error}" for one in repacking.partitions if one.error]
    for text in (*failed, *repacking.errors):
        complain(text, Level.ERROR)
    for code, text in dict.fromkeys((one.code, one.text) for one in refused if isinstance(one.code, RepackRefusal)):
        names = [str(p.topic_partition) for p in repacking.partitions if p.refused and p.refused.text == text]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        complain(f"{code}: {names[0]}{more} {'were' if more else 'was'} not repacked: {text}")
    if failed or repacking.errors:
        return ExitStatus.FAILED
    return ExitStatus.REFUSED if any(isinstance(one.code, RepackRefusal) for one in refused) else ExitStatus.DONE


def _asked(args: argparse.Namespace, request: Request) -> RepackRequest:
    from cleaner.engine.repack.merging import AskedCodec
    from cleaner.engine.repack.repacking import RepackRequest
    from storage.codecs.compression import Compression

    codec = AskedCodec(Compression[args.codec[0].upper()], args.codec[1]) if args.codec else None
    return RepackRequest(request, codec)
