"""The report of an analysis: tables for people, ``logcleaner.analysis/1`` for machines.

The page is made of the document.

The page shows sums by topic, by day and by codec.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from cleaner.printable import printable
from cleaner.report.findings import TABLES, Analysis, AnalysisRow, Codec, CurveStep, Day, Savings, Sizes, TopKey
from cleaner.report.overview.provenance import Provenance
from cleaner.report.page import NAME_MIN, YEAR_9999_MS, Lines, Page
from policies.reasons import counted, duration, moment, size

if TYPE_CHECKING:
    from rich.table import Table

_DAYS: Final = 30
_TOPICS: Final = 5

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
class AnalysisReport:
    """An analysis that is shown as tables, as a document, or as a page that is made of the document."""

    analysis: Analysis
    provenance: Provenance | None = None
    """The provenance of the page; None if no page is asked for."""

    def document(self) -> dict[str, Any]:
        """Return what ``analyze --json`` prints: sizes in bytes, times in epoch ms, keys with escaped bytes."""
        tables = {name: [_jsonable(asdict(row)) for row in self.analysis.tables[name]] for name in TABLES}
        problems = list(self.analysis.problems)
        document = {"schema": SCHEMA, "now": self.analysis.now_ms, **tables, "problems": problems}
        if self.provenance is None:
            return document

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


@dataclass(frozen=True, slots=True)
class Section:
    """One table, with cells for people."""

    title: str
    headings: tuple[str, ...]
    is_right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    """Rows beyond ``ROWS_MAX`` of a partition."""


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


def report_fields(provenance: Provenance, analysis: Analysis) -> dict[str, Any]:
    """Return the key ``report`` of ``logcleaner.analysis/1``."""
    sizes = [row for row in analysis.tables["sizes"] if isinstance(row, Sizes)]
    savings = [row for row in analysis.tables["savings"] if isinstance(row, Savings)]
    totals = {
        "topics": len({row.topic for row in sizes}),
        "partitions": len(sizes),
        "segments": sum(row.segments for row in sizes),
        "bytes": sum(row.size_bytes for row in sizes),
        "records": sum(row.records for row in sizes),
        "saved_bytes": sum(row.saved_bytes for row in savings),
        "deleted_bytes": sum(row.deleted_bytes for row in savings),
    }
    return {
        **provenance.fields(),
        "sentence": _sentence(totals),
        "totals": totals,
        "topics": list(_topics(sizes, savings)),
        "growth": _growth((row for row in analysis.tables["days"] if isinstance(row, Day)), analysis.now_ms),
        "codecs": list(_codecs(row for row in analysis.tables["codecs"] if isinstance(row, Codec))),
    }


def _jsonable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


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
    """Return how many columns a name may take, so that the figures beside it have enough."""
    cells = zip(section.headings[names:], *(row[names:] for row in section.rows), strict=True)
    others = sum(1 + max(map(len, column)) for column in cells)
    return max((page.width - others) // names - 1, NAME_MIN)


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


def _limit(step: CurveStep) -> str:
    if step.limit is None:
        return "any greater"
    return duration(step.limit) if step.key == "retention.ms" else size(step.limit)


def _number(value: int, column: str) -> str:
    if column.endswith("_ms") and value < YEAR_9999_MS:
        return moment(value)
    return size(value) if column.endswith("bytes") else f"{value:,}"


def _sentence(totals: dict[str, int]) -> str:
    there = f"{counted(totals['records'], 'record')} in {size(totals['bytes'])} of {counted(totals['topics'], 'topic')}"
    return f"{there}; clean --force-compaction would save {size(totals['saved_bytes'])} now."


def _growth(rows: Iterable[Day], now_ms: int) -> dict[str, Any]:
    last = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    days = [(last - timedelta(days=back)).isoformat() for back in range(_DAYS - 1, -1, -1)]
    sizes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    older = undated = 0
    for row in rows:
        if row.day is None or row.day > days[-1]:
            undated += row.size_bytes
        elif row.day < days[0]:
            older += row.size_bytes
        else:
            sizes[row.topic][row.day] += row.size_bytes
    most = sorted(sizes, key=lambda topic: (-sizes[topic].total(), topic))
    series: list[dict[str, Any]] = [
        {"topic": topic, "bytes": [sizes[topic][day] for day in days]} for topic in most[:_TOPICS]
    ]
    if others := most[_TOPICS:]:
        series.append({"topic": None, "bytes": [sum(sizes[topic][day] for topic in others) for day in days]})
    return {"days": days, "series": series, "older_bytes": older, "undated_bytes": undated}


def _topics(sizes: Iterable[Sizes], savings: Iterable[Savings]) -> Iterable[dict[str, Any]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in sizes:
        found[row.topic] += Counter(partitions=1, bytes=row.size_bytes, records=row.records)
    for saved in savings:
        compacted_bytes = saved.saved_bytes - saved.deleted_bytes
        found[saved.topic] += Counter(deleted_bytes=saved.deleted_bytes, compacted_away_bytes=max(compacted_bytes, 0))
    names = ("partitions", "bytes", "records", "deleted_bytes", "compacted_away_bytes")
    for topic in sorted(found, key=lambda topic: (-found[topic]["bytes"], topic)):
        gone = found[topic]["deleted_bytes"] + found[topic]["compacted_away_bytes"]
        sums = {name: found[topic][name] for name in names}
        yield {"topic": topic, **sums, "left_bytes": max(found[topic]["bytes"] - gone, 0)}


def _codecs(rows: Iterable[Codec]) -> Iterable[dict[str, Any]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row.codec] += Counter(bytes=row.size_bytes, records=row.records, batches=row.batches)
    for codec in sorted(found, key=lambda codec: -found[codec]["bytes"]):
        yield {"codec": codec, **{name: found[codec][name] for name in ("bytes", "records", "batches")}}
