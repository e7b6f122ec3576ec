"""The reports of ``config show`` and ``config explain``: text for people, ``logcleaner.config/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cleaner.printable import printable
from cleaner.report.page import ATTENTION, Lines, Page
from policies.config.config_keys import (
    BROKER_KEY,
    DOUBLE_MAX,
    LONG_MAX,
    NO_LIMIT,
    TOPIC_KEY,
    ConfigKey,
    Value,
    ValueUnit,
)
from policies.config.config_layers import Explanation, LayerValue
from policies.config.config_values import kafka_text, show_value
from policies.config.key_descriptions import meaning_of, type_of
from policies.config.policy import NOBODY, Layer
from policies.reasons import counted

if TYPE_CHECKING:
    from rich.table import Table

    from policies.config.config_sources import RawLayer

SCHEMA: Final = "logcleaner.config/1"
_TOPICS_SHOWN: Final = 5
_POLICY: Final = "cleanup.policy"
_LIMITS: Final = ("retention.ms", "retention.bytes")
_UNITS: Final = {ValueUnit.MS: "ms", ValueUnit.BYTES: "bytes"}


@dataclass(frozen=True, slots=True)
class Read:
    """The paths of the files that were read, and of the log dirs that a run would work on."""

    files: Sequence[str] = ()
    log_dirs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The keys of one topic, or of the broker and of every topic that states nothing for itself.

    Attributes:
        topic: None for the broker.
        unknown_because: why the topic's cleanup policy is unknown, so that everything of it stays.
        unread: what the cluster metadata states by keys that we do not know. The values of brokers may be secrets.
    """

    topic: str | None
    explanations: tuple[Explanation, ...]
    unknown_because: str | None = None
    unread: RawLayer = field(default_factory=dict)

    def shown(self, *, every_key: bool) -> list[Explanation]:
        """Return the keys that somebody stated, or that differ from Kafka's default; with ``every_key``, all.

        Where something is deleted the limits are among them, also if Kafka's defaults delete.
        """
        policy = next((one.winner.value for one in self.explanations if one.key == _POLICY), None)
        limits = _LIMITS if isinstance(policy, tuple) and "delete" in policy else ()
        return [one for one in self.explanations if every_key or one.is_stated or one.key in limits]


@dataclass(frozen=True, slots=True)
class ConfigurationReport:
    """The values in force, each with the place that stated it.

    Attributes:
        scopes: the broker, or some topics.
        read: what was read.
        every_key: show also the keys that nobody stated.
        differing_topics: the number of topics whose values differ from the broker's.
    """

    scopes: Sequence[Scope]
    read: Read
    every_key: bool = False
    differing_topics: int = 0

    def document(self) -> dict[str, Any]:
        """Return what ``config show --json`` prints: values in Kafka's units."""
        return _document(self.read, [(scope, scope.shown(every_key=self.every_key)) for scope in self.scopes])

    def text(self, page: Page) -> Iterator[Lines | Table]:
        """Yield what was read, and a table for each scope."""
        page.line(f"Log dirs: {', '.join(self.read.log_dirs) or 'none is named'}", hanging=2)
        page.line(f"Files read: {', '.join(self.read.files) or 'none'}", hanging=2)
        yield page.text
        for scope in self.scopes:
            yield from self._scope(scope, page.width)

    def _scope(self, scope: Scope, width: int) -> Iterator[Lines | Table]:
        shown = scope.shown(every_key=self.every_key)
        head = Page(width)
        head.line()
        head.line(f"Topic {scope.topic}" if scope.topic else "Broker, and topics without values of their own", "bold")
        if scope.unknown_because:
            head.note(f"{_POLICY} is unknown, so everything stays: {scope.unknown_because}", ATTENTION)
        yield head.text
        if shown:
            yield _table(shown)
        tail = Page(width)
        if left := len(scope.explanations) - len(shown):
            tail.line(f"{counted(left, 'more key')} with Kafka's default: --all shows {'it' if left == 1 else 'them'}.")
        if scope.unread:
            tail.line(f"Unknown to logcleaner: {', '.join(_unread(scope))}.", hanging=2)
        if scope.topic is None and self.differing_topics:
            have = "has values of its own" if self.differing_topics == 1 else "have values of their own"
            tail.line(f"{counted(self.differing_topics, 'topic')} {have}: --topic NAME shows them.")
        yield tail.text


@dataclass(frozen=True, slots=True)
class KeyReport:
    """Every value of one key, and what the key does.

    Attributes:
        scope: the topic or the broker, with the one key.
        read: what was read.
        differing: topics for which another value holds; only without a topic.
    """

    scope: Scope
    read: Read
    differing: Mapping[str, LayerValue] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return what ``config explain --json`` prints: the document of ``config show``, with the one key."""
        document = _document(self.read, [(self.scope, list(self.scope.explanations))])
        differing = {topic: _layer_value(winning) for topic, winning in self.differing.items()}
        return document | {"differing_topics": differing} if self.scope.topic is None else document

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the value in force, the value of each layer, what the key does, and the topics that differ."""
        (explanation,) = self.scope.explanations
        key = _key(explanation)
        page.line(f"{key.name}{self._whose(key)}: {value_text(key, explanation.winner.value)}", "bold")
        if self.scope.unknown_because and key.name == _POLICY:
            page.note(f"It counts as unknown, so everything stays: {self.scope.unknown_because}", ATTENTION)
        page.line()
        _layers(explanation, page)
        page.line()
        _describe(key, explanation, page)
        if self.differing:
            page.line()
            _others(key, self.differing, page)
        yield page.text

    def _whose(self, key: ConfigKey) -> str:
        if self.scope.topic:
            return f" for topic {self.scope.topic}"
        return " for topics without a value of their own" if key.name in TOPIC_KEY else ""


def _unread(scope: Scope) -> Iterator[str]:
    """Yield each key that we do not know: ``a.key=value (cluster metadata, topic orders)``."""
    for key, said in sorted(scope.unread.items()):
        value = "" if scope.topic is None else f"={said.value}"
        yield printable(f"{key}{value} ({said.origin})")


def value_text(key: ConfigKey, value: Value) -> str:
    """Return a value in people's words, and as Kafka has it if that differs: ``7d (604800000)``."""
    value = int(value) if isinstance(value, float) and value.is_integer() and value < LONG_MAX else value
    in_kafka = kafka_text(value) or ""
    if value in (LONG_MAX, DOUBLE_MAX) or (value == NO_LIMIT and key.unit.factors):
        return f"no limit ({in_kafka})"
    if value is None or not in_kafka:
        return "off" if key.ours else "not set"
    shown = show_value(key, value)
    if shown.startswith(in_kafka):
        return shown if isinstance(value, int) and value > 0 else in_kafka
    return f"{shown} ({in_kafka})"


def place_text(value: LayerValue) -> str:
    """Return the place of a value: ``logcleaner.toml line 12, [topics."clicks*"]``."""
    stated = value.stated
    table = f', [topics."{value.pattern}"]' if value.pattern is not None else ""
    name = f", as {stated.name}" if stated.name != stated.key else ""
    return f"{stated.origin}{table}{name}"


def _key(explanation: Explanation) -> ConfigKey:
    return TOPIC_KEY.get(explanation.key) or BROKER_KEY[explanation.key]


def _table(shown: Sequence[Explanation]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - what is told as JSON, or of one key, has no table
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("KEY", no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    table.add_column("STATED BY", overflow="fold")
    for one in shown:
        key = _key(one)
        cells = (key.name, value_text(key, one.winner.value), place_text(one.winning))
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _layers(explanation: Explanation, page: Page) -> None:
    """Add a line for each value, the strongest first; a star marks the one that holds."""
    key = _key(explanation)
    rows = [(value, value_text(key, value.stated.value)) for value in reversed(explanation.values)]
    column = max(len(text) for _, text in rows)
    for value, text in rows:
        mark = "*" if value is explanation.winning else " "
        excluded = f" (does not count: {value.excluded.value})" if value.excluded else ""
        words = f"{mark} {text:<{column}}  {place_text(value)}{excluded}"
        page.line(words, "bold" if mark == "*" else "", indent=2, hanging=column + 4)


def _describe(key: ConfigKey, explanation: Explanation, page: Page) -> None:
    meaning = meaning_of(key).replace("`", "")
    page.line(f"{meaning[0].upper()}{meaning[1:]}.")
    suffixes = f"; a plain number counts {_UNITS[key.unit]}, and a suffix may follow: " if key.unit.factors else ""
    suffixes += ", ".join(key.unit.factors)
    page.line(f"Type: {type_of(key)}{suffixes}.", hanging=2)
    default = "none" if key.default is None or key.default == () else value_text(key, key.default)
    whose = "Default" if key.ours else "Kafka's default"
    page.line(f"{whose}: {default}{_unless_stated(explanation)}.", hanging=2)
    if names := [synonym.name for synonym in key.synonyms if synonym.name != key.name]:
        first = "; the first one that is set counts" if len(names) > 1 else ""
        page.line(f"A broker's own files call it {', '.join(names)}{first}.", hanging=2)


def _unless_stated(explanation: Explanation) -> str:
    """Return why Kafka's default of a limit does not count; an empty text if it does."""
    if explanation.values[0].stated.origin != NOBODY:
        return ""
    if explanation.topic is not None and explanation.topic.startswith("__"):
        return "; it does not count for topics named __*"
    return "; it counts only if server.properties is read, or with --kafka-defaults"


def _others(key: ConfigKey, differing: Mapping[str, LayerValue], page: Page) -> None:
    """Add the topics for which another value holds, by value and place."""
    by_value: dict[tuple[str, str], list[str]] = {}
    for topic, value in sorted(differing.items()):
        is_own = value.stated.layer is Layer.TOPIC_METADATA
        place = value.stated.layer.title if is_own else place_text(value)
        by_value.setdefault((value_text(key, value.stated.value), place), []).append(topic)
    page.line(f"Another value holds for {counted(len(differing), 'topic')}:")
    column = max(len(text) for text, _ in by_value)
    for (text, place), topics in by_value.items():
        more = f" and {len(topics) - _TOPICS_SHOWN:,} more" if len(topics) > _TOPICS_SHOWN else ""
        words = f"{text:<{column}}  {', '.join(topics[:_TOPICS_SHOWN])}{more} ({place})"
        page.line(words, indent=4, hanging=column + 2)


def _document(read: Read, scopes: Sequence[tuple[Scope, list[Explanation]]]) -> dict[str, Any]:
    broker = [_explained(one) for scope, shown in scopes if scope.topic is None for one in shown]
    topics = [
        {
            "topic": scope.topic,
            "unknown_because": scope.unknown_because,
            "keys": [_explained(one) for one in shown],
            "unknown_keys": [
                {"key": key, "value": said.value, "origin": said.origin} for key, said in sorted(scope.unread.items())
            ],
        }
        for scope, shown in scopes
        if scope.topic is not None
    ]
    return {
        "schema": SCHEMA,
        "files": list(read.files),
        "log_dirs": list(read.log_dirs),
        "keys": broker,
        "topics": topics,
    }


def _explained(explanation: Explanation) -> dict[str, Any]:
    key = _key(explanation)
    return {
        "key": key.name,
        **_layer_value(explanation.winning),
        "default": _json(key.default),
        "ours": key.ours,
        "stated": [
            _layer_value(value) | {"counts": value.applies}
            for value in reversed(explanation.values)
            if value.stated.layer is not Layer.KAFKA_DEFAULT
        ],
    }


def _layer_value(value: LayerValue) -> dict[str, Any]:
    stated = value.stated
    return {
        "value": _json(stated.value),
        "text": stated.shown,
        "layer": stated.layer.title,
        "pattern": value.pattern,
        "name": stated.name,
        "origin": stated.origin,
        "file": stated.file,
        "line": stated.line,
    }


def _json(value: Value) -> bool | int | float | str | None:
    return ",".join(value) if isinstance(value, tuple) else value
