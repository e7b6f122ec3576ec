"""The report of ``topics``, a row for each partition: a table for people, ``logcleaner.topics/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from cleaner.printable import printable
from cleaner.report.page import Lines, Page, size
from policies.expiry import next_expiry_ms
from policies.facts import UnreadablePartition
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.reasons import duration

Causes = Mapping[PartitionKey, str]
SCHEMA: Final = "logcleaner.topics/1"


@dataclass(frozen=True, slots=True)
class TopicRow:
    """The row of one partition; None stands for what is not known."""

    topic: str
    partition: int
    log_dir: str
    cleanup_policy: str | None = None
    segments: int | None = None
    bytes: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    dirty_ratio: float | None = None
    """None if the partition is not compacted."""
    next_expiry_ms: int | None = None
    """Time from which the oldest segment may be deleted, in epoch ms; None if no time limit holds."""
    error: str | None = None
    """Why the partition cannot be read, or why its last cleaning failed, if its files have not changed since."""


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


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """The partitions of a plan. ``uncleanable`` says why the last cleaning of some of them failed."""

    plan: Plan
    uncleanable: Causes = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return what ``topics --json`` prints: sizes in bytes, times in epoch ms."""
        partitions = [{name: getattr(row, name) for name in TopicRow.__slots__} for row in self.rows()]
        return {"schema": SCHEMA, "now": self.plan.request.now_ms, "partitions": partitions}

    def text(self, page: Page) -> Iterator[Lines | Table]:  # noqa: ARG002 - tables are as wide as the console
        """Yield a table, and a line for each failure."""
        several, listed = len(self.plan.log_dirs) > 1, self.rows()
        for log_dir in self.plan.log_dirs:
            if several:
                yield Lines((printable(log_dir.facts.path), "bold"))
            for error in log_dir.facts.errors:
                yield Lines((f"FAILED: {printable(error)}", "bold red"))
        yield _table(listed, self.plan.request.now_ms, with_log_dir=several)
        for row in listed:
            if row.error:
                words = f"FAILED {printable(row.topic)}-{row.partition}: {printable(row.error)}"
                yield Lines((words, "bold red"))

    def rows(self) -> list[TopicRow]:
        """Return one row for each partition, in the plan's order."""
        now_ms = self.plan.request.now_ms
        return [_row(p, self.uncleanable, now_ms) for log_dir in self.plan.log_dirs for p in log_dir.partitions]


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
