"""What people are told of a key."""

from __future__ import annotations

import pytest

from policies.config.config_keys import BROKER_KEY, BROKER_KEYS, DOUBLE_MAX, TOPIC_KEY, TOPIC_KEYS, Value
from policies.config.config_values import kafka_text
from policies.config.key_descriptions import FILE_SETTINGS, MEANINGS, SETTINGS, default_of, meaning_of, type_of


@pytest.mark.parametrize("key", [*TOPIC_KEYS, *BROKER_KEYS], ids=lambda key: key.name)
def test_every_key_has_a_meaning_and_a_type(key) -> None:
    assert len(meaning_of(key).split()) > 1
    assert not meaning_of(key).endswith(".")
    assert type_of(key)


def test_a_key_without_a_meaning_is_said_to_change_nothing() -> None:
    assert "local.retention.bytes" not in MEANINGS
    assert meaning_of(TOPIC_KEY["local.retention.bytes"]) == "logcleaner reads and checks it, and does not act on it"


@pytest.mark.parametrize(
    ("name", "told", "default"),
    [
        ("retention.ms", "time, at least -1", "7d"),
        ("retention.bytes", "bytes", "no limit"),
        ("cleanup.policy", "list of compact, delete", "delete"),
        ("min.cleanable.dirty.ratio", "number, at least 0 and at most 1", "0.5"),
        ("max.decompressed.message.bytes", "bytes, at least 1 and at most 2147483639", "2147483639B (1.99GiB)"),
        ("compression.gzip.level", "number, at least 1 and at most 9, or -1", "-1"),
        ("max.delete.ratio", "number, at least 0 and at most 1", "off"),
        ("min.compaction.lag.ms", "time, at least 0", "0"),
        ("log.dirs", "list", ""),
        ("log.cleaner.io.max.bytes.per.second", "bytes", "no limit"),
    ],
)
def test_type_and_default_are_told_in_words(name: str, told: str, default: str) -> None:
    key = TOPIC_KEY.get(name) or BROKER_KEY[name]
    assert (type_of(key), default_of(key)) == (told, default)


def test_no_setting_of_the_file_is_a_key_that_layers_state() -> None:
    assert not SETTINGS.keys() & {**TOPIC_KEY, **BROKER_KEY}.keys()
    assert SETTINGS.keys() > FILE_SETTINGS.keys()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("compact", "delete"), "compact,delete"),
        (-1, "-1"),
        (0.5, "0.5"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        ("gzip", "gzip"),
    ],
)
def test_a_value_is_written_as_kafka_writes_it(value: Value, text: str | None) -> None:
    assert kafka_text(value) == text
