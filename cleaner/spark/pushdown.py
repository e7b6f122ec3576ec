"""What Spark's filters say of topics, partitions, offsets and times before a file is opened.

A filter that is honoured here for every row is taken from Spark; one that only narrows (on times, which a segment does
not hold in order) Spark applies again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
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

_NEVER_NULL: Final = ("topic", "partition", "offset", "timestamp", "timestampType")
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


@dataclass(slots=True)
class Pushed:
    """Filters taken in one by one."""

    narrowing: Narrowing = EVERYTHING
    left_to_spark: list[Any] = field(default_factory=list)

    def take(self, filters: Iterable[Any]) -> None:
        """Sort out what is honoured here; the rest is ``left_to_spark``. ``filters`` are ``pyspark``'s."""
        self.left_to_spark = [one for one in filters if not self._honour(one)]

    def _honour(self, one: Any) -> bool:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        comparison, value = type(one).__name__, getattr(one, "value", None)
        if len(attribute) != 1:
            return False
        if comparison == "IsNotNull":
            return attribute[0] in _NEVER_NULL
        if value is None or comparison not in _COMPARISONS:
            return False
        match attribute[0]:
            case "topic" | "partition" as name:
                added = Condition(name, comparison, value)
                self.narrowing = replace(self.narrowing, conditions=(*self.narrowing.conditions, added))
                return True
            case "offset":
                return self._honour_offset(comparison, value)
            case "timestamp":
                self._heed_timestamp(comparison, value)
        return False

    def _honour_offset(self, comparison: str, value: Any) -> bool:
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
                return False
        now = self.narrowing
        self.narrowing = replace(now, start_offset=max(now.start_offset, start), end_offset=min(now.end_offset, end))
        return True

    def _heed_timestamp(self, comparison: str, value: Any) -> None:
        if comparison not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            return
        if isinstance(value, datetime):
            moment = value if value.tzinfo else value.astimezone()
            since_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
            known_ms = self.narrowing.since_ms
            self.narrowing = replace(self.narrowing, since_ms=since_ms if known_ms is None else max(known_ms, since_ms))
