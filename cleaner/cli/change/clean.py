"""The command ``clean``: it plans once and carries the plan out; ``--dry-run`` only plans.

``--engine`` says whether this process or a Spark cluster carries out the compactions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner import __version__
from cleaner.cli.as_of import add_as_of_arguments, is_as_of, run_as_of
from cleaner.cli.confirming import (
    add_danger_arguments,
    confirm,
    confirm_force_lock,
    confirm_guards,
    confirm_held_back,
    tell_guards,
)
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.metrics import Ran, clock_ms, tell_metrics
from cleaner.cli.naming import (
    add_log_dirs_operand,
    place,
    tell_misnamed,
    tell_overrides,
    warn_of_directories_without_segments,
    warn_of_sole_replicas,
)
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.repacking import (
    add_repack_arguments,
    check_repack,
    copy_repacking,
    repacked,
    tell_repack,
    with_repack,
)
from cleaner.cli.showing import (
    add_html_argument,
    add_view_arguments,
    check_html,
    hold_failures,
    show,
    tell_failures,
    view_of,
    write_html,
)
from cleaner.cli.values import at_least_one, moment, span_ms
from cleaner.cli.waiting import stopping_on_signals
from cleaner.errors import how_to_install
from storage.errors import InvalidConfig, LogCleanerError
from storage.names import MANIFEST_FILE
from storage.stores.paths import want_whole

if TYPE_CHECKING:
    from cleaner.config.layers import LoadedLayers
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.compactor import Compactor
    from cleaner.engine.outcome import Outcome
    from cleaner.engine.rehearsal.what_if import Answered
    from cleaner.engine.repack.repacking import CopyRepacking
    from cleaner.report.cleaning import CleaningReport
    from cleaner.report.overview.values import Overview
    from policies.forecast.what_if import Question
    from policies.plan import Plan, Request
    from storage.tiers.view import TierView

_EMBEDDED: Final = "local[*]"

HELP = "delete what retention allows, compact what is dirty, once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clean``."""
    parser.epilog = help_on(*(status for status in ExitStatus if status is not ExitStatus.DAMAGED))
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser, with_tier=True)
    _add_what(parser.add_argument_group("what is done"))
    output = parser.add_argument_group("result")
    output.add_argument(
        "--output",
        type=place,
        metavar="DIR",
        help="leave the log dir as it is, and write a cleaned copy with a manifest to DIR (new or empty), which may be "
        "a URL such as s3://bucket/dir",
    )
    add_as_of_arguments(output)
    output.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.plan/1")
    add_html_argument(output)
    output.add_argument(
        "--exit-code", action="store_true", help="with --dry-run: exit with status 10 if there is something to do"
    )
    add_view_arguments(output, "topics")
    parser.set_defaults(reads_stores=True, tier_cleaned=True)


def run(args: argparse.Namespace) -> int:
    """Clean, or copy as of a moment."""
    return run_as_of(args) if is_as_of(args) else _clean(args)


def _clean(args: argparse.Namespace) -> int:
    """Plan, carry the plan out, and show what was done."""
    from cleaner.engine.means import PASSES
    from cleaner.events import EventLog, format_of
    from cleaner.report.cleaning import CleaningReport
    from storage.lock import LogDirLocked

    check_repack(args)
    _check_usage(args)
    check_html(args)
    request, questions, view = _request(args), asked(args), view_of(args)
    confirm_force_lock(args)
    if not args.topic:
        want_whole(args.log_dir)
    if args.assume_committed:
        confirm(args, "--assume-committed also deletes and compacts records that may never have been committed")
    with opened_compactor(args) as compactor, ProgressBar(passes=PASSES) as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        hold_failures(listener, as_json=args.json)
        one_for = "--output" if args.output else None
        cleaner, loaded, missing = open_cleaner(
            args, listener, threads=args.threads, compactor=compactor, one_log_dir_for=one_for
        )
        check_html(args, *loaded.log_dirs)
        tell_overrides(loaded, args.topic)
        if not args.output:
            warn_of_sole_replicas(loaded, args.topic)
        confirmed, started_ms = confirm_guards(args, cleaner, request), clock_ms()
        copying = copy_repacking(args, confirmed)
        try:
            plan, outcome, signalled = _act(args, cleaner, confirmed, copying)
            answered = cleaner.what_if(plan, outcome, questions, exact=args.exact) if questions else ()
            bar.begin_again()
            if again := confirm_held_back(args, plan, outcome, confirmed):
                plan, outcome, signalled = _act_again(cleaner, plan, outcome, again)
            repacking, ended_by = repacked(args, cleaner, plan, outcome, copying)
        except LogDirLocked:
            if not args.output:
                tell_metrics(cleaner, loaded.settings, request)
            raise
    outcome = replace(outcome, errors=(*map(str, missing), *_left_out_of_tier(args), *outcome.errors))
    ended_ms = clock_ms()
    overview = _overview(args, cleaner, loaded, plan, outcome, answered, ended_ms) if args.html else None
    report = CleaningReport(plan, outcome, ended_ms, is_copy=bool(args.output), overview=overview)
    report = with_repack(with_answers(report, answered), repacking)
    told = show(report, as_json=args.json, view=view, pager=args.pager and args.dry_run)
    if args.output and not args.json:
        _tell_output(args.output)
    tell_failures(plan, outcome, listener, told)
    _tell_remedies(plan, loaded, is_dry=args.dry_run)
    if not args.output:  # a copy leaves the log dir as it was
        tell_metrics(cleaner, loaded.settings, plan.request, missing, Ran(plan, outcome, started_ms))
    written, unpacked = write_html(args, report), tell_repack(repacking)
    signalled = ended_by or (signalled if outcome.interrupted else 0)
    return signalled or _status(args, plan, outcome) or unpacked or written


def add_what_if_argument(group: argparse._ArgumentGroup) -> None:
    """Add the option ``--what-if``."""
    group.add_argument(
        "--what-if",
        action="append",
        nargs="?",
        const="",
        default=[],
        metavar="KEY=V1,V2,...",
        help="with --dry-run: what would be freed and kept, now and in the long run, with these values of a key; "
        "once for each key. With --repack, and without a key: what would be saved",
    )


def asked(args: argparse.Namespace) -> tuple[Question, ...]:
    """Return the questions of the command line. Raises: InvalidConfigs."""
    if not args.what_if:
        return ()
    from policies.forecast.what_if import questions_of

    return questions_of(args.what_if, is_exact=args.exact)


def with_answers(report: CleaningReport, answered: Sequence[Answered]) -> CleaningReport:
    """Return a report with the answers added; without questions, the report as it is."""
    if not answered:
        return report
    from cleaner.report.what_if import WhatIfReport

    return WhatIfReport(report.plan, report.outcome, overview=report.overview, answered=tuple(answered))


def add_engine_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options ``--engine`` and ``--master``."""
    group.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="compact in this process (local, the default) or with Spark",
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help=f"with --engine spark: master of the cluster (default: {_EMBEDDED}, this machine)",
    )


@contextmanager
def opened_compactor(args: argparse.Namespace) -> Iterator[Compactor | None]:
    """Open the engine that ``--engine`` names; yield None for this process.

    Spark starts once there is something to compact. A dry run needs no cluster.

    Raises: InvalidConfig for ``--master`` without Spark; SparkUnavailable if it is not installed.
    """
    if args.engine == "local" and args.master:
        raise InvalidConfig("--master", args.master, "needs --engine spark")
    if args.engine == "local" or args.dry_run:
        yield None
        return
    try:
        from cleaner.spark.bulk.bulk import Bulk
        from cleaner.spark.session import started_on_demand
    except ImportError as error:
        from cleaner.spark.errors import SparkUnavailable

        raise SparkUnavailable(f"{error.name} is not installed", how_to_install("spark")) from error
    with started_on_demand(args.master or _EMBEDDED) as start:
        yield Bulk(start)


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what a run would do")
    group.add_argument(
        "--exact",
        action="store_true",
        help="with --dry-run: read the data for the exact compacted size, and count records without a key",
    )
    add_what_if_argument(group)
    group.add_argument("--only", choices=("retention", "compaction"), help="do only retention, or only compaction")
    group.add_argument("--force-compaction", action="store_true", help="compact at any dirty ratio")
    group.add_argument(
        "--now",
        type=moment,
        metavar="TIME",
        help="take this as the time: epoch ms, ISO 8601 or +7d; a future time needs --dry-run; if it lies more "
        "than an hour back, delete horizons count from the wall clock",
    )
    group.add_argument(
        "--delete-delay",
        type=span_ms,
        metavar="TIME",
        help="replace file.delete.delay.ms; 0 unlinks files in this run",
    )
    add_repack_arguments(group)
    add_engine_arguments(group)
    group.add_argument(
        "--threads",
        type=at_least_one,
        default=1,
        metavar="N",
        help="threads for compactions: large ones one by one, small ones in parallel (default: 1)",
    )
    group.add_argument(
        "--assume-committed",
        action="store_true",
        help="take a partition without a checkpointed high watermark as committed to its end",
    )
    add_danger_arguments(group)


def _check_usage(args: argparse.Namespace) -> None:
    for option, given in (("--exact", args.exact), ("--exit-code", args.exit_code), ("--what-if", args.what_if)):
        if given and not args.dry_run:
            raise InvalidConfig(option, None, "needs --dry-run")
    if args.tier is not None and not (args.output or args.dry_run):
        raise InvalidConfig("--tier", str(args.tier), "needs --output DIR, or --dry-run: a tier is only read")
    if args.force_compaction and args.only == "retention":
        raise InvalidConfig("--force-compaction", None, "does not go with --only retention: nothing is compacted then")
    for option, given in (("--dry-run", args.dry_run), ("--delete-delay", args.delete_delay is not None)):
        if given and args.output:
            raise InvalidConfig("--output", str(args.output), f"does not go with {option}: nothing is deleted")


def _tell_remedies(plan: Plan, loaded: LoadedLayers, *, is_dry: bool) -> None:
    """Print a line for each kind of partition that stays as it is until somebody says or does something."""
    warn_of_directories_without_segments(plan)
    tell_misnamed(loaded, plan, is_dry=is_dry)
    _tell_unknown(plan)
    _tell_uncommitted(plan)
    tell_guards(plan, is_dry=is_dry)


def _tell_unknown(plan: Plan) -> None:
    """Print one line with the remedy if a topic keeps everything because no source states its policy."""
    unknown = {p.policy.topic: p.policy.unknown_because for p in plan.partitions if p.config_is_unknown}
    if unknown:
        topic, because = next(iter(unknown.items()))
        complain(
            f"CONFIG_UNKNOWN: nothing of topic {topic}{_or_more(len(unknown) - 1, 'topic')} was touched: {because}"
        )


def _or_more(count: int, noun: str) -> str:
    """Return a text such as `` or of 3 more topics``; empty if there are no more."""
    from policies.reasons import counted

    return f" or of {counted(count, f'more {noun}')}" if count else ""


def _tell_uncommitted(plan: Plan) -> None:
    """Print one line with the remedy if partitions stay whole because no high watermark is known."""
    from policies.reasons import ReasonCode

    unsure = [
        str(p.facts.topic_partition)
        for p in plan.partitions
        if any(verdict.reason.code is ReasonCode.NO_HIGH_WATERMARK for verdict in p.verdicts)
    ]
    if unsure:
        others = _or_more(len(unsure) - 1, "partition")
        complain(
            f"NO_HIGH_WATERMARK: nothing of {unsure[0]}{others} can go: no replication-offset-checkpoint says what is "
            "committed; let the broker start and stop, or, for a copy or a single broker, say --assume-committed"
        )


def _request(args: argparse.Namespace) -> Request:
    from policies.plan import Only, Request

    wall_ms = clock_ms()
    now_ms = args.now(wall_ms) if args.now else wall_ms
    if now_ms > wall_ms and not args.dry_run:
        raise InvalidConfig(
            "--now", now_ms, f"is later than the clock, {wall_ms}: records would be deleted too early; add --dry-run"
        )
    only = Only(args.only) if args.only else None
    return Request(
        now_ms,
        only,
        args.force_compaction,
        args.assume_committed,
        topics=tuple(args.topic),
        delete_delay_ms=0 if args.output else args.delete_delay,  # a copy has no files that wait
    )


def _overview(
    args: argparse.Namespace,
    cleaner: Cleaner,
    loaded: LoadedLayers,
    plan: Plan,
    outcome: Outcome,
    answered: Sequence[Answered],
    ended_ms: int,
) -> Overview:
    """Return what the page of the run shows beside the plan. Call it after the locks are released."""
    from cleaner.pages.doctored import doctored
    from cleaner.pages.writing import provenance_of
    from cleaner.report.overview.making import overview_of

    now = plan if args.dry_run else cleaner.plan(plan.request)
    runways = outcome.runways if args.dry_run else cleaner.runways(now)
    symptoms = doctored(now, loaded.layers, cleaner.volumes())
    provenance = provenance_of(loaded, args.words, clock_ms())
    broker = loaded.layers.broker_policy()
    return overview_of(
        plan,
        outcome,
        provenance,
        runways=runways,
        answered=answered,
        broker=broker,
        symptoms=symptoms,
        ended_ms=ended_ms,
    )


def _tell_output(output: Path) -> None:
    is_whole = (output / MANIFEST_FILE).exists()
    sys.stdout.write(
        f"{output}: {'the copy is complete, with its manifest' if is_whole else 'the copy was not finished'}\n"
    )


def _act(
    args: argparse.Namespace, cleaner: Cleaner, request: Request, copying: CopyRepacking | None
) -> tuple[Plan, Outcome, int]:
    """Carry out the request. Return plan, outcome, and the exit status of a signal that came during the run, else 0."""
    if args.dry_run:
        from policies.planning import held_back

        plan = cleaner.plan(request)
        outcome = cleaner.would_do(plan, exact=args.exact)
        return held_back(plan, outcome.guards), outcome, 0
    with stopping_on_signals(cleaner) as signals, ExitStack() as locks:
        if args.output:
            _lock_beside_tier(args, locks)
            plan, outcome = cleaner.copy(request, args.output, tool_version=__version__, behind=copying)
        else:
            plan, outcome = cleaner.clean(request)
    return plan, outcome, 128 + signals[0] if signals else 0


def _lock_beside_tier(args: argparse.Namespace, locks: ExitStack) -> None:
    """Keep brokers out of the log dirs that are read together with a tier. Raises: LogDirLocked, UnreadableFile."""
    if (view := _view(args)) is not None:
        from storage.filesystem import FileSystem
        from storage.log_dir import LogDir

        for path in view.log_dirs:
            locks.enter_context(LogDir(path).lock_to_read(FileSystem()))


def _left_out_of_tier(args: argparse.Namespace) -> tuple[str, ...]:
    """Return a line for each segment of the tier that could not be read. The report tells them."""
    view, args.view = _view(args), None
    return tuple(view.problems) if view is not None else ()


def _view(args: argparse.Namespace) -> TierView | None:
    if args.tier is None:
        return None
    from storage.tiers.view import view_at

    return view_at(args.view)


def _status(args: argparse.Namespace, plan: Plan, outcome: Outcome) -> int:
    from cleaner.report.totals import log_dir_errors

    has_failed = plan.failures or any(result.error is not None for result in outcome.results.values())
    if has_failed or log_dir_errors(plan, outcome):
        return ExitStatus.FAILED
    if any(planned.config_is_unknown for planned in plan.partitions) or any(plan.guards):
        return ExitStatus.REFUSED
    has_work = plan.has_work or outcome.swept_bytes > 0
    return ExitStatus.WORK_TO_DO if args.exit_code and has_work else ExitStatus.DONE


def _act_again(cleaner: Cleaner, plan: Plan, outcome: Outcome, request: Request) -> tuple[Plan, Outcome, int]:
    """Do what guard rails had held back. Return the results of both runs, as ``_act`` does."""
    from policies.planning import limited_to, replanned

    keys = outcome.guards.keys()
    try:
        with stopping_on_signals(cleaner) as signals:
            second_plan, second = cleaner.clean(request)
    except LogCleanerError as error:  # a broker may have started; the first run must be reported all the same
        return plan, replace(outcome, errors=(*outcome.errors, str(error))), 0
    deleted = {key: outcome.results[key].deleted_segments for key in keys}
    plan = replanned(plan, limited_to(second_plan, keys), deleted)
    return plan, outcome.followed_by(second), 128 + signals[0] if signals else 0
