"""Decide whether a run leaves a partition alone altogether, whatever its segments are."""

from __future__ import annotations

from policies.config.policy import BrokerPolicy, TopicPolicy
from policies.facts import PartitionFacts
from policies.reasons import Limit, Reason, ReasonCode, moment


def exemption(facts: PartitionFacts, policy: TopicPolicy) -> Reason | None:
    """Return why a run touches nothing of a partition; None if nothing exempts the partition."""
    if facts.held_since_ms is not None:
        words = f"on hold since its restore at {moment(facts.held_since_ms)}"
        return Reason(ReasonCode.HELD, f"{words}, until logcleaner restore --release {facts.topic_partition}")
    if policy.unknown_because is not None:
        return Reason(ReasonCode.CONFIG_UNKNOWN, policy.unknown_because)
    if policy.remote_storage_enable:
        text = "remote storage is on: only the broker knows what was uploaded"
        return Reason(ReasonCode.REMOTE_STORAGE, text, limit=Limit(policy.value_of("remote.storage.enable")))
    return None


def exemption_from_repairs(policy: TopicPolicy) -> str | None:
    """Return why nothing of a topic is mended; None if it may be.

    A derived file says nothing that the log does not say, so a topic of unknown configuration may have it made anew.
    """
    if policy.remote_storage_enable:
        return "remote storage is on: only the broker knows what was uploaded"
    return None


def switched_off(policy: TopicPolicy, broker: BrokerPolicy) -> Reason | None:
    """Return why a broker leaves a compacted topic alone; None if it does not. Source: Kafka LogManager.cleanupLogs."""
    if broker.log_cleaner_enable or not policy.cleanup_compact:
        return None
    text = (
        "log.cleaner.enable=false: neither compacted nor, as in Kafka, deleted; --set log.cleaner.enable=true does it"
    )
    return Reason(ReasonCode.CLEANER_DISABLED, text, limit=Limit(broker.value_of("log.cleaner.enable")))
