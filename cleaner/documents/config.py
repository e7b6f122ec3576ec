"""``logcleaner.config/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import LayerTitle, Positive


class ConfigStated(TypedDict):
    """A value."""

    value: bool | int | float | str | None
    """The value that is stated, in Kafka's unit, such as ms or bytes; a list as one text with commas. Null if the
    key is not set.
    """
    text: str
    """The value in words: `7d`, `512MiB`, `no limit`."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    pattern: str | None
    """The name or glob of `[topics]` that states the value; null in other layers."""
    name: str
    """The key as written, such as `log.retention.hours` for `retention.ms`."""
    origin: str
    """The place in words: `server.properties line 12`."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""
    counts: bool
    """False if a rule excludes the value, whatever stronger layers state."""


class ConfigKeyValue(TypedDict):
    """A key and the value that holds."""

    key: str
    """Kafka's topic key, or the broker key if topics do not have the key."""
    value: bool | int | float | str | None
    """The value that holds, in Kafka's unit, such as ms or bytes; a list as one text with commas. Null if the key
    is not set.
    """
    text: str
    """The value in words: `7d`, `512MiB`, `no limit`."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    pattern: str | None
    """The name or glob of `[topics]` that states the value; null in other layers."""
    name: str
    """The key as written, such as `log.retention.hours` for `retention.ms`."""
    origin: str
    """The place in words: `server.properties line 12`."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""
    default: bool | int | float | str | None
    """Kafka's default, or ours for a key of ours; null if there is none."""
    ours: bool
    """True for a key of logcleaner, which Kafka does not know."""
    stated: list[ConfigStated]
    """Every value that somebody stated, the strongest first."""


class ConfigUnknownKey(TypedDict):
    """A key."""

    key: str
    """The key as written."""
    value: str | None
    """The value as written; null if it has none."""
    origin: str
    """The place in words: `cluster metadata, topic orders`."""


class ConfigTopic(TypedDict):
    """A topic."""

    topic: str
    """The topic's name."""
    unknown_because: str | None
    """Why the topic's `cleanup.policy` counts as unknown, so that everything of it stays; null if it is known."""
    keys: list[ConfigKeyValue]
    """The keys of the topic."""
    unknown_keys: list[ConfigUnknownKey]
    """What the cluster metadata states by keys that logcleaner does not know. It acts on none of them."""


class ConfigDiffering(TypedDict):
    """A value."""

    value: bool | int | float | str | None
    """The value that holds, in Kafka's unit, such as ms or bytes; a list as one text with commas. Null if the key
    is not set.
    """
    text: str
    """The value in words: `7d`, `512MiB`, `no limit`."""
    layer: LayerTitle
    """The layer of configuration that states the value."""
    pattern: str | None
    """The name or glob of `[topics]` that states the value; null in other layers."""
    name: str
    """The key as written, such as `log.retention.hours` for `retention.ms`."""
    origin: str
    """The place in words: `server.properties line 12`."""
    file: str | None
    """The file that states the value, or the directory of the cluster metadata; null if no file does, as for
    `--set` and defaults.
    """
    line: Positive | None
    """The line of the file, from 1; null if it has no lines."""


class ConfigDocument(TypedDict):
    """The document that `config show --json` prints, and, with one key, `config explain --json`."""

    schema: Literal["logcleaner.config/1"]
    """The name of this schema."""
    files: list[str]
    """The configuration files that were read, and the directory of the cluster metadata."""
    log_dirs: list[str]
    """The paths of the log dirs that a run would work on."""
    keys: list[ConfigKeyValue]
    """The keys of the broker, and of topics without values of their own; empty with `--topic`."""
    topics: list[ConfigTopic]
    """The topics that `--topic` names."""
    differing_topics: NotRequired[dict[str, ConfigDiffering]]
    """With `config explain` without `--topic`: topic -> the other value that holds for it."""
