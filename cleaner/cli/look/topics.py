"""The command ``topics``: it lists the partitions of the log dirs, one a line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import add_log_dirs_operand, warn_of_directories_without_segments
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.showing import add_view_arguments, show, view_of
from storage.errors import LogCleanerError
from storage.stores.paths import path_of_text, want_whole

HELP = "list the partitions: policy, bytes, offsets, next expiry"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``topics``."""
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET)
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser)
    output = parser.add_argument_group("result")
    output.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.topics/1")
    add_view_arguments(output, "partitions or topics")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Plan, and show one line for each partition."""
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.means import Silent
    from cleaner.engine.space import Accountant, Accounts, file_systems_of
    from cleaner.report.topics import TopicsReport
    from policies.plan import Request

    view = view_of(args)
    if not args.topic:
        want_whole(args.log_dir)
    cleaner, _, missing = open_cleaner(args, Silent())
    accountant = Accountant(args.topic)
    request = Request(SystemClock().now_ms(), confirmed=True, topics=tuple(args.topic))
    plan = cleaner.plan(request, accountant, is_glance=True)
    uncleanable = cleaner.uncleanable(plan)
    accounts = Accounts(accountant.accounts_of(plan), file_systems_of(cleaner.volumes()))
    report = TopicsReport(plan, uncleanable, accounts, cleaner.runways(plan))
    show(report, as_json=args.json, view=view, pager=args.pager)
    warn_of_directories_without_segments(plan)
    lacking = [error for one in plan.log_dirs if (error := _lacks(path_of_text(one.facts.path), args.topic))]
    for error in (*missing, *lacking):
        complain(str(error))
    failed = (
        missing or lacking or plan.failures or uncleanable or any(log_dir.facts.errors for log_dir in plan.log_dirs)
    )
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _lacks(log_dir: Path, topics: Sequence[str]) -> LogCleanerError | None:
    """Return what a copy lost since its manifest was written, as an error; None if it lost nothing."""
    from cleaner.engine.copy.manifest import ensure_whole
    from cleaner.engine.inventory import is_named

    try:
        ensure_whole(log_dir, lambda name: is_named(name, topics))
    except LogCleanerError as error:
        return error
    return None
