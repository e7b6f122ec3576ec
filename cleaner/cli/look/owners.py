"""The command ``owners``: it tells which groups and transactional ids take the space of Kafka's internal topics."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import partitions_of
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.parser import did_you_mean
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import add_view_arguments, show, view_of
from cleaner.cli.values import moment
from storage.errors import InvalidConfig, InvalidConfigs, LogCleanerError

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner
    from policies.config.policy import BrokerPolicy
    from policies.facts import UnreadablePartition
    from policies.owners.holdings import PartitionOwners, Terms
    from policies.plan import PartitionPlan, Plan, Request
    from storage.log_dir import LogDir

HELP: Final = "tell which groups and ids fill Kafka's internal topics"
_OPERAND: Final = "TOPIC"
_TRIES: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``owners``."""
    parser.usage = "%(prog)s [TOPIC | TOPIC-PARTITION ...] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET,
        also={ExitStatus.DONE: "every partition was read", ExitStatus.FAILED: "a partition cannot be read"},
    )  # fmt: skip
    parser.add_argument(
        "names",
        nargs="*",
        metavar=_OPERAND,
        help="__consumer_offsets, __transaction_state, or partitions of them (default: all partitions of both)",
    )
    parser.add_argument("--now", type=moment, metavar="TIME", help="take this as the time: epoch ms, ISO 8601 or +7d")
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    output = parser.add_argument_group("result")
    output.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.owners/1")
    add_view_arguments(output, "groups and transactional ids")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Plan as ``clean`` does, read every record of the partitions, and show what each group and id takes."""
    from storage.kernels import check_usable

    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.means import Silent
    from cleaner.engine.owners import TOPICS
    from cleaner.report.owners import OwnersReport
    from policies.plan import Request
    from storage.log_dir import LogDir

    view = view_of(args)
    cleaner, loaded, missing = open_cleaner(args, Silent())
    wanted = _wanted(args.names, [LogDir(path) for path in loaded.log_dirs], TOPICS)
    now_ms = SystemClock().now_ms()
    request = Request(args.now(now_ms) if args.now else now_ms, confirmed=True, topics=wanted)
    broker = loaded.layers.broker_policy()
    found, failures, errors = _read(cleaner, request, broker)
    show(OwnersReport(request.now_ms, broker, found, failures), as_json=args.json, view=view, pager=args.pager)
    for error in (*map(str, missing), *errors):
        complain(error)
    failed = errors or failures or missing or any(partition.is_damaged for partition in found)
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def _wanted(names: Sequence[str], log_dirs: Sequence[LogDir], topics: Sequence[str]) -> tuple[str, ...]:
    """Return the topics and partitions to read. Raises: InvalidConfigs for a name that no topic or partition has."""
    known = partitions_of(log_dirs)
    there = {name for found in known or () for name in (found.topic, str(found)) if found.topic in topics}
    every = {name for found in known or () for name in (found.topic, str(found))}
    problems = []
    for name in names if known is not None else ():
        if name in there:
            continue
        why = f"is in none of the log dirs{did_you_mean(name, there)}"
        if name in every:
            why = f"has no groups and no transactional ids; say {' or '.join(topics)}"
        problems.append(InvalidConfig(_OPERAND, name, why))
    if problems:
        raise InvalidConfigs(tuple(problems))
    return tuple(names) or tuple(topics)


def _read(
    cleaner: Cleaner, request: Request, broker: BrokerPolicy
) -> tuple[list[PartitionOwners], list[UnreadablePartition], list[str]]:
    """Return the partitions that were read, the partitions that cannot be read, and the errors of the log dirs."""
    from policies.facts import UnreadablePartition
    from policies.owners.holdings import terms_of

    plan = cleaner.plan(request)
    found: list[PartitionOwners] = []
    failures, errors = list(plan.failures), [error for one in plan.log_dirs for error in one.facts.errors]
    with ProgressBar("reading") as bar:
        bar.expect(sum(planned.facts.size_bytes for planned in plan.partitions))
        by_name = {planned.facts.topic_partition: planned for planned in plan.partitions}
        for name, planned in sorted(by_name.items()):
            try:
                found += _owners_of(cleaner, plan, planned, terms_of(broker, request.now_ms), bar)
            except LogCleanerError as error:
                facts = planned.facts
                failures.append(UnreadablePartition(name, facts.log_dir, str(error), facts.size_bytes))
    return found, failures, errors


def _owners_of(
    cleaner: Cleaner, plan: Plan, planned: PartitionPlan, terms: Terms, bar: ProgressBar
) -> list[PartitionOwners]:
    """Read a partition in each log dir that holds it; plan anew if a broker changed the partition while this command
    read.
    """
    from cleaner.engine.explain.explaining import PartitionChanged
    from cleaner.engine.owners import owners_of
    from storage.errors import UnreadableFile
    from storage.scan.files import SegmentGone

    name = planned.facts.topic_partition
    for tries_left in reversed(range(_TRIES)):
        try:
            return [owners_of(one, terms, bar.advance) for one in cleaner.explain(plan, name)]
        except (PartitionChanged, SegmentGone, UnreadableFile) as error:
            if not tries_left or (isinstance(error, UnreadableFile) and not error.has_vanished):
                raise
            plan = cleaner.plan(replace(plan.request, topics=(str(name),)))
    raise AssertionError
