from policies.config.config_layers import ConfigLayers
from policies.config.config_sources import ConfigSources, Said
from policies.config.loosened import overrides


def layers(*set_options: str, topics_file: dict[str, dict[str, str]] | None = None) -> ConfigLayers:
    def said(values: dict[str, str]) -> dict[str, Said]:
        return {key: Said(value, "test") for key, value in values.items()}

    topics = {
        "clicks": {"cleanup.policy": "delete", "retention.ms": "604800000"},
        "views": {"cleanup.policy": "delete", "retention.ms": "604800000"},
        "audit": {"cleanup.policy": "delete", "retention.ms": "259200000"},
        "orders": {"cleanup.policy": "compact"},
        "__consumer_offsets": {"cleanup.policy": "compact"},
    }
    return ConfigLayers.read(
        ConfigSources(
            topic_metadata={topic: said(values) for topic, values in topics.items()},
            topics_file={topic: said(values) for topic, values in (topics_file or {}).items()},
            overrides=said(dict(option.split("=", 1) for option in set_options)),
            topic_ids=dict.fromkeys(topics, "id"),
        )
    )


def told(*set_options: str, topics: str = "clicks views audit orders __consumer_offsets", **others) -> list[str]:
    return [override.told for override in overrides(layers(*set_options, **others), topics.split())]


def test_a_limit_says_whom_it_hits_and_whom_not() -> None:
    assert told("retention.ms=3d") == [
        "retention.ms=3d: 2 topics, 7d before (clicks, views); the same before: 1 topic; "
        "without effect: 1 topic without delete in cleanup.policy; not hit: 1 topic named __*, which take it only "
        "from the cluster metadata or their exact name under [topics]"
    ]


def test_the_most_common_value_before_comes_first() -> None:
    (line,) = told("retention.ms=1d", topics="audit clicks views")
    assert line == "retention.ms=1d: 2 topics, 7d before (clicks, views); 1 topic, 3d before (audit)"


def test_many_topics_are_named_in_part() -> None:
    (line,) = told("retention.bytes=1MiB", topics="a1 a2 a3 a4 a5", topics_file={"a*": {"cleanup.policy": "delete"}})
    assert line == "retention.bytes=1MiB: 5 topics, no limit before (a1, a2, a3 and 2 more)"


def test_a_synonym_is_told_by_the_key_that_it_sets() -> None:
    assert told("log.retention.hours=24", topics="audit") == ["retention.ms=1d: 1 topic, 3d before (audit)"]


def test_what_changes_nothing_says_so() -> None:
    assert told("retention.ms=3d", topics="audit") == ["retention.ms=3d: changes no topic; the same before: 1 topic"]
    assert told("min.cleanable.dirty.ratio=0.1", topics="audit") == [
        "min.cleanable.dirty.ratio=0.1: changes no topic; without effect: 1 topic without compact in cleanup.policy"
    ]


def test_a_policy_that_set_may_not_state_touches_nothing() -> None:
    assert told("cleanup.policy=compact", topics="audit orders") == [
        "cleanup.policy=compact: changes no topic; the same before: 1 topic; "
        "not touched: 1 topic, audit: its own configuration says delete, and only test says compact; "
        'state cleanup.policy under [topics."audit"] of a --config FILE'
    ]
    (line,) = told("cleanup.policy=compact", topics="audit clicks")
    assert "not touched: 2 topics, audit, clicks: audit: its own configuration says delete" in line
    assert told("retention.ms=1d", topics="nobody") == [
        "retention.ms=1d: changes no topic; not touched: 1 topic of unknown configuration (nobody)"
    ]


def test_a_policy_that_nobody_stated_before_was_unknown() -> None:
    assert told("cleanup.policy=delete", topics="copied") == ["cleanup.policy=delete: 1 topic, unknown before (copied)"]


def test_keys_of_the_broker_hit_no_topic() -> None:
    assert told("log.cleaner.threads=2") == []
    assert told() == []
