"""Read one partition of a coordinator's topic, and tell who has what in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cleaner.engine.explain.observing import PartitionChanged
from cleaner.engine.owners.tally import CountedKey, OffsetBorders, Tally
from policies.explain.explanation import PartitionExplanation
from policies.explain.words import counted
from policies.facts import PartitionFacts
from policies.owners.groups import groups_of
from policies.owners.holdings import KeyHolding, Latest, Owner, Terms
from policies.owners.partition import Other, PartitionOwners
from policies.owners.transactional_ids import transactional_ids_of
from policies.plan import path_of
from storage.errors import InvalidRecord
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.scan.chunks import chunks
from storage.scan.extents import Extent, Wanted, cut_partition
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage
from storage.schemas.client_messages import CLIENT_MESSAGES
from storage.schemas.coordinator import CoordinatorRecords
from storage.schemas.decoding import decode
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.schemas.transactions_topic import TRANSACTIONS_TOPIC

EXTENT_BYTES: Final = 8 << 20
"""The bytes that are read between two signs of progress."""

_GROUPS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
TOPICS: Final = (_GROUPS, _TRANSACTIONS)
"""The topics whose owners this module can tell."""

_RECORDS: Final = {
    _GROUPS: CoordinatorRecords(OFFSETS_TOPIC),
    _TRANSACTIONS: CoordinatorRecords(TRANSACTIONS_TOPIC),
}


def owners_of(explained: PartitionExplanation, terms: Terms, advance: Callable[[int], None]) -> PartitionOwners:
    """Read a partition, and tell who has what in it.

    Args:
        explained: the partition of a plan, explained.
        terms: decide about expiry.
        advance: hears the number of bytes read since the last call.

    Raises:
        PartitionChanged, SegmentGone, UnreadableFile: a broker changed it meanwhile, or it cannot be read.
        CorruptIndex: a transaction index is damaged.
    """
    facts = explained.planned.facts
    section = explained.intended.section
    checkpoint = facts.cleaner_checkpoint or facts.log_start_offset
    borders = OffsetBorders(facts.log_start_offset, section.first_dirty_offset if section else checkpoint)
    tally, damage = Tally(borders), list[str]()
    for extent in _extents(facts):
        with open_extent(extent) as reader:
            for found in chunks(reader, replace(extent, aborted=()), with_control=True):
                if isinstance(found, Damage):
                    damage.append(str(found.error))
                else:
                    tally.add(found, extent.aborted)
        advance(extent.size_bytes)
    decoding = _Decoding(_RECORDS[facts.topic_partition.topic])
    owners = _owners(facts.topic_partition.topic, decoding.holdings(tally.keys()), terms)
    others = tuple(_others(facts, tally, decoding.undecodable, owners, is_damaged=bool(damage)))
    problems = (*damage[:1], *decoding.problems)
    return PartitionOwners(explained, borders.first_dirty_offset, tuple(owners), others, problems, bool(damage))


def _extents(facts: PartitionFacts) -> Iterator[Extent]:
    """Yield all of the log, also what lies below its start. Raises: PartitionChanged, CorruptIndex, UnreadableFile."""
    directory = Path(path_of(facts))
    listing = plan_recovery(list_partition(directory)).listing
    by_base = {segment.base_offset: segment for segment in listing.segments}
    segments = [by_base[s.base_offset] for s in facts.segments if s.base_offset in by_base]
    if len(segments) < len(facts.segments):
        raise PartitionChanged(directory)
    wanted = Wanted(OffsetRange(0, facts.log_end_offset), None, EXTENT_BYTES, read_committed=True)
    return cut_partition(facts.topic_partition, segments, wanted)


def _owners(topic: str, keys: Iterable[KeyHolding], terms: Terms) -> list[Owner]:
    if topic == _GROUPS:
        return groups_of(keys, terms, subscribed_topics)
    return transactional_ids_of(keys, terms)


def subscribed_topics(subscription: bytes) -> list[str] | None:
    """Return the topics that a member of a classic group states; None if they cannot be decoded.

    Source: Kafka ClassicGroup.computeSubscribedTopics: whatever the version, only its first fields are asked.
    """
    message = CLIENT_MESSAGES["ConsumerProtocolSubscription"]
    version = min(int.from_bytes(subscription[:2], "big", signed=True), message.versions.last)
    try:
        topics: list[str] = decode(message, version, subscription, 2)["topics"]
    except InvalidRecord:
        return None
    return topics


class _Decoding:
    """The decoded keys and values, and a count of the keys and values that cannot be decoded."""

    def __init__(self, records: CoordinatorRecords) -> None:
        self._records = records
        self.undecodable = Other("keys that cannot be decoded", 0, 0)
        self._first_key_error: InvalidRecord | None = None
        self._values = 0
        self._first_value_error: InvalidRecord | None = None

    @property
    def problems(self) -> Iterator[str]:
        """Yield what was not decoded, with the first cause of each."""
        if self._first_key_error:
            records = self.undecodable.records
            have = f"{counted(records, 'record')} {'has' if records == 1 else 'have'}"
            yield f"{have} a key that cannot be decoded: {self._first_key_error}"
        if self._first_value_error:
            yield f"{counted(self._values, 'value')} cannot be decoded: {self._first_value_error}"

    def holdings(self, keys: Iterable[CountedKey]) -> Iterator[KeyHolding]:
        """Yield what is held of each key that can be decoded."""
        for one in keys:
            try:
                kind, fields = self._records.key(one.key)
            except InvalidRecord as error:
                self._first_key_error = self._first_key_error or error
                _, records, size_bytes = self.undecodable
                holding = one.holding
                self.undecodable = self.undecodable._replace(
                    records=records + holding.records, size_bytes=size_bytes + holding.size_bytes
                )
                continue
            yield KeyHolding(kind, fields, one.latest, self._value(kind, one), one.holding)

    def _value(self, kind: str, one: CountedKey) -> dict[str, Any] | None:
        if one.latest is not Latest.VALUE or one.value is None:
            return None
        try:
            return self._records.value(kind, one.value)
        except InvalidRecord as error:
            self._first_value_error = self._first_value_error or error
            self._values += 1
            return None


def _others(
    facts: PartitionFacts, tally: Tally, undecodable: Other, owners: list[Owner], *, is_damaged: bool
) -> Iterator[Other]:
    """Yield what belongs to nobody. What is in no record is the rest of the files."""
    unowned = tally.unowned
    found = [
        Other("transaction markers", unowned.markers, unowned.marker_bytes),
        Other("records without a key", unowned.unkeyed, unowned.unkeyed_bytes),
        undecodable,
    ]
    told = sum(other.size_bytes for other in found) + sum(owner.holding.size_bytes for owner in owners)
    rest = facts.size_bytes - told
    torn = min(facts.torn_tail_bytes, max(rest, 0))
    what = "damaged batches, and batches without records" if is_damaged else "batches without records"
    found += [Other("a torn tail", 0, torn), Other(what, 0, rest - torn)]
    return (other for other in found if other.records or other.size_bytes)
