"""Narrow a read by Spark's filters on topics, partitions, offsets and times, before any file is opened.

Filters only narrow the read. Spark applies each filter to every row, so a row too many never reaches an answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from storage.names import TopicPartition
from storage.records.header import OFFSET_MAX

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "In": lambda value, values: value in values,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}
"""The comparisons by the name of Spark's filter class. Names stand for classes, because Spark 4.0 lacks them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison that the name of a partition must pass."""

    attribute: str
    comparison: str
    value: object

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition passes the comparison."""
        return _COMPARISONS[self.comparison](getattr(topic_partition, self.attribute), self.value)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The part of the log dirs that is left to read."""

    conditions: tuple[Condition, ...] = ()
    start_offset: int = 0
    end_offset: int = OFFSET_MAX
    """The end of the offsets, exclusive."""
    since_ms: int | None = None
    """The time before which no record is wanted, epoch ms; None if time does not matter."""

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Return whether the query may want records of the partition."""
        return all(condition.holds(topic_partition) for condition in self.conditions)


EVERYTHING: Final = Narrowing()


def narrowing_of(filters: Iterable[Any], *, names_only: bool) -> Narrowing:
    """Return the part that is left to read for a query with these filters.

    Args:
        filters: filters of ``pyspark``; a row that fails any of them is not wanted.
        names_only: True if only filters on topics and partitions count. It must be True unless a damaged batch ends the
            query. The row for a damaged batch has no time, and the batches found behind the damage depend on the
            offset at which the read begins.
    """
    narrowing = EVERYTHING
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        comparison, value = type(one).__name__, getattr(one, "value", None)
        if len(attribute) != 1 or value is None or comparison not in _COMPARISONS:
            continue
        match attribute[0]:
            case "topic" | "partition" as name:
                condition = Condition(name, comparison, value)
                narrowing = replace(narrowing, conditions=(*narrowing.conditions, condition))
            case "offset" if not names_only:
                narrowing = _within_offsets(narrowing, comparison, value)
            case "timestamp" if not names_only:
                narrowing = _since(narrowing, comparison, value)
    return narrowing


def _within_offsets(narrowing: Narrowing, comparison: str, value: Any) -> Narrowing:
    match comparison:
        case "EqualTo" | "EqualNullSafe":
            start, end = value, value + 1
        case "LessThan":
            start, end = 0, value
        case "LessThanOrEqual":
            start, end = 0, value + 1
        case "GreaterThan":
            start, end = value + 1, OFFSET_MAX
        case "GreaterThanOrEqual":
            start, end = value, OFFSET_MAX
        case _:
            return narrowing
    return replace(
        narrowing, start_offset=max(narrowing.start_offset, start), end_offset=min(narrowing.end_offset, end)
    )


def _since(narrowing: Narrowing, comparison: str, value: Any) -> Narrowing:
    """Narrow a read by a comparison of times. Ignore a time without a zone: only Spark knows which moment it means."""
    if comparison not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return narrowing
    if not isinstance(value, datetime) or value.tzinfo is None:
        return narrowing
    since_ms = (value - _EPOCH) // timedelta(milliseconds=1)
    return replace(narrowing, since_ms=since_ms if narrowing.since_ms is None else max(narrowing.since_ms, since_ms))
