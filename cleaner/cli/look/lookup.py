"""The command ``lookup``: it finds an offset or a timestamp in a partition as Kafka finds it, and tells each step."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, OnePartition
from cleaner.cli.opening import add_place_arguments, one_partition
from cleaner.cli.showing import show
from cleaner.cli.values import moment, offset, topic_partition
from cleaner.journald import Level

if TYPE_CHECKING:
    from cleaner.cli.values import Moment
    from cleaner.engine.lookup import LookedUp, LookupTarget

HELP: Final = "find the record at an offset or a time, and show it"
_WORDS: Final = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp"}
"""Word -> the number that stands for the word in Kafka's ListOffsets."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``lookup``."""
    parser.usage = f"%(prog)s {OPERAND} --offset N | --timestamp TIME [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "the search ended as in Kafka, even if it found no record",
            ExitStatus.FAILED: "the partition cannot be read",
            ExitStatus.USAGE: "wrong usage or configuration, or an offset out of range",
        },
    )  # fmt: skip
    parser.add_argument(
        "topic_partition", action=OnePartition, named=topic_partition, metavar=OPERAND, help="the partition to search"
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--offset", type=offset, metavar="N", help="find the batch with which a fetch from here begins")
    target.add_argument(
        "--timestamp",
        type=_moment_or_word,
        metavar="TIME",
        help="find the first record from this time on: epoch ms, ISO 8601, -36h; or earliest, latest, max-timestamp",
    )
    parser.add_argument("--trace", action="store_true", help="tell each step: its file, entry and position")
    add_place_arguments(parser, with_topics=False, with_tier=True)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.lookup/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Search the partition, and show what was found."""
    from cleaner.engine.lookup import look_up
    from cleaner.report.lookups import LookupReport, range_error

    looked_up = look_up(one_partition(args), _target(args))
    error = range_error(looked_up)
    show(LookupReport(looked_up, args.trace, _contents(looked_up)), as_json=args.json, pager=args.pager)
    if error is not None:
        complain(error, Level.ERROR)
        return ExitStatus.USAGE
    return ExitStatus.DONE


def _contents(looked_up: LookedUp) -> list[tuple[str, str]]:
    from cleaner.dump.contents import contents_of

    record, batch = looked_up.found.record, looked_up.found.batch
    if record is None or batch is None:
        return []
    return list(contents_of(looked_up.topic_partition.topic, record, is_control=batch.is_control))


def _moment_or_word(text: str) -> Moment | str:
    """Parse a moment, or one of the words that stand for a place of the log."""
    word = _WORDS.get(text, text)
    return word if word in _WORDS.values() else moment(text)


def _target(args: argparse.Namespace) -> LookupTarget:
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.lookup import LogPlace, LookupTarget

    if args.timestamp is None:
        return LookupTarget(offset=args.offset)
    if isinstance(args.timestamp, str):
        return LookupTarget(place=LogPlace(args.timestamp))
    return LookupTarget(timestamp_ms=args.timestamp(SystemClock().now_ms()))
