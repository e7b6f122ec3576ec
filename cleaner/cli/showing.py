"""The output of a command: its report on stdout, and a line for each failure on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleaner.engine.outcome import Listener, Outcome
    from cleaner.report.page import Report
    from policies.plan import Plan


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
    from rich.console import Console
    from rich.text import Text

    from cleaner.report.page import Page

    console = Console(width=None if sys.stdout.isatty() else width_piped)
    for part in report.text(Page(shutil.get_terminal_size((80, 24)).columns, every_segment)):
        if not isinstance(part, Text):
            console.print(part)
        elif console.is_terminal:
            console.print(part, soft_wrap=True, end="")
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
