"""One partition of an internal topic: its owners, and the records without an owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from policies.config.policy import BrokerPolicy
from policies.explain.explanation import PartitionExplanation
from policies.owners.holdings import Holding, Owner, Terms, sum_of
from storage.names import TopicPartition


class Other(NamedTuple):
    """Records or bytes without an owner."""

    what: str
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionOwners:
    """All of one partition. The bytes of ``owners`` and ``others`` add up to those of its ``.log`` files.

    Attributes:
        explained: why its segments stay.
        first_dirty_offset: where the bytes begin that no cleaner has looked at.
        owners: the groups or transactional ids, the largest first.
        others: what belongs to none: markers, damaged batches, keys that cannot be decoded.
        problems: what could not be read or decoded, one sentence each.
        is_damaged: whether a batch could not be read.
    """

    explained: PartitionExplanation
    first_dirty_offset: int
    owners: tuple[Owner, ...]
    others: tuple[Other, ...] = ()
    problems: tuple[str, ...] = ()
    is_damaged: bool = False

    @property
    def name(self) -> TopicPartition:
        """The topic and the number of the partition."""
        return self.explained.planned.facts.topic_partition

    @property
    def size_bytes(self) -> int:
        """The size of its ``.log`` files."""
        return self.explained.planned.facts.size_bytes

    @property
    def holding(self) -> Holding:
        """The sums of all owners."""
        return sum_of(owner.holding for owner in self.owners)


def terms_of(broker: BrokerPolicy, now_ms: int) -> Terms:
    """Return what decides about expiry under a configuration."""
    return Terms(now_ms, broker.offsets_retention_minutes * 60_000, broker.transactional_id_expiration_ms)
