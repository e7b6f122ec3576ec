"""Kafka's config keys: types, defaults, ranges, and the broker keys that stand in for topic keys.

Two tables, ``TOPIC_KEYS`` and ``BROKER_KEYS``, and a few keys of our own. Sources: Kafka ``LogConfig``,
``CleanerConfig``, ``ServerLogConfigs``, ``ServerTopicConfigSynonyms``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. None: the key is not set, and has no default."""

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DOUBLE_MAX: Final = 1.7976931348623157e308
NO_LIMIT: Final = -1
"""The value of ``retention.ms`` and ``retention.bytes`` that means no limit."""

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_MIB: Final = 1 << 20
CLOCK_JUMP_MAX_MS: Final = 30 * _DAY_MS
"""The default of ``clock.jump.max``."""
LOCK_HOLD_MAX_MS: Final = 10_000
"""The default of ``lock.hold.max``."""


class ValueUnit(Enum):
    """The unit of a number. A value may have a suffix of its unit."""

    NONE = ""
    MS = "ms"
    BYTES = "B"

    @property
    def factors(self) -> dict[str, int]:
        """The suffixes of the unit -> the number of units that each stands for."""
        return _FACTORS[self]


_FACTORS: Final[dict[ValueUnit, dict[str, int]]] = {
    ValueUnit.NONE: {},
    ValueUnit.MS: {"ms": 1, "s": _SECOND_MS, "m": _MINUTE_MS, "h": _HOUR_MS, "d": _DAY_MS},
    ValueUnit.BYTES: {
        "B": 1,
        "kB": 10**3,
        "KiB": 1 << 10,
        "MB": 10**6,
        "MiB": _MIB,
        "GB": 10**9,
        "GiB": 1 << 30,
        "TB": 10**12,
        "TiB": 1 << 40,
    },
}


class ValueKind(Enum):
    """Kafka's ``ConfigDef.Type``."""

    BOOL = "true or false"
    INT = "a whole number of 32 bits"
    LONG = "a whole number of 64 bits"
    DOUBLE = "a number"
    STRING = "a text"
    LIST = "a list, separated by commas"


class Synonym(NamedTuple):
    """A broker key that sets a topic key for every topic without its own value.

    Attributes:
        factor: one unit of the broker key, in the topic key's unit.
        low: smallest value, in the broker key's own unit; None takes the topic key's smallest value.
        kind: type of the broker key; None takes the topic key's type.
        negative_is_no_limit: any negative value means -1, and 0 is refused (Kafka ``log.retention.*``).
    """

    name: str
    factor: int = 1
    low: int | None = None
    kind: ValueKind | None = None
    negative_is_no_limit: bool = False


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One config key, by its topic name, or by its broker name if topics do not have the key.

    Attributes:
        low, high: inclusive range of a number; None is unbounded.
        choices: the texts allowed, for STRING and for each item of LIST; empty allows all.
        unit: the unit of the number; allows suffixes, as in ``7d`` and ``512MiB``.
        synonyms: broker keys; the first that is set wins.
        besides: numbers allowed outside ``low..high``, such as -1 for the level of gzip.
        ours: True for a key of logcleaner, unknown to a broker.
        field: the attribute of TopicPolicy or BrokerPolicy.
    """

    name: str
    kind: ValueKind
    default: Value
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unit: ValueUnit = ValueUnit.NONE
    synonyms: tuple[Synonym, ...] = ()
    besides: tuple[int, ...] = ()
    ours: bool = False
    field: str = ""

    def __post_init__(self) -> None:
        if not self.field:
            object.__setattr__(self, "field", self.name.replace(".", "_"))


def _named(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


def _ms(name: str, default: int, low: int, *synonyms: Synonym, kind: ValueKind = ValueKind.LONG) -> ConfigKey:
    return ConfigKey(name, kind, default, low, synonyms=synonyms, unit=ValueUnit.MS)


def _our_ms(name: str, default: int, low: int) -> ConfigKey:
    field = f"{name}.ms".replace(".", "_")
    return ConfigKey(name, ValueKind.LONG, default, low, unit=ValueUnit.MS, ours=True, field=field)


def _bytes(name: str, default: int, low: int | None, *synonyms: str, kind: ValueKind = ValueKind.INT) -> ConfigKey:
    return ConfigKey(name, kind, default, low, synonyms=_named(*synonyms), unit=ValueUnit.BYTES)


def _bool(name: str, default: bool, *synonyms: str, ours: bool = False) -> ConfigKey:
    return ConfigKey(name, ValueKind.BOOL, default, synonyms=_named(*synonyms), ours=ours)


def _ratio(name: str, default: float | None, *synonyms: str, ours: bool = False) -> ConfigKey:
    return ConfigKey(name, ValueKind.DOUBLE, default, 0, 1, synonyms=_named(*synonyms), ours=ours)


def _level(name: str, default: int, low: int, high: int, *besides: int) -> ConfigKey:
    return ConfigKey(name, ValueKind.INT, default, low, high, synonyms=_named(name), besides=besides)


def _text(name: str, default: str, choices: tuple[str, ...], *synonyms: str, ours: bool = False) -> ConfigKey:
    return ConfigKey(name, ValueKind.STRING, default, choices=choices, synonyms=_named(*synonyms), ours=ours)


def _ms_or_hours(name: str, hours_min: int) -> tuple[Synonym, Synonym]:
    return Synonym(f"{name}.ms"), Synonym(f"{name}.hours", _HOUR_MS, hours_min, ValueKind.INT)


def _retention_synonyms() -> tuple[Synonym, ...]:
    return (
        Synonym("log.retention.ms", kind=ValueKind.LONG, negative_is_no_limit=True),
        Synonym("log.retention.minutes", factor=_MINUTE_MS, kind=ValueKind.INT, negative_is_no_limit=True),
        Synonym("log.retention.hours", factor=_HOUR_MS, kind=ValueKind.INT, negative_is_no_limit=True),
    )


RECORD_BYTES_MAX: Final = 2_147_483_639
"""The largest array that a JVM allocates."""
_CODECS: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
_POLICIES: Final = ("compact", "delete")

TOPIC_KEYS: Final = (
    ConfigKey("cleanup.policy", ValueKind.LIST, ("delete",), choices=_POLICIES, synonyms=_named("log.cleanup.policy")),
    _ms("retention.ms", 7 * _DAY_MS, -1, *_retention_synonyms()),
    _bytes("retention.bytes", NO_LIMIT, None, "log.retention.bytes", kind=ValueKind.LONG),
    _ms("local.retention.ms", -2, -2, Synonym("log.local.retention.ms")),
    _bytes("local.retention.bytes", -2, -2, "log.local.retention.bytes", kind=ValueKind.LONG),
    # 4.0 raised the minimum to 1 MiB; directories of older brokers must stay readable
    _bytes("segment.bytes", 1 << 30, 14, "log.segment.bytes"),
    _ms("segment.ms", 7 * _DAY_MS, 1, *_ms_or_hours("log.roll", 1)),
    _ms("segment.jitter.ms", 0, 0, *_ms_or_hours("log.roll.jitter", 0)),
    _bytes("segment.index.bytes", 10 * _MIB, 4, "log.index.size.max.bytes"),
    _bytes("index.interval.bytes", 4096, 0, "log.index.interval.bytes"),
    ConfigKey("flush.messages", ValueKind.LONG, LONG_MAX, 1, synonyms=_named("log.flush.interval.messages")),
    _ms("flush.ms", LONG_MAX, 0, *_named("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
    _ms("file.delete.delay.ms", _MINUTE_MS, 0, Synonym("log.segment.delete.delay.ms")),
    _ms("delete.retention.ms", _DAY_MS, 0, Synonym("log.cleaner.delete.retention.ms")),
    _ratio("min.cleanable.dirty.ratio", 0.5, "log.cleaner.min.cleanable.ratio"),
    _ms("min.compaction.lag.ms", 0, 0, Synonym("log.cleaner.min.compaction.lag.ms")),
    _ms("max.compaction.lag.ms", LONG_MAX, 1, Synonym("log.cleaner.max.compaction.lag.ms")),
    _bytes("max.message.bytes", 1_048_588, 0, "message.max.bytes"),
    ConfigKey(
        "max.decompressed.message.bytes",
        ValueKind.INT,
        RECORD_BYTES_MAX,
        1,
        RECORD_BYTES_MAX,
        unit=ValueUnit.BYTES,
        synonyms=_named("max.decompressed.message.bytes"),
    ),
    _text("compression.type", "producer", _CODECS, "compression.type"),
    _level("compression.gzip.level", -1, 1, 9, -1),
    _level("compression.lz4.level", 9, 1, 17),
    _level("compression.zstd.level", 3, -131_072, 22),
    _text("message.timestamp.type", "CreateTime", ("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    _ms("message.timestamp.before.max.ms", LONG_MAX, 0, Synonym("log.message.timestamp.before.max.ms")),
    _ms("message.timestamp.after.max.ms", _HOUR_MS, 0, Synonym("log.message.timestamp.after.max.ms")),
    _bool("preallocate", False, "log.preallocate"),
    _bool("remote.storage.enable", False),
    _bool("remote.log.copy.disable", False),
    _bool("remote.log.delete.on.disable", False),
    # without a unit: -1 does not say "no limit", but that local retention decides
    ConfigKey("remote.copy.lag.ms", ValueKind.LONG, 0, -1, synonyms=_named("log.remote.copy.lag.ms")),
    ConfigKey("remote.copy.lag.bytes", ValueKind.LONG, -1, -1, synonyms=_named("log.remote.copy.lag.bytes")),
    _bool("errors.deadletterqueue.group.enable", False),
    _bool("compaction.upgrade.format", False, ours=True),
    _text("retention.future.timestamps", "off", ("off", "mtime"), ours=True),
    _ratio("max.delete.ratio", None, ours=True),
    _ratio("max.unkeyed.ratio", 0.5, ours=True),
)
"""The keys that a topic can set."""

BROKER_KEYS: Final = (
    ConfigKey("log.dirs", ValueKind.LIST, (), synonyms=_named("log.dirs", "log.dir")),
    ConfigKey("metadata.log.dir", ValueKind.STRING, None),
    _ms("log.retention.check.interval.ms", 5 * _MINUTE_MS, 1),
    _ms("log.initial.task.delay.ms", 30 * _SECOND_MS, 0),
    _ms("log.flush.offset.checkpoint.interval.ms", _MINUTE_MS, 0, kind=ValueKind.INT),
    _ms("log.flush.start.offset.checkpoint.interval.ms", _MINUTE_MS, 0, kind=ValueKind.INT),
    ConfigKey("num.recovery.threads.per.data.dir", ValueKind.INT, 2, 1),
    _bool("log.cleaner.enable", True),
    ConfigKey("log.cleaner.threads", ValueKind.INT, 1, 0),
    _bytes("log.cleaner.dedupe.buffer.size", 128 * _MIB, 0, kind=ValueKind.LONG),
    _bytes("log.cleaner.io.buffer.size", 512 << 10, 0),
    ConfigKey("log.cleaner.io.buffer.load.factor", ValueKind.DOUBLE, 0.9),
    ConfigKey("log.cleaner.io.max.bytes.per.second", ValueKind.DOUBLE, DOUBLE_MAX, unit=ValueUnit.BYTES),
    _ms("log.cleaner.backoff.ms", 15 * _SECOND_MS, 0),
    _ms("producer.id.expiration.ms", _DAY_MS, 1, kind=ValueKind.INT),
    _ms("producer.id.expiration.check.interval.ms", 10 * _MINUTE_MS, 1, kind=ValueKind.INT),
    ConfigKey("offsets.retention.minutes", ValueKind.INT, 7 * 24 * 60, 1),
    _ms("transactional.id.expiration.ms", 7 * _DAY_MS, 1, kind=ValueKind.INT),
    _our_ms("clock.jump.max", CLOCK_JUMP_MAX_MS, 1),
    _our_ms("lock.hold.max", LOCK_HOLD_MAX_MS, 0),
    _bool("reload.guard", True, ours=True),
)
"""The keys that only a broker sets, for all topics alike."""

TOPIC_KEY: Final = {key.name: key for key in TOPIC_KEYS}
BROKER_KEY: Final = {key.name: key for key in BROKER_KEYS}
SYNONYM_OF: Final = {synonym.name: key.name for key in TOPIC_KEYS for synonym in key.synonyms}
"""Broker key -> the topic key that it stands in for."""
