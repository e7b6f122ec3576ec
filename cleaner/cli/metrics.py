"""Writing of the metrics of a one-shot run to the file that ``[metrics] textfile`` names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cleaner import __version__
from cleaner.cli.exit_status import complain
from storage.errors import LogCleanerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cleaner.cli.missing import Missing
    from cleaner.config.layers import Settings
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.outcome import Outcome
    from policies.plan import Plan, Request


def clock_ms() -> int:
    """Return the time of the wall clock, in epoch ms."""
    from cleaner.engine.clock import SystemClock

    return SystemClock().now_ms()


def tell_held(cleaner: Cleaner, settings: Settings, request: Request) -> None:
    """Write the textfile after a run that another process's lock kept from its work: it says so, and what lies there.

    When a run last succeeded stays as the file has it.
    """
    path = settings.metrics_textfile
    if path is None:
        return
    from cleaner.metrics.textfile import metrics_since, write_textfile

    now_ms = clock_ms()
    try:
        metrics = metrics_since(path, settings.metrics_per_partition, __version__)
        everything = replace(request, now_ms=now_ms, only=None, force_compaction=False, topics=())
        metrics.planned(cleaner.plan(everything), now_ms)
        write_textfile(path, metrics)
    except (LogCleanerError, OSError) as error:
        complain(f"{error}; the run itself is not concerned")


def tell_metrics(
    cleaner: Cleaner,
    settings: Settings,
    plan: Plan,
    outcome: Outcome,
    started_ms: int,
    missing: Sequence[Missing] = (),
) -> None:
    """Write the textfile, unless the run is a dry run, which writes nothing.

    The plan describes the log dirs before the run. So this function plans again, for all topics. If the file cannot
    be written, it prints a warning; the run keeps its exit status.
    """
    path = settings.metrics_textfile
    if path is None or outcome.dry_run:
        return
    from cleaner.metrics.textfile import metrics_since, write_textfile

    ended_ms = clock_ms()
    try:
        metrics = metrics_since(path, settings.metrics_per_partition, __version__)
        metrics.log_dirs({str(error.path): True for error in missing})
        after = replace(plan.request, now_ms=ended_ms, only=None, force_compaction=False, topics=())
        metrics.planned(cleaner.plan(after), ended_ms)
        metrics.ran(plan, outcome, started_ms, ended_ms)
        metrics.held_locks(outcome.seconds)
        write_textfile(path, metrics)
    except (LogCleanerError, OSError) as error:
        complain(f"{error}; the run itself is not affected")
