"""The command ``free``: it deletes what retention allows until enough of the disk is free, and no more."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cleaner.cli.confirming import add_danger_arguments, confirm_force_lock, tell_guards
from cleaner.cli.exit_status import ExitStatus, complain, help_on
from cleaner.cli.metrics import Ran, clock_ms, tell_metrics
from cleaner.cli.naming import add_log_dirs_operand, tell_misnamed, tell_overrides, warn_of_sole_replicas
from cleaner.cli.opening import add_log_dir_arguments, open_cleaner
from cleaner.cli.progress import ProgressBar
from cleaner.cli.showing import add_view_arguments, draw, draws, hold_failures, show, tell, tell_failures, view_of
from cleaner.cli.values import target
from cleaner.cli.waiting import Waiting, stopping_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.freeing import Rescued
    from policies.plan import PartitionPlan
    from policies.rescue import SpaceTarget, Volume

HELP = "rescue a full disk: free what retention allows, and no more"
_STATE_LIMITS = (
    "name the broker's --server-properties FILE, or say --kafka-defaults if the broker runs on Kafka's defaults"
)
_NAMED_MAX = 3
_STATUSES = (
    ExitStatus.DONE,
    ExitStatus.USAGE,
    ExitStatus.LOCKED,
    ExitStatus.REFUSED,
    ExitStatus.NOT_YET,
    ExitStatus.SIGINT,
    ExitStatus.SIGTERM,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``free``."""
    parser.epilog = help_on(
        *_STATUSES,
        also={ExitStatus.FAILED: "policy does not allow enough, a deletion failed, or a log dir is missing"},
    )
    add_log_dirs_operand(parser)
    add_log_dir_arguments(parser)
    group = parser.add_argument_group("what is done")
    group.add_argument(
        "--target",
        type=target,
        required=True,
        metavar="SIZE",
        help="space that must be free on each file system of the log dirs: 20GiB, or 15%% of it",
    )
    group.add_argument("-n", "--dry-run", action="store_true", help="change nothing, and print what a run would do")
    add_danger_arguments(group)
    group.add_argument("--compact", action="store_true", help="also compact if deletions do not free enough")
    output = parser.add_argument_group("result")
    output.add_argument("--json", action="store_true", help="print one JSON document, schema logcleaner.plan/1")
    add_view_arguments(output, "topics")


def run(args: argparse.Namespace) -> int:
    """Delete if a target is not met, and show what was done."""
    from cleaner.engine.means import PASSES
    from cleaner.events import EventLog, format_of
    from cleaner.report.cleaning import CleaningReport

    view = view_of(args)
    confirm_force_lock(args)
    with ProgressBar(passes=PASSES) as bar:
        listener = EventLog(args.verbose, format_of(args.log_format), bar.advance, bar.expect)
        hold_failures(listener, as_json=args.json)
        cleaner, loaded, missing = open_cleaner(args, listener, patience=(waiting := Waiting()))
        tell_overrides(loaded, args.topic)
        started_ms = clock_ms()
        volumes = cleaner.volumes()
        is_met = not any(args.target.short_bytes(volume) for volume in volumes)
        if is_met and not missing and not args.json:  # the usual case if this runs before each start of a broker
            _tell_volumes(volumes, volumes, args.target, would=False)
            return ExitStatus.DONE
        warn_of_sole_replicas(loaded, args.topic)
        rescued, signalled = _act(args, cleaner, waiting, is_met=is_met)
    errors = (*map(str, missing), *rescued.outcome.errors)
    rescued = replace(rescued, outcome=replace(rescued.outcome, errors=errors))
    report = CleaningReport(rescued.plan, rescued.outcome, clock_ms(), is_rescue=args.dry_run)
    told = show(report, as_json=args.json, view=view, pager=args.pager and args.dry_run)
    tell_failures(rescued.plan, rescued.outcome, listener, told)
    if not args.json:
        _tell_volumes(rescued.before, rescued.after, rescued.target, would=rescued.outcome.dry_run)
        _draw_volumes(rescued)
        _tell_measured(rescued)
        if rescued.plan.has_work or rescued.outcome.swept_bytes:
            tell("free unlinks files at once: restore cannot bring them back")
    _tell_short(args, rescued)
    tell_misnamed(loaded, rescued.plan, is_dry=args.dry_run)
    tell_guards(rescued.plan, is_dry=args.dry_run)
    ran = Ran(rescued.plan, rescued.outcome, started_ms)
    tell_metrics(cleaner, loaded.settings, ran.plan.request, missing, ran)
    if rescued.outcome.interrupted and signalled:
        return signalled
    if rescued.is_met and not missing:
        return ExitStatus.DONE
    return _status_short(rescued, has_missing=bool(missing))


def _status_short(rescued: Rescued, *, has_missing: bool) -> ExitStatus:
    """Return the exit status of a run that missed its target."""
    from cleaner.report.totals import Totals, log_dir_errors

    if any(rescued.plan.guards):
        return ExitStatus.REFUSED
    totals = Totals.of(rescued.plan, rescued.outcome)
    has_failed = has_missing or totals.failed or log_dir_errors(rescued.plan, rescued.outcome)
    return ExitStatus.REFUSED if totals.unknown and not has_failed else ExitStatus.FAILED


def _act(args: argparse.Namespace, cleaner: Cleaner, waiting: Waiting, *, is_met: bool) -> tuple[Rescued, int]:
    """Free space. Return the outcome, and the exit status of a signal that came during the run, else 0."""
    from policies.plan import Only, Request

    only = None if args.compact else Only.RETENTION
    request = Request(clock_ms(), only, confirmed=args.yes, topics=tuple(args.topic))
    if args.dry_run or is_met:
        return cleaner.would_free(request, args.target), 0
    with stopping_on_signals(cleaner) as signals:
        waiting.stopping = lambda: bool(signals)
        rescued = cleaner.free(request, args.target)
    return rescued, 128 + signals[0] if signals else 0


def _tell_volumes(before: Sequence[Volume], after: Sequence[Volume], wanted: SpaceTarget, *, would: bool) -> None:
    from policies.reasons import size

    for earlier, later in zip(before, after, strict=True):
        gained_bytes, short_bytes = later.free_bytes - earlier.free_bytes, wanted.short_bytes(later)
        free = f"{size(later.free_bytes)} {'would be free' if would else 'free'}"
        if gained_bytes:
            side = "more" if gained_bytes > 0 else "less"
            free += f", {size(abs(gained_bytes))} {side} than {'now' if would else 'before'}"
        asked = f"{size(wanted.wanted_bytes(later))} {f'missed by {size(short_bytes)}' if short_bytes else 'met'}"
        tell(f"{', '.join(later.log_dirs)}: {free}; target {asked}")


def _draw_volumes(rescued: Rescued) -> None:
    """Draw what takes each file system, and what the run frees of it; on a terminal only."""
    from cleaner.report.page import disk

    if not draws():
        return
    for earlier, later in zip(rescued.before, rescued.after, strict=True):
        logs_bytes = sum(p.facts.size_bytes for p in rescued.plan.partitions if p.facts.log_dir in earlier.log_dirs)
        freed_bytes = max(later.free_bytes - earlier.free_bytes, 0)
        kept_bytes = max(logs_bytes - freed_bytes, 0)
        others_bytes = max(later.size_bytes - later.free_bytes - kept_bytes, 0)
        columns = shutil.get_terminal_size((80, 24)).columns
        draw(disk(others_bytes, kept_bytes, freed_bytes, later.free_bytes - freed_bytes, columns))


def _tell_measured(rescued: Rescued) -> None:
    """Print how much the deleted files took and how much is free now, and the partitions that freed too little."""
    from policies.reasons import size

    for earlier, later in zip(rescued.before, rescued.after, strict=True):
        if taken := sum(rescued.deleted_disk_bytes.get(path, 0) for path in later.log_dirs):
            gained = size(max(earlier.used_bytes - later.used_bytes, 0))
            paths = ", ".join(later.log_dirs)
            tell(f"{paths}: measured: the deleted files took {size(taken)}, and unused space grew by {gained}")
    for (log_dir, topic_partition), gain in rescued.lacking.items():
        taken, gained = gain.expected_bytes, size(max(gain.measured_bytes, 0))
        why = (
            "a snapshot, a copy that shares blocks, or a process with open files may keep the rest, "
            "or another process wrote meanwhile"
        )
        what = f"deleting {size(taken)} freed {gained}, so nothing else of this partition was deleted"
        tell(f"{log_dir}/{topic_partition}: measured: {what}: {why}")


def _tell_short(args: argparse.Namespace, rescued: Rescued) -> None:
    """Print one line for each file system that stays below the target."""
    from policies.reasons import size

    if rescued.outcome.interrupted:
        return
    for volume in rescued.after:
        if short_bytes := rescued.target.short_bytes(volume):
            cause, remedy = _limit(args, rescued, volume)
            wanted = size(rescued.target.wanted_bytes(volume))
            complain(f"{', '.join(volume.log_dirs)}: {size(short_bytes)} short of {wanted}: {cause}; {remedy}")


def _unknown_remedy(partitions: Iterable[PartitionPlan]) -> str:
    return next(p.policy.unknown_because or "" for p in partitions if p.config_is_unknown).partition("; ")[2]


def _is_unlimited(partition: PartitionPlan) -> bool:
    """Return whether retention applies to a partition, and nobody stated a limit of age or size."""
    from policies.config.policy import Layer

    policy = partition.policy
    stated = (policy.stated.get(key) for key in ("retention.ms", "retention.bytes"))
    is_stated = any(value is not None and value.layer is not Layer.KAFKA_DEFAULT for value in stated)
    return policy.cleanup_delete and not is_stated and policy.retention_ms < 0 and policy.retention_bytes < 0


def _nobody_limits(unlimited: Sequence[PartitionPlan]) -> str:
    """Return a sentence about the partitions that keep everything because nobody stated a limit.

    Compacted partitions need no limit, though their reason is NO_LIMIT, too.
    """
    from policies.reasons import counted

    names = [str(p.facts.topic_partition) for p in unlimited]
    more = ", ..." if len(names) > _NAMED_MAX else ""
    which = f"(NO_LIMIT: {', '.join(names[:_NAMED_MAX])}{more})"
    return f"nobody stated a limit for {counted(len(names), 'partition')} with cleanup.policy=delete {which}"


def _stopped(here: Sequence[PartitionPlan], rescued: Rescued, volume: Volume) -> tuple[str, str] | None:
    """Return what stopped the deletions that policy allows, and what to do; None if nothing did."""
    from policies.reasons import counted

    if held := sum(p.guard is not None for p in here):
        return f"a guard rail holds {counted(held, 'partition')} back", "the next lines name it"
    results = rescued.outcome.results
    failed = sum(results[p.key].error is not None for p in here if p.key in results)
    failed += sum(p.log_dir in volume.log_dirs for p in rescued.plan.failures)
    return (f"{counted(failed, 'partition')} failed", "the lines before say why") if failed else None


def _withheld(here: Sequence[PartitionPlan]) -> tuple[str, str] | None:
    """Return what other than a limit keeps partitions whole, and what to do; None if nothing does."""
    from policies.reasons import ReasonCode, counted

    if unknown := sum(p.config_is_unknown for p in here):
        return f"the cleanup policy of {counted(unknown, 'partition')} is unknown", _unknown_remedy(here)
    deletable = [p for p in here if p.policy.cleanup_delete]
    if deletable and all(map(_is_unlimited, deletable)):
        return _nobody_limits(deletable), _STATE_LIMITS
    if unsure := sum(any(v.reason.code is ReasonCode.NO_HIGH_WATERMARK for v in p.verdicts) for p in here):
        cause = f"nobody knows what is committed in {counted(unsure, 'partition')} (NO_HIGH_WATERMARK)"
        return cause, "start the broker and stop it; for a copy: clean --delete-delay 0 --assume-committed"
    if gainless := sum(any(v.reason.code is ReasonCode.NO_GAIN for v in p.verdicts) for p in here):
        cause = f"deleting from {counted(gainless, 'partition')} would free nothing (NO_GAIN)"
        return (
            cause,
            "remove the hard links, snapshots, copies or processes that keep the blocks, or that write to the disk",
        )
    return None


def _limit(args: argparse.Namespace, rescued: Rescued, volume: Volume) -> tuple[str, str]:
    """Return what keeps a file system below the target, and what to do."""
    from policies.reasons import counted, size

    if (wanted_bytes := rescued.target.wanted_bytes(volume)) > volume.size_bytes:
        return f"the file system has {size(volume.size_bytes)} in all", f"ask for less than {size(wanted_bytes)}"
    here = [p for p in rescued.plan.partitions if p.facts.log_dir in volume.log_dirs]
    results = rescued.outcome.results
    left = [p.compaction for p in here if p.compaction and (args.dry_run or p.key not in results)]
    if left and rescued.outcome.no_kernels:
        return f"{counted(len(left), 'partition')} could not be compacted", "do what the line about the kernels says"
    if left and args.dry_run:
        return (
            "a dry run does not know what compaction would free",
            f"{counted(len(left), 'partition')} would be compacted",
        )
    if left:
        least = size(min(compaction.working_bytes for compaction in left))
        return f"no compaction has enough space: the smallest one needs {least}", "add space, or lower a retention"
    if withheld := _stopped(here, rescued, volume) or _withheld(here):
        return withheld
    others = "lower a retention" if args.compact else "lower a retention, or add --compact"
    unlimited = [p for p in here if _is_unlimited(p)]
    some = f"; {_nobody_limits(unlimited)}: {_STATE_LIMITS}"
    return (
        "policy allows no more",
        f"{others}; clean --dry-run says why each segment stays{some if unlimited else ''}",
    )
