"""An analysis, drawn by hand: a row or two of each table."""

from __future__ import annotations

from cleaner.report.findings import (
    Analysis,
    AnalysisRow,
    Codec,
    CurveStep,
    Day,
    Keys,
    ProducerFigures,
    Savings,
    Sizes,
    Timestamps,
    TopKey,
)  # fmt: skip

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
ORDERS = ("/data", "orders", 0)


def an_analysis(*more: tuple[str, AnalysisRow], problems: tuple[str, ...] = ()) -> Analysis:
    """Of ``orders-0``; ``more`` rows go behind those of the tables they name."""
    tables: dict[str, list[AnalysisRow]] = {
        "sizes": [Sizes(*ORDERS, "compact", 3, 5 << 20, 12_345, 9, 70, 1 << 10, None)],
        "days": [Day(*ORDERS, None, 1, 10), Day(*ORDERS, "2027-01-15", 12_344, 5 << 20)],
        "codecs": [Codec(*ORDERS, "zstd", 9, 12_345, 5 << 20, 2.5)],
        "keys": [Keys(*ORDERS, 10, 20, 3, 2, 1)],
        "top_keys": [TopKey(*ORDERS, "hottest", 1, b"\xff<a>\x1b", 7, 70)],
        "timestamps": [Timestamps(*ORDERS, 0, 1 << 62, 1, 2, 3)],
        "savings": [Savings(*ORDERS, 0, 5 << 20, 1 << 20, 4 << 20, 12_345, 10, "exact")],
        "retention": [
            CurveStep(*ORDERS, "retention.ms", 86_400_000, 0),
            CurveStep(*ORDERS, "retention.bytes", None, 5),
        ],
        "producers": [ProducerFigures(*ORDERS, 4711, 2, 5, 1, 100, 1, 0, 1_234_567)],
    }
    for name, row in more:
        tables[name].append(row)
    return Analysis(NOW_MS, tables, problems)
