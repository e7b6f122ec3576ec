"""Tables of Python values, by the source's own code: what the workers would hand to Spark, without starting it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cleaner.spark.table.options import parse_options
from cleaner.spark.table.source import KafkaLogReader, PushdownReader

Row = dict[str, Any]


def reader(path: Path | str, **options: str) -> KafkaLogReader:
    parsed = parse_options({"path": str(path)} | options)
    return KafkaLogReader(parsed, parsed.columns)


def rows_of(source: KafkaLogReader) -> list[Row]:
    partitions = source.partitions()
    return [row for partition in partitions for batch in source.read(partition) for row in batch.to_pylist()]


def read(path: Path | str, **options: str) -> list[Row]:
    return rows_of(reader(path, **options))


def read_pushed(path: Path | str, filters: Iterable[Any], **options: str) -> list[Row]:
    """What a reader that was offered these filters hands over; Spark would apply them to it."""
    parsed = parse_options({"path": str(path), "pushdown": "true"} | options)
    source = PushdownReader(parsed, parsed.columns)
    source.pushFilters(filters)
    return rows_of(source)


def keys(rows: Iterable[Row]) -> str:
    """Keys of one letter, in the rows' order."""
    return "".join((row["key"] or b"-").decode() for row in rows)
