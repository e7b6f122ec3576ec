"""Compare the configuration that a run reads under the locks with the one that it read before them.

Whoever starts a run has looked at the first one. So nothing that protects may disappear between the two: neither a
value, nor a guard rail, nor the line that leaves a log dir out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from policies.config.configured import Configured
from policies.config.loosened import Loosened, loosened
from policies.config.overrides import named
from policies.guards import config_guard


def lost_protection(before: Configured, after: Configured, topics: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each key whose second value lets more go, with both values and the places that state them.

    Args:
        before: as it was read first.
        after: as it was read under the locks.
        topics: the topics that the run may change.
    """
    told: dict[str, list[str]] = {}
    for found in _values(before, after, topics):
        told.setdefault(found.told, []).extend([found.topic] if found.topic else [])
    values = (f"{sentence}{_of(of_topics)}" for sentence, of_topics in told.items())
    return (*_log_dirs(before, after), *values, *_guards(before, after))


def _values(before: Configured, after: Configured, topics: Iterable[str]) -> tuple[Loosened, ...]:
    return () if before.layers == after.layers else loosened(before.layers, after.layers, topics)


def _of(topics: list[str]) -> str:
    return f", for {'topic' if len(topics) == 1 else f'{len(topics):,} topics:'} {named(topics)}" if topics else ""


def _log_dirs(before: Configured, after: Configured) -> Iterator[str]:
    """Yield a sentence if the run is to change log dirs that were not named before."""
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
