"""The report of ``topics``: a table for people, ``logcleaner.topics/1`` for machines.

A row is about a partition; if the partitions do not fit 60 lines, about a topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cleaner.engine.space import Accounts
from cleaner.report.account import accounts_fields, directory_fields, tell_accounts
from cleaner.report.page import LINES_MAX, Drawn, Lines, Page, beside, in_columns
from cleaner.report.rollup.rolled import TopicRoll, expected, in_order, rank, roll_of, topics_of
from cleaner.report.runways import documents
from cleaner.report.runways import lines as runway_lines
from policies.facts import UnreadablePartition
from policies.forecast.births import DAYS, births_by_day, seen_ms
from policies.forecast.runway import Runway
from policies.plan import PartitionKey, PartitionPlan, Plan
from policies.planning import next_expiry_ms
from policies.reasons import counted, duration, size
from storage.names import TopicPartition

Causes = Mapping[PartitionKey, str]
SCHEMA: Final = "logcleaner.topics/1"
_FAILURES_MAX: Final = 10
_ROWS_MIN: Final = 10
"""The least partitions or topics in the list, even if the text about the log dirs takes more than 60 lines."""
_LINES_AROUND: Final = 5
"""The headings, the totals, and the lines that say how many are left out."""


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
    """The dirty ratio; None if the partition is not compacted."""
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
    accounts: Accounts = field(default_factory=Accounts)
    """The space that the log dirs take."""
    runways: tuple[Runway, ...] = ()
    """How long the file systems of the log dirs last."""

    def document(self) -> dict[str, Any]:
        """Return what ``topics --json`` prints: sizes in bytes, times in epoch ms."""
        partitions = [self._fields(row) for row in self.rows()]
        now_ms = self.plan.request.now_ms
        last = {"runway": documents(self.runways)} if self.runways else {}
        return {"schema": SCHEMA, "now": now_ms, "partitions": partitions, **accounts_fields(self.accounts), **last}

    def _fields(self, row: TopicRow) -> dict[str, Any]:
        fields = {name: getattr(row, name) for name in TopicRow.__slots__}
        account = next((account for account in self.accounts.log_dirs if account.path == row.log_dir), None)
        topic_partition = TopicPartition(row.topic, row.partition)
        found = account.partitions.get(topic_partition) if account else None
        return {**fields, **directory_fields(found, account.removals.get(topic_partition, ()) if account else ())}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the table, a line for each failure, the totals, and the space that the log dirs take."""
        rows, last = self.rows(), page.draft()
        if not page.view.summary_only:
            tell_accounts(self.accounts, self.plan.request.now_ms, last)
        runway_lines(self.runways, last)
        if not page.view.summary_only:
            for log_dir in self.plan.log_dirs:
                if len(self.plan.log_dirs) > 1:
                    page.line(log_dir.facts.path, "bold")
                for error in log_dir.facts.errors:
                    page.line(f"FAILED: {error}", "bold red")
            self._list(rows, page, LINES_MAX - last.lines)
        segments = counted(sum(row.segments or 0 for row in rows), "segment")
        topics = counted(len({row.topic for row in rows}), "topic")
        size_bytes = size(sum(row.bytes or 0 for row in rows))
        page.line(f"{counted(len(rows), 'partition')} of {topics}: {segments}, {size_bytes}", "bold")
        yield page.text
        yield last.text

    def _list(self, rows: Sequence[TopicRow], page: Page, lines_max: int) -> None:
        """Add a row for each partition; add a row for each topic instead if the partitions do not fit the lines."""
        view, now_ms, outcome = page.view, self.plan.request.now_ms, expected(self.plan)
        failed = [row for row in rows if row.error]
        shown_failed = failed if view.every_segment else failed[:_FAILURES_MAX]
        room = max(lines_max - page.lines - len(shown_failed) - _LINES_AROUND, _ROWS_MIN)
        every = [p for log_dir in self.plan.log_dirs for p in log_dir.partitions]
        many = min(view.limit or len(every), len(every))
        if view.every_segment or many <= room:
            listed = in_order(every, outcome, view.sort, now_ms)[:many]
            several = len(self.plan.log_dirs) > 1
            table = [_row(one, self.uncleanable, now_ms) for one in listed]
            drawn = [self._drawn(roll_of([one], outcome)) for one in listed] if page.draws else []
            _table(page, table, drawn, now_ms, with_log_dir=several)
            _and_more(page, len(every) - len(listed), "partition")
        else:
            topics = topics_of(self.plan, outcome)
            if sort := view.sort:
                topics.sort(key=lambda roll: rank(roll, sort, now_ms))
            listed_topics = topics[: view.limit or room]
            failed_topics = {row.topic for row in failed}
            drawn = [self._drawn(roll) for roll in listed_topics] if page.draws else []
            _topics_table(page, listed_topics, failed_topics, drawn, now_ms)
            _and_more(page, len(topics) - len(listed_topics), "topic")
        for row in shown_failed:
            page.row(f"FAILED {row.topic}-{row.partition}: {row.error}", "bold red")
        _and_more(page, len(failed) - len(shown_failed), "failed partition")

    def _drawn(self, roll: TopicRoll) -> Drawn:
        """Return what a terminal shows of a topic beside its figures."""
        now_ms = seen_ms(self.plan)
        days = [births_by_day(planned.facts, now_ms) for planned in roll.plans]
        return Drawn(
            roll.size_bytes - roll.reclaimed_bytes,
            roll.reclaimed_bytes,
            tuple(map(sum, zip(*days, strict=True))),
        )

    def rows(self) -> list[TopicRow]:
        """Return one row for each partition, in the plan's order."""
        now_ms = self.plan.request.now_ms
        return [_row(p, self.uncleanable, now_ms) for log_dir in self.plan.log_dirs for p in log_dir.partitions]


def _table(page: Page, listed: Sequence[TopicRow], drawn: Sequence[Drawn], now_ms: int, *, with_log_dir: bool) -> None:
    headings = ("PARTITION", "LOG DIR", "POLICY", "SEGS", "SIZE", "START", "END", "DIRTY", "EXPIRY")
    rows = [headings, *((f"{row.topic}-{row.partition}", row.log_dir, *_cells(row, now_ms)) for row in listed)]
    if not with_log_dir:
        rows = [(name, *others) for name, _, *others in rows]
    _write(page, rows, len(rows[0]) - 6, [bool(row.error) for row in listed], drawn)


def _topics_table(
    page: Page, listed: Sequence[TopicRoll], failed: Collection[str], drawn: Sequence[Drawn], now_ms: int
) -> None:
    headings = ("TOPIC", "POLICY", "PARTS", "SEGS", "SIZE", "DIRTY", "EXPIRY")
    rows = [headings, *(_topic_cells(roll, now_ms) for roll in listed)]
    _write(page, rows, 2, [roll.topic in failed for roll in listed], drawn)


def _write(
    page: Page,
    rows: Sequence[tuple[str, ...]],
    first_figure: int,
    failed: Sequence[bool],
    drawn: Sequence[Drawn],
) -> None:
    """Add a table, with pictures beside it if the page has room and ``drawn`` has one for each row."""
    lines = list(in_columns(rows, page, range(first_figure, len(rows[0])), gap=" "))
    columns = max(map(len, lines))
    pictures = beside(drawn, page.width - columns, DAYS) if drawn else [()] * len(lines)
    styles = ("bold", *("bold red" if has_failed else "" for has_failed in failed))
    for line, style, picture in zip(lines, styles, pictures, strict=True):
        page.row(f"{line:{columns}}" if picture else line, style, picture)


def _topic_cells(roll: TopicRoll, now_ms: int) -> tuple[str, ...]:
    ratio = roll.dirty_ratio
    expiries_ms = (next_expiry_ms(p, now_ms) for p in roll.plans)
    return (
        roll.topic,
        (roll.plans[0].policy.cleanup_policy if roll.plans else None) or "unknown",
        f"{roll.partitions:,}",
        f"{sum(len(p.facts.segments) for p in roll.plans):,}",
        size(roll.size_bytes),
        "-" if ratio is None else f"{ratio:.2f}",
        _expiry(min((one for one in expiries_ms if one is not None), default=None), now_ms),
    )


def _and_more(page: Page, number: int, noun: str) -> None:
    if number:
        page.line(f"and {counted(number, f'more {noun}')}; --limit N shows more, -v every partition")


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
