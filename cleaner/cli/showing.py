"""The output of a command: its report on stdout, and a line for each failure on stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.table import Table

    from cleaner.engine.outcome import Listener, Outcome
    from cleaner.report.page import Lines, Report
    from policies.plan import Plan

_ASKS_FOR_STYLES: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables by which rich shows styles where stdout is no terminal, too."""


def show(report: Report, *, as_json: bool, every_segment: bool = False, width_piped: int = 80) -> None:
    """Print a report on stdout. No other function does.

    Args:
        report: the value that a command made.
        as_json: print the report's document, on one line.
        every_segment: do not fold neighbouring segments (``-v``).
        width_piped: the width of tables, in columns, if stdout is not a terminal.
    """
    if as_json:
        json.dump(report.document(), sys.stdout)
        sys.stdout.write("\n")
        return
    from cleaner.report.page import Lines, Page

    is_plain = not sys.stdout.isatty() and _ASKS_FOR_STYLES.isdisjoint(os.environ)
    for part in report.text(Page(shutil.get_terminal_size((80, 24)).columns, every_segment)):
        if is_plain and isinstance(part, Lines):
            sys.stdout.write(part.plain)
        else:
            _print(part, None if sys.stdout.isatty() else width_piped)


def _print(part: Lines | Table, width: int | None) -> None:
    """Print a part of a report with rich, which lays tables out, and shows styles on a terminal."""
    from rich.console import Console

    from cleaner.report.page import Lines

    console = Console(width=width)
    if not isinstance(part, Lines):
        console.print(part)
    elif console.is_terminal:
        console.print(part.styled(), soft_wrap=True, end="")
    else:
        sys.stdout.write(part.plain)


def tell_failures(plan: Plan, outcome: Outcome, listener: Listener) -> None:
    """Log each failure that the engine did not log while it ran."""
    for failed in plan.failures:
        listener.event("partition_failed", **failed.topic_partition._asdict(), error=failed.error)
    if outcome.dry_run:  # a run logs these failures itself
        for (_, topic_partition), result in outcome.results.items():
            if result.error:
                listener.event("partition_failed", **topic_partition._asdict(), error=result.error)
    for error in log_dir_errors(plan, outcome):
        if error != outcome.no_kernels:
            listener.event("log_dir_failed", error=error)


def log_dir_errors(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the errors of whole log dirs, and those that belong to no partition."""
    return [*(error for log_dir in plan.log_dirs for error in log_dir.facts.errors), *outcome.errors]
