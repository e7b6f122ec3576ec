"""The command ``restore-tier``: it makes plain log dirs of what brokers copied to tiered storage."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cleaner import __version__
from cleaner.cli.change.fetch import bring, say_how_it_goes_on, say_not_made, say_problems
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import check_globs, place
from cleaner.cli.opening import add_tier_key_argument, add_topics_argument
from cleaner.cli.progress import BarListener, ProgressBar
from cleaner.cli.showing import add_quiet_argument, quiet_view, show
from cleaner.cli.values import at_least_one, moment, passed_ms
from storage.directory import is_stored
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.cli.change.fetch import Checks
    from cleaner.engine.restore_tier import RestorePlan, TierRestore
    from cleaner.engine.verify.checked import Checked
    from storage.log_dir import LogDir

HELP = "make log dirs of what brokers copied to tiered storage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``restore-tier``."""
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.DAMAGED, ExitStatus.NOT_YET,
        ExitStatus.SIGINT, ExitStatus.SIGTERM,
        also={
            ExitStatus.DONE: "DIR is there, no offset is missing, and nothing is damaged",
            ExitStatus.FAILED: "offsets are missing, or something could not be read; run again to go on",
            ExitStatus.LOCKED: "another run writes there",
            ExitStatus.DAMAGED: "damage was found; DIR is not there, but with --with-damage",
            ExitStatus.NOT_YET: "the store does not answer; run again to go on",
        },
    )  # fmt: skip
    parser.add_argument(
        "tier", type=place, metavar="URL", help="the tier: a bucket and prefix such as s3://bucket/dir, or a directory"
    )
    parser.add_argument(
        "--output", type=place, required=True, metavar="DIR", help="the log dir to make; it must be absent or empty"
    )
    parser.add_argument(
        "--log-dir", dest="log_dirs", type=place, action="extend", nargs="+", default=[], metavar="DIR",
        help="log dirs that survived: the ends of logs, the metadata of the tier, groups",
    )  # fmt: skip
    add_tier_key_argument(parser)
    add_topics_argument(parser)
    parser.add_argument(
        "--topic-ids-from", type=place, metavar="DIR",
        help="a log dir of a new cluster in which the topics were created: their ids",
    )  # fmt: skip
    parser.add_argument(
        "--until", type=moment, metavar="TIME", help="restore the logs as of a moment: ISO 8601, epoch ms, or -2h"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only tell what there is, and what is missing")
    parser.add_argument("--with-damage", action="store_true", help="make DIR also if something is damaged in the tier")
    parser.add_argument(
        "--threads", type=at_least_one, default=4, metavar="N", help="bring N files at a time (default: %(default)s)"
    )
    add_quiet_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.restore_tier/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Plan, bring the segments, check them, and show what there is."""
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.restore_tier import TierRestore
    from cleaner.report.tier_restores import TierRestoreReport
    from storage.kernels import check_usable
    from storage.log_dir import LogDir
    from storage.names import FileKind
    from storage.tiers.errors import CorruptTier

    for option, path in (("--output", args.output), ("--topic-ids-from", args.topic_ids_from)):
        if path is not None and is_stored(path):
            raise InvalidConfig(option, str(path), "lies in a store; name a directory of this machine")
    check_usable()
    log_dirs = tuple(LogDir.open(path).path for path in args.log_dirs)
    until_ms = passed_ms(args.until, SystemClock().now_ms()) if args.until else None
    restore = TierRestore(args.tier, log_dirs, tuple(args.tier_key), tuple(args.topic), args.topic_ids_from, until_ms)
    _check_output(args)
    plan = restore.plan()
    check_globs(args.topic, restore.known(), str(args.tier))
    for problem in (*plan.problems, *plan.replaced):
        complain(problem)
    if args.dry_run:
        show(TierRestoreReport(plan, str(args.output)), as_json=args.json, view=quiet_view(args))
        return ExitStatus.DONE if plan.is_whole else ExitStatus.FAILED
    while True:
        try:
            return _carry_out(args, restore, plan)
        except CorruptTier as error:
            is_of_log = error.path.suffix == FileKind.LOG
            if is_of_log and not args.with_damage:
                complain(str(error))
                return say_not_made(args.output)
            if not restore.leave_out(error.path, error.cause):
                raise
        plan = restore.plan()
        for problem in (*plan.problems, *plan.replaced):
            complain(problem)


def _check_output(args: argparse.Namespace) -> None:
    """Refuse an output within what is read, also in a dry run. Raises: UnusableOutput; as of a store."""
    from cleaner.engine.copy.copying import check_outside
    from cleaner.engine.fetch import check_directory

    ids_from = [args.topic_ids_from] if args.topic_ids_from else []
    for read, what in ((args.tier, "tier"), *((one, "log dir") for one in (*args.log_dirs, *ids_from))):
        check_outside(args.output.absolute(), read, what)
    check_directory(args.output.absolute())


def _carry_out(args: argparse.Namespace, restore: TierRestore, plan: RestorePlan) -> int:
    from cleaner.engine.means import Means
    from cleaner.engine.restore_tier import remade, write_manifest
    from cleaner.report.tier_restores import TierRestoreReport

    made_anew: tuple[str, ...] = ()
    with ProgressBar("restoring") as bar:
        means = Means(listener=BarListener(bar))
        fetch = restore.fetch(args.output, means, args.threads, plan)

        def finish(check: Checks, log_dir: LogDir) -> Checked | None:
            nonlocal made_anew
            restore.finish(log_dir.path, plan, means.fs, means.clock.now_ms())
            found = check(log_dir)
            if found is not None and (made_anew := remade(found, log_dir.path, plan, means)):
                found = check(log_dir)
            if found is not None:
                write_manifest(log_dir.path, fetch, plan, means, __version__)
            return found

        brought = bring(fetch, finish, with_damage=args.with_damage)
    if isinstance(brought, ExitStatus):
        return say_how_it_goes_on(fetch, brought, "nothing was brought yet")
    fetched, checked = brought
    report = TierRestoreReport(plan, str(args.output), fetched, checked, fetch.is_finished, made_anew)
    show(report, as_json=args.json, view=quiet_view(args))
    say_problems(fetch, checked, args.output, is_damaged=checked.is_damaged)
    if checked.is_damaged or restore.is_without_a_log:
        return ExitStatus.DAMAGED
    return ExitStatus.DONE if plan.is_whole and not checked.problems else ExitStatus.FAILED
