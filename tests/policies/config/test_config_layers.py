from dataclasses import replace
from typing import Any

import pytest

from policies.config.config_layers import ConfigLayers, Exclusion, key_of
from policies.config.config_sources import ConfigSources, RawLayer, Said
from policies.config.policy import NOBODY, Layer, TopicPolicy
from storage.errors import InvalidConfig, InvalidConfigs


def said(values: dict[str, Any], origin: str = "here") -> RawLayer:
    return {key: Said(value, origin) for key, value in values.items()}


def layers(**sources: Any) -> ConfigLayers:
    """``layers(defaults={...}, topics_file={"a*": {...}})``: each layer as plain values."""
    return ConfigLayers.read(ConfigSources(**{name: _raw(name, value) for name, value in sources.items()}))


def _raw(name: str, value: Any) -> Any:
    if name in ("kafka_defaults", "topic_ids") or value is None:
        return dict.fromkeys(value, "Oq9BWWThTd2n6gPsSSPqGQ") if name == "topic_ids" else value
    if name in ("topic_metadata", "topics_file"):
        return {topic: said(table, f"{name} {topic}") for topic, table in value.items()}
    return said(value, name)


def policy(topic: str = "orders", *, compacted_before: bool = False, **sources: Any) -> TopicPolicy:
    return layers(**sources).policy_for(topic, compacted_before=compacted_before)


def test_policy_is_resolved_once_a_topic_and_anew_where_layers_are_read_anew() -> None:
    once = layers(topics_file={"o*": {"cleanup.policy": "delete"}})
    assert once.policy_for("orders") is once.policy_for("orders")
    assert once.policy_for("orders", compacted_before=True).unknown
    assert not once.policy_for("orders").unknown
    assert not replace(once, topics_file=()).policy_for("orders").cleanup_delete


# Layers

EVERY_LAYER: dict[Layer, dict[str, Any]] = {
    Layer.SERVER_PROPERTIES: {"server_properties": {"log.segment.bytes": "101"}},
    Layer.CLUSTER_DEFAULT: {"cluster_default": {"log.segment.bytes": "102"}},
    Layer.BROKER: {"broker": {"log.segment.bytes": "103"}},
    Layer.DEFAULTS: {"defaults": {"segment.bytes": 104}},
    Layer.TOPIC_METADATA: {"topic_metadata": {"orders": {"segment.bytes": "105"}}},
    Layer.TOPICS_GLOB: {"topics_file": {"ord*": {"segment.bytes": 106}}},
    Layer.TOPICS_NAME: {"topics_file": {"ord*": {"segment.bytes": 106}, "orders": {"segment.bytes": 107}}},
    Layer.SET: {"overrides": {"segment.bytes": "108"}},
}


@pytest.mark.parametrize("highest", EVERY_LAYER)
def test_the_highest_layer_that_states_a_value_wins(highest: Layer) -> None:
    sources: dict[str, Any] = {}
    for layer, source in EVERY_LAYER.items():
        if layer <= highest:
            sources |= source
    found = policy(**sources)
    assert found.segment_bytes == 100 + highest
    assert found.stated["segment.bytes"].layer is highest


def test_without_any_statement_kafkas_default_holds() -> None:
    found = policy()
    assert found.segment_bytes == 1 << 30
    assert found.stated["segment.bytes"].layer is Layer.KAFKA_DEFAULT


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.ms": "-7"}, -1),
        ({}, 604_800_000),
    ],
)
def test_the_first_synonym_that_is_set_wins(properties: dict[str, str], retention_ms: int) -> None:
    assert policy(server_properties=properties).retention_ms == retention_ms


def test_a_topic_key_wins_over_its_broker_key_within_a_layer() -> None:
    assert policy(overrides={"log.retention.ms": "1", "retention.ms": "2"}).retention_ms == 2


def test_longer_globs_win_over_shorter_and_case_counts() -> None:
    tables = {
        "ord*s": {"segment.bytes": 30},
        "o*": {"segment.bytes": 20, "segment.ms": 9},
        "O*": {"segment.ms": 1},
    }
    found = policy(topics_file=tables)
    assert (found.segment_bytes, found.segment_ms) == (30, 9)


def test_unknown_keys_of_a_brokers_own_layers_are_ignored() -> None:
    found = policy(
        server_properties={"listeners": "PLAINTEXT://", "retention.ms": "1"},
        topic_metadata={"orders": {"min.insync.replicas": "2", "compaction.upgrade.format": "true"}},
    )
    assert found.retention_ms == 604_800_000
    assert not found.compaction_upgrade_format


@pytest.mark.parametrize(
    ("sources", "hint"),
    [
        ({"defaults": {"retention.sm": 1}}, "did you mean retention.ms?"),
        ({"defaults": {"RETENTION.MS": 1}}, "did you mean retention.ms?"),
        ({"overrides": {"log.cleaner.thread": "1"}}, "did you mean log.cleaner.threads?"),
        ({"topics_file": {"a": {"log.retention.hours": 1}}}, "did you mean retention.ms?"),
        ({"topics_file": {"a": {"log.cleaner.threads": 1}}}, "no such key"),
        ({"overrides": {"zzz": "1"}}, "no such key"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(sources: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidConfigs, match=hint.replace("?", r"\?")):
        layers(**sources)


def test_all_problems_of_all_layers_are_raised_together() -> None:
    with pytest.raises(InvalidConfigs) as raised:
        layers(
            server_properties={"log.segment.bytes": "x"},
            defaults={"segment.ms": 0},
            topics_file={"a*": {"cleanup.policy": "COMPACT"}},
            topic_metadata={"orders": {"retention.ms": "7d"}},
            overrides={"nonsense": "1"},
        )
    where = [problem.where for problem in raised.value.problems]
    assert sorted(where) == [
        "defaults",
        "overrides",
        "server_properties",
        "topic_metadata orders",
        "topics_file a*",
    ]


@pytest.mark.parametrize(
    "sources",
    [
        {"defaults": {"min.compaction.lag.ms": "2h", "max.compaction.lag.ms": "1h"}},
        {
            "defaults": {"max.compaction.lag.ms": "1h"},
            "topics_file": {"[ab]*": {"min.compaction.lag.ms": "2h"}},
        },
        {
            "defaults": {"max.compaction.lag.ms": "1h"},
            "topic_metadata": {"a": {"min.compaction.lag.ms": "7200000"}},
        },
        {"overrides": {"log.cleaner.dedupe.buffer.size": "2MiB", "log.cleaner.threads": "2"}},
    ],
)
def test_values_that_contradict_each_other_are_refused(sources: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigs, match=r"must not exceed|must be more than"):
        layers(**sources)


def test_a_contradiction_is_told_where_it_is_stated_and_not_again_for_topics_that_state_no_lag() -> None:
    with pytest.raises(InvalidConfigs) as caught:
        layers(
            defaults={"min.compaction.lag.ms": "2h", "max.compaction.lag.ms": "1h"},
            topic_metadata={"a": {"retention.ms": "1"}},
            topics_file={"b": {"retention.ms": "1"}},
        )
    assert len(caught.value.problems) == 1


def test_a_contradiction_that_set_resolves_is_none() -> None:
    found = policy(
        topics_file={"orders": {"min.compaction.lag.ms": "2h", "max.compaction.lag.ms": "1h"}},
        overrides={"max.compaction.lag.ms": "3h"},
    )
    assert found.max_compaction_lag_ms == 10_800_000


# What destroys must have been said: limits


@pytest.mark.parametrize(
    ("sources", "retention_ms", "origin"),
    [
        ({}, -1, NOBODY),
        ({"topic_ids": ["orders"]}, -1, NOBODY),
        ({"server_properties": {}}, 604_800_000, "Kafka's default"),
        ({"kafka_defaults": True}, 604_800_000, "Kafka's default"),
        ({"cluster_default": {"log.retention.ms": "5"}}, 5, "cluster_default"),
        ({"defaults": {"retention.ms": "5"}}, 5, "defaults"),
        (
            {"server_properties": {}, "topics_file": {"orders": {"retention.ms": -1}}},
            -1,
            "topics_file orders",
        ),
    ],
)
def test_a_limit_that_nobody_stated_is_none(sources: dict[str, Any], retention_ms: int, origin: str) -> None:
    found = policy(**sources)
    assert (found.retention_ms, found.origin("retention.ms")) == (retention_ms, origin)
    assert found.retention_bytes == -1


@pytest.mark.parametrize(
    "sources",
    [
        {"kafka_defaults": True},
        {"server_properties": {"log.retention.ms": "5", "log.retention.bytes": "5"}},
        {"cluster_default": {"log.retention.ms": "5", "log.retention.bytes": "5"}},
        {"broker": {"log.retention.ms": "5"}},
        {"defaults": {"retention.ms": "5", "retention.bytes": 5}},
        {"topics_file": {"*": {"retention.ms": "5"}, "__c*": {"retention.bytes": 5}}},
        {"overrides": {"retention.ms": "5", "retention.bytes": "5"}},
    ],
)
def test_internal_topics_take_no_retention_in_broad_terms(sources: dict[str, Any]) -> None:
    found = policy("__consumer_offsets", **sources)
    assert (found.retention_ms, found.retention_bytes) == (-1, -1)
    assert found.origin("retention.ms") == NOBODY


@pytest.mark.parametrize(
    "sources",
    [
        {"topic_metadata": {"__consumer_offsets": {"retention.ms": "5"}}},
        {"topics_file": {"__consumer_offsets": {"retention.ms": 5}}},
    ],
)
def test_internal_topics_take_retention_that_names_them(sources: dict[str, Any]) -> None:
    found = policy("__consumer_offsets", kafka_defaults=True, overrides={"retention.ms": "9"}, **sources)
    assert found.retention_ms == 5


def test_internal_topics_take_other_keys_from_any_layer() -> None:
    assert policy("__consumer_offsets", overrides={"delete.retention.ms": "9"}).delete_retention_ms == 9


# What destroys must have been said: cleanup.policy


@pytest.mark.parametrize(
    ("story", "sources", "cleanup_policy"),
    [
        ("metadata knows the topic, nobody states a policy", {"topic_ids": ["orders"]}, "delete"),
        (
            "metadata states the policy",
            {"topic_ids": ["orders"], "topic_metadata": {"orders": {"cleanup.policy": "compact"}}},
            "compact",
        ),
        (
            "metadata knows the topic, the broker's file states the policy",
            {"topic_ids": ["orders"], "server_properties": {"log.cleanup.policy": "compact"}},
            "compact",
        ),
        (
            "a table by name",
            {"topics_file": {"orders": {"cleanup.policy": "compact,delete"}}},
            "compact,delete",
        ),
        ("a table by glob", {"topics_file": {"ord*": {"cleanup.policy": "delete"}}}, "delete"),
        ("[defaults]", {"defaults": {"cleanup.policy": "delete"}}, "delete"),
        ("--set", {"overrides": {"cleanup.policy": "delete"}}, "delete"),
        ("[defaults] by the broker's name", {"defaults": {"log.cleanup.policy": "compact"}}, "compact"),
        (
            "a table of other keys, the broker's file states the policy",
            {
                "topics_file": {"orders": {"retention.ms": 5}},
                "server_properties": {"log.cleanup.policy": "delete"},
            },
            "delete",
        ),
    ],
)
def test_a_topic_that_somebody_speaks_of_is_known(story: str, sources: dict[str, Any], cleanup_policy: str) -> None:
    found = policy(**sources)
    assert (found.unknown, found.cleanup_policy) == (False, cleanup_policy), story


@pytest.mark.parametrize(
    ("story", "sources"),
    [
        ("nothing at all", {}),
        ("a metadata log that does not know it", {"topic_ids": ["payments"]}),
        ("the broker's file alone", {"server_properties": {"log.cleanup.policy": "delete"}}),
        ("Kafka's defaults alone", {"kafka_defaults": True}),
        (
            "a dynamic default of the cluster",
            {"topic_ids": [], "cluster_default": {"log.cleanup.policy": "delete"}},
        ),
        ("a table of another topic", {"topics_file": {"pay*": {"cleanup.policy": "delete"}}}),
        (
            "a matching table without a policy",
            {"topics_file": {"orders": {"retention.ms": 5}}, "kafka_defaults": True},
        ),
        ("[defaults] without a policy", {"defaults": {"retention.ms": 5}}),
    ],
)
def test_a_topic_that_nobody_speaks_of_keeps_everything(story: str, sources: dict[str, Any]) -> None:
    found = policy(**sources)
    assert found.unknown, story
    assert not found.cleanup_delete
    assert not found.cleanup_compact
    assert '[topics."orders"]' in (found.unknown_because or "")


BROADLY_NOT_COMPACTED: list[dict[str, Any]] = [
    {"topic_ids": ["orders"]},
    {"topic_ids": ["orders"], "server_properties": {"log.cleanup.policy": "delete"}},
    {"topic_ids": ["orders"], "broker": {"log.cleanup.policy": "delete"}},
    {"defaults": {"cleanup.policy": "delete"}},
    {"topics_file": {"ord*": {"cleanup.policy": "delete"}}},
    {"overrides": {"cleanup.policy": ""}},
]


@pytest.mark.parametrize("sources", BROADLY_NOT_COMPACTED)
def test_a_compacted_partition_needs_its_name_said_to_be_deleted(sources: dict[str, Any]) -> None:
    assert policy(compacted_before=True, **sources).unknown
    assert not policy(compacted_before=False, **sources).unknown


@pytest.mark.parametrize(
    "sources",
    [
        {"topic_metadata": {"orders": {"cleanup.policy": "delete"}}, "topic_ids": ["orders"]},
        {"topics_file": {"orders": {"cleanup.policy": "delete"}}},
        {"defaults": {"cleanup.policy": "compact"}},
        {"topics_file": {"ord*": {"cleanup.policy": "compact,delete"}}},
    ],
)
def test_a_compacted_partition_is_known_by_name_or_while_it_stays_compacted(sources: dict[str, Any]) -> None:
    assert not policy(compacted_before=True, **sources).unknown


# The broker, and explain


def test_broker_values_come_from_the_layers_that_speak_of_no_topic() -> None:
    broker = layers(
        server_properties={"log.dirs": "/a, /b", "log.dir": "/c", "log.cleaner.threads": "3"},
        cluster_default={"log.cleaner.threads": "4"},
        overrides={"log.cleaner.backoff.ms": "1s"},
    ).broker_policy()
    assert broker.log_dirs == ("/a", "/b")
    assert (broker.log_cleaner_threads, broker.log_cleaner_backoff_ms) == (4, 1_000)
    assert broker.origin("log.cleaner.threads") == "cluster_default"


def test_explain_shows_every_layers_value_and_the_winner() -> None:
    found = layers(
        server_properties={"log.retention.hours": "1"},
        topic_metadata={"orders": {"retention.ms": "5"}},
        overrides={"retention.ms": "6s"},
    ).explain("log.retention.hours", "orders")
    assert [(value.stated.layer, value.stated.shown) for value in found.values] == [
        (Layer.KAFKA_DEFAULT, "7d"),
        (Layer.SERVER_PROPERTIES, "1h"),
        (Layer.TOPIC_METADATA, "5ms"),
        (Layer.SET, "6s"),
    ]
    assert (found.key, found.winner.shown) == ("retention.ms", "6s")
    assert found.values[1].stated.name == "log.retention.hours"


def test_explain_shows_what_does_not_reach_an_internal_topic() -> None:
    found = layers(overrides={"retention.ms": "5"}).explain("retention.ms", "__consumer_offsets")
    assert (found.values[-1].stated.layer, found.values[-1].applies) == (Layer.SET, False)
    assert found.winner.origin == NOBODY


def test_explain_of_no_topic_leaves_topics_out() -> None:
    found = layers(topics_file={"*": {"segment.ms": 1}}).explain("segment.ms")
    assert [value.stated.layer for value in found.values] == [Layer.KAFKA_DEFAULT]


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
def test_explain_and_policy_agree_on_every_key(topic: str) -> None:
    config = layers(
        kafka_defaults=True,
        defaults={"retention.ms": 5, "cleanup.policy": "delete"},
        overrides={"segment.ms": "7"},
    )
    for key, stated in config.policy_for(topic).stated.items():
        assert config.explain(key, topic).winner == stated


def test_key_of_an_unknown_name_gives_the_nearest() -> None:
    assert key_of("log.segment.bytes") == "segment.bytes"
    with pytest.raises(InvalidConfig, match=r"did you mean segment\.bytes"):
        key_of("segment.byte")


def test_explain_shows_a_weaker_name_of_the_same_file_as_one_that_does_not_count() -> None:
    found = layers(
        server_properties={"log.retention.hours": "1", "log.retention.ms": "7", "log.retention.minutes": "2"}
    ).explain("retention.ms")
    assert [(value.stated.name, value.stated.shown, value.excluded) for value in found.values[1:]] == [
        ("log.retention.hours", "1h", Exclusion.WEAKER_NAME),
        ("log.retention.minutes", "2m", Exclusion.WEAKER_NAME),
        ("log.retention.ms", "7ms", None),
    ]
    assert found.winner.name == "log.retention.ms"


def test_explain_names_the_pattern_that_states_a_value() -> None:
    config = layers(topics_file={"or*": {"retention.ms": 5}, "orders": {"retention.ms": 6}, "x*": {"retention.ms": 7}})
    found = config.explain("retention.ms", "orders")
    assert [(value.pattern, value.stated.shown) for value in found.values[1:]] == [("or*", "5ms"), ("orders", "6ms")]
    assert found.winning.pattern == "orders"


@pytest.mark.parametrize(
    ("sources", "topic", "stated"),
    [
        ({}, None, True),  # no limit, where Kafka's default is a week
        ({"kafka_defaults": True}, None, False),
        ({"kafka_defaults": True}, "__consumer_offsets", True),
        ({"kafka_defaults": True, "overrides": {"retention.ms": "7d"}}, None, True),
    ],
)
def test_a_value_is_stated_if_a_layer_states_it_or_if_it_is_not_kafkas_default(sources, topic, stated) -> None:
    assert layers(**sources).explain("retention.ms", topic).is_stated is stated


def test_topics_with_another_value_are_told_with_what_states_it() -> None:
    config = layers(
        server_properties={"log.retention.hours": "1"},
        topic_metadata={"own": {"retention.ms": "5"}, "same": {"retention.ms": "3600000"}},
        topics_file={"gl*": {"retention.ms": 6}},
    )
    found = config.differing("retention.ms", ["own", "same", "glob", "plain", "__internal"])
    assert {topic: (value.stated.shown, value.pattern) for topic, value in found.items()} == {
        "own": ("5ms", None),
        "glob": ("6ms", "gl*"),
        "__internal": ("no limit", None),
    }
