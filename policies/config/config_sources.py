"""Read what each layer states into typed values, and find all faults in one go.

Each layer decides which names it may hold. A broker's own files hold broker keys (and many that do not concern
us). ``[topics]`` holds topic keys. ``[defaults]`` and ``--set`` hold both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from policies.config.config_keys import BROKER_KEYS, SYNONYM_OF, TOPIC_KEY, TOPIC_KEYS, ConfigKey, Synonym
from policies.config.config_values import RawValue, parse_value
from policies.config.policy import Layer, Stated
from storage.errors import InvalidConfig


class Said(NamedTuple):
    """A value as it was stated, with its place: ``server.properties line 12``.

    ``Stated`` has file and line as fields.
    """

    value: RawValue
    origin: str
    file: str | None = None
    line: int | None = None


_MISSPELT: Final = 0.9
"""The similarity from which on a name counts as a slip for a key that we read. No key of Kafka 2.8 or 4.3 reaches it.
"""

_REMOVED: Final = {"compaction.rounds": "a round always takes all keys of its dirty section"}
"""Removed key of logcleaner -> a sentence about what holds instead."""

RawLayer = Mapping[str, Said]
"""Key as written -> the value as it was stated."""

StatedLayer = Mapping[str, Stated]
"""Topic key, or broker key if topics do not have the key -> the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSources:
    """Everything that was stated, not parsed yet.

    Attributes:
        server_properties: the broker's file; None if no such file was read.
        cluster_default: cluster metadata, configs of the nameless broker resource.
        broker: cluster metadata, configs of this broker.
        topic_metadata: cluster metadata: topic -> its configs.
        topics_file: ``[topics]``: name or glob -> its table.
        overrides: ``--set``.
        kafka_defaults: True if somebody said that the broker runs on Kafka's built-in defaults.
        topic_ids: topic -> its id, of the topics in the cluster metadata; None if there is no cluster metadata.
    """

    server_properties: RawLayer | None = None
    cluster_default: RawLayer = field(default_factory=dict)
    broker: RawLayer = field(default_factory=dict)
    defaults: RawLayer = field(default_factory=dict)
    topic_metadata: Mapping[str, RawLayer] = field(default_factory=dict)
    topics_file: Mapping[str, RawLayer] = field(default_factory=dict)
    overrides: RawLayer = field(default_factory=dict)
    kafka_defaults: bool = False
    topic_ids: Mapping[str, str] | None = None


class _Name(NamedTuple):
    """A name that a layer may hold. Among several names of one key, the smallest rank wins."""

    key: ConfigKey
    synonym: Synonym | None
    rank: int


def read_layer(layer: Layer, raw: RawLayer, problems: list[InvalidConfig]) -> StatedLayer:
    """Read one layer. Return its sound values, and append its faults to ``problems``."""
    ranked: dict[str, list[tuple[int, Stated]]] = {}
    for written, said in raw.items():
        name = _NAMES[layer].get(written)
        if name is None:
            if not layer.is_brokers_own and written not in _REMOVED:
                problems.append(unknown_key(written, said, layer))
        elif stated := _read_value(layer, name, written, said, problems):
            ranked.setdefault(name.key.name, []).append((name.rank, stated))
    return {key: _strongest_name(named) for key, named in ranked.items()}


def unread_of(layer: Layer, raw: RawLayer) -> RawLayer:
    """Return the statements of a layer whose keys we do not know: keys of a newer Kafka, or of another program."""
    return {written: said for written, said in raw.items() if written not in _NAMES[layer]}


def removed_in(raw: RawLayer) -> Iterator[str]:
    """Yield a sentence for each stated key that only earlier versions of logcleaner had, and that is ignored."""
    for written in raw.keys() & _REMOVED.keys():
        yield f"{raw[written].origin}: {written} is no key any more, and is ignored: {_REMOVED[written]}"


def _strongest_name(named: list[tuple[int, Stated]]) -> Stated:
    """Return the value of the name with the smallest rank, with the values of the other names."""
    if len(named) == 1:
        return named[0][1]
    strongest, *weaker = (stated for _, stated in sorted(named, key=itemgetter(0)))
    return strongest._replace(overruled=tuple(weaker))


def unknown_key(written: str, said: Said, layer: Layer) -> InvalidConfig:
    """Return the error for a name that the layer cannot hold.

    The error suggests the nearest name that the layer can hold.
    """
    return InvalidConfig(written, None, f"no such key{nearest(written, _NAMES[layer])}", said.origin)


def nearest(written: str, names: Mapping[str, object]) -> str:
    """Return ``; did you mean retention.ms?``; an empty text if no name is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake asks for it

    written = written.lower()  # every name is in small letters
    topic_key = SYNONYM_OF.get(written)
    found = [topic_key] if topic_key in names else get_close_matches(written, names, n=1)
    return f"; did you mean {found[0]}?" if found else ""


def misspelt_in(written: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each key of a broker's file that looks like a misspelt key of ours, with the key that was probably meant.

    A broker has hundreds of keys that do not concern us, and keys of its plugins: so a key that resembles none of ours
    is no mistake.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - as above

    for name in (name for name in written if name not in _BROKERS_OWN):
        topic_key = TOPIC_KEY.get(name)
        if topic_key and topic_key.synonyms:  # only a topic has the key by this name
            yield name, topic_key.synonyms[0].name
        elif f"log.{name}" in _BROKERS_OWN:
            yield name, f"log.{name}"
        elif found := get_close_matches(name.lower(), _BROKERS_OWN, n=1, cutoff=_MISSPELT):
            yield name, found[0]


def names_of(layer: Layer) -> Mapping[str, object]:
    """Return the names that a layer may hold."""
    return _NAMES[layer]


def _read_value(layer: Layer, name: _Name, written: str, said: Said, problems: list[InvalidConfig]) -> Stated | None:
    try:
        value = parse_value(name.key, said.value, synonym=name.synonym, as_broker=layer.is_brokers_own)
    except ValueError as error:
        problems.append(InvalidConfig(written, said.value, str(error), said.origin))
        return None
    return Stated(name.key.name, value, layer, said.origin, written, said.file, said.line)


def _by_topic_name(*, ours: bool) -> Iterator[tuple[str, _Name]]:
    for key in TOPIC_KEYS:
        if ours or not key.ours:
            yield key.name, _Name(key, None, 0)


def _by_broker_name(*, ours: bool) -> Iterator[tuple[str, _Name]]:
    for key in TOPIC_KEYS:
        for rank, synonym in enumerate(key.synonyms, 1):
            yield synonym.name, _Name(key, synonym, rank)
    for key in BROKER_KEYS:
        if ours or not key.ours:
            yield key.name, _Name(key, None, 0)
        for rank, synonym in enumerate(key.synonyms, 1):
            yield synonym.name, _Name(key, synonym, rank)


_BROKERS_OWN: Final = dict(_by_broker_name(ours=False))
_TOPICS: Final = dict(_by_topic_name(ours=True))
# a topic key that has the name of a broker key (compression.type) is read as the topic key
_BOTH: Final = {**dict(_by_broker_name(ours=True)), **_TOPICS}
_NAMES: Final[Mapping[Layer, Mapping[str, _Name]]] = {
    Layer.SERVER_PROPERTIES: _BROKERS_OWN,
    Layer.CLUSTER_DEFAULT: _BROKERS_OWN,
    Layer.BROKER: _BROKERS_OWN,
    Layer.DEFAULTS: _BOTH,
    Layer.TOPIC_METADATA: dict(_by_topic_name(ours=False)),
    Layer.TOPICS_GLOB: _TOPICS,
    Layer.TOPICS_NAME: _TOPICS,
    Layer.SET: _BOTH,
}
