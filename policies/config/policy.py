"""The configuration that holds for a topic, and for the broker: typed values, each with the layer that stated it.

Nouns: ``Layer`` (who can state a value, lowest first), ``Stated`` (a value with its layer and place),
``TopicPolicy`` and ``BrokerPolicy`` (all values resolved). ``policies.config.config_layers`` makes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Self

from policies.config.config_keys import (
    BROKER_KEY,
    CLOCK_JUMP_MAX_MS,
    DOUBLE_MAX,
    LOCK_HOLD_MAX_MS,
    LONG_MAX,
    NO_LIMIT,
    TOPIC_KEY,
    ConfigKey,
    Value,
)
from policies.config.config_values import show_value

NOBODY: Final = "nobody stated it"
"""The origin of a limit that no layer stated."""
OUR_DEFAULT: Final = "logcleaner's default"
"""The origin of a default of a key that Kafka does not know."""


class Layer(IntEnum):
    """A source that can state a value; a greater one wins. ``[topics]`` has two: an exact name wins over a glob."""

    title: str
    """The layer's name in people's words."""

    KAFKA_DEFAULT = 0, "Kafka's default"
    SERVER_PROPERTIES = 1, "server.properties"
    CLUSTER_DEFAULT = 2, "cluster metadata: cluster default"
    BROKER = 3, "cluster metadata: broker"
    DEFAULTS = 4, "[defaults]"
    TOPIC_METADATA = 5, "cluster metadata: topic"
    TOPICS_GLOB = 6, "[topics], by glob"
    TOPICS_NAME = 7, "[topics], by name"
    SET = 8, "--set"

    def __new__(cls, rank: int, title: str) -> Self:
        """Make a layer that compares by its rank."""
        layer = int.__new__(cls, rank)
        layer._value_, layer.title = rank, title
        return layer

    @property
    def is_brokers_own(self) -> bool:
        """True if a broker reads the same text: it may hold keys unknown to us, and no suffixes such as ``7d``."""
        return self in (self.SERVER_PROPERTIES, self.CLUSTER_DEFAULT, self.BROKER, self.TOPIC_METADATA)


class Stated(NamedTuple):
    """A value, with the layer and the place that stated it.

    Attributes:
        key: the topic key, or the broker key if topics do not have the key.
        origin: the place, such as ``server.properties line 12``.
        name: the key as written, such as ``log.retention.hours`` for ``retention.ms``.
        file: the path of the file that states the value, or of the directory of the cluster metadata; None if no file
            does, as for ``--set`` and Kafka's defaults.
        line: the line of the file, from 1; None if it has no lines.
        overruled: the values of the same key that the same layer states by weaker names, the strongest first, such as
            ``log.retention.hours`` beside ``log.retention.ms``.
    """

    key: str
    value: Value
    layer: Layer
    origin: str
    name: str
    file: str | None = None
    line: int | None = None
    overruled: tuple[Stated, ...] = ()

    @property
    def shown(self) -> str:
        """The value in people's words."""
        return show_value(TOPIC_KEY.get(self.key) or BROKER_KEY[self.key], self.value)

    @property
    def sentence(self) -> str:
        """Key, value and place: ``retention.ms=3d (server.properties line 12)``."""
        return f"{self.key}={self.shown} ({self.origin})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """Every value that holds for one topic; the attributes are Kafka's keys with underscores.

    The defaults destroy nothing. ``retention_ms`` and ``retention_bytes`` below 0 mean no limit.

    Attributes:
        unknown_because: why the topic's cleanup.policy is unknown, with a remedy. Everything then stays, and
            ``cleanup_policy`` is empty. None if the policy is known.
        stated: topic key -> its value, with the layer that stated it.
    """

    topic: str
    cleanup_policy: str = ""
    retention_ms: int = NO_LIMIT
    retention_bytes: int = NO_LIMIT
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = 2_147_483_639
    """Since 4.4 Kafka's cleaner fails at a larger record in a compressed batch."""
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    preallocate: bool = False
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = -1
    errors_deadletterqueue_group_enable: bool = False
    compaction_upgrade_format: bool = False
    retention_future_timestamps: str = "off"
    """``mtime``: the age of a segment whose newest record lies in the future counts from its file time."""
    max_delete_ratio: float | None = None
    """The share of a partition's bytes that a run may delete without ``--yes``; None is no limit."""
    max_unkeyed_ratio: float = 0.5
    """The share of the records of a round that may go without ``--yes`` because they have no key; 1 is no limit."""
    unknown_because: str | None = None
    stated: Mapping[str, Stated] = field(default_factory=dict)

    @property
    def unknown(self) -> bool:
        """True if nobody stated a policy for this topic. The topic then keeps everything."""
        return self.unknown_because is not None

    @property
    def is_hands_off(self) -> bool:
        """True if a run touches nothing of the topic, not even the remains of a crash.

        That holds if the topic's policy is unknown, or if remote storage is on.
        """
        return self.unknown or self.remote_storage_enable

    @property
    def cleanup_delete(self) -> bool:
        """True if size and time delete old segments."""
        return "delete" in self.cleanup_policy.split(",")

    @property
    def cleanup_compact(self) -> bool:
        """True if compaction removes superseded records."""
        return "compact" in self.cleanup_policy.split(",")

    def shown(self, key: str) -> str:
        """Return the value of a topic key in people's words: ``7d``, ``512MiB``, ``no limit``."""
        return show_value(TOPIC_KEY[key], getattr(self, TOPIC_KEY[key].field))

    def origin(self, key: str) -> str:
        """Return the place that stated the value of a topic key."""
        return self.value_of(key).origin

    def value_of(self, key: str) -> Stated:
        """Return the value of a topic key with its place, also if no layer stated it."""
        return self.stated.get(key) or _unstated(TOPIC_KEY[key], self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPolicy:
    """Every value that holds for all topics alike; the attributes are Kafka's keys with underscores."""

    log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str | None = None
    log_retention_check_interval_ms: int = 300_000
    log_initial_task_delay_ms: int = 30_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    num_recovery_threads_per_data_dir: int = 2
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_buffer_size: int = 512 << 10
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_max_bytes_per_second: float = DOUBLE_MAX
    log_cleaner_backoff_ms: int = 15_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    transactional_id_expiration_ms: int = 604_800_000
    clock_jump_max_ms: int = CLOCK_JUMP_MAX_MS
    """The most that the wall clock may differ from the times that it is compared with."""
    lock_hold_max_ms: int = LOCK_HOLD_MAX_MS
    """The time after which the daemon begins no further partition under one hold of the locks."""
    reload_guard: bool = True
    """Whether limits that let much more go than those confirmed last wait for ``config apply``."""
    stated: Mapping[str, Stated] = field(default_factory=dict)

    def origin(self, key: str) -> str:
        """Return the place that stated the value of a broker key."""
        return self.value_of(key).origin

    def value_of(self, key: str) -> Stated:
        """Return the value of a broker key with its place, also if no layer stated it."""
        return self.stated.get(key) or _unstated(BROKER_KEY[key], self)


def _unstated(key: ConfigKey, policy: TopicPolicy | BrokerPolicy) -> Stated:
    return Stated(key.name, getattr(policy, key.field), Layer.KAFKA_DEFAULT, NOBODY, key.name)
