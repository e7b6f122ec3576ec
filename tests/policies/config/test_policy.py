import dataclasses
import pickle

import pytest

from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS
from policies.config.policy import NOBODY, BrokerPolicy, Layer, Stated, TopicPolicy


def defaults_of(policy: type) -> dict[str, object]:
    return {f.name: f.default for f in dataclasses.fields(policy) if f.default is not dataclasses.MISSING}


def test_every_topic_key_has_its_attribute_and_default() -> None:
    attributes = defaults_of(TopicPolicy)
    for key in TOPIC_KEYS:
        if key.name not in ("cleanup.policy", "retention.ms"):  # where the defaults destroy nothing
            assert attributes[key.field] == key.default, key.name


def test_every_broker_key_has_its_attribute_and_default() -> None:
    attributes = defaults_of(BrokerPolicy)
    assert {key.field: key.default for key in BROKER_KEYS} == attributes


def test_a_policy_of_which_nothing_was_stated_destroys_nothing() -> None:
    policy = TopicPolicy(topic="orders")
    assert not policy.cleanup_delete
    assert not policy.cleanup_compact
    assert (policy.retention_ms, policy.retention_bytes) == (-1, -1)
    assert policy.origin("retention.ms") == NOBODY


@pytest.mark.parametrize(
    ("text", "deletes", "compacts"),
    [("", False, False), ("delete", True, False), ("compact", False, True), ("compact,delete", True, True)],
)
def test_cleanup_policy_says_what_is_done(text: str, deletes: bool, compacts: bool) -> None:
    policy = TopicPolicy(topic="orders", cleanup_policy=text)
    assert (policy.cleanup_delete, policy.cleanup_compact) == (deletes, compacts)


def test_shown_and_origin_speak_of_one_key() -> None:
    stated = Stated("retention.ms", 259_200_000, Layer.SET, "--set", "retention.ms")
    policy = TopicPolicy(topic="clicks", retention_ms=259_200_000, stated={"retention.ms": stated})
    assert f"{policy.shown('retention.ms')} ({policy.origin('retention.ms')})" == "3d (--set)"


def test_policies_survive_pickling() -> None:
    policy = TopicPolicy(topic="clicks", unknown_because="nobody spoke")
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert policy.unknown


def test_only_what_a_broker_reads_is_its_own() -> None:
    own = {layer for layer in Layer if layer.is_brokers_own}
    assert own == {Layer.SERVER_PROPERTIES, Layer.CLUSTER_DEFAULT, Layer.BROKER, Layer.TOPIC_METADATA}
    assert all(layer.title for layer in Layer)
