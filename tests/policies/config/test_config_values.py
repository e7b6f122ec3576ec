import math

import pytest

from policies.config.config_keys import BROKER_KEY, SYNONYM_OF, TOPIC_KEY, Synonym, Value
from policies.config.config_values import RawValue, parse_value, show_value

KEYS = {**TOPIC_KEY, **BROKER_KEY}


def parse(name: str, raw: RawValue, *, as_broker: bool = False) -> Value:
    key = KEYS[SYNONYM_OF.get(name, name)]
    synonym: Synonym | None = next((s for s in key.synonyms if s.name == name and name != key.name), None)
    return parse_value(key, raw, synonym=synonym, as_broker=as_broker)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("retention.ms", "604800000", 604_800_000),
        ("retention.ms", " +5 ", 5),
        ("retention.ms", 5, 5),
        ("retention.ms", "-1", -1),
        ("retention.ms", "7d", 604_800_000),
        ("retention.ms", "36h", 129_600_000),
        ("retention.ms", "5 m", 300_000),
        ("retention.ms", "30s", 30_000),
        ("retention.ms", "500ms", 500),
        ("retention.bytes", "20GiB", 20 << 30),
        ("retention.bytes", "1kB", 1_000),
        ("retention.bytes", "1KiB", 1_024),
        ("retention.bytes", "3MB", 3_000_000),
        ("retention.bytes", "2GB", 2_000_000_000),
        ("segment.bytes", "512MiB", 512 << 20),
        ("segment.bytes", 14, 14),
        ("compression.gzip.level", "-1", -1),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("min.cleanable.dirty.ratio", 1, 1.0),
        ("min.cleanable.dirty.ratio", "1e-2", 0.01),
        ("log.cleaner.io.max.bytes.per.second", "10MB", 10_000_000.0),
        ("preallocate", " TRUE ", True),
        ("preallocate", False, False),
        ("cleanup.policy", " compact , delete ", ("compact", "delete")),
        ("cleanup.policy", ["delete"], ("delete",)),
        ("cleanup.policy", "", ()),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    ],
)
def test_what_kafka_or_people_write_is_read(name: str, raw: RawValue, value: Value) -> None:
    parsed = parse(name, raw)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", "7 days", "whole number"),
        ("retention.ms", "1.5h", "whole number"),
        ("retention.ms", "7D", "whole number"),
        ("retention.ms", "-7d", "whole number"),
        ("retention.ms", "512MiB", "whole number"),
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "\u0667", "whole number"),
        ("retention.ms", True, "whole number"),
        ("retention.ms", 1.0, "whole number"),
        ("retention.ms", "9223372036854775808", "out of range"),
        ("segment.bytes", "2GiB", "out of range"),
        ("segment.bytes", "13", "at least 14"),
        ("flush.messages", "1d", "whole number"),
        ("compression.gzip.level", "0", "at least 1"),
        ("compression.gzip.level", "10", "at most 9"),
        ("max.compaction.lag.ms", 0, "at least 1"),
        ("min.cleanable.dirty.ratio", "1.01", "at most 1"),
        ("min.cleanable.dirty.ratio", "nan", "number"),
        ("min.cleanable.dirty.ratio", math.nan, "number"),
        ("min.cleanable.dirty.ratio", "50%", "number"),
        ("preallocate", "yes", "true or false"),
        ("preallocate", 1, "true or false"),
        ("cleanup.policy", "Compact", "lower case"),
        ("cleanup.policy", "compact,,delete", "blank"),
        ("cleanup.policy", "compact,compact", "twice"),
        ("cleanup.policy", 3, "list"),
        ("compression.type", "brotli", "one of"),
        ("compression.type", 3, "text"),
        ("log.dirs", "/a,/b,/a", "twice"),
    ],
)
def test_what_kafka_refuses_is_refused_with_the_reason(name: str, raw: RawValue, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(name, raw)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("log.retention.ms", "-5", -1),
        ("log.retention.minutes", "2", 120_000),
        ("log.retention.hours", "168", 604_800_000),
        ("log.retention.hours", "-2", -1),
        ("log.roll.hours", "1", 3_600_000),
        ("log.roll.jitter.hours", "0", 0),
    ],
)
def test_a_broker_key_has_its_own_unit(name: str, raw: str, value: int) -> None:
    assert parse(name, raw, as_broker=True) == value


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("log.retention.hours", "0", "refuses 0"),
        ("log.retention.ms", "0", "refuses 0"),
        ("log.retention.hours", "2147483648", "out of range"),
        ("log.roll.hours", "0", "at least 1"),
        ("log.retention.hours", "7d", "whole number"),
    ],
)
def test_a_broker_key_has_its_own_range(name: str, raw: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(name, raw)


def test_a_brokers_own_text_knows_no_suffixes() -> None:
    with pytest.raises(ValueError, match="whole number"):
        parse("retention.ms", "7d", as_broker=True)


def test_a_brokers_own_list_may_repeat_an_item_as_before_4_2() -> None:
    assert parse("cleanup.policy", "compact,compact", as_broker=True) == ("compact",)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention.ms", 604_800_000, "7d"),
        ("retention.ms", 90_000, "90s"),
        ("retention.ms", -1, "no limit"),
        ("retention.ms", 0, "0ms"),
        ("local.retention.ms", -2, "-2ms"),
        ("segment.bytes", 1 << 30, "1GiB"),
        ("retention.bytes", 2_500_000, "2500000B (2.38MiB)"),
        ("retention.bytes", 100_000_000_000, "100000000000B (93.13GiB)"),
        ("max.message.bytes", 1_048_588, "1048588B (1.00MiB)"),
        ("retention.bytes", 6_000, "6000B"),
        ("retention.bytes", 1_025, "1025B"),
        ("max.compaction.lag.ms", (1 << 63) - 1, "no limit"),
        ("cleanup.policy", ("compact", "delete"), "compact,delete"),
        ("preallocate", True, "true"),
        ("metadata.log.dir", None, "off"),
        ("min.cleanable.dirty.ratio", 0.5, "0.5"),
        ("log.cleaner.threads", 2, "2"),
    ],
)
def test_a_value_is_shown_in_peoples_words(name: str, value: Value, shown: str) -> None:
    assert show_value(KEYS[name], value) == shown


def test_every_default_is_valid() -> None:
    for key in KEYS.values():
        if isinstance(key.default, str | bool | int | float):
            assert parse_value(key, key.default, synonym=None, as_broker=False) == key.default
