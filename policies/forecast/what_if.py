"""The questions of ``--what-if KEY=V1,V2``: the keys that the files alone can answer truthfully, and their values.

An answer is the plan of a run with that value. A key has an answer if a plan depends on it. If the effect of a value
depends on the records, the answer takes ``--exact``. All other keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from policies.config.config_keys import BROKER_KEY, TOPIC_KEY, ValueKind
from policies.config.config_layers import key_of
from policies.config.config_sources import Said, read_layer
from policies.config.policy import Layer, Stated
from storage.errors import InvalidConfig, InvalidConfigs

OPTION: Final = "--what-if"
ANSWERED: Final = frozenset(
    {
        *("cleanup.policy", "retention.ms", "retention.bytes", "retention.future.timestamps", "max.delete.ratio"),
        *("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms"),
    }
)
"""The keys on which a plan depends."""
ANSWERED_EXACTLY: Final = frozenset({"delete.retention.ms", "compaction.upgrade.format", "max.unkeyed.ratio"})
"""The keys whose effect depends on the records."""
_WHY_NOT: Final = {
    **dict.fromkeys(
        ("segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes"),
        "says how large or old a segment becomes, not what of it stays",
    ),
    "file.delete.delay.ms": "says how long .deleted files wait, not what goes; --delete-delay overrides it",
    **dict.fromkeys(
        (key for key in TOPIC_KEY if key.startswith(("local.", "remote."))),
        "only a broker knows what lies in remote storage",
    ),
}
_OF_A_BROKER: Final = "is a key of the broker, not of a topic; compare with a --dry-run and --set"
_OF_WRITES: Final = "says how a broker writes, not what stays"
_COMMA: Final = re.compile(r",(?![^\[]*\])")
"""A comma between two values; those within brackets belong to one value."""


class Question(NamedTuple):
    """A key, and the values asked for it, each once and in the order of the command line."""

    key: str
    values: tuple[Stated, ...]


def questions_of(options: Sequence[str], *, is_exact: bool) -> tuple[Question, ...]:
    """Return the questions of all ``--what-if`` options, a question for each key.

    A value with commas stands in brackets, as Kafka's own tools take it: ``cleanup.policy=delete,[compact,delete]``.

    Args:
        options: ``KEY=V1,V2`` of each option.
        is_exact: ``--exact`` was given.

    Raises:
        InvalidConfigs: everything that is wrong in any of them.
    """
    problems: list[InvalidConfig] = []
    asked: dict[str, dict[object, Stated]] = {}
    for option in options:
        try:
            for stated in _values(option, problems, is_exact=is_exact):
                asked.setdefault(stated.key, {}).setdefault(stated.value, stated)
        except InvalidConfig as problem:
            problems.append(problem)
    if problems:
        raise InvalidConfigs(tuple(problems))
    return tuple(Question(key, tuple(values.values())) for key, values in asked.items())


def refusal_of(key: str, *, is_exact: bool) -> str | None:
    """Return why a key has no answer; None if it has one. ``is_exact``: ``--exact`` was given."""
    if key in ANSWERED or (key in ANSWERED_EXACTLY and is_exact):
        return None
    if key in ANSWERED_EXACTLY:
        return "only the records tell what it changes; add --exact"
    because = _OF_A_BROKER if key in BROKER_KEY else _WHY_NOT.get(key, _OF_WRITES)
    return f"{because}; {OPTION} takes {', '.join(sorted(ANSWERED | ANSWERED_EXACTLY))}"


def _values(option: str, problems: list[InvalidConfig], *, is_exact: bool) -> Iterator[Stated]:
    """Yield the values of one option. Raises: InvalidConfig if its key has no answer."""
    name, equals, text = option.partition("=")
    name = name.strip()
    if not equals or not name or not text.strip():
        raise InvalidConfig(OPTION, option, "must be KEY=VALUE,VALUE, e.g. retention.ms=1d,3d,7d")
    try:
        key = key_of(name)
    except InvalidConfig as unknown:
        raise InvalidConfig(name, None, unknown.reason, OPTION) from unknown
    if refused := refusal_of(key, is_exact=is_exact):
        raise InvalidConfig(name, None, refused, OPTION)
    for item in map(str.strip, _COMMA.split(text)):
        if not item:
            raise InvalidConfig(OPTION, option, "has a blank value")
        inner = item[1:-1] if TOPIC_KEY[key].kind is ValueKind.LIST and item[0] + item[-1] == "[]" else item
        yield from read_layer(Layer.SET, {name: Said(inner, OPTION)}, problems).values()
