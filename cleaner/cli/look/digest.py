"""The command ``digest``: hashes of the committed records of each partition, for a comparison with other brokers."""

from __future__ import annotations

import argparse

from cleaner import __version__
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.naming import add_log_dirs_operand, place
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar

HELP = "hash all records, so that brokers can be compared"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``digest``."""
    parser.epilog = help_on(ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE)
    parser.add_argument(
        "--output",
        type=place,
        metavar="FILE",
        required=True,
        help="write the digest to this file, a few KiB a segment: JSON, schema logcleaner.digest/1",
    )
    parser.add_argument(
        "--up-to",
        type=place,
        action="append",
        default=[],
        metavar="FILE",
        help="end each partition where these digests of other brokers end: compacted topics need it while they grow",
    )
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser)
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Digest every partition, and write the file."""
    from storage.kernels import check_usable

    check_usable()
    from cleaner.engine.clock import SystemClock
    from cleaner.engine.means import Silent
    from cleaner.engine.replicas.reading import compacted_by, digest_of, encoded, ends_of, find_replicas, read_digest
    from cleaner.export.transfer import new_file
    from storage.log_dir import LogDir

    ends = ends_of([one for path in args.up_to for one in read_digest(path)])
    opened = open_cleaner(args, Silent())
    log_dirs, is_compacted = opened.loaded.log_dirs, compacted_by(opened.loaded.layers)
    within = [path for path in log_dirs if args.output.resolve().is_relative_to(path.resolve())]
    with new_file(args.output, [*within, *log_dirs][0]) as file, ProgressBar("digesting") as bar:
        found = [one for path in log_dirs for one in find_replicas(LogDir(path), args.topic, is_compacted)]
        bar.expect(sum(one.size_bytes for one in found))
        digested = []
        for one in found:
            digested.append(digest_of(one, ends))
            bar.advance(one.size_bytes)
        file.write(encoded(digested, SystemClock().now_ms(), __version__))
    failed = [f"{one.topic_partition}: {one.digest.error}" for one in digested if one.digest.error]
    for error in (*map(str, opened.missing), *failed):
        complain(error)
    return ExitStatus.FAILED if failed or opened.missing else ExitStatus.DONE
