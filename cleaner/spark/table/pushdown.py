"""What Spark's filters say of topics, partitions, offsets and times before a file is opened.

Filters only narrow what is read. Spark applies each of them to every row, so a row too many is never in an answer.
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
"""By the name of Spark's filter class: Spark 4.0 has none of them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison that the name of a partition must pass."""

    attribute: str
    comparison: str
    value: object

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether it does."""
        return _COMPARISONS[self.comparison](getattr(topic_partition, self.attribute), self.value)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is left to read."""

    conditions: tuple[Condition, ...] = ()
    start_offset: int = 0
    end_offset: int = OFFSET_MAX
    """Exclusive."""
    since_ms: int | None = None
    """No record before it is wanted; epoch ms."""

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether records of the partition may be wanted."""
        return all(condition.holds(topic_partition) for condition in self.conditions)


EVERYTHING: Final = Narrowing()


def narrowing_of(filters: Iterable[Any], *, names_only: bool) -> Narrowing:
    """Return what is left to read for a query with these filters.

    Args:
        filters: ``pyspark``'s; a row that fails one of them is not wanted.
        names_only: whether only topics and partitions are looked at. So it must be unless a damaged batch ends the
            query: the row that tells of one has no time, and which batches are found behind it depends on where reading
            begins.
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
    """A time without a zone is not looked at: which moment it means is Spark's to say."""
    if comparison not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return narrowing
    if not isinstance(value, datetime) or value.tzinfo is None:
        return narrowing
    since_ms = (value - _EPOCH) // timedelta(milliseconds=1)
    return replace(narrowing, since_ms=since_ms if narrowing.since_ms is None else max(narrowing.since_ms, since_ms))
