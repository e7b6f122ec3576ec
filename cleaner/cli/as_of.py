"""The options of ``clean`` for a copy as of a moment, and that copy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, complain
from cleaner.cli.metrics import clock_ms
from cleaner.cli.opening import open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show
from cleaner.cli.values import moment, passed_ms
from cleaner.cli.waiting import stopping_on_signals
from cleaner.journald import Level
from storage.errors import InvalidConfig, Stopped

_NOT_WITH: Final = (
    ("--only", "only"), ("--force-compaction", "force_compaction"), ("--exact", "exact"), ("--what-if", "what_if"),
    ("--delete-delay", "delete_delay"), ("--html", "html"), ("--exit-code", "exit_code"), ("--now", "now"),
    ("--repack", "repack"), ("--codec", "codec"),
)  # fmt: skip


def add_as_of_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options of a copy as of a moment."""
    group.add_argument(
        "--until",
        type=moment,
        metavar="TIME",
        help="with --output or --dry-run: copy the log dir as of a moment, transactions whole, nothing cleaned; "
        "--json prints schema logcleaner.as_of/1",
    )
    group.add_argument(
        "--until-offsets", type=Path, metavar="FILE", help="the same, with the offsets that --write-offsets wrote"
    )
    group.add_argument(
        "--write-offsets", type=Path, metavar="FILE", help="with --until: write where each partition is cut"
    )
    group.add_argument(
        "--incomplete", action="store_true", help="go on though some partitions cannot be what they were then"
    )


def is_as_of(args: argparse.Namespace) -> bool:
    """Return whether a copy as of a moment is asked for. Raises: InvalidConfig for options that do not fit."""
    if args.until is None and args.until_offsets is None:
        for option in ("write_offsets", "incomplete"):
            if getattr(args, option):
                raise InvalidConfig(f"--{option.replace('_', '-')}", None, "needs --until or --until-offsets")
        return False
    asked = "--until" if args.until else "--until-offsets"
    if args.until and args.until_offsets:
        raise InvalidConfig("--until-offsets", str(args.until_offsets), "does not go with --until: name one of both")
    if args.until_offsets and args.write_offsets:
        raise InvalidConfig("--write-offsets", str(args.write_offsets), "needs --until")
    if bool(args.output) == args.dry_run:
        raise InvalidConfig(asked, None, "needs either --output DIR or --dry-run: a log is never cut in place")
    for option, name in _NOT_WITH:
        if getattr(args, name):
            raise InvalidConfig(option, None, f"does not go with {asked}: nothing is cleaned there")
    if args.engine != "local":
        raise InvalidConfig("--engine", args.engine, f"does not go with {asked}: nothing is cleaned there")
    return True


def run_as_of(args: argparse.Namespace) -> int:
    """Decide, copy unless it is a dry run, and show."""
    from cleaner.engine.as_of.copying import copy_as_of, look_as_of
    from cleaner.engine.as_of.deciding import offsets_document, read_offsets
    from cleaner.events import EventLog, format_of
    from cleaner.replacing import check_replaceable, replace_file
    from cleaner.report.as_of import AsOfReport
    from policies.plan import Request

    now_ms = clock_ms()
    until_ms = passed_ms(args.until, now_ms) if args.until else None
    offsets = read_offsets(args.until_offsets) if args.until_offsets else None
    request = Request(now_ms, topics=tuple(args.topic))
    with ProgressBar("reading") as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        opened = open_cleaner(args, listener, one_log_dir_for="--output" if args.output else None)
        if args.write_offsets:
            check_replaceable("--write-offsets", args.write_offsets, opened.loaded.log_dirs, "offsets.json")
        if args.dry_run:
            found = look_as_of(opened.cleaner, request, until_ms, offsets)
        else:
            with stopping_on_signals(opened.cleaner) as signals:
                try:
                    found = copy_as_of(
                        opened.cleaner, request, args.output, until_ms, offsets,
                        incomplete=args.incomplete, tool_version=__version__,
                    )  # fmt: skip
                except Stopped:
                    return 128 + signals[0] if signals else ExitStatus.FAILED
    if args.write_offsets:
        try:
            replace_file(args.write_offsets, offsets_document(found))
        except OSError as error:
            raise InvalidConfig("--write-offsets", str(args.write_offsets), error.strerror or str(error)) from error
    show(AsOfReport(found, str(args.output) if args.output else None), as_json=args.json)
    for missing in opened.missing:
        complain(str(missing))
    for one in found.partitions:
        if one.error:
            complain(f"{one.topic_partition}: {one.error}", Level.ERROR)
    if opened.missing or any(one.error for one in found.partitions):
        return ExitStatus.FAILED
    return ExitStatus.REFUSED if found.spoiled and not args.incomplete else ExitStatus.DONE
