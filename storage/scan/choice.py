"""The partitions that a frame is of, chosen by name with the options of Spark's Kafka source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to choose partitions; with none of them all are chosen."""

    topics: frozenset[str] | None = None
    """``subscribe``."""
    pattern: str | None = None
    """``subscribePattern``: a regular expression that the whole name of a topic matches."""
    partitions: frozenset[TopicPartition] | None = None
    """``assign``."""

    def wants(self, name: TopicPartition) -> bool:
        """Return whether a partition is chosen."""
        if self.topics is not None:
            return name.topic in self.topics
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name.topic) is not None
        return self.partitions is None or name in self.partitions

    def missing_from(self, found: Iterable[TopicPartition]) -> tuple[str, str] | None:
        """Return the option and the first thing it names that was not found; None if all of it was."""
        names = set(found)
        missing = sorted((self.topics or set()) - {name.topic for name in names})
        if missing:
            return "subscribe", missing[0]
        if self.pattern is not None and not names:
            return "subscribePattern", self.pattern
        gone = sorted((self.partitions or set()) - names)
        return ("assign", str(gone[0])) if gone else None


EVERYTHING: Final = Choice()


def parse_topics(text: str) -> Choice:
    """Read ``subscribe``. Raises: ValueError."""
    topics = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not topics:
        raise ValueError("a topic, or several with commas")
    return Choice(topics=topics)


def parse_pattern(text: str) -> Choice:
    """Read ``subscribePattern``. Raises: ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return Choice(pattern=text)


def parse_partitions(text: str) -> Choice:
    """Read ``assign``. Raises: ValueError."""
    shape = ValueError('not JSON like {"orders": [0, 1]}')
    try:
        pairs = [(topic, number) for topic, numbers in json.loads(text).items() for number in numbers]
    except (ValueError, AttributeError, TypeError) as error:
        raise shape from error
    if not pairs or any(type(number) is not int or number < 0 for _, number in pairs):
        raise shape
    return Choice(partitions=frozenset(TopicPartition(topic, number) for topic, number in pairs))
