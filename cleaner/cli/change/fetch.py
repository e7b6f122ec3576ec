"""The command ``fetch``: it brings a copy of a log dir out of a bucket to this machine, and checks it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.look.verify import check_unless_signalled, request_of
from cleaner.cli.naming import place
from cleaner.cli.progress import BarListener, ProgressBar
from cleaner.cli.showing import add_quiet_argument, quiet_view, show
from cleaner.cli.values import at_least_one
from cleaner.cli.waiting import stopping_on_signals
from storage.directory import is_stored
from storage.errors import InvalidConfig, Stopped

if TYPE_CHECKING:
    from pathlib import Path

    from cleaner.engine.fetch import Fetch, Fetched
    from cleaner.engine.verify.checked import Checked
    from storage.log_dir import LogDir

HELP = "bring a log dir from a bucket to this machine, and check it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``fetch``."""
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED, ExitStatus.NOT_YET,
        ExitStatus.SIGINT, ExitStatus.SIGTERM,
        also={
            ExitStatus.DONE: "DIR is there, and nothing in it is damaged",
            ExitStatus.FAILED: "something could not be read or written, or changed meanwhile; run again to go on",
            ExitStatus.LOCKED: "another fetch writes there",
            ExitStatus.DAMAGED: "damage was found; DIR is not there, but with --with-damage",
            ExitStatus.NOT_YET: "the store does not answer, or there is no log dir; run again to go on",
        },
    )  # fmt: skip
    parser.add_argument("source", type=place, metavar="URL", help="the copy: a URL such as s3://bucket/dir, or a path")
    parser.add_argument(
        "directory", type=place, metavar="DIR", help="the directory to make; it must be absent or empty"
    )
    parser.add_argument(
        "--with-damage", action="store_true", help="make DIR also if something is damaged in the copy, or missing"
    )
    parser.add_argument(
        "--threads", type=at_least_one, default=4, metavar="N", help="bring N files at a time (default: %(default)s)"
    )
    add_quiet_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.fetch/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Bring the copy, check it, give it its name, and show what was found."""
    from cleaner.engine.fetch import Fetch
    from cleaner.engine.means import Means
    from cleaner.report.fetches import FetchReport
    from storage.kernels import check_usable

    if is_stored(args.directory):
        raise InvalidConfig("DIR", str(args.directory), "lies in a store; name a directory of this machine")
    check_usable()
    with ProgressBar("fetching") as bar:
        fetch = Fetch(args.source, args.directory, Means(listener=BarListener(bar)), args.threads)
        brought = bring(fetch, lambda check, log_dir: check(log_dir), with_damage=args.with_damage)
    if isinstance(brought, ExitStatus):
        return say_how_it_goes_on(fetch, brought, "nothing was fetched yet")
    fetched, checked = brought
    show(FetchReport(fetched, checked, fetch.is_finished), as_json=args.json, view=quiet_view(args))
    say_problems(
        fetch, checked, args.directory, is_damaged=(is_damaged := bool(fetched.differing) or checked.is_damaged)
    )
    if is_damaged:
        return ExitStatus.DAMAGED
    return ExitStatus.FAILED if checked.problems else ExitStatus.DONE


Checks = Callable[["LogDir"], "Checked | None"]
"""Checks a log dir that was brought; returns None if a signal came."""


def bring(
    fetch: Fetch, finish: Callable[[Checks, LogDir], Checked | None], *, with_damage: bool
) -> tuple[Fetched, Checked] | ExitStatus:
    """Bring the files, and check them; return the exit status of a signal that came.

    Args:
        fetch: what is brought.
        finish: does what there is to do with the log dir, and checks it.
        with_damage: give the log dir its name also if something is damaged.
    """
    from cleaner.engine.verify.checking import Notes

    ended: list[ExitStatus] = []
    noted: list[bytes] = []
    """What was read once is not read by a second check, unless it changed."""

    def check(log_dir: LogDir) -> Checked | None:
        with BytesIO() as file:
            found = check_unless_signalled([log_dir], request_of([log_dir], ()), notes=Notes(file, noted))
            noted.extend(file.getvalue().splitlines())
        if isinstance(found, ExitStatus):
            ended.append(found)
            return None
        return found

    with stopping_on_signals(fetch) as came:
        try:
            fetched, checked = fetch.bring(lambda log_dir: finish(check, log_dir), with_damage=with_damage)
        except Stopped:
            return ExitStatus(128 + came[0])
    return ended[0] if checked is None else (fetched, checked)


def say_how_it_goes_on(fetch: Fetch, ended: ExitStatus, nothing: str) -> ExitStatus:
    """Say what the next run begins with, behind a signal. Return its exit status."""
    goes_on = f"the same command goes on from here, with what is in {fetch.unfinished}"
    complain(f"interrupted: {goes_on if fetch.unfinished.exists() else nothing}")
    return ended


def say_problems(fetch: Fetch, checked: Checked, directory: Path, *, is_damaged: bool) -> None:
    """Say what could not be checked, and why there is no log dir."""
    for problem in checked.problems:
        complain(problem)
    if is_damaged and not fetch.is_finished:
        say_not_made(directory)


def say_not_made(directory: Path) -> ExitStatus:
    """Say why there is no log dir. Return the exit status."""
    complain(f"{directory}: was not made, because of what is damaged; --with-damage makes it all the same")
    return ExitStatus.DAMAGED
