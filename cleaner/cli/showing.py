"""How the commands that spend a plan tell what became of it."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleaner.engine.outcome import Listener, Outcome
    from policies.plan import Plan


def show(plan: Plan, outcome: Outcome, *, as_json: bool, verbosity: int) -> None:
    """Print the result on stdout.

    Args:
        plan: the plan.
        outcome: what became of it.
        as_json: one document, schema ``logcleaner.plan/1``.
        verbosity: how often ``-v`` was said: with one, every segment has its line.
    """
    if as_json:
        from cleaner.report.document import document

        json.dump(document(plan, outcome), sys.stdout)
        sys.stdout.write("\n")
        return
    from rich.console import Console

    from cleaner.report.text import Page, render

    page = Page(shutil.get_terminal_size((80, 24)).columns, every_segment=verbosity > 0)
    text = render(plan, outcome, page)
    console = Console()
    if console.is_terminal:
        console.print(text, soft_wrap=True, end="")
    else:
        sys.stdout.write(text.plain)


def tell_failures(plan: Plan, outcome: Outcome, listener: Listener) -> None:
    """One line for each failure that the engine did not tell while it ran."""
    for failed in plan.failures:
        topic, partition = failed.topic_partition
        listener.event("partition_failed", topic=topic, partition=partition, error=failed.error)
    if outcome.dry_run:  # a run tells them itself
        for (_, (topic, partition)), result in outcome.results.items():
            if result.error:
                listener.event("partition_failed", topic=topic, partition=partition, error=result.error)
    for error in log_dir_errors(plan, outcome):
        listener.event("log_dir_failed", error=error)


def log_dir_errors(plan: Plan, outcome: Outcome) -> list[str]:
    """What failed beside the partitions."""
    return [*(error for log_dir in plan.log_dirs for error in log_dir.facts.errors), *outcome.errors]
