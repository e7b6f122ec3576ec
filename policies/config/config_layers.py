"""Resolve the layers of configuration: find the value that holds for a topic, and whether anybody stated one.

The origin of a value has every value that was stated for the topic, and the one that holds.

A value that destroys data must have been stated:

- A retention limit comes from Kafka's built-in default only if server.properties was read, or if somebody said that
  the broker runs on the defaults.
- A topic that no layer names keeps everything.
- A topic that was compacted before keeps everything if only a default or a glob says that it no longer is.
- If a topic's own configuration in the cluster metadata says ``delete``, the topic is compacted only if ``[topics]``
  says so by its exact name; a glob or ``--set`` does not suffice. The same holds for ``compact``, the other way round.
- Topics named ``__*`` take their retention only from the cluster metadata or from their exact name in ``[topics]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from policies.config.config_keys import BROKER_KEY, BROKER_KEYS, NO_LIMIT, SYNONYM_OF, TOPIC_KEY, TOPIC_KEYS, ConfigKey
from policies.config.config_sources import (
    ConfigSources,
    RawLayer,
    Said,
    StatedLayer,
    read_layer,
    unknown_key,
    unread_of,
)
from policies.config.policy import NOBODY, OUR_DEFAULT, BrokerPolicy, Layer, Stated, TopicPolicy
from policies.facts import ConfigFacts
from storage.errors import InvalidConfig, InvalidConfigs

_SPEAKS_OF_ONE_TOPIC: Final = (Layer.TOPIC_METADATA, Layer.TOPICS_NAME)
_NO_LIMITS: Final = {
    key: Stated(key, NO_LIMIT, Layer.KAFKA_DEFAULT, NOBODY, key) for key in ("retention.ms", "retention.bytes")
}
_SEES_ALL: Final = Stated("remote.storage.enable", False, Layer.SET, "--tier", "--tier")
"""In the log that ``--tier`` shows, nothing that a broker uploaded is out of sight."""
_FIND_METADATA: Final = "name its directory with metadata.log.dir, or as one more --log-dir"
_GLOB: Final = re.compile(r"[*?\[]")
_DEDUPE_BYTES_PER_THREAD: Final = 1 << 20


class Configured(NamedTuple):
    """The configuration that a run acts on. A run reads it again under the locks of the log dirs.

    Attributes:
        log_dirs: directories that a broker names in ``log.dirs``.
        layers: all stated values, by layer.
        facts: log dir, resolved -> the facts that tell whether this is the configuration of its broker.
        name: the file that a person edits: the configuration file, else ``server.properties``. None if there is no
            file: then everything was stated for this run, and the reload guard has nothing to compare.
    """

    log_dirs: tuple[Path, ...]
    layers: ConfigLayers
    facts: Mapping[Path, ConfigFacts] = {}
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigLayers:
    """All layers, read and checked. ``ConfigLayers.read`` makes them.

    Attributes:
        broad: the values of the layers that name no topic, by layer.
        topic_metadata: topic -> the values that the cluster metadata states for it.
        topics_file: (name or glob, table) of ``[topics]``, the strongest last.
        topic_ids: topic -> its id, of the topics in the cluster metadata; None if there is no cluster metadata.
        unread: topic, or None for brokers -> the values that the cluster metadata states by unknown keys.
        tiered: the topics of which the log dir of the run shows all that a tier has of them. Remote storage exempts
            them from nothing. Since a tiered topic has no compaction, they have one only by ``[topics]`` or ``--set``.
    """

    broad: Mapping[Layer, StatedLayer]
    topic_metadata: Mapping[str, StatedLayer]
    topics_file: tuple[tuple[str, StatedLayer], ...]
    topic_ids: Mapping[str, str] | None
    unread: Mapping[str | None, RawLayer]
    tiered: frozenset[str] = frozenset()
    _policies: dict[tuple[str, bool], TopicPolicy] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The results of ``policy_for``, kept because it is called more than once for every partition of a topic."""

    @classmethod
    def read(cls, sources: ConfigSources) -> ConfigLayers:
        """Read and check every layer.

        Raises:
            InvalidConfigs: a layer is wrong; names all faults of all layers.
        """
        problems: list[InvalidConfig] = []
        limits_stated = sources.kafka_defaults or sources.server_properties is not None
        own: dict[Layer, RawLayer] = {
            Layer.SERVER_PROPERTIES: sources.server_properties or {},
            Layer.DEFAULTS: sources.defaults,
            Layer.SET: sources.overrides,
        }
        layers = cls(
            broad={Layer.KAFKA_DEFAULT: kafka_defaults(limits_stated=limits_stated), **_read(own, problems)},
            topic_metadata={},
            topics_file=_read_tables(sources.topics_file, problems),
            topic_ids=None,
            unread={},
        )
        return layers._with_cluster(sources, problems)

    def with_cluster(self, sources: ConfigSources) -> ConfigLayers:
        """Return these layers with the values of the cluster metadata; no other source is read again.

        Raises:
            InvalidConfigs: everything that is wrong in the cluster metadata, or contradicts the other layers.
        """
        return self._with_cluster(sources, [])

    def overridden(self, value: Stated) -> ConfigLayers:
        """Return these layers with one more value of ``--set``, which overrides the others.

        Raises:
            InvalidConfigs: the value contradicts the other layers.
        """
        overrides = {**self.broad[Layer.SET], value.key: value}
        layers = replace(self, broad={**self.broad, Layer.SET: overrides})
        if problems := tuple(_contradictions(layers)):
            raise InvalidConfigs(problems)
        return layers

    def _with_cluster(self, sources: ConfigSources, problems: list[InvalidConfig]) -> ConfigLayers:
        stated: dict[Layer, RawLayer] = {
            Layer.CLUSTER_DEFAULT: sources.cluster_default,
            Layer.BROKER: sources.broker,
        }
        topics = sources.topic_metadata.items()
        of_brokers = {
            **unread_of(Layer.CLUSTER_DEFAULT, sources.cluster_default),
            **unread_of(Layer.BROKER, sources.broker),
        }
        layers = replace(
            self,
            broad={**self.broad, **_read(stated, problems)},
            topic_metadata={topic: read_layer(Layer.TOPIC_METADATA, raw, problems) for topic, raw in topics},
            topic_ids=sources.topic_ids,
            unread={None: of_brokers} | {topic: unread_of(Layer.TOPIC_METADATA, raw) for topic, raw in topics},
        )
        problems += _contradictions(layers)
        if problems:
            raise InvalidConfigs(tuple(problems))
        return layers

    def policy_for(self, topic: str, *, compacted_before: bool = False) -> TopicPolicy:
        """Return the configuration that holds for a topic.

        Args:
            topic: the topic's name.
            compacted_before: True if ``cleaner-offset-checkpoint`` names the partition.
        """
        key = topic, compacted_before
        if key not in self._policies:
            self._policies[key] = self._resolved(topic, compacted_before=compacted_before)
        return self._policies[key]

    def _resolved(self, topic: str, *, compacted_before: bool) -> TopicPolicy:
        layers = self.of_topic(topic)
        if is_internal(topic):
            layers = [_RETENTION_UNSTATED, *map(_without_barred, layers)]
        stated = _strongest(layers)
        if topic in self.tiered:
            stated = {**stated, _SEES_ALL.key: _SEES_ALL}
        because = self._unknown_because(topic, stated["cleanup.policy"], compacted_before=compacted_before)
        return _topic_policy(topic, stated, because)

    def broker_policy(self) -> BrokerPolicy:
        """Return the configuration that holds for all topics alike."""
        return _broker_policy(_strongest(self.of_topic(None)))

    def explain(self, name: str, topic: str | None = None) -> Explanation:
        """Return every layer's value of a key, for one topic, or for all topics that no layer names.

        Args:
            name: a topic key or a broker key. A broker key that stands in for a topic key means the topic key.
            topic: the topic's name; None for all topics that no layer names.

        Raises:
            InvalidConfig: there is no such key.
        """
        key = key_of(name)
        return Explanation(key, topic, tuple(self._values(key, topic)))

    def _values(self, key: str, topic: str | None) -> Iterator[LayerValue]:
        """Yield every value of a key that was stated for a topic, lowest layer first."""
        is_kafkas_own = topic is not None and is_internal(topic)
        if is_kafkas_own and key in _RETENTION_UNSTATED:
            yield LayerValue(_RETENTION_UNSTATED[key])
        for pattern, layer in self._layers_of(topic):
            if (stated := layer.get(key)) and not (is_kafkas_own and stated.origin == NOBODY):
                weaker = reversed(stated.overruled)
                yield from (LayerValue(other, pattern, Exclusion.WEAKER_NAME) for other in weaker)
                barred = is_kafkas_own and _is_barred(stated)
                yield LayerValue(stated, pattern, Exclusion.INTERNAL_TOPIC if barred else None)

    def differing(self, name: str, topics: Iterable[str]) -> dict[str, LayerValue]:
        """Return the topics for which another value of a key holds than for a topic that no layer names.

        Args:
            name: a topic key, or a broker key that stands in for one.
            topics: the topics to look at.

        Raises:
            InvalidConfig: there is no such key.
        """
        usual = self.explain(name).winner.value
        found = {topic: self.explain(name, topic).winning for topic in topics}
        return {topic: winning for topic, winning in found.items() if winning.stated.value != usual}

    def of_their_own(self, topics: Iterable[str]) -> set[str]:
        """Return the topics for which another value of any key holds than for a topic that no layer names."""
        topics = set(topics)
        tables = [*self.topic_metadata.values(), *(table for _, table in self.topics_file)]
        keys = {key for table in tables for key in table}
        return {topic for key in keys for topic in self.differing(key, topics)}

    def of_topic(self, topic: str | None) -> list[StatedLayer]:
        """Return the layers that hold for a topic, the strongest last. None stands for a topic that no layer names."""
        return [layer for _, layer in self._layers_of(topic)]

    def _layers_of(self, topic: str | None) -> list[tuple[str | None, StatedLayer]]:
        """Return the layers as ``of_topic`` does, each layer of ``[topics]`` with its name or glob."""
        below = [(None, self.broad[layer]) for layer in Layer if layer < Layer.TOPIC_METADATA]
        overrides = (None, self.broad[Layer.SET])
        if topic is None:
            return [*below, overrides]
        return [*below, (None, self.topic_metadata.get(topic, {})), *self._tables(topic), overrides]

    def _tables(self, topic: str) -> list[tuple[str, StatedLayer]]:
        return [table for table in self.topics_file if table[0] == topic or fnmatchcase(topic, table[0])]

    def patterns_without(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the names and globs of ``[topics]`` that match none of the given topics."""
        topics = set(topics)
        return tuple(
            pattern
            for pattern, _ in self.topics_file
            if pattern not in topics and not any(fnmatchcase(topic, pattern) for topic in topics)
        )

    def _unknown_because(self, topic: str, policy: Stated, *, compacted_before: bool) -> str | None:
        is_known = self.topic_ids is not None and topic in self.topic_ids
        in_broad_terms = policy.layer in (Layer.DEFAULTS, Layer.SET)
        remedy = f'state cleanup.policy under [topics."{topic}"] of a --config FILE'
        find_out = f"{_FIND_METADATA}; else {remedy}" if self.topic_ids is None else remedy
        if not (is_known or in_broad_terms or self._tables(topic)):
            known = (
                "the cluster metadata" if self.topic_ids is not None else "the cluster metadata, which was not found,"
            )
            return f"neither {known} nor the configuration speaks of this topic; {find_out}"
        if policy.layer is Layer.KAFKA_DEFAULT and not is_known:
            return f"nobody stated its cleanup.policy; {find_out}"
        is_stated_by_name = policy.layer in _SPEAKS_OF_ONE_TOPIC
        if compacted_before and "compact" not in policy.shown and not is_stated_by_name:
            return f"the topic was compacted before, and only {policy.origin} says that it no longer is; {remedy}"
        if topic in self.tiered and "compact" in policy.shown and policy.layer < Layer.TOPICS_GLOB:
            return f"a tiered topic has no compaction, and only {policy.origin} says that this one has; {remedy}"
        stated = self.topic_metadata.get(topic, {}).get("cleanup.policy")
        if stated and not is_stated_by_name and ("compact" in policy.shown) != ("compact" in stated.shown):
            return f"its own configuration says {stated.shown}, and only {policy.origin} says {policy.shown}; {remedy}"
        return None


class Exclusion(Enum):
    """A reason why a value does not count, whatever stronger layers state."""

    INTERNAL_TOPIC = "topics named __* take retention.* only from the cluster metadata or by their exact name"
    WEAKER_NAME = "the same place also states this key by a stronger name"


class LayerValue(NamedTuple):
    """One layer's value of a key.

    Attributes:
        pattern: the name or glob of ``[topics]`` that states the value; None in other layers.
        excluded: why the value does not count; None if it counts, unless a stronger layer states another.
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


def is_internal(topic: str) -> bool:
    """Return whether a topic is one of Kafka's own, which are named ``__*``."""
    return topic.startswith("__")


def key_of(name: str) -> str:
    """Return the key that a name means: a topic key, or the broker key if topics do not have the key.

    Raises:
        InvalidConfig: there is no such key.
    """
    key = SYNONYM_OF.get(name, name)
    if key not in TOPIC_KEY and key not in BROKER_KEY:
        raise unknown_key(name, Said("", ""), Layer.SET)
    return key


def kafka_defaults(*, limits_stated: bool) -> StatedLayer:
    """Return the lowest layer. ``limits_stated``: the limits of retention hold, because the broker runs on them."""
    defaults = {key.name: _default(key) for key in (*TOPIC_KEYS, *BROKER_KEYS)}
    return defaults if limits_stated else {**defaults, **_NO_LIMITS}


def _contradictions(layers: ConfigLayers) -> Iterator[InvalidConfig]:
    """Yield an error for each pair of values that are right by themselves and wrong together."""
    yield from _buffer_problems(layers.broker_policy())
    yield from _lag_problems(_strongest(layers.of_topic(None)))
    for topic, stated in layers.topic_metadata.items():
        if _states_a_lag(stated):
            yield from _lag_problems(_strongest(layers.of_topic(topic)))
    for _, table in layers.topics_file:
        if _states_a_lag(table):
            *below, overrides = layers.of_topic(None)
            yield from _lag_problems(_strongest([*below, table, overrides]))


def _buffer_problems(broker: BrokerPolicy) -> Iterator[InvalidConfig]:
    key = "log.cleaner.dedupe.buffer.size"
    size_bytes, threads = broker.log_cleaner_dedupe_buffer_size, broker.log_cleaner_threads
    if threads and size_bytes // threads <= _DEDUPE_BYTES_PER_THREAD:
        reason = f"must be more than 1MiB for each of {threads} threads (log.cleaner.threads)"
        yield InvalidConfig(key, size_bytes, reason, broker.origin(key))


def _lag_problems(stated: StatedLayer) -> Iterator[InvalidConfig]:
    policy = _topic_policy("", stated, None)
    if policy.min_compaction_lag_ms > policy.max_compaction_lag_ms:
        least, most = stated["min.compaction.lag.ms"], stated["max.compaction.lag.ms"]
        reason = f"must not exceed max.compaction.lag.ms = {most.shown} ({most.origin})"
        yield InvalidConfig(least.name, least.value, reason, least.origin)


def _topic_policy(topic: str, stated: StatedLayer, unknown_because: str | None) -> TopicPolicy:
    stated = {key: stated[key] for key in TOPIC_KEY}
    values: dict[str, Any] = {TOPIC_KEY[key].field: value.value for key, value in stated.items()}
    values["cleanup_policy"] = "" if unknown_because else stated["cleanup.policy"].shown
    return TopicPolicy(topic=topic, unknown_because=unknown_because, stated=stated, **values)


def _states_a_lag(stated: StatedLayer) -> bool:
    return "min.compaction.lag.ms" in stated or "max.compaction.lag.ms" in stated


def _strongest(layers: Iterable[StatedLayer]) -> dict[str, Stated]:
    strongest: dict[str, Stated] = {}
    for layer in layers:
        strongest.update(layer)
    return strongest


def _broker_policy(stated: StatedLayer) -> BrokerPolicy:
    stated = {key: stated[key] for key in BROKER_KEY}
    values: dict[str, Any] = {BROKER_KEY[key].field: value.value for key, value in stated.items()}
    return BrokerPolicy(stated=stated, **values)


def _read_tables(tables: Mapping[str, RawLayer], problems: list[InvalidConfig]) -> tuple[tuple[str, StatedLayer], ...]:
    read = []
    for pattern, raw in tables.items():
        layer = Layer.TOPICS_GLOB if _GLOB.search(pattern) else Layer.TOPICS_NAME
        read.append((layer, len(pattern), pattern, read_layer(layer, raw, problems)))
    read.sort(key=lambda table: table[:2])
    return tuple((pattern, table) for _, _, pattern, table in read)


def _read(raw: Mapping[Layer, RawLayer], problems: list[InvalidConfig]) -> dict[Layer, StatedLayer]:
    return {layer: read_layer(layer, said, problems) for layer, said in raw.items()}


def _without_barred(layer: StatedLayer) -> StatedLayer:
    return {key: stated for key, stated in layer.items() if not _is_barred(stated)}


def _is_barred(stated: Stated) -> bool:
    """Return whether a value does not apply to topics named ``__*``."""
    return stated.key.startswith("retention.") and stated.layer not in _SPEAKS_OF_ONE_TOPIC


def _default(key: ConfigKey) -> Stated:
    origin = OUR_DEFAULT if key.ours else Layer.KAFKA_DEFAULT.title
    return Stated(key.name, key.default, Layer.KAFKA_DEFAULT, origin, key.name)


_RETENTION_UNSTATED: Final = {
    key: stated for key, stated in kafka_defaults(limits_stated=False).items() if key.startswith("retention.")
}
"""The retention of a topic named ``__*`` if no layer names the topic exactly."""
