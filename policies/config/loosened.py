"""Compare two configurations: find what the second one lets go that the first one kept, by topic and key.

One room for the question. A run asks it between its two readings of the configuration, a daemon between the one in
force and the one that was just saved. The comparison knows no file and no segment: it looks at the values that hold
for a topic, and so at all layers at once. It does not matter which layer the value came from, or why it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final, NamedTuple

from policies.config.config_keys import NO_LIMIT
from policies.config.config_layers import ConfigLayers
from policies.config.policy import BrokerPolicy, Stated, TopicPolicy


class Loosened(NamedTuple):
    """A key whose second value lets more go than its first.

    Attributes:
        topic: the topic that it holds for; None if it holds for all topics alike.
        before: the value that held, with the layer, file and line that stated it.
        after: the value that holds now, likewise.
        was_unknown: the topic's ``cleanup.policy`` was unknown before, so everything stayed.
    """

    topic: str | None
    before: Stated
    after: Stated
    was_unknown: bool = False

    @property
    def key(self) -> str:
        """The key, such as ``retention.ms``."""
        return self.after.key

    @property
    def told(self) -> str:
        """Return both values with their places: ``retention.ms=7d (Kafka's default), before ... (a.toml line 3)``."""
        before = f"{self.key} unknown" if self.was_unknown else self.before.sentence
        return f"{self.after.sentence}, before {before}"

    @property
    def shrinking(self) -> float:
        """Return how many times smaller the limit became: infinity if there was no limit, 1 if the key is no limit."""
        if self.key not in _SMALLER:
            return 1
        old, new = _limit(self.before.value), _limit(self.after.value)
        return old / new if new > 0 and old < inf else inf


_OF_RETENTION: Final = ("retention.ms", "retention.bytes")
_OF_COMPACTION: Final = (
    *("min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms", "min.cleanable.dirty.ratio"),
)
_SMALLER: Final = (*_OF_RETENTION, *_OF_COMPACTION, "file.delete.delay.ms")
"""Limits of which a smaller one lets more go, or lets it go sooner."""


def loosened(before: ConfigLayers, after: ConfigLayers, topics: Iterable[str]) -> tuple[Loosened, ...]:
    """Return every key whose value in ``after`` lets more go than its value in ``before``.

    Args:
        before: the configuration that held.
        after: the configuration that is to hold.
        topics: the topics to compare, also topics of which the first configuration says nothing.

    Returns:
        The keys of the broker first, then those of each topic in the order of ``topics``. It leaves out keys that
        decide nothing, such as ``retention.ms`` of a topic that is only compacted.
    """
    found = dict.fromkeys(loosened_broker(before.broker_policy(), after.broker_policy()))
    for topic in topics:
        for compacted_before in (False, True):  # a partition may have a cleaner checkpoint, its neighbour none
            old = before.policy_for(topic, compacted_before=compacted_before)
            new = after.policy_for(topic, compacted_before=compacted_before)
            found.update(dict.fromkeys(loosened_topic(old, new)))
    return tuple(found)


def loosened_broker(before: BrokerPolicy, after: BrokerPolicy) -> Iterator[Loosened]:
    """Yield the keys of all topics alike: who compacts, how long a producer is known, how far a clock may jump."""
    changed = {
        "log.cleaner.enable": after.log_cleaner_enable and not before.log_cleaner_enable,
        "producer.id.expiration.ms": after.producer_id_expiration_ms < before.producer_id_expiration_ms,
        "clock.jump.max": after.clock_jump_max_ms > before.clock_jump_max_ms,
        "reload.guard": before.reload_guard and not after.reload_guard,
    }
    for key, is_looser in changed.items():
        if is_looser:
            yield Loosened(None, before.value_of(key), after.value_of(key))


def loosened_topic(before: TopicPolicy, after: TopicPolicy) -> Iterator[Loosened]:
    """Yield the keys of one topic whose second value lets more go, if they decide anything."""
    if after.is_hands_off:
        return
    for key in _LOOSER:
        if _decides(after, key) and _LOOSER[key](before, after):
            was_unknown = key == "cleanup.policy" and before.unknown
            yield Loosened(after.topic, before.value_of(key), after.value_of(key), was_unknown)


def _decides(policy: TopicPolicy, key: str) -> bool:
    """Return whether a key decides anything under the topic's ``cleanup.policy``."""
    if key in (*_OF_RETENTION, "retention.future.timestamps", "max.delete.ratio"):
        return policy.cleanup_delete
    if key in (*_OF_COMPACTION, "max.unkeyed.ratio"):
        return policy.cleanup_compact
    return True


def _adds_policy(before: TopicPolicy, after: TopicPolicy) -> bool:
    return (after.cleanup_delete and not before.cleanup_delete) or (
        after.cleanup_compact and not before.cleanup_compact
    )


def _is_less(key: str) -> Callable[[TopicPolicy, TopicPolicy], bool]:
    return lambda before, after: _limit(after.value_of(key).value) < _limit(before.value_of(key).value)


def _is_more(key: str) -> Callable[[TopicPolicy, TopicPolicy], bool]:
    return lambda before, after: _limit(after.value_of(key).value) > _limit(before.value_of(key).value)


def _limit(value: object) -> float:
    """Return a limit as a number: infinity if there is none."""
    if value is None or not isinstance(value, int | float) or value <= NO_LIMIT:
        return inf
    return value


_LOOSER: Final[dict[str, Callable[[TopicPolicy, TopicPolicy], bool]]] = {
    "cleanup.policy": _adds_policy,
    "remote.storage.enable": lambda before, after: before.remote_storage_enable and not after.remote_storage_enable,
    **{key: _is_less(key) for key in _SMALLER},
    **{key: _is_more(key) for key in ("max.delete.ratio", "max.unkeyed.ratio")},
    "retention.future.timestamps": lambda before, after: (
        (before.retention_future_timestamps == "off") and after.retention_future_timestamps != "off"
    ),
}
"""Key of a topic -> whether the second configuration lets more go by it. Any other key lets nothing go."""

LIMITING_KEYS: Final = frozenset(
    (*_LOOSER, "log.cleaner.enable", "producer.id.expiration.ms", "clock.jump.max", "reload.guard")
)
"""Every key that ``loosened`` looks at."""
