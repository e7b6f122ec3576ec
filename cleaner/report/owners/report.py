"""The report of ``owners``: text for people, ``logcleaner.owners/1`` for machines, from the same values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from policies.config.policy import BrokerPolicy
from policies.facts import UnreadablePartition
from policies.owners.causes import SizeCause, causes_of
from policies.owners.holdings import NO_TIME, Holding, Owner, TopicHolding
from policies.owners.partition import PartitionOwners
from storage.names import TopicPartition

if TYPE_CHECKING:
    from cleaner.report.page import Lines, Page

SCHEMA: Final = "logcleaner.owners/1"


@dataclass(frozen=True, slots=True)
class OwnersReport:
    """The holdings of the partitions of internal topics."""

    now_ms: int
    broker: BrokerPolicy
    partitions: Sequence[PartitionOwners]
    failures: Sequence[UnreadablePartition] = ()

    def document(self) -> dict[str, Any]:
        """Return what ``owners --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        read = [_partition(one) for one in self.partitions]
        failed = [_unreadable(one.topic_partition, one.log_dir, one.error) for one in self.failures]
        return {
            "schema": SCHEMA,
            "now": self.now_ms,
            "offsets_retention_minutes": self.broker.offsets_retention_minutes,
            "transactional_id_expiration_ms": self.broker.transactional_id_expiration_ms,
            "partitions": [*read, *failed],
            "topics": [_topic(topic, members, causes) for topic, members, causes in self.by_topic()],
        }

    def by_topic(self) -> Iterator[tuple[str, list[PartitionOwners], list[SizeCause]]]:
        """Yield each topic with its partitions, and why it is large."""
        for topic in dict.fromkeys(one.name.topic for one in self.partitions):
            members = [one for one in self.partitions if one.name.topic == topic]
            yield topic, members, causes_of(members, self.broker)

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the topics one after the other."""
        from cleaner.report.owners.text import fill  # noqa: PLC0415 - which --json does without

        fill(page, self.now_ms, list(self.by_topic()), self.failures)
        yield page.text


def _partition(found: PartitionOwners) -> dict[str, Any]:
    facts = found.explained.planned.facts
    return {
        "topic": found.name.topic,
        "partition": found.name.partition,
        "log_dir": facts.log_dir,
        "error": None,
        "bytes": found.size_bytes,
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "first_dirty_offset": found.first_dirty_offset,
        "held": _holding(found.holding),
        "owners": [_owner(owner) for owner in found.owners],
        "others": [{"what": one.what, "records": one.records, "bytes": one.size_bytes} for one in found.others],
        "problems": list(found.problems),
    }


def _unreadable(name: TopicPartition, log_dir: str, error: str) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition, "log_dir": log_dir, "error": error}


def _owner(owner: Owner) -> dict[str, Any]:
    return {
        "name": owner.name,
        "state": owner.state.value,
        "protocol": owner.protocol,
        "members": owner.members,
        "last_ms": owner.last_ms,
        "expired": owner.expired,
        **_holding(owner.holding),
        "topics": [_topic_holding(topic) for topic in owner.topics],
    }


def _topic_holding(held: TopicHolding) -> dict[str, Any]:
    return {"topic": held.topic, "expired": held.expired, **_holding(held.holding)}


def _holding(holding: Holding) -> dict[str, Any]:
    return {
        "bytes": holding.size_bytes,
        "dirty_bytes": holding.dirty_bytes,
        "superseded_bytes": holding.superseded_bytes,
        "records": holding.records,
        "superseded_records": holding.superseded_records,
        "live_keys": holding.live_keys,
        "tombstones": holding.tombstones,
        "first_record_ms": None if holding.first_ms == NO_TIME else holding.first_ms,
        "last_record_ms": None if holding.last_ms == NO_TIME else holding.last_ms,
    }


def _topic(topic: str, members: Sequence[PartitionOwners], causes: Sequence[SizeCause]) -> dict[str, Any]:
    return {
        "topic": topic,
        "partitions": len(members),
        "bytes": sum(one.size_bytes for one in members),
        "superseded_bytes": sum(one.holding.superseded_bytes for one in members),
        "causes": [
            {
                "code": cause.code.value,
                "partition": cause.partition,
                "text": cause.text,
                "remedy": cause.remedy,
                "bytes": cause.size_bytes,
            }
            for cause in causes
        ],
    }
