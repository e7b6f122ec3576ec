"""The tables of keys in docs/configuration.md: names, types, defaults and ranges from the code, meanings from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cleaner.config.settings import _File, _Metrics
from policies.config.config_keys import (
    BROKER_KEYS,
    DOUBLE_MAX,
    LONG_MAX,
    NO_LIMIT,
    TOPIC_KEYS,
    ConfigKey,
    ValueKind,
    ValueUnit,
)
from policies.config.config_values import show_value
from policies.config.policy import Layer
from tests.docs.tables import table

OF_THE_FILE: Final = {
    "server.properties": "the broker's own file; logcleaner reads it for values and for Kafka's defaults",
    "cluster.metadata": "whether logcleaner reads per-topic configurations from `__cluster_metadata-0`",
    "kafka.defaults": "states that the broker runs on Kafka's defaults: `retention.ms` is 7 days",
}
OF_METRICS: Final = {
    "listen": "where the daemon serves metrics; no port without it",
    "per.partition": "how many series each partition has: `few`, `all` or `none`",
    "textfile": "where `clean` and `free` write the same metrics",
}
MEANINGS: Final = {
    "cleanup.policy": "what happens to old records: `delete` by age and size, `compact` by key, or both",
    "retention.ms": "how old the newest record of a segment may be; -1 is no limit",
    "retention.bytes": "how large a partition may be; -1 is no limit",
    "segment.bytes": "how large the segments of a compacted log may be",
    "segment.ms": "when a broker begins a new segment; `explain` says when that will be",
    "segment.jitter.ms": "by how much a broker begins it sooner, at random",
    "segment.index.bytes": "how large an index of a compacted segment may be",
    "index.interval.bytes": "how many bytes apart the entries of an index are",
    "file.delete.delay.ms": "how long deleted files wait as `.deleted`",
    "delete.retention.ms": "how long tombstones and markers stay after the first round that meets them",
    "min.cleanable.dirty.ratio": "compaction begins above this dirty ratio",
    "min.compaction.lag.ms": "records younger than this are not compacted",
    "max.compaction.lag.ms": "a log with dirty records older than this is compacted whatever its dirty ratio is",
    "remote.storage.enable": "if true, logcleaner leaves the topic alone",
    "compaction.upgrade.format": "compaction rewrites v0 and v1 batches as v2, as Kafka does since 4.0",
    "compaction.rounds": "`kafka` ends a round where Kafka's offset map would be full",
    "retention.future.timestamps": "`mtime`: if a segment's newest record lies in the future, the file's time counts",
    "max.delete.ratio": "a plan that takes more than this share of a partition's bytes waits for `--yes`",
    "log.dirs": "the log directories",
    "metadata.log.dir": "the directory of the metadata log, if it is not in one of `log.dirs`",
    "log.retention.check.interval.ms": "how often the daemon applies retention",
    "log.initial.task.delay.ms": "when the daemon does so for the first time",
    "log.flush.offset.checkpoint.interval.ms": "how often the daemon tries again to write a checkpoint after a failure",
    "log.cleaner.enable": "if false, compacted topics are left alone, as in Kafka",
    "log.cleaner.threads": "threads that compact",
    "log.cleaner.dedupe.buffer.size": "memory for the offset map of a round",
    "log.cleaner.io.buffer.load.factor": "how full the offset map may get",
    "log.cleaner.io.max.bytes.per.second": "how fast compaction reads and writes, at most",
    "log.cleaner.backoff.ms": "how often the daemon looks for partitions to compact",
    "producer.id.expiration.ms": "after how long without a record a producer is forgotten",
    "clock.jump.max": "how far the clock may be off before a guard rail stops the run",
    "lock.hold.max": "after so long the daemon begins no further partition, and lets go of the lock",
}
"""Key -> what it does. logcleaner reads and checks every other key of the tables, but does not act on it."""


def layers() -> str:
    """Return the list of layers, lowest first."""
    return "\n".join(f"{layer + 1}. {layer.title}" for layer in Layer)


def keys() -> str:
    """Return the tables of all keys."""
    of_topics = [key for key in TOPIC_KEYS if key.name in MEANINGS]
    of_brokers = [key for key in BROKER_KEYS if key.name in MEANINGS]
    others = [key for key in (*TOPIC_KEYS, *BROKER_KEYS) if key.name not in MEANINGS]
    sections = [
        ("Keys above all tables", "These are no keys of Kafka.", _of_file(_File, OF_THE_FILE)),
        ("Keys of `[metrics]`", "", _of_file(_Metrics, OF_METRICS)),
        ("Topic keys", f"For `[defaults]`, `[topics]` and `--set`. {_OURS}", _acted_on(of_topics)),
        ("Broker keys", f"For all topics alike. {_OURS}", _acted_on(of_brokers)),
        ("Keys that change nothing", "logcleaner reads and checks these, and does not act on them.", _others(others)),
    ]
    return "\n\n".join("\n\n".join(filter(None, (f"## {title}", *rest))) for title, *rest in sections)


_OURS: Final = "Kafka does not know the keys that are marked as ours."


def _acted_on(keys_: Iterable[ConfigKey]) -> str:
    rows = ((*_name_type_default(key), MEANINGS[key.name], _synonyms(key)) for key in keys_)
    return table(("Key", "Type", "Default", "", "In server.properties"), rows)


def _others(keys_: Iterable[ConfigKey]) -> str:
    return table(
        ("Key", "Type", "Default", "In server.properties"),
        ((*_name_type_default(key), _synonyms(key)) for key in keys_),
    )


def _of_file(model: type[_File | _Metrics], meanings: dict[str, str]) -> str:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return table(
        ("Key", "Default", ""),
        ((f"`{name}`", _default_in_toml(fields[name].default), told) for name, told in meanings.items()),
    )


def _default_in_toml(value: object) -> str:
    return "" if value is None else f"`{str(value).lower()}`"


def _name_type_default(key: ConfigKey) -> tuple[str, str, str]:
    return f"`{key.name}`{' (ours)' if key.ours else ''}", _type(key), _default(key)


def _type(key: ConfigKey) -> str:
    if key.choices:
        return ("list of " if key.kind is ValueKind.LIST else "") + ", ".join(key.choices)
    kind = {ValueUnit.MS: "time", ValueUnit.BYTES: "bytes"}.get(key.unit) or _KINDS[key.kind]
    bounds = [f"at least {key.low:g}" if key.low is not None else "", f"at most {key.high:g}" if key.high else ""]
    said = " and ".join(filter(None, bounds))
    also = f", or {', '.join(map(str, key.besides))}" if key.besides else ""
    return f"{kind}{', ' + said if said else ''}{also}"


_KINDS: Final = {
    ValueKind.BOOL: "true or false",
    ValueKind.INT: "number",
    ValueKind.LONG: "number",
    ValueKind.DOUBLE: "number",
    ValueKind.STRING: "text",
    ValueKind.LIST: "list",
}


def _default(key: ConfigKey) -> str:
    if key.default in (LONG_MAX, DOUBLE_MAX):
        return "no limit"
    if key.default in (None, ()):
        return "off" if key.ours else ""
    if isinstance(key.default, int) and key.default <= 0 and key.default != NO_LIMIT:
        return show_value(replace(key, unit=ValueUnit.NONE), key.default)
    return show_value(key, key.default)


def _synonyms(key: ConfigKey) -> str:
    return ", ".join(f"`{synonym.name}`" for synonym in key.synonyms if synonym.name != key.name)
