"""The sums of an analysis that its page shows: by topic, by day and by codec."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cleaner.report.findings import Analysis, Codec, Day, Savings, Sizes
from cleaner.report.overview.provenance import Provenance
from cleaner.report.page import counted, size

_DAYS: Final = 30
_TOPICS: Final = 5


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


def _sentence(totals: dict[str, int]) -> str:
    there = f"{counted(totals['records'], 'record')} in {size(totals['bytes'])} of {counted(totals['topics'], 'topic')}"
    return f"{there}; clean --force-compaction would save {size(totals['saved_bytes'])} now."


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


def _codecs(rows: Iterable[Codec]) -> Iterable[dict[str, Any]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row.codec] += Counter(bytes=row.size_bytes, records=row.records, batches=row.batches)
    for codec in sorted(found, key=lambda codec: -found[codec]["bytes"]):
        yield {"codec": codec, **{name: found[codec][name] for name in ("bytes", "records", "batches")}}
