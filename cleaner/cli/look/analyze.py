"""The command ``analyze``: Spark reads the log dirs and finds days, codecs, keys, timestamps, savings and curves."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.metrics import clock_ms
from cleaner.cli.naming import add_log_dirs_operand, check_topics, place, warn_of_names, warn_of_symlinks
from cleaner.cli.opening import add_log_dir_arguments, load, without_missing
from cleaner.cli.showing import add_html_argument, check_html, provenance_if_asked, show, write_html

if TYPE_CHECKING:
    from cleaner.report.findings import Analysis
    from cleaner.report.overview.provenance import Provenance

HELP = "report sizes, days, codecs, keys and savings, with Spark"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``analyze``."""
    parser.epilog = help_on(
        ExitStatus.DONE, ExitStatus.FAILED, ExitStatus.USAGE, ExitStatus.NOT_YET,
        also={ExitStatus.FAILED: "some files are unreadable, and missing in the figures; stderr names them"},
    )  # fmt: skip
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser)
    parser.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs (default: %(default)s)")
    output = parser.add_argument_group("result")
    output.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.analysis/1")
    output.add_argument(
        "--output",
        type=place,
        metavar="DIR",
        help="also write Parquet: a directory for each table, a file for each run; DIR may be a URL",
    )
    add_html_argument(output)
    parser.set_defaults(reads_stores=True)


def run(args: argparse.Namespace) -> int:
    """Read the log dirs with Spark, and show the findings."""
    from cleaner.report.analysis import AnalysisReport

    check_html(args)
    analysis, provenance = _analyze(args)
    report = AnalysisReport(analysis, provenance)
    show(report, as_json=args.json, pager=args.pager)
    if args.output:
        from cleaner.spark.analysis.analyzing import write_tables

        write_tables(analysis, args.output)
    for problem in analysis.problems:
        complain(problem)
    written = write_html(args, report)
    return ExitStatus.FAILED if analysis.problems else written


def _analyze(args: argparse.Namespace) -> tuple[Analysis, Provenance | None]:
    """Open the configuration and Spark before any log dir is read, then analyze."""
    from cleaner.engine.cleaner import Cleaner
    from cleaner.spark import open_context
    from policies.config.config_layers import Configured
    from policies.plan import Request
    from storage.kernels import check_usable
    from storage.log_dir import LogDir

    loaded, missing = without_missing(load(args), args.log_dir)
    check_html(args, *loaded.log_dirs)
    log_dirs = [LogDir(path) for path in loaded.log_dirs]
    check_topics(args.topic, log_dirs)
    warn_of_names(loaded)
    warn_of_symlinks(log_dirs)
    check_usable()
    cleaner = Cleaner(Configured(loaded.log_dirs, loaded.layers))
    with open_context(args.master) as spark:
        from cleaner.spark.analysis.analyzing import analyze, make_directories, take_snapshot
        from cleaner.spark.stage_lines import StageLines

        if args.output:
            make_directories(args.output)

        request = Request(clock_ms(), force_compaction=True, confirmed=True, topics=tuple(args.topic))
        snapshot = take_snapshot(cleaner.plan(request))
        with StageLines(spark.statusTracker()) as lines:
            analysis = analyze(spark, snapshot, loaded.layers.broker_policy(), lines.tell)
    return replace(analysis, problems=(*map(str, missing), *analysis.problems)), provenance_if_asked(args, loaded)
