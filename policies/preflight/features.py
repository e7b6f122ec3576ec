"""The feature levels that each version of Kafka knows. A start fails if the metadata log has a level that it does not
know.

The levels are those of the jars of each version, as a broker takes them without ``unstable.feature.versions.enable``.
Kafka 3.0 to 3.2 write such records in another way, and are left out, as are versions newer than this list.

Source: Kafka ``MetadataVersion.fromFeatureLevel``, ``Feature``, ``FeatureControlManager.replay``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policies.preflight.facts import KafkaFailure, Release

METADATA_VERSION: Final = "metadata.version"
_ELSEWHERE: Final = "kraft.version"
"""Control records state it; a feature record of this name is ignored."""
_OLD_SENTENCE: Final = Release(3, 8)
"""Versions before this one word the exception differently."""
_RANGE_SAID: Final = Release(4, 0)
"""Since then the sentence has the levels that there are."""


class Levels(NamedTuple):
    """The levels that one version of Kafka knows. A feature that is not named has the level 0 alone."""

    lowest: int
    """The lowest level of ``metadata.version``."""
    highest: int
    """The same, for production."""
    highest_named: int
    """The highest level with a name, production or not. Kafka words the exception differently for levels beyond it."""
    others: dict[str, int]
    """Feature -> its highest level for production; each begins at 0."""


_TRANSACTIONS: Final = {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}
_SHARES: Final = {**_TRANSACTIONS, "share.version": 1}
_STREAMS: Final = {**_SHARES, "streams.version": 1}
LEVELS: Final = {
    Release(3, 3): Levels(1, 7, 7, {}),
    Release(3, 4): Levels(1, 8, 8, {}),
    Release(3, 5): Levels(1, 11, 11, {}),
    Release(3, 6): Levels(1, 14, 14, {}),
    Release(3, 7): Levels(1, 19, 20, {}),
    Release(3, 8): Levels(1, 20, 21, {}),
    Release(3, 9): Levels(1, 21, 23, {}),
    Release(4, 0): Levels(7, 25, 26, _TRANSACTIONS),
    Release(4, 1): Levels(7, 27, 29, _SHARES),
    Release(4, 2): Levels(7, 29, 30, _STREAMS),
    Release(4, 3): Levels(7, 30, 31, _STREAMS),
    Release(4, 4): Levels(7, 33, 34, {**_STREAMS, "share.version": 2}),
}


def feature_failure(levels: Iterable[tuple[str, int]], release: Release) -> KafkaFailure | None:
    """Return the exception that the first unknown level of a metadata log raises; None if all are known.

    Args:
        levels: feature and level of each record, in the order of the log.
        release: of the Kafka that is to start.
    """
    known = LEVELS.get(release)
    if known is None:
        return None
    found = (_failure(name, level, known, release) for name, level in levels)
    return next((failure for failure in found if failure is not None), None)


def _failure(name: str, level: int, known: Levels, release: Release) -> KafkaFailure | None:
    if name == _ELSEWHERE:
        return None
    lowest, highest = (known.lowest, known.highest) if name == METADATA_VERSION else (0, known.others.get(name, 0))
    if lowest <= level <= highest:
        return None
    if name == METADATA_VERSION and not lowest <= level <= known.highest_named:
        return KafkaFailure("IllegalArgumentException", _without_a_name(level, known, release))
    only = f"{lowest}-{highest}" if highest > lowest else f"{lowest}"
    cause = f"{name} has the level {level}, and Kafka {release} only supports versions {only}"
    return KafkaFailure("RuntimeException", cause)


def _without_a_name(level: int, known: Levels, release: Release) -> str:
    what = "metadata version" if release < _OLD_SENTENCE else "feature level"
    text = f"No MetadataVersion with {what} {level}"
    if release < _RANGE_SAID:
        return text
    return f"{text}. Valid feature levels are from {known.lowest} to {known.highest_named}."
