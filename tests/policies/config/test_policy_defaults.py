"""The defaults of a policy are Kafka's, but for what would destroy something that nobody stated."""

from __future__ import annotations

import pytest

from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from policies.config.policy import BrokerPolicy, TopicPolicy

OURS = {"cleanup.policy": "", "retention.ms": -1, "retention.bytes": -1}


@pytest.mark.parametrize("key", TOPIC_KEYS, ids=lambda key: key.name)
def test_of_a_topic(key: ConfigKey) -> None:
    assert getattr(TopicPolicy(topic="orders"), key.field) == OURS.get(key.name, key.default)


@pytest.mark.parametrize("key", BROKER_KEYS, ids=lambda key: key.name)
def test_of_a_broker(key: ConfigKey) -> None:
    assert getattr(BrokerPolicy(), key.field) == key.default
