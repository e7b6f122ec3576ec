"""Compare ``--set`` with the configuration in force: find the topics that ``--set`` changes, and the other topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from policies.config.config_keys import TOPIC_KEY
from policies.config.config_layers import ConfigLayers
from policies.config.policy import Layer, Stated, TopicPolicy


@dataclass(frozen=True, slots=True)
class Override:
    """The effect of one key of ``--set``.

    Attributes:
        stated: the value of ``--set``.
        before: topics that it hits -> the value in force without it, in people's words.
        idle: topics that it says nothing to: they are not deleted from, or not compacted.
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


_NAMED_MAX: Final = 3
_BY_NAME: Final = "the cluster metadata or their exact name under [topics]"
_OF_RETENTION: Final = frozenset({"retention.ms", "retention.bytes", "retention.future.timestamps", "max.delete.ratio"})
_OF_COMPACTION: Final = frozenset(
    {
        *("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms"),
        *("compaction.upgrade.format", "max.unkeyed.ratio"),
    }
)


def _counted(topics: Sequence[str]) -> str:
    return f"{len(topics):,} topic{'' if len(topics) == 1 else 's'}"


def named(topics: Sequence[str]) -> str:
    """Return the names of some topics, and the number of the others: ``a, b, c and 4 more``."""
    others = len(topics) - _NAMED_MAX
    return ", ".join(topics) if others <= 1 else f"{', '.join(topics[:_NAMED_MAX])} and {others:,} more"


def _because(refused: Mapping[str, str]) -> str:
    """Return the reason of the first topic, which names that topic."""
    topic, because = next(iter(refused.items()))
    return f"{named(list(refused))}: {because}" if len(refused) == 1 else f"{named(list(refused))}: {topic}: {because}"


def overrides(layers: ConfigLayers, topics: Iterable[str]) -> tuple[Override, ...]:
    """Return what each topic key of ``--set`` changes.

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


def _sort_in(topic: str, policy: TopicPolicy, before: TopicPolicy, override: Override) -> None:
    """Put a topic where it belongs, by its configuration with ``--set`` and without."""
    key = override.stated.key
    if policy.unknown:
        override.unknown.append(topic)
        if key == "cleanup.policy" and policy.unknown_because and not before.unknown:
            override.refused[topic] = policy.unknown_because
    elif policy.stated[key].layer is not Layer.SET:
        override.barred.append(topic)
    elif _says_nothing_to(policy, key):
        override.idle.append(topic)
    elif key == "cleanup.policy" and before.unknown:
        override.before[topic] = "unknown"
    elif policy.stated[key].value == before.stated[key].value:
        override.same.append(topic)
    else:
        override.before[topic] = before.stated[key].shown


def _says_nothing_to(policy: TopicPolicy, key: str) -> bool:
    is_of_retention, is_of_compaction = key in _OF_RETENTION, key in _OF_COMPACTION
    return (is_of_retention and not policy.cleanup_delete) or (is_of_compaction and not policy.cleanup_compact)
