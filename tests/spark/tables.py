"""Tables of Python values, by the source's own code: what the workers would hand to Spark, without starting it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cleaner.spark.table.options import parse_options
from cleaner.spark.table.planning import Comparison, narrowing_of, plan_read
from cleaner.spark.table.reading import read_planned
from cleaner.spark.table.source import KafkaLogReader

Row = dict[str, Any]


def reader(path: Path | str, **options: str) -> KafkaLogReader:
    parsed = parse_options({"path": str(path)} | options)
    return KafkaLogReader(parsed, parsed.columns)


def rows_of(source: KafkaLogReader) -> list[Row]:
    partitions = source.partitions()
    return [row for partition in partitions for batch in source.read(partition) for row in batch.to_pylist()]


def read(path: Path | str, **options: str) -> list[Row]:
    return rows_of(reader(path, **options))


def read_narrowed(path: Path | str, comparisons: Iterable[Comparison], **options: str) -> list[Row]:
    """What a frame reads whose rows pass these comparisons; Spark would apply them to it."""
    parsed = parse_options({"path": str(path)} | options)
    planned = plan_read(parsed, narrowing_of(comparisons, parsed.mode))
    batches = (batch for together in planned for batch in read_planned(together, parsed.columns, parsed))
    return [row for batch in batches for row in batch.to_pylist()]


def keys(rows: Iterable[Row]) -> str:
    """Keys of one letter, in the rows' order."""
    return "".join((row["key"] or b"-").decode() for row in rows)
