"""The command ``import``: it makes a new partition of the records that ``export`` wrote."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.cli.confirming import add_danger_arguments, confirm_force_lock
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import OPERAND, check_importable
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner, target_of
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import show
from cleaner.cli.values import topic_partition
from cleaner.cli.waiting import Waiting

if TYPE_CHECKING:
    from cleaner.cli.parser import Parser
    from cleaner.engine.means import OpenLogDirs
    from cleaner.importing.inputs import Inputs
    from cleaner.report.imports import ImportReport

HELP = "make a new partition of what export wrote"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: Parser) -> None:
    """Add the arguments of ``import``."""
    parser.is_intermixed = True
    parser.usage = f"%(prog)s FILE... [--to-dir LOG_DIR] {OPERAND} [-n] [options]"
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.LOCKED, ExitStatus.REFUSED, ExitStatus.NOT_YET,
        also={
            ExitStatus.DONE: "every record of the input is in the partition",
            ExitStatus.FAILED: "the input is damaged, or writing failed: nothing was imported",
            ExitStatus.USAGE: "wrong usage or configuration, or the partition exists",
            ExitStatus.REFUSED: "--force-lock was not confirmed",
        },
    )  # fmt: skip
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="files that export wrote, in the order of their offsets; - is stdin (jsonl only)",
    )
    parser.add_argument(
        "topic_partition", type=topic_partition, metavar=OPERAND, help="the partition to make; it must not exist"
    )
    parser.add_argument(
        "--to-dir",
        type=Path,
        metavar="DIR",
        help="the log dir in which the partition is made; needed if several are named",
    )
    parser.add_argument(
        "--compression-type",
        choices=_CODECS,
        default=_CODECS[0],
        help="compress the batches; an export does not keep the codec (default: %(default)s)",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="write nothing: read all of the input, and tell what would be made"
    )
    add_danger_arguments(parser.add_argument_group("danger"), "what is dangerous")
    add_log_dir_arguments(parser, with_topics=False)
    parser.set_defaults(topic=[])
    parser.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.import/1")


def run(args: argparse.Namespace) -> int:
    """Read the input, make the partition, and show what was made."""
    from cleaner.events import EventLog, format_of
    from cleaner.importing.inputs import Inputs

    confirm_force_lock(args)
    check_importable(args.topic_partition)
    if args.to_dir and not (args.log_dir or args.config or args.server_properties):
        args.log_dir = [args.to_dir]
    cleaner, _, missing = open_cleaner(args, EventLog(args.verbose, format_of(args.log_format)), patience=Waiting())
    for found in missing:
        complain(f"{found}; nothing was imported: the partition may be there")
    if missing:
        return ExitStatus.NOT_YET
    with ProgressBar("importing") as bar:
        inputs = Inputs(args.files, bar.advance)
        bar.expect(inputs.size_bytes)
        with nullcontext(cleaner.opened()) if args.dry_run else cleaner.locked() as opened:
            try:
                report = _imported(args, opened, inputs)
            except KeyboardInterrupt:
                is_there = any((log_dir.path / str(args.topic_partition)).is_dir() for log_dir in opened.log_dirs)
                complain(f"stopped; {'the partition is there, and whole' if is_there else 'nothing was imported'}")
                raise
    show(report, as_json=args.json)
    if report.warning:
        complain(f"{args.topic_partition}: {report.warning}")
    return ExitStatus.DONE


def _imported(args: argparse.Namespace, opened: OpenLogDirs, inputs: Inputs) -> ImportReport:
    """Make the partition, or rehearse that, and return the result."""
    from cleaner.importing.building import batches, build, check_private, check_space, rehearse, remove_leftovers
    from cleaner.importing.placing import check_absent, new_topic_id, topic_id_for
    from cleaner.report.imports import ImportReport
    from storage.codecs.compression import Compression

    wanted, log_dir = args.topic_partition, target_of(args.to_dir, opened.log_dirs)
    if not args.dry_run:
        for path, strange in remove_leftovers(opened.means.fs, log_dir):
            left = f"holds {strange}, which import did not write: left as it is"
            complain(f"{path}: {left if strange else 'left by an import that was killed; removed'}")
        check_private(log_dir, wanted)
    check_absent(opened.log_dirs, wanted)
    check_space(log_dir, inputs.needed_bytes)
    placed = topic_id_for(wanted, log_dir, opened.log_dirs, opened.means.broker.metadata_log_dir)
    made = batches(inputs.records(), Compression[args.compression_type.upper()])
    topic_id = placed.topic_id
    if args.dry_run:
        built = rehearse(made)
    else:
        topic_id = topic_id or new_topic_id()
        policy = opened.layers.policy_for(wanted.topic)
        built = build(
            log_dir, wanted, topic_id, policy, made, opened.means,
            ensure_absent=lambda: check_absent(opened.log_dirs, wanted),
        )  # fmt: skip
    return ImportReport(
        dry_run=args.dry_run,
        topic=wanted.topic,
        partition=wanted.partition,
        log_dir=str(log_dir.path),
        files=tuple(map(str, args.files)),
        topic_id=topic_id,
        records=built.records,
        control_records=inputs.left_out,
        log_start_offset=built.log_start_offset,
        log_end_offset=built.log_end_offset,
        segments=built.segments or None,
        bytes=built.size_bytes,
        warning=placed.warning or None,
    )
