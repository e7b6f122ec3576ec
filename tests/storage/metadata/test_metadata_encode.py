from __future__ import annotations

import pytest

from storage.metadata.metadata_encode import encode_config, encode_feature_level, encode_partition, encode_topic
from storage.metadata.metadata_log import ConfigSet, ResourceType, TopicCreated, parse_metadata_record

TOPIC_ID = "WMzPO8fURIaxEuNp7zC_pQ"


@pytest.mark.parametrize(
    "config",
    [
        ConfigSet(ResourceType.TOPIC, "orders", "cleanup.policy", "compact,delete"),
        ConfigSet(ResourceType.BROKER, "", "retention.ms", None),
        ConfigSet(ResourceType.TOPIC, "long", "key", "v" * 300),
    ],
)
def test_a_config_reads_back(config: ConfigSet) -> None:
    assert parse_metadata_record(encode_config(config)) == config


def test_a_topic_reads_back() -> None:
    topic = TopicCreated("orders", TOPIC_ID)
    assert parse_metadata_record(encode_topic(topic)) == topic


def test_bytes_are_those_of_a_controller() -> None:
    """Written by Kafka 4.3.1, but for the version of the partition record, which has no other field here."""
    assert encode_feature_level("metadata.version", 30).hex() == "010c00116d657461646174612e76657273696f6e001e00"
    assert encode_partition(TOPIC_ID, 0, 1, "oweCo4A2xmp6qmt6LvDoxQ", 0).hex() == (
        "0103010000000058cccf3bc7d44486b112e369ef30bfa5020000000102000000010101000000010000000000000000"
        "02a30782a38036c66a7aaa6b7a2ef0e8c500"
    )
