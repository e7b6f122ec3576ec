"""Decide under which topic id a partition is imported, and what a broker does with it at its next start."""

from __future__ import annotations

from typing import Final, NamedTuple

from storage.names import TopicPartition

_REMEDY: Final = (
    "create the topic, stop the broker, move away the empty directory that the broker made, and import again"
)


class ImportFacts(NamedTuple):
    """The facts about the partition to be made."""

    topic_partition: TopicPartition
    has_metadata: bool
    """True if a cluster metadata log was read."""
    topic_id: str | None
    """The id that the cluster metadata give the topic; None if they do not know it."""
    replicas: tuple[int, ...]
    """The brokers that the cluster metadata place the partition on."""
    directory_id: str | None
    """The log dir to which the cluster metadata assigns the partition on this broker; None without an assignment."""
    node_id: int | None
    """The node id in ``meta.properties`` of the log dir."""
    own_directory_id: str | None
    """The id of the log dir, from the same file."""
    neighbours_id: str | None
    """The topic id of another partition of the topic in a log dir of the broker."""


class Placement(NamedTuple):
    """The topic id to write."""

    topic_id: str | None
    """The topic id; None if the import must make a new one."""
    warning: str
    """The act of a broker that the user may not expect; empty if the broker serves the partition."""


def placement(facts: ImportFacts) -> Placement:
    """Decide on the topic id, as a starting broker judges it.

    Source: Kafka 4 LogManager.isStrayKraftReplica, LogManager.loadLog.
    """
    topic, partition = facts.topic_partition
    stray = "a broker (KRaft, since 3.7) will set the directory aside as -stray at its start"
    if facts.topic_id is None:
        found = f"the cluster metadata knows no topic {topic}"
        if not facts.has_metadata:
            found = f"there is no cluster metadata here that tells the id of topic {topic}"
        kept = "the topic id of its other partitions here" if facts.neighbours_id else "a new topic id"
        text = f"{found}: the new partition gets {kept}. Unless the cluster knows that id, {stray}"
        return Placement(facts.neighbours_id, f"{text}; {_REMEDY}")
    if not facts.replicas:
        return Placement(facts.topic_id, f"the cluster metadata knows no partition {partition} of {topic}: {stray}")
    if facts.node_id is not None and facts.node_id not in facts.replicas:
        hosts = ", ".join(map(str, facts.replicas))
        return Placement(facts.topic_id, f"the cluster metadata places it on {hosts}, not on {facts.node_id}: {stray}")
    if None not in (ids := (facts.directory_id, facts.own_directory_id)) and ids[0] != ids[1]:
        text = f"the cluster metadata places it in the log dir with the id {ids[0]}, and this one has {ids[1]}"
        return Placement(facts.topic_id, f"{text}: the broker will tell the controller where it found it")
    return Placement(facts.topic_id, "")
