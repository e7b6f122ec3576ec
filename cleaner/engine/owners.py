"""Read one partition of a coordinator's topic, and tell what each group or transactional id takes.

Its records are counted by their keys: bytes, dirty bytes, and the latest record of each key. The memory grows with the
number of distinct keys, about 500 bytes each, not with the number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.engine.explain.explaining import PartitionChanged
from policies.explain.explanation import PartitionExplanation
from policies.facts import PartitionFacts
from policies.owners.groups import groups_of, transactional_ids_of
from policies.owners.holdings import NO_TIME, Holding, KeyHolding, Latest, Other, Owner, PartitionOwners, Terms
from policies.plan import path_of
from policies.reasons import counted
from storage.arrays import Integers
from storage.errors import InvalidRecord
from storage.kernels.layout import (
    CONTROL,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    OFFSET,
    ROW,
    TIMESTAMP,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.scan.chunks import Chunk, aborted_rows, chunks
from storage.scan.extents import UNCUT_BYTES, Extent, Wanted, cut_partition
from storage.scan.files import read_in_turn
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage
from storage.schemas.coordinator import CLIENT_MESSAGES, TRANSACTIONS_TOPIC, CoordinatorRecords
from storage.schemas.decoding import decode
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from storage.stores.paths import path_of_text
from storage.txn_index import AbortedTxn

_RECORD_OVERHEAD_BYTES: Final = 8
"""The bytes that a record takes beside key, value and headers, about; only the shares of a batch depend on them."""
_KEYS_AT_FIRST: Final = 1 << 10
_NEVER: Final = np.iinfo(np.int64).max
_KEYS_AT_ONCE: Final = 1 << 14
_TYPE_BYTES: Final = 2
_VALUE, _TOMBSTONE = 1, 2
_LATEST: Final = (Latest.NONE, Latest.VALUE, Latest.TOMBSTONE)
_Flags = npt.NDArray[np.bool_]
_GROUPS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
TOPICS: Final = (_GROUPS, _TRANSACTIONS)
"""The topics whose owners this module can tell."""
_RECORDS: Final = {
    _GROUPS: CoordinatorRecords(OFFSETS_TOPIC),
    _TRANSACTIONS: CoordinatorRecords(TRANSACTIONS_TOPIC),
}


def owners_of(explained: PartitionExplanation, terms: Terms, advance: Callable[[int], None]) -> PartitionOwners:
    """Read a partition, and return what each group or transactional id has in it.

    Args:
        explained: the partition of a plan, explained.
        terms: decide about expiry.
        advance: hears the number of bytes read since the last call.

    Raises:
        PartitionChanged, SegmentGone, UnreadableFile: a broker changed the partition meanwhile, or it cannot be read.
        CorruptIndex: a transaction index is damaged.
    """
    facts = explained.planned.facts
    section = explained.intended.section
    checkpoint = facts.cleaner_checkpoint or facts.log_start_offset
    borders = OffsetBorders(facts.log_start_offset, section.first_dirty_offset if section else checkpoint)
    tally, damage = Tally(borders), list[str]()
    for extent, file in read_in_turn(_extents(facts)):
        position = extent.start
        with open_extent(extent, file) as reader:
            for found in chunks(reader, extent._replace(aborted=()), with_control=True):
                if isinstance(found, Damage):
                    damage.append(str(found.error))
                else:
                    tally.add(found, extent.aborted)
                    advance(found.end_position - position)
                    position = found.end_position
        advance(extent.end - position)
    decoding = _Decoding(_RECORDS[facts.topic_partition.topic])
    owners = _owners(facts.topic_partition.topic, decoding.holdings(tally.keys()), terms)
    others = tuple(_others(facts, tally, decoding.undecodable, owners, is_damaged=bool(damage)))
    problems = (*damage[:1], *decoding.problems)
    return PartitionOwners(explained, borders.first_dirty_offset, tuple(owners), others, problems, bool(damage))


def subscribed_topics(subscription: bytes) -> list[str] | None:
    """Return the topics to which a member of a classic group subscribes; None if they cannot be decoded.

    Source: Kafka ClassicGroup.computeSubscribedTopics: only the first fields matter, in each version.
    """
    message = CLIENT_MESSAGES["ConsumerProtocolSubscription"]
    version = min(int.from_bytes(subscription[:2], "big", signed=True), message.versions.last)
    try:
        topics: list[str] = decode(message, version, subscription, 2)["topics"]
    except InvalidRecord:
        return None
    return topics


class OffsetBorders(NamedTuple):
    """The offsets by which records are told apart."""

    log_start_offset: int
    """Consumers read no record below this offset."""
    first_dirty_offset: int
    """A cleaner has read all records below this offset."""


@dataclass(slots=True)
class Unowned:
    """Records without an owner, by their number and bytes."""

    markers: int = 0
    marker_bytes: int = 0
    unkeyed: int = 0
    unkeyed_bytes: int = 0


class CountedKey(NamedTuple):
    """One key with its figures and its latest value.

    The value is None if the latest record is a tombstone, or if no record counts.
    """

    key: bytes
    latest: Latest
    value: bytes | None
    holding: Holding


class Tally:
    """The counts of one partition; chunks are added in the order of their offsets."""

    def __init__(self, borders: OffsetBorders) -> None:
        self._borders = borders
        self._numbers = _Numbers()
        self._values: dict[int, bytes] = {}
        self._bytes, self._dirty, self._kept, self._records = (np.zeros(_KEYS_AT_FIRST, np.int64) for _ in range(4))
        self._first_ms = np.full(_KEYS_AT_FIRST, _NEVER, np.int64)
        self._last_ms = np.full(_KEYS_AT_FIRST, NO_TIME, np.int64)
        self._latest = np.zeros(_KEYS_AT_FIRST, np.int8)
        self._place = np.zeros(_KEYS_AT_FIRST, np.int64)
        self.unowned = Unowned()

    def add(self, chunk: Chunk, aborted: Sequence[AbortedTxn]) -> None:
        """Count the records of a chunk.

        Args:
            chunk: with its control records.
            aborted: transactions whose records do not count as the latest.
        """
        located = chunk.located
        shares = shared_out(chunk.table["size"], located)
        is_control = (chunk.table["attributes"][located[ROW]] & CONTROL) != 0
        is_keyed = (located[KEY_BYTES] >= 0) & ~is_control
        self._add_unowned(shares, is_control, ~is_control & ~is_keyed)
        counts = located[OFFSET] >= self._borders.log_start_offset
        if aborted:
            counts &= ~aborted_rows(chunk.table, aborted)[located[ROW]]
        if not is_keyed.all():
            located, shares, counts = located[:, is_keyed], shares[is_keyed], counts[is_keyed]
        if located.shape[1]:
            self._add_keyed(chunk.buf.tobytes(), located, shares, counts)

    def keys(self) -> Iterator[CountedKey]:
        """Yield the keys, ordered by the bytes behind their type. The owner's name comes first there, so an owner's
        keys stand together.
        """
        order = sorted(self._numbers, key=lambda key: key[_TYPE_BYTES:])
        for start in range(0, len(order), _KEYS_AT_ONCE):
            keys = order[start : start + _KEYS_AT_ONCE]
            numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
            latest = self._latest[numbers]
            sums = (column[numbers] for column in (self._bytes, self._dirty, self._kept, self._records))
            states = ((latest == code).astype(np.int64) for code in (_VALUE, _TOMBSTONE))
            columns = (*sums, *states, self._first_ms[numbers], self._last_ms[numbers])
            holdings = zip(*(column.tolist() for column in columns), strict=True)
            every = zip(keys, numbers.tolist(), latest.tolist(), holdings, strict=True)
            for key, number, code, holding in every:
                yield CountedKey(key, _LATEST[code], self._values.get(number), Holding(*holding))

    def _add_unowned(self, shares: Integers, is_control: _Flags, is_unkeyed: _Flags) -> None:
        unowned = self.unowned
        unowned.markers += int(is_control.sum())
        unowned.marker_bytes += int(shares[is_control].sum())
        unowned.unkeyed += int(is_unkeyed.sum())
        unowned.unkeyed_bytes += int(shares[is_unkeyed].sum())

    def _add_keyed(self, data: bytes, located: Integers, shares: Integers, counts: _Flags) -> None:
        starts = located[KEY_AT]
        ends = starts + located[KEY_BYTES]
        numbers_of = self._numbers.__getitem__
        keys = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        numbers = np.fromiter(map(numbers_of, keys), np.int64, len(keys))
        self._make_room(len(self._numbers))
        is_dirty = located[OFFSET] >= self._borders.first_dirty_offset
        np.add.at(self._bytes, numbers, shares)
        np.add.at(self._dirty, numbers, np.where(is_dirty, shares, 0))
        np.add.at(self._records, numbers, 1)
        np.minimum.at(self._first_ms, numbers, located[TIMESTAMP])
        np.maximum.at(self._last_ms, numbers, located[TIMESTAMP])
        self._note_latest(data, located[:, counts], shares[counts], numbers[counts])

    def _note_latest(self, data: bytes, located: Integers, shares: Integers, numbers: Integers) -> None:
        """Note the last record of each key in the chunk as the latest.

        Chunks come in the order of offsets, so no earlier chunk has a later record.
        """
        places = np.arange(numbers.size)
        self._place[numbers] = places  # of several records of a key the last one stays
        last = np.flatnonzero(self._place[numbers] == places)
        numbers, starts, lengths = numbers[last], located[VALUE_AT][last], located[VALUE_BYTES][last]
        self._kept[numbers] = shares[last]
        self._latest[numbers] = np.where(lengths >= 0, _VALUE, _TOMBSTONE)
        for number, start, length in zip(numbers.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            if length >= 0:
                self._values[number] = data[start : start + length]
            else:
                self._values.pop(number, None)

    def _make_room(self, keys: int) -> None:
        if keys <= self._bytes.size:
            return
        more = max(keys, self._bytes.size * 2) - self._bytes.size
        for name in ("_bytes", "_dirty", "_kept", "_records", "_place", "_latest"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._first_ms = np.pad(self._first_ms, (0, more), constant_values=_NEVER)
        self._last_ms = np.pad(self._last_ms, (0, more), constant_values=NO_TIME)


def shared_out(batch_bytes: Integers, located: Integers) -> Integers:
    """Return each record's share of the bytes of its batch. The shares of a batch add up to its size.

    Args:
        batch_bytes: the size of each batch.
        located: ``layout.LOCATED_FIELDS`` by records, batch by batch.
    """
    rows: Integers = located[ROW]
    if not rows.size:
        return rows
    plain = np.maximum(located[KEY_BYTES], 0) + np.maximum(located[VALUE_BYTES], 0) + located[HEADERS_BYTES]
    ends = np.cumsum(plain + _RECORD_OVERHEAD_BYTES)
    first = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    counts = np.diff(first, append=rows.size)
    before = np.concatenate(([0], ends[first[1:] - 1]))
    within = np.repeat(ends[first + counts - 1] - before, counts)
    up_to = batch_bytes[rows] * (ends - np.repeat(before, counts)) // within
    shares: Integers = np.diff(up_to, prepend=0)
    shares[first] = up_to[first]
    return shares


def _extents(facts: PartitionFacts) -> Iterator[Extent]:
    """Yield the extents of the whole log, also below its start. Raises: PartitionChanged, CorruptIndex,
    UnreadableFile.
    """
    directory = path_of_text(path_of(facts))
    listing = plan_recovery(list_partition(directory)).listing
    by_base = {segment.base_offset: segment for segment in listing.segments}
    segments = [by_base[s.base_offset] for s in facts.segments if s.base_offset in by_base]
    if len(segments) < len(facts.segments):
        raise PartitionChanged(directory)
    wanted = Wanted(OffsetRange(0, facts.log_end_offset), None, UNCUT_BYTES, read_committed=True)
    return cut_partition(facts.topic_partition, segments, wanted)


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
        """Yield a sentence for each kind of record that was not decoded, with the first cause."""
        if self._first_key_error:
            records = self.undecodable.records
            have = f"{counted(records, 'record')} {'has' if records == 1 else 'have'}"
            yield f"{have} a key that cannot be decoded: {self._first_key_error}"
        if self._first_value_error:
            yield f"{counted(self._values, 'value')} cannot be decoded: {self._first_value_error}"

    def holdings(self, keys: Iterable[CountedKey]) -> Iterator[KeyHolding]:
        """Yield the figures of each key that can be decoded."""
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


def _owners(topic: str, keys: Iterable[KeyHolding], terms: Terms) -> list[Owner]:
    if topic == _GROUPS:
        return groups_of(keys, terms, subscribed_topics)
    return transactional_ids_of(keys, terms)


def _others(
    facts: PartitionFacts, tally: Tally, undecodable: Other, owners: list[Owner], *, is_damaged: bool
) -> Iterator[Other]:
    """Yield the records that belong to nobody, and the bytes of the files that are in no record."""
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


class _Numbers(dict[bytes, int]):
    """Key -> its number; a new key gets the next one."""

    def __missing__(self, key: bytes) -> int:
        number = self[key] = len(self)
        return number
