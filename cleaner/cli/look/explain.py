"""The command ``explain``: it tells why each segment of a partition stays, what blocks it, and what changes next."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, OnePartition, check_partition
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.showing import add_html_argument, check_html, provenance_if_asked, show, write_html
from cleaner.cli.values import moment, offset, partition_or_text, segment

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.explain.choosing import Wish
    from cleaner.report.explanation import ExplanationReport
    from policies.plan import Plan, Request

HELP: Final = "tell why each segment of a partition stays, and until when"
_TRIES: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``explain``."""
    parser.usage = f"%(prog)s {OPERAND} [SEGMENT | --offset N] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET,
        also={ExitStatus.DONE: "the partition was explained", ExitStatus.FAILED: "the partition cannot be read"},
    )  # fmt: skip
    parser.add_argument(
        "topic_partition",
        action=OnePartition,
        named=partition_or_text,
        metavar=OPERAND,
        help="the partition to explain",
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "segment",
        nargs="?",
        type=segment,
        metavar="SEGMENT",
        help="tell all about one segment: its base offset, or the name of its .log",
    )
    one.add_argument("--offset", type=offset, metavar="N", help="tell all about the segment with this offset")
    one.add_argument(
        "--timestamp", type=moment, metavar="TIME", help="tell all about the first record from this time on"
    )
    parser.add_argument("--now", type=moment, metavar="TIME", help="take this as the time: epoch ms, ISO 8601 or +7d")
    parser.add_argument(
        "--exact",
        action="store_true",
        help="count the records without a key that a compaction drops, and look for tombstones in all of a large log",
    )
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.explain/1")
    add_html_argument(parser)
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Plan as ``clean`` does, observe the partition, and show the explanation."""
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.means import Silent
    from policies.plan import Request
    from storage.log_dir import LogDir

    check_html(args)
    cleaner, loaded, missing = open_cleaner(args, Silent())
    check_html(args, *loaded.log_dirs)
    log_dirs = [LogDir(path) for path in loaded.log_dirs]
    wanted = args.topic_partition
    check_partition(wanted, (found for log_dir in log_dirs for found, _ in log_dir.partitions()), log_dirs)
    now_ms = SystemClock().now_ms()
    request = Request(args.now(now_ms) if args.now else now_ms, in_place=True, topics=(str(wanted),))
    report, plan = _explained(args, cleaner, request)
    report = replace(report, provenance=provenance_if_asked(args, loaded))
    show(report, as_json=args.json, every_segment=args.verbose > 0, pager=args.pager)
    errors = [*map(str, missing), *(error for log_dir in plan.log_dirs for error in log_dir.facts.errors)]
    for error in errors:
        complain(error)
    written = write_html(args, report)
    return ExitStatus.FAILED if errors or report.failures else written


def _explained(args: argparse.Namespace, cleaner: Cleaner, request: Request) -> tuple[ExplanationReport, Plan]:
    """Plan and explain; plan anew if a broker deleted segments while this command read."""
    from cleaner.engine.explain.choosing import choose
    from cleaner.engine.explain.explaining import PartitionChanged
    from cleaner.engine.space import space_of
    from cleaner.report.explanation import ExplanationReport

    wanted, wish = args.topic_partition, _wish(args, request.now_ms)
    for tries_left in reversed(range(_TRIES)):
        plan = cleaner.plan(request)
        failures = [failure for failure in plan.failures if failure.topic_partition == wanted]
        try:
            explained = cleaner.explain(plan, wanted, exact=args.exact)
            chosen = [choose(one, wish) for one in explained] if wish.is_one else []
        except PartitionChanged:
            if not tries_left:
                raise
        else:
            holding = {one.planned.facts.log_dir for one in explained}
            spaces = [space_of(log_dir, wanted) for log_dir in plan.log_dirs if log_dir.facts.path in holding]
            return ExplanationReport(request.now_ms, explained, chosen, failures, spaces), plan
    raise AssertionError


def _wish(args: argparse.Namespace, now_ms: int) -> Wish:
    from cleaner.engine.explain.choosing import Wish

    return Wish(args.segment, args.offset, args.timestamp(now_ms) if args.timestamp else None)
