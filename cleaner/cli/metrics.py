"""Writing of the metrics of a one-shot run to the file that ``[metrics] textfile`` names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cleaner import __version__
from cleaner.cli.exit_status import complain
from storage.errors import LogCleanerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cleaner.cli.opening import Missing
    from cleaner.config.layers import Settings
    from cleaner.engine.cleaner import Cleaner
    from cleaner.engine.outcome import Outcome
    from policies.plan import Plan, Request


def clock_ms() -> int:
    """Return the time of the wall clock, in epoch ms."""
    from cleaner.engine.clock import SystemClock

    return SystemClock().now_ms()


class Ran(NamedTuple):
    """A run that carried a plan out."""

    plan: Plan
    outcome: Outcome
    started_ms: int


def tell_metrics(
    cleaner: Cleaner, settings: Settings, request: Request, missing: Sequence[Missing] = (), ran: Ran | None = None
) -> None:
    """Write the textfile, if there is to be one. A dry run writes nothing.

    The plan of the run describes the log dirs before it. So this function plans again, for all topics. If the file
    cannot be written, this function prints a warning, and the exit status stays.

    Args:
        cleaner: of the run.
        settings: name the file.
        request: what was asked of the run.
        missing: log dirs that the run left out.
        ran: the run; None if the lock of another process prevented it: the file then keeps the time of the last
            success.
    """
    path = settings.metrics_textfile
    if path is None or (ran and ran.outcome.dry_run):
        return
    from cleaner.metrics.textfile import metrics_since, write_textfile

    now_ms = clock_ms()
    try:
        metrics = metrics_since(path, settings.metrics_per_partition, __version__)
        metrics.log_dirs({str(error.path): True for error in missing})
        everything = replace(request, now_ms=now_ms, only=None, force_compaction=False, topics=())
        metrics.planned(cleaner.plan(everything), now_ms)
        if ran:
            metrics.ran(ran.plan, ran.outcome, ran.started_ms, now_ms)
            metrics.held_locks(ran.outcome.seconds)
        write_textfile(path, metrics)
    except (LogCleanerError, OSError) as error:
        complain(f"{error}; the run itself is not affected")
