"""The origin of a key's value: every value that was stated for a topic, and the one that holds.

``policies.config.config_layers`` makes these.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from policies.config.config_keys import BROKER_KEY, TOPIC_KEY
from policies.config.policy import Layer, Stated


class Exclusion(Enum):
    """A reason why a value does not count, whatever stronger layers state."""

    INTERNAL_TOPIC = "topics named __* take retention.* only from the cluster metadata or by their exact name"
    WEAKER_NAME = "a stronger name of the same key stands beside it"


class LayerValue(NamedTuple):
    """One layer's value of a key.

    Attributes:
        pattern: the name or glob of ``[topics]`` that states the value; None in other layers.
        excluded: why the value does not count; None if it holds unless a stronger layer states another.
    """

    stated: Stated
    pattern: str | None = None
    excluded: Exclusion | None = None

    @property
    def applies(self) -> bool:
        """Return False if a rule excludes the value."""
        return self.excluded is None


class Explanation(NamedTuple):
    """Every stated value of a key, lowest layer first, and the value that holds."""

    key: str
    topic: str | None
    values: tuple[LayerValue, ...]

    @property
    def winner(self) -> Stated:
        """Return the value that holds."""
        return self.winning.stated

    @property
    def winning(self) -> LayerValue:
        """Return the value that holds, with the pattern that states it."""
        return next(value for value in reversed(self.values) if value.applies)

    @property
    def is_stated(self) -> bool:
        """Return whether somebody stated the value, or it is not Kafka's default."""
        key = TOPIC_KEY.get(self.key) or BROKER_KEY[self.key]
        return self.winner.layer is not Layer.KAFKA_DEFAULT or self.winner.value != key.default
