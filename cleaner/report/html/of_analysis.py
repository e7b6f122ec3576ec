"""The page of an analysis, made of its document: ``logcleaner.analysis/1`` with ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final

from cleaner.printable import printable
from cleaner.report.analysis import ROWS_MAX, TITLES, column_heading
from cleaner.report.html.charts import Series, growth_areas, stacked_bars
from cleaner.report.html.content import Chart, Column, DataTable, Headline, Kind, PageContent, columns_of
from policies.reasons import counted, duration, moment, size

Document = Mapping[str, Any]
_CAPTIONS: Final = {
    "sizes": "Small batches cost headers and compress badly: let producers linger longer.",
    "days": "The records of each day, by their timestamps.",
    "codecs": "A ratio near 1 is a codec that costs time and saves nothing.",
    "keys": "Many repeated keys are what compaction saves; records without a key cannot be compacted.",
    "top_keys": "A key that is much hotter than others makes one partition the largest.",
    "timestamps": "Records dated in the future hold retention back; those without a date age by their file.",
    "savings": "What a clean of everything would remove now.",
    "retention": "The .log bytes that stay with each greatest value of a limit.",
    "producers": "A transaction that is open for long holds consumers and compaction back.",
}
_WORDS: Final = frozenset({"cleanup_policy", "day", "codec", "by", "basis"})
_SUMMED: Final = frozenset({"sizes", "savings"})
"""Tables whose rows add up: each partition has one."""
_IDS: Final = ("log_dir", "topic", "partition")


def content_of(document: Document) -> PageContent:
    """Return the page of an analysis."""
    report = document["report"]
    return PageContent(
        title=f"logcleaner analysis, {moment(document['now'])}",
        heading="Analysis of all records",
        sentence=report["sentence"],
        headlines=tuple(_headlines(report["totals"])),
        charts=tuple(chart for chart in _charts(report) if chart),
        remarks=(),
        tables=tuple(_tables(document)),
        report=report,
        now_ms=document["now"],
        notes=tuple(map(printable, document["problems"])),
    )


def _headlines(totals: Document) -> Iterator[Headline]:
    there = f"{counted(totals['partitions'], 'partition')} of {counted(totals['topics'], 'topic')}"
    yield Headline("Size", size(totals["bytes"]), there, totals["bytes"])
    yield Headline("Records", f"{totals['records']:,}", counted(totals["segments"], "segment"), totals["records"])
    yield Headline(
        "Would be saved now", size(totals["saved_bytes"]), "by clean --force-compaction", totals["saved_bytes"]
    )
    yield Headline(
        "Of that, by retention", size(totals["deleted_bytes"]), "index files included", totals["deleted_bytes"]
    )


def _charts(report: Document) -> Iterator[Chart | None]:
    topics = report["topics"]
    caption = (
        "What clean --force-compaction would remove now stands first. A long green bar is what the limits keep: the "
        "table of limits below says what a shorter one would leave."
    )
    bars = (("retention deletes", "delete-1", "deleted_bytes"), ("compaction removes", "compact",
            "compacted_away_bytes"), ("stays", "keep-1", "left_bytes"))  # fmt: skip
    series = [Series(name, colour, [topic[key] for topic in topics]) for name, colour, key in bars]
    names = [topic["topic"] for topic in topics]
    yield stacked_bars("by-topic", "Bytes by topic, and what could go", caption, names, series, "Topic")
    caption = "By the timestamps of the records. A day that stands out has a producer to ask about."
    yield growth_areas("growth", "Written by day", caption, report["growth"])
    caption = "Where none is large, compression.type of the topic, or of its producers, would save most of it."
    codecs = report["codecs"]
    sizes = [Series("bytes", "topic-1", [codec["bytes"] for codec in codecs])]
    yield stacked_bars("codecs-chart", "Bytes by codec", caption, [codec["codec"] for codec in codecs], sizes, "Codec")


def _tables(document: Document) -> Iterator[DataTable]:
    several = len({row["log_dir"] for row in document["sizes"]}) > 1
    for name, title in TITLES.items():
        if rows := document[name]:
            yield _table(name, title, rows, several=several)


def _table(name: str, title: str, rows: Sequence[Document], *, several: bool) -> DataTable:
    shown = [row for _, group in groupby(rows, _list_of) for row in islice(group, ROWS_MAX)]
    names = [column for column in rows[0] if column not in _IDS]
    of = columns_of(shown, names)
    columns = [Column("Partition", Kind.NAME, [printable(f"{row['topic']}-{row['partition']}") for row in shown])]
    if several:
        columns.append(Column("Log dir", Kind.TEXT, [printable(row["log_dir"]) for row in shown]))
    has_totals = name in _SUMMED
    columns += [_column(column, of[column], shown, has_totals=has_totals) for column in names]
    left_out = len(rows) - len(shown)
    rest = f" {counted(left_out, 'more row')} are in --json and --output." if left_out else ""
    return DataTable(name.replace("_", "-"), title, f"{_CAPTIONS[name]}{rest}", tuple(columns))


def _list_of(row: Document) -> tuple[Any, ...]:
    which = row.get("by") if "rank" in row else row.get("key")
    return row["log_dir"], row["topic"], row["partition"], which


def _column(name: str, values: Sequence[Any], rows: Sequence[Document], *, has_totals: bool) -> Column:
    heading = column_heading(name).capitalize()
    if name == "limit":
        return Column(heading, Kind.TEXT, [_limit(row) for row in rows])
    if name in _WORDS or (name == "key" and "rank" not in rows[0]):
        return Column(heading, Kind.WORD, [value or "" for value in values])
    if name == "key":
        return Column(heading, Kind.TEXT, [printable(value) for value in values])
    if name.endswith("bytes"):
        return Column(
            heading, Kind.BYTES, values, has_totals and name in {"size_bytes", "saved_bytes", "deleted_bytes"}
        )
    return Column(heading, Kind.MOMENT if name.endswith("_ms") else Kind.NUMBER, values)


def _limit(row: Document) -> str:
    limit: int | None = row["limit"]
    if limit is None:
        return "any greater"
    return duration(limit) if row["key"] == "retention.ms" else size(limit)
