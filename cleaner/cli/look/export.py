"""The command ``export``: it writes the records of one partition as Parquet or as JSON lines."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.look.selecting import add_selection_arguments, selection_of
from cleaner.cli.naming import OPERAND, OnePartition, place
from cleaner.cli.opening import add_place_arguments, one_partition
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show
from cleaner.cli.values import topic_partition
from cleaner.errors import ExtraMissing
from storage.errors import InvalidConfig

if TYPE_CHECKING:
    from cleaner.export.transfer import Reading, Writer

HELP: Final = "write the records of a partition as Parquet or JSON lines"
_STDOUT: Final = Path("-")
_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export``."""
    parser.usage = f"%(prog)s {OPERAND} --to parquet|jsonl FILE [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "every record was written",
            ExitStatus.FAILED: "reading or writing failed, and there is no file",
            ExitStatus.USAGE: "wrong usage or configuration, or the file exists",
        },
    )  # fmt: skip
    parser.add_argument(
        "topic_partition", action=OnePartition, named=topic_partition, metavar=OPERAND, help="the partition to export"
    )
    parser.add_argument(
        "file",
        type=place,
        metavar="FILE",
        help="the file to write, or its URL; it must not exist. - is stdout (jsonl only)",
    )
    parser.add_argument(
        "--to",
        choices=("parquet", "jsonl"),
        required=True,
        help="the format; parquet needs pip install '.[parquet]' in the sources",
    )
    parser.add_argument(
        "--include-metadata", action="store_true", help="also write the fields of record batches, and control records"
    )
    parser.add_argument(
        "--isolation-level",
        choices=_ISOLATION_LEVELS,
        default=_ISOLATION_LEVELS[0],
        help="read_committed leaves out aborted records, and those from the last stable offset on",
    )
    add_selection_arguments(parser)
    add_place_arguments(parser, with_topics=False, with_tier=True)
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.export/1")
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Read the partition, write the file, and show what was written."""
    from storage.kernels import check_usable

    _check_usage(args)
    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.export.transfer import plan_reading, transfer

    read_committed = args.isolation_level == _ISOLATION_LEVELS[1]
    selection, _ = selection_of(args)
    now_ms = SystemClock().now_ms()
    partition = one_partition(args)
    reading = plan_reading(partition, read_committed=read_committed, now_ms=now_ms, selection=selection)
    with _target(args, reading) as file, ProgressBar("exporting") as bar:
        writer = _writer(args, file)
        bar.expect(sum(extent.size_bytes for extent in reading.extents))
        records = transfer(reading, writer, with_control=args.include_metadata, advance=bar.advance)
    if args.file != _STDOUT:
        _show(args, reading, records)
    if reading.held_back is not None:
        start, end = reading.held_back.start, reading.held_back.end
        what = f"the log has offsets up to {end - 1}, behind a transaction that nobody ended"
        complain(f"{reading.partition.topic_partition}: stopped at the last stable offset {start}: {what}")
    return ExitStatus.DONE


def _check_usage(args: argparse.Namespace) -> None:
    if args.file == _STDOUT and args.to != "jsonl":
        raise InvalidConfig("FILE", "-", f"needs --to jsonl: name a file for {args.to}")
    if args.redact and args.to != "jsonl":
        reason = "needs --to jsonl: in Parquet a value that is left out would look like none"
        raise InvalidConfig("--redact", ",".join(args.redact), reason)
    if args.file == _STDOUT and args.json:
        raise InvalidConfig("--json", None, "needs a file: the records go to stdout")


def _target(args: argparse.Namespace, reading: Reading) -> AbstractContextManager[BinaryIO]:
    if args.file == _STDOUT:
        return nullcontext(sys.stdout.buffer)
    from cleaner.export.transfer import new_file

    return new_file(args.file, reading.partition.directory.parent)


def _writer(args: argparse.Namespace, file: BinaryIO) -> Writer:
    """Open the writer of the format. Raises: ExtraMissing."""
    if args.to == "jsonl":
        from cleaner.export.jsonl import JsonLinesWriter

        return JsonLinesWriter(file, with_metadata=args.include_metadata, hidden=frozenset(args.redact))
    try:
        from cleaner.export.parquet import ParquetWriter
    except ImportError as error:
        raise ExtraMissing("--to parquet", str(error.name), "parquet") from error
    return ParquetWriter(file, with_metadata=args.include_metadata)


def _show(args: argparse.Namespace, reading: Reading, records: int) -> None:
    from cleaner.report.imports import ExportReport

    topic, partition = reading.partition.topic_partition
    log_dir, file, size_bytes = str(reading.partition.directory.parent), str(args.file), args.file.stat().st_size
    offsets = reading.offsets
    ends = offsets.start, offsets.end
    show(ExportReport(topic, partition, log_dir, args.to, file, *ends, records, size_bytes), as_json=args.json)
