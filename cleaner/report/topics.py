"""The partitions of a plan, a line each: a table for people, ``logcleaner.topics/1`` for machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cleaner.printable import printable
from cleaner.report.text import size
from policies.expiry import next_expiry_ms
from policies.facts import UnreadablePartition
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.reasons import duration

Causes = Mapping[PartitionKey, str]
SCHEMA: Final = "logcleaner.topics/1"
_NONE: Final[Causes] = {}
_WIDTH_PIPED: Final = 1000
"""Where nobody looks at a terminal, nothing is folded."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One partition. What is not known is None."""

    topic: str
    partition: int
    log_dir: str
    cleanup_policy: str | None = None
    segments: int | None = None
    bytes: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    dirty_ratio: float | None = None
    """None where the partition is not compacted."""
    next_expiry_ms: int | None = None
    """Epoch ms from which the oldest segment may be deleted; None where no time limit holds."""
    error: str | None = None
    """Why it cannot be read, or failed when a run last tried; its files are the same since."""


def rows(plan: Plan, uncleanable: Causes = _NONE) -> list[TopicRow]:
    """One row a partition, in the plan's order; ``uncleanable`` says why some failed when last tried."""
    now_ms = plan.request.now_ms
    return [_row(p, uncleanable, now_ms) for log_dir in plan.log_dirs for p in log_dir.partitions]


def _row(planned: PartitionPlan | UnreadablePartition, uncleanable: Causes, now_ms: int) -> TopicRow:
    if isinstance(planned, UnreadablePartition):
        topic, partition = planned.topic_partition
        return TopicRow(topic, partition, planned.log_dir, bytes=planned.size_bytes, error=planned.error)
    facts = planned.facts
    return TopicRow(
        *facts.topic_partition,
        facts.log_dir,
        planned.policy.cleanup_policy,
        len(facts.segments),
        facts.size_bytes,
        facts.log_start_offset,
        facts.log_end_offset,
        round(planned.section.dirty_ratio, 6) if planned.section else None,
        next_expiry_ms(planned, now_ms),
        uncleanable.get(planned.key),
    )


def document(plan: Plan, uncleanable: Causes = _NONE) -> dict[str, Any]:
    """What ``topics --json`` prints; sizes in bytes, times in epoch ms."""
    fields = TopicRow.__slots__
    partitions = [{name: getattr(row, name) for name in fields} for row in rows(plan, uncleanable)]
    return {"schema": SCHEMA, "now": plan.request.now_ms, "partitions": partitions}


def show(plan: Plan, uncleanable: Causes = _NONE) -> None:
    """Print the table on stdout: folded to the terminal's width, never where it is piped."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_PIPED)
    several = len(plan.log_dirs) > 1
    for log_dir in plan.log_dirs:
        if several:
            console.print(Text(printable(log_dir.facts.path), "bold"))
        for error in log_dir.facts.errors:
            console.print(Text(f"FAILED: {printable(error)}", "bold red"))
    listed = rows(plan, uncleanable)
    console.print(_table(listed, plan.request.now_ms, with_log_dir=several))
    for row in listed:
        if row.error:
            line = f"FAILED {printable(row.topic)}-{row.partition}: {printable(row.error)}"
            console.print(Text(line, "bold red"), soft_wrap=True)


def _table(listed: list[TopicRow], now_ms: int, *, with_log_dir: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("PARTITION", overflow="fold")
    if with_log_dir:
        table.add_column("LOG DIR", overflow="fold")
    table.add_column("POLICY", overflow="fold")
    for name in ("SEGS", "SIZE", "START", "END", "DIRTY", "EXPIRY"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in listed:
        place = (printable(row.log_dir),) if with_log_dir else ()
        cells = (f"{printable(row.topic)}-{row.partition}", *place, *_cells(row, now_ms))
        table.add_row(*map(Text, cells), style="bold red" if row.error else "")
    return table


def _cells(row: TopicRow, now_ms: int) -> tuple[str, ...]:
    if row.error:
        return ("FAILED", "-", size(row.bytes or 0), "-", "-", "-", "-")
    return (
        row.cleanup_policy or "unknown",
        str(row.segments),
        size(row.bytes or 0),
        str(row.log_start_offset),
        str(row.log_end_offset),
        "-" if row.dirty_ratio is None else f"{row.dirty_ratio:.2f}",
        _expiry(row.next_expiry_ms, now_ms),
    )


def _expiry(next_expiry_ms: int | None, now_ms: int) -> str:
    if next_expiry_ms is None:
        return "-"
    return "now" if next_expiry_ms <= now_ms else f"in {duration(next_expiry_ms - now_ms)}"
