"""The report of an analysis: tables for people, ``logcleaner.analysis/1`` for machines; its page is made of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from cleaner.printable import printable
from cleaner.report.findings import TABLES, Analysis, AnalysisRow, CurveStep, TopKey
from cleaner.report.page import NAME_MIN, YEAR_9999_MS, Lines, Page, counted, size
from policies.reasons import duration, moment

if TYPE_CHECKING:
    from rich.table import Table

    from cleaner.report.overview.provenance import Provenance

SCHEMA: Final = "logcleaner.analysis/1"
ROWS_MAX: Final = 10
"""Rows of one partition that a table for people shows, for each list and curve."""
TITLES: Final = {
    "sizes": "Sizes",
    "days": "By day (UTC)",
    "codecs": "Compression",
    "keys": "Keys",
    "top_keys": "Hottest and largest keys",
    "timestamps": "Timestamps",
    "savings": "What clean --force-compaction would save now",
    "retention": "What a limit up to this one would keep",
    "producers": "Producers and transactions",
}
_HEADINGS: Final = {
    "size_bytes": "SIZE", "cleanup_policy": "POLICY",
    "batch_min_bytes": "MIN", "batch_median_bytes": "MEDIAN", "batch_max_bytes": "MAX",
    "deleted_bytes": "DELETED", "compacted_from_bytes": "COMPACTED", "compacted_to_bytes": "TO", "saved_bytes": "SAVED",
    "records_read": "READ", "records_kept": "KEPT", "kept_bytes": "KEPT", "producer_id": "PRODUCER",
    "producer_epoch": "EPOCH", "open_since_offset": "OPEN AT", "oldest_ms": "OLDEST", "newest_ms": "NEWEST",
    "out_of_order": "DISORDER", "duplicates": "REPEATED", "deleted_keys": "DELETED", "without_key": "NO KEY",
}  # fmt: skip
_NAMES: Final = ("PARTITION", "LOG DIR")
_LEFT: Final = ("cleanup_policy", "day", "codec", "by", "key", "basis", "oldest_ms", "newest_ms")
_IDS: Final = ("producer_id", "open_since_offset")


@dataclass(frozen=True, slots=True)
class Section:
    """One table, with cells for people."""

    title: str
    headings: tuple[str, ...]
    is_right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    """Rows beyond ``ROWS_MAX`` of a partition."""


def _jsonable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def sections(analysis: Analysis) -> Iterator[Section]:
    """Yield a section for each table that has rows. If there are several log dirs, it has a column for them."""
    log_dirs = {row.log_dir for row in analysis.tables["sizes"]}
    for name, kind in TABLES.items():
        if not (rows := analysis.tables[name]):
            continue
        columns = [field.name for field in fields(kind)[len(fields(AnalysisRow)) :]]
        shown, left_out = _first_of_each(rows)
        names = _NAMES if len(log_dirs) > 1 else _NAMES[:1]
        yield Section(
            TITLES[name],
            (*names, *map(column_heading, columns)),
            (*(False for _ in names), *(column not in _LEFT for column in columns)),
            tuple((*_names(row)[: len(names)], *(_cell(row, column) for column in columns)) for row in shown),
            left_out,
        )


def column_heading(column: str) -> str:
    """Return the heading of a column, by the name of its values."""
    return _HEADINGS.get(column, column.replace("_", " ").upper())


def _first_of_each(rows: Sequence[AnalysisRow]) -> tuple[list[AnalysisRow], int]:
    """Return at most ``ROWS_MAX`` rows of each list or curve of a partition, and the number of rows left out."""
    shown = [row for _, group in groupby(rows, _list_of) for row in islice(group, ROWS_MAX)]
    return shown, len(rows) - len(shown)


def _list_of(row: AnalysisRow) -> tuple[str, str, int, str | None]:
    which = row.key if isinstance(row, CurveStep) else row.by if isinstance(row, TopKey) else None
    return row.log_dir, row.topic, row.partition, which


def _names(row: AnalysisRow) -> tuple[str, str]:
    return f"{printable(row.topic)}-{row.partition}", printable(row.log_dir)


def _cell(row: AnalysisRow, column: str) -> str:
    value = getattr(row, column)
    if isinstance(row, CurveStep) and column == "limit":
        return _limit(row)
    match value:
        case None:
            return "-"
        case bytes():
            return printable(_text(value))
        case int() if column not in _IDS:
            return _number(value, column)
        case float():
            return f"{value:.2f}"
    return str(value)


def _number(value: int, column: str) -> str:
    if column.endswith("_ms") and value < YEAR_9999_MS:
        return moment(value)
    return size(value) if column.endswith("bytes") else f"{value:,}"


def _limit(step: CurveStep) -> str:
    if step.limit is None:
        return "any greater"
    return duration(step.limit) if step.key == "retention.ms" else size(step.limit)


def _table(section: Section, page: Page) -> Table:
    from rich.table import Table  # noqa: PLC0415 - --json does without
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading, is_right in zip(section.headings, section.is_right, strict=True):
        is_name = heading in _NAMES
        table.add_column(heading, justify="right" if is_right else "left", overflow="fold", no_wrap=is_name)
    names = sum(heading in _NAMES for heading in section.headings)
    columns = _name_columns(section, page, names)
    for row in section.rows:
        table.add_row(*(Text(page.name(cell, columns)) for cell in row[:names]), *map(Text, row[names:]))
    return table


def _name_columns(section: Section, page: Page, names: int) -> int:
    """Return how many columns a name may take, so that the figures beside it keep theirs."""
    cells = zip(section.headings[names:], *(row[names:] for row in section.rows), strict=True)
    others = sum(1 + max(map(len, column)) for column in cells)
    return max((page.width - others) // names - 1, NAME_MIN)


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """An analysis that is shown as tables, as a document, or as a page that is made of the document."""

    analysis: Analysis
    provenance: Provenance | None = None
    """Who makes the page of the analysis; None if no page is asked for."""

    def document(self) -> dict[str, Any]:
        """Return what ``analyze --json`` prints: sizes in bytes, times in epoch ms, keys with escaped bytes."""
        tables = {name: [_jsonable(asdict(row)) for row in self.analysis.tables[name]] for name in TABLES}
        problems = list(self.analysis.problems)
        document = {"schema": SCHEMA, "now": self.analysis.now_ms, **tables, "problems": problems}
        if self.provenance is None:
            return document
        from cleaner.report.overview.of_analysis import report_fields  # noqa: PLC0415 - only a page needs it

        return {**document, "report": report_fields(self.provenance, self.analysis)}

    def text(self, page: Page) -> Iterator[Lines | Table]:
        """Yield a table for each kind of finding."""
        for section in sections(self.analysis):
            yield Lines((section.title, "bold underline"))
            yield _table(section, page)
            if section.left_out:
                more = counted(section.left_out, "more row")
                yield Lines((f"{more} in --json and --output", "dim"))
            yield Lines(("", ""))
