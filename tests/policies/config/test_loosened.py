"""What a second configuration lets go that the first one kept."""

from math import inf
from typing import Any

import pytest

from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS
from policies.config.config_layers import ConfigLayers
from policies.config.loosened import Loosened, loosened
from tests.policies.config.test_config_layers import layers

DELETE = {"cleanup.policy": "delete", "retention.ms": "30d"}
COMPACT = {"cleanup.policy": "compact"}
BOTH = {"cleanup.policy": "compact,delete"}


def of(table: dict[str, Any], **others: Any) -> ConfigLayers:
    return layers(topics_file={"orders": table}, **others)


def keys(before: ConfigLayers, after: ConfigLayers, *topics: str) -> list[str]:
    return [found.key for found in loosened(before, after, topics or ("orders",))]


LOOSER: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "cleanup.policy": ({}, "compact", "compact,delete"),
    "retention.ms": (DELETE, "30d", "29d"),
    "retention.bytes": (DELETE, -1, "1GiB"),
    "min.compaction.lag.ms": (COMPACT, "1h", 0),
    "max.compaction.lag.ms": (COMPACT, "7d", "1d"),
    "delete.retention.ms": (COMPACT, "1d", 0),
    "min.cleanable.dirty.ratio": (COMPACT, 0.5, 0.1),
    "file.delete.delay.ms": (DELETE, "1m", 0),
    "max.delete.ratio": (DELETE, 0.5, 0.6),
    "max.unkeyed.ratio": (COMPACT, 0.5, 1),
    "retention.future.timestamps": (DELETE, "off", "mtime"),
    "remote.storage.enable": (DELETE, True, False),
}
OF_THE_BROKER: dict[str, tuple[Any, Any]] = {
    "log.cleaner.enable": (False, True),
    "producer.id.expiration.ms": (86_400_000, 1),
    "clock.jump.max": ("30d", "31d"),
    "reload.guard": (True, False),
}
LETS_NOTHING_GO = {
    # what a partition is written with, or how it is worked on
    *("segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes", "index.interval.bytes"),
    *(
        "flush.messages",
        "flush.ms",
        "max.message.bytes",
        "max.decompressed.message.bytes",
        "preallocate",
        "compaction.upgrade.format",
    ),
    *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    *("message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"),
    # of tiered topics, which nothing touches
    *("local.retention.ms", "local.retention.bytes", "remote.log.copy.disable", "remote.log.delete.on.disable"),
    *("remote.copy.lag.ms", "remote.copy.lag.bytes", "errors.deadletterqueue.group.enable"),
    # where, when, with how much memory and at which rate the work is done
    *("log.dirs", "metadata.log.dir", "log.retention.check.interval.ms", "log.initial.task.delay.ms"),
    *("log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms"),
    *("num.recovery.threads.per.data.dir", "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"),
    *("log.cleaner.io.buffer.size", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"),
    *("log.cleaner.backoff.ms", "producer.id.expiration.check.interval.ms", "lock.hold.max"),
    # of what `owners` and `dump` tell
    *("offsets.retention.minutes", "transactional.id.expiration.ms"),
}


@pytest.mark.parametrize("key", LOOSER)
def test_a_key_of_a_topic_is_found_in_the_direction_that_lets_more_go_alone(key: str) -> None:
    table, tight, loose = LOOSER[key]
    before, after = of({**table, key: tight}), of({**table, key: loose})
    assert keys(before, after) == [key]
    assert keys(after, before) == keys(before, before) == []


@pytest.mark.parametrize("key", OF_THE_BROKER)
def test_a_key_of_the_broker_is_found_likewise_and_names_no_topic(key: str) -> None:
    tight, loose = (of(DELETE, defaults={key: value}) for value in OF_THE_BROKER[key])
    assert [(found.topic, found.key) for found in loosened(tight, loose, ["orders"])] == [(None, key)]
    assert keys(loose, tight) == []


def test_every_key_has_its_place_here() -> None:
    """A new key is to be thought of: either it lets something go, or it does not."""
    known = {key.name for key in (*TOPIC_KEYS, *BROKER_KEYS)}
    assert known == {*LOOSER, *OF_THE_BROKER, *LETS_NOTHING_GO}


@pytest.mark.parametrize("key", ["retention.ms", "max.delete.ratio", "retention.future.timestamps"])
def test_what_concerns_deletion_decides_nothing_for_a_topic_that_is_only_compacted(key: str) -> None:
    _, tight, loose = LOOSER[key]
    assert keys(of({**COMPACT, key: tight}), of({**COMPACT, key: loose})) == []


@pytest.mark.parametrize("key", ["delete.retention.ms", "max.unkeyed.ratio"])
def test_what_concerns_compaction_decides_nothing_for_a_topic_that_is_only_deleted_from(key: str) -> None:
    _, tight, loose = LOOSER[key]
    assert keys(of({**DELETE, key: tight}), of({**DELETE, key: loose})) == []


def test_a_limit_that_is_gone_is_found_though_no_layer_states_the_key_any_more() -> None:
    before = layers(server_properties={}, topic_ids=["orders"], topics_file={"orders": {"retention.ms": "30d"}})
    after = layers(server_properties={}, topic_ids=["orders"])
    (found,) = loosened(before, after, ["orders"])
    assert found.told == "retention.ms=7d (Kafka's default), before retention.ms=30d (topics_file orders)"
    assert loosened(before, layers(topic_ids=["orders"]), ["orders"]) == ()  # then nobody stated a limit


def test_a_topic_of_unknown_policy_kept_everything() -> None:
    unknown, known = layers(), of(DELETE)
    policy, limit = loosened(unknown, known, ["orders"])
    assert policy.told == "cleanup.policy=delete (topics_file orders), before cleanup.policy unknown"
    assert limit.key == "retention.ms"
    assert loosened(known, unknown, ["orders"]) == ()


def test_a_partition_that_was_compacted_before_counts_too() -> None:
    """Its policy is unknown while a glob alone says that it is not compacted; its name says so for certain."""
    before = layers(topics_file={"ord*": DELETE})
    (found,) = loosened(before, of(DELETE), ["orders"])
    assert (found.topic, found.key, found.was_unknown) == ("orders", "cleanup.policy", True)


def test_topics_of_kafkas_own_take_their_retention_by_name_alone() -> None:
    before, after = (
        layers(topics_file={"__consumer_offsets": BOTH}, defaults={"retention.ms": limit}) for limit in ("9d", "1d")
    )
    assert loosened(before, after, ["__consumer_offsets"]) == ()


@pytest.mark.parametrize(
    ("before", "after", "times"), [("30d", "3d", 10), ("30d", "30m", 1440), (-1, "30d", inf), ("1d", 0, inf)]
)
def test_a_limit_tells_how_much_smaller_it_became(before: object, after: object, times: float) -> None:
    (found,) = loosened(of({**DELETE, "retention.ms": before}), of({**DELETE, "retention.ms": after}), ["orders"])
    assert found.shrinking == times


def test_what_is_no_limit_did_not_shrink() -> None:
    (found,) = loosened(of({**DELETE, "max.delete.ratio": 0.1}), of({**DELETE, "max.delete.ratio": 1}), ["orders"])
    assert isinstance(found, Loosened)
    assert found.shrinking == 1
