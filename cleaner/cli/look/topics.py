"""The command ``topics``: it lists the partitions of the log dirs, one a line."""

from __future__ import annotations

import argparse

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import add_log_dirs_operand, warn_of_directories_without_segments
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.showing import add_view_arguments, show, view_of
from storage.stores.paths import want_whole

HELP = "list the partitions: policy, bytes, offsets, next expiry"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``topics``."""
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET)
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser, with_tier=True)
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
    for error in missing:
        complain(str(error))
    failed = missing or plan.failures or uncleanable or any(log_dir.facts.errors for log_dir in plan.log_dirs)
    return ExitStatus.FAILED if failed else ExitStatus.DONE
