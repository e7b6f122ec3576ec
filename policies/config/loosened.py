"""Compare two configurations: find the records that the second lets go and the first kept, by topic and key.

This room alone answers the question. A run asks it between its two readings of the configuration: a person has looked
at the first one, so no protection may disappear in the second: no value, no guard rail, no line that leaves a log dir
out. A daemon asks it between the configuration in force and a newly saved one. Then only the values of files count,
under the same cluster metadata, so that the daemon sees what a person saved, apart from changes by the cluster and from
``--set``. For ``--set``, the room tells which topics it changes, and which not.

The comparison knows no file and no segment: it looks at the values that hold for a topic, and so at all layers at once.
It does not matter which layer stated a value, or why the value is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final, NamedTuple

from policies.config.config_keys import BROKER_KEY, NO_LIMIT, TOPIC_KEY, Value
from policies.config.config_layers import ConfigLayers, Configured, kafka_defaults
from policies.config.config_sources import StatedLayer
from policies.config.policy import NOBODY, BrokerPolicy, Layer, Stated, TopicPolicy
from policies.guards import config_guard

_LIMITS_OF_RETENTION: Final = ("retention.ms", "retention.bytes")
_LIMITS_OF_COMPACTION: Final = (
    *("min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms", "min.cleanable.dirty.ratio"),
)
_SMALLER: Final = (*_LIMITS_OF_RETENTION, *_LIMITS_OF_COMPACTION, "file.delete.delay.ms")
"""Limits whose smaller values let more go, or let it go sooner."""
_OF_RETENTION: Final = frozenset((*_LIMITS_OF_RETENTION, "retention.future.timestamps", "max.delete.ratio"))
_OF_COMPACTION: Final = frozenset((*_LIMITS_OF_COMPACTION, "compaction.upgrade.format", "max.unkeyed.ratio"))

_OF_FILES: Final = (Layer.SERVER_PROPERTIES, Layer.DEFAULTS)
_Values = Mapping[str, Value]

_BEFORE: Final = "confirmed last: "

_NAMED_MAX: Final = 3
_BY_NAME: Final = "the cluster metadata or their exact name under [topics]"


class Loosened(NamedTuple):
    """A key whose second value lets more go than its first.

    Attributes:
        topic: the topic of the value; None if it holds for all topics alike.
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


def loosened(before: ConfigLayers, after: ConfigLayers, topics: Iterable[str]) -> tuple[Loosened, ...]:
    """Return every key whose value in ``after`` lets more go than its value in ``before``.

    Args:
        before: the configuration that held.
        after: the configuration that is to hold.
        topics: the topics to compare, also topics that the first configuration does not name.

    Returns:
        The keys of the broker first, then those of each topic in the order of ``topics``. It leaves out keys that
        decide nothing, such as ``retention.ms`` of a topic that is only compacted.
    """
    found = dict.fromkeys(loosened_broker(before.broker_policy(), after.broker_policy()))
    for topic in topics:
        for compacted_before in (False, True):  # one partition may have a cleaner checkpoint, and its neighbour none
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


def lost_protection(before: Configured, after: Configured, topics: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each key whose second value lets more go, with both values and the places that state them.

    Args:
        before: as it was read first.
        after: as it was read under the locks.
        topics: the topics that the run may change.
    """
    told: dict[str, list[str]] = {}
    is_same = before.layers == after.layers
    for found in () if is_same else loosened(before.layers, after.layers, topics):
        told.setdefault(found.told, []).extend([found.topic] if found.topic else [])
    values = (f"{sentence}{_for_topics(of_topics)}" for sentence, of_topics in told.items())
    return (*_log_dirs(before, after), *values, *_guards(before, after))


class FileLayers(NamedTuple):
    """The keys that let records go, as files state them.

    Attributes:
        limits_stated: whether Kafka's default limits hold, because ``server.properties`` or ``kafka.defaults`` says so.
        broad: the layers of files that name no topic.
        topics: (name or glob, table) of ``[topics]``, the strongest last; empty tables, too: they name topics.
        has_metadata: whether there was cluster metadata beside the files.
    """

    limits_stated: bool
    broad: Mapping[Layer, StatedLayer]
    topics: tuple[tuple[str, StatedLayer], ...]
    has_metadata: bool

    @classmethod
    def of(cls, layers: ConfigLayers) -> FileLayers:
        """Return what the files of a configuration state."""
        return cls(
            layers.broad[Layer.KAFKA_DEFAULT]["retention.ms"].origin != NOBODY,
            {layer: _limiting(layers.broad.get(layer, {})) for layer in _OF_FILES},
            tuple((pattern, _limiting(table)) for pattern, table in layers.topics_file),
            layers.topic_ids is not None,
        )

    def within(self, layers: ConfigLayers) -> ConfigLayers:
        """Return these layers beside the cluster metadata and the ``--set`` of a configuration of today."""
        broad = {**layers.broad, **self.broad, Layer.KAFKA_DEFAULT: kafka_defaults(limits_stated=self.limits_stated)}
        return replace(layers, broad=broad, topics_file=self.topics)

    @property
    def values(self) -> object:
        """The values without their places. Two configurations with equal values let the same records go."""
        tables = [*self.broad.items(), *self.topics]
        return self.limits_stated, self.has_metadata, [(name, _values(table)) for name, table in tables]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON value from which ``from_json`` makes an equal one."""
        return {
            "limits_stated": self.limits_stated,
            "has_metadata": self.has_metadata,
            "broad": {layer.name: _shown(table) for layer, table in self.broad.items()},
            "topics": [[pattern, _shown(table)] for pattern, table in self.topics],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> FileLayers:
        """Return the layers that ``as_json`` wrote, without keys that this version does not know.

        Raises: KeyError, TypeError, ValueError.
        """
        return cls(
            bool(said["limits_stated"]),
            {layer: _read(layer, said["broad"][layer.name]) for layer in _OF_FILES},
            tuple((str(pattern), _read(Layer.TOPICS_NAME, table)) for pattern, table in said["topics"]),
            bool(said["has_metadata"]),
        )


@dataclass(frozen=True, slots=True)
class Override:
    """The effect of one key of ``--set``.

    Attributes:
        stated: the value of ``--set``.
        before: topics that ``--set`` hits -> the value in force without it, in people's words.
        idle: topics without effect: retention, or compaction, does not apply to them.
        same: topics that have this value in force anyway.
        barred: topics named ``__*``, which take ``retention.*`` from no ``--set``.
        unknown: topics that a run leaves alone, because their configuration is unknown.
        refused: the unknown topics whose configuration is known without ``--set`` -> why ``--set`` makes it unknown.
    """

    stated: Stated
    before: dict[str, str] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    barred: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The effect in one sentence."""
        return f"{self.stated.key}={self.stated.shown}: {'; '.join(self._parts())}"

    def _parts(self) -> Iterator[str]:
        by_value: dict[str, list[str]] = {}
        for topic, before in self.before.items():
            by_value.setdefault(before, []).append(topic)
        for before, topics in sorted(by_value.items(), key=lambda found: -len(found[1])):
            yield f"{_counted(topics)}, {before} before ({named(topics)})"
        if not self.before:
            yield "changes no topic"
        if self.same:
            yield f"the same before: {_counted(self.same)}"
        if self.idle:
            lacking = "delete" if self.stated.key in _OF_RETENTION else "compact"
            yield f"without effect: {_counted(self.idle)} without {lacking} in cleanup.policy"
        if self.barred:
            yield f"not hit: {_counted(self.barred)} named __*, which take it only from {_BY_NAME}"
        if self.refused:
            yield f"not touched: {_counted(list(self.refused))}, {_because(self.refused)}"
        if unknown := [topic for topic in self.unknown if topic not in self.refused]:
            yield f"not touched: {_counted(unknown)} of unknown configuration ({named(unknown)})"


def overrides(layers: ConfigLayers, topics: Iterable[str]) -> tuple[Override, ...]:
    """Return the changes by each topic key of ``--set``.

    Args:
        layers: the configuration, with ``--set``.
        topics: the names of the topics of the run.
    """
    found = {key: Override(stated) for key, stated in layers.broad[Layer.SET].items() if key in TOPIC_KEY}
    if not found:
        return ()
    without = replace(layers, broad={**layers.broad, Layer.SET: {}})
    for topic in sorted(set(topics)):
        policy, before = layers.policy_for(topic), without.policy_for(topic)
        for override in found.values():
            _sort_in(topic, policy, before, override)
    return tuple(found.values())


def named(topics: Sequence[str]) -> str:
    """Return the names of the first topics, and the number of further topics: ``a, b, c and 4 more``."""
    others = len(topics) - _NAMED_MAX
    return ", ".join(topics) if others <= 1 else f"{', '.join(topics[:_NAMED_MAX])} and {others:,} more"


def _limit(value: object) -> float:
    """Return a limit as a number: infinity if there is none."""
    if value is None or not isinstance(value, int | float) or value <= NO_LIMIT:
        return inf
    return value


def _decides(policy: TopicPolicy, key: str) -> bool:
    """Return whether a key decides anything under the topic's ``cleanup.policy``."""
    if key in _OF_RETENTION:
        return policy.cleanup_delete
    if key in _OF_COMPACTION:
        return policy.cleanup_compact
    return True


def _log_dirs(before: Configured, after: Configured) -> Iterator[str]:
    """Yield a sentence if the run would change log dirs that were not named before."""
    old, new = (read.layers.broker_policy().value_of("log.dirs") for read in (before, after))
    is_new = set(after.log_dirs) - set(before.log_dirs)
    if is_new and old.value != new.value:
        yield f"{new.sentence}, before {old.sentence}"


def _guards(before: Configured, after: Configured) -> Iterator[str]:
    """Yield a sentence for each log dir whose configuration was perhaps another broker's, and now seems its own."""
    for path, facts in after.facts.items():
        guard = config_guard(before.facts[path]) if path in before.facts else None
        if guard and config_guard(facts) is None:
            yield f"{path}: before, a guard rail held it back: {guard.code}: {guard.text}"


def _for_topics(topics: list[str]) -> str:
    return f", for {'topic' if len(topics) == 1 else f'{len(topics):,} topics:'} {named(topics)}" if topics else ""


def _limiting(table: StatedLayer) -> StatedLayer:
    return {key: stated for key, stated in table.items() if key in LIMITING_KEYS}


def _shown(table: StatedLayer) -> dict[str, list[Any]]:
    return {key: [stated.value, stated.layer.name, stated.origin, stated.name] for key, stated in table.items()}


def _read(layer: Layer, said: Mapping[str, Any]) -> StatedLayer:
    found = {}
    for key, (value, of_layer, origin, name) in said.items():
        if key in TOPIC_KEY or key in BROKER_KEY:
            parsed = tuple(value) if isinstance(value, list) else value
            of = Layer[of_layer] if layer is Layer.TOPICS_NAME else layer
            found[key] = Stated(key, parsed, of, f"confirmed last: {str(origin).removeprefix(_BEFORE)}", str(name))
    return found


def _values(table: StatedLayer) -> _Values:
    return {key: stated.value for key, stated in table.items()}


def _counted(topics: Sequence[str]) -> str:
    return f"{len(topics):,} topic{'' if len(topics) == 1 else 's'}"


def _because(refused: Mapping[str, str]) -> str:
    """Return the reason of the first topic, which names that topic."""
    topic, because = next(iter(refused.items()))
    return f"{named(list(refused))}: {because}" if len(refused) == 1 else f"{named(list(refused))}: {topic}: {because}"


def _sort_in(topic: str, policy: TopicPolicy, before: TopicPolicy, override: Override) -> None:
    """Put a topic into its group, by its configuration with ``--set`` and without."""
    key = override.stated.key
    if policy.unknown:
        override.unknown.append(topic)
        if key == "cleanup.policy" and policy.unknown_because and not before.unknown:
            override.refused[topic] = policy.unknown_because
    elif policy.stated[key].layer is not Layer.SET:
        override.barred.append(topic)
    elif not _decides(policy, key):
        override.idle.append(topic)
    elif key == "cleanup.policy" and before.unknown:
        override.before[topic] = "unknown"
    elif policy.stated[key].value == before.stated[key].value:
        override.same.append(topic)
    else:
        override.before[topic] = before.stated[key].shown


def _adds_policy(before: TopicPolicy, after: TopicPolicy) -> bool:
    return (after.cleanup_delete and not before.cleanup_delete) or (
        after.cleanup_compact and not before.cleanup_compact
    )


def _is_less(key: str) -> Callable[[TopicPolicy, TopicPolicy], bool]:
    return lambda before, after: _limit(after.value_of(key).value) < _limit(before.value_of(key).value)


def _is_more(key: str) -> Callable[[TopicPolicy, TopicPolicy], bool]:
    return lambda before, after: _limit(after.value_of(key).value) > _limit(before.value_of(key).value)


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
