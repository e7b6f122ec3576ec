"""The causes of the size of an internal topic, each with a remedy: blockers of compaction, and frequent writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from policies.config.policy import BrokerPolicy
from policies.explain.blockers import Blocker, BlockerCode
from policies.owners.holdings import Holding, Owner, OwnerState, PartitionOwners, sum_of
from policies.reasons import counted, duration, size


class CauseCode(StrEnum):
    """The causes beside the blockers of ``explain`` (docs/owners.md)."""

    FREQUENT_WRITES = "FREQUENT_WRITES"
    GROUPS_WITHOUT_MEMBERS = "GROUPS_WITHOUT_MEMBERS"
    UNUSED_TRANSACTIONAL_IDS = "UNUSED_TRANSACTIONAL_IDS"
    DEAD_OWNERS = "DEAD_OWNERS"


class SizeCause(NamedTuple):
    """One reason why a topic is large, with a sentence of remedy."""

    code: BlockerCode | CauseCode
    text: str
    remedy: str
    size_bytes: int
    """The bytes that it keeps here, or brought here."""
    partition: int | None = None
    """The partition that the text tells of; None for all of them."""


_COMPACTION: Final = frozenset({
    *(BlockerCode.HELD, BlockerCode.CONFIG_UNKNOWN, BlockerCode.CLEANER_DISABLED, BlockerCode.FAILED_ATTEMPT),
    *(BlockerCode.NO_HIGH_WATERMARK, BlockerCode.ABOVE_HIGH_WATERMARK, BlockerCode.POLICY_EMPTY),
    *(BlockerCode.ACTIVE_SEGMENT, BlockerCode.OPEN_TRANSACTION, BlockerCode.MIN_COMPACTION_LAG),
    *(BlockerCode.DIRTY_RATIO_LOW, BlockerCode.CLEANER_BEHIND, BlockerCode.TOMBSTONES_WAIT),
})  # fmt: skip
"""The blockers that keep superseded records and tombstones."""
_WORTH_TELLING: Final = 0.01
"""The least share of a topic for a cause that is reported."""
_MOST: Final = 0.5
_OFTEN_MS: Final = 1_000
"""The interval, in ms: a key that is written more often than that is written often.

Consumers commit every 5 s by default.
"""
_OFTEN_RECORDS_MIN: Final = 1_000
_WITHOUT_MEMBERS: Final = frozenset({OwnerState.EMPTY, OwnerState.NO_GROUP})


def causes_of(partitions: Sequence[PartitionOwners], broker: BrokerPolicy) -> list[SizeCause]:
    """Return the causes of a topic's size, the one with the most bytes first.

    Args:
        partitions: of one topic.
        broker: the configuration that decides about expiry.
    """
    owners = [owner for partition in partitions for owner in partition.owners]
    all_bytes = sum(partition.size_bytes for partition in partitions)
    found = [
        *_blocked(partitions),
        *_frequent(owners),
        *_without_members(owners, broker),
        *_unused_ids(owners, broker),
        *_dead(owners),
    ]
    told = [cause for cause in found if cause.size_bytes >= _WORTH_TELLING * all_bytes]
    return sorted(told, key=lambda cause: -cause.size_bytes)


def _blocked(partitions: Sequence[PartitionOwners]) -> Iterator[SizeCause]:
    """Yield the blockers of compaction, each for the partition in which it keeps the most bytes."""
    by_code: dict[BlockerCode, list[tuple[int, PartitionOwners, Blocker]]] = {}
    for partition in partitions:
        holding = partition.holding
        for blocker in partition.explained.blockers:
            kept = holding.superseded_bytes if blocker.size_bytes is None else blocker.size_bytes
            could_go = kept if blocker.code is BlockerCode.TOMBSTONES_WAIT else min(kept, holding.superseded_bytes)
            if blocker.code in _COMPACTION and could_go:
                by_code.setdefault(blocker.code, []).append((could_go, partition, blocker))
    for code, met in by_code.items():
        _, partition, blocker = max(met, key=lambda one: one[0])
        more = f" The same holds for {counted(len(met) - 1, 'more partition')}." if len(met) > 1 else ""
        could_go = sum(bytes_ for bytes_, _, _ in met)
        yield SizeCause(
            code, f"{partition.name}: {blocker.text}{more}", blocker.remedy, could_go, partition.name.partition
        )


def _frequent(owners: Sequence[Owner]) -> Iterator[SizeCause]:
    """Yield the owner that writes most records, if it writes each key often."""
    all_records = sum(owner.holding.records for owner in owners)
    most = max(owners, key=lambda owner: owner.holding.records, default=None)
    if most is None or most.holding.records < max(_OFTEN_RECORDS_MIN, _MOST * all_records):
        return
    holding = most.holding
    span_ms = max(holding.last_ms - holding.first_ms, 1)
    if span_ms * max(holding.keys, 1) > _OFTEN_MS * holding.records:
        return
    share = round(100 * holding.records / all_records)
    is_group = bool(most.topics)
    whose = f"Group {most.name}" if is_group else f"Transactional id {most.name}"
    a_second = holding.records * 1000 / span_ms
    text = (
        f"{whose} wrote {share} % of the records: {holding.records:,} for {counted(holding.keys, 'key')} within "
        f"{duration(span_ms)}, {a_second:,.1f} a second."
    )
    remedy = "Let its producer put more records into a transaction."
    if is_group:
        remedy = "Let its consumers commit less often: after each batch of records, or by auto.commit.interval.ms."
    yield SizeCause(CauseCode.FREQUENT_WRITES, text, remedy, holding.superseded_bytes)


def _without_members(owners: Sequence[Owner], broker: BrokerPolicy) -> Iterator[SizeCause]:
    """Yield the groups that have offsets and no members."""
    groups = [owner for owner in owners if owner.state in _WITHOUT_MEMBERS and owner.topics]
    offsets = _offsets(groups)
    if not offsets.live_keys:
        return
    expired = sum(group.expired for group in groups)
    retention = broker.value_of("offsets.retention.minutes")
    after = retention.sentence
    are = "group without members holds" if len(groups) == 1 else "groups without members hold"
    text = f"{len(groups):,} {are} {counted(offsets.live_keys, 'offset')} ({size(offsets.kept_bytes)}). "
    text += f"{expired:,} of them expired, by {after}." if expired else f"None expired yet, by {after}."
    remedy = "kafka-consumer-groups.sh --delete --group NAME removes a group, a lower offsets.retention.minutes more."
    if expired:
        remedy = f"A broker removes expired offsets within minutes of its start. {remedy}"
    yield SizeCause(CauseCode.GROUPS_WITHOUT_MEMBERS, text, remedy, offsets.kept_bytes)


def _offsets(groups: Sequence[Owner]) -> Holding:
    return sum_of(topic.holding for group in groups for topic in group.topics if topic.topic is not None)


def _unused_ids(owners: Sequence[Owner], broker: BrokerPolicy) -> Iterator[SizeCause]:
    """Yield the transactional ids that expired."""
    expired = [owner for owner in owners if owner.expired and not owner.topics]
    if not expired:
        return
    held = sum_of(owner.holding for owner in expired)
    stated = broker.value_of("transactional.id.expiration.ms")
    are = "id is" if len(expired) == 1 else "ids are"
    text = f"{len(expired):,} transactional {are} unused for longer than {stated.sentence}: {size(held.kept_bytes)}."
    remedy = (
        "A broker removes them within an hour or so of its start. Let each producer keep its transactional.id over "
        "restarts."
    )
    yield SizeCause(CauseCode.UNUSED_TRANSACTIONAL_IDS, text, remedy, held.kept_bytes)


def _dead(owners: Sequence[Owner]) -> Iterator[SizeCause]:
    """Yield the records that owners without a live key left behind."""
    dead = [owner for owner in owners if owner.state is OwnerState.DEAD]
    if not dead:
        return
    held = sum_of(owner.holding for owner in dead)
    are = "owner has" if len(dead) == 1 else "owners have"
    text = (
        f"{len(dead):,} dead {are} left {counted(held.records, 'record')} ({size(held.size_bytes)}), of which "
        f"{held.tombstones:,} are tombstones."
    )
    remedy = "Compaction drops the records; the tombstones follow delete.retention.ms after the round that meets them."
    yield SizeCause(CauseCode.DEAD_OWNERS, text, remedy, held.size_bytes)
