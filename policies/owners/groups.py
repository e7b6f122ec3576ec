"""The owners of records: the groups of ``__consumer_offsets``, and the transactional ids of ``__transaction_state``.

A group has its state, members, topics and expired offsets.

Source: Kafka ``OffsetMetadataManager.cleanupExpiredOffsets``, ``ClassicGroup.offsetExpirationCondition`` and
``isSubscribedToTopic``, ``ConsumerGroup.offsetExpirationCondition``, ``OffsetExpirationConditionImpl``;
``TransactionState``, ``TransactionStateManager.shouldExpire``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from policies.owners.holdings import KeyHolding, Latest, Owner, OwnerState, Terms, TopicHolding, sum_of

COMMITS: Final = ("OffsetCommit", "LegacyOffsetCommit")
CLASSIC: Final = "GroupMetadata"
_PROTOCOLS: Final = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
_MEMBER: Final = "MemberMetadata"
_REGULAR_EXPRESSION: Final = "ConsumerGroupRegularExpression"
_CONSUMER: Final = "consumer"
_NOT_SET: Final = -1
Subscription = Callable[[bytes], Collection[str] | None]
"""Decodes the topics that a member of a classic group states; None if they cannot be decoded."""

_STATES: Final = {
    0: OwnerState.UNUSED,
    1: OwnerState.ONGOING,
    2: OwnerState.PREPARE_COMMIT,
    3: OwnerState.PREPARE_ABORT,
    4: OwnerState.COMMITTED,
    5: OwnerState.ABORTED,
    6: OwnerState.DEAD,
    7: OwnerState.FENCED,
}
_MAY_EXPIRE: Final = frozenset({OwnerState.UNUSED, OwnerState.COMMITTED, OwnerState.ABORTED})


def groups_of(keys: Iterable[KeyHolding], terms: Terms, subscription: Subscription) -> list[Owner]:
    """Return the groups that some keys belong to, the largest first.

    Args:
        keys: the keys of one partition; the keys of one group stand side by side.
        terms: the moment, and the retention of offsets.
        subscription: decodes what a member of a classic group subscribed to.
    """
    owners = [_group(name, list(held), terms, subscription) for name, held in groupby(keys, _group_of)]
    return sorted(owners, key=lambda owner: (-owner.holding.size_bytes, owner.name))


def transactional_ids_of(keys: Iterable[KeyHolding], terms: Terms) -> list[Owner]:
    """Return the owners of some keys, each of which is one transactional id, the largest first."""
    owners = [_transactional_id(key, terms) for key in keys]
    return sorted(owners, key=lambda owner: (-owner.holding.size_bytes, owner.name))


def _group(name: str, held: list[KeyHolding], terms: Terms, subscription: Subscription) -> Owner:
    own = [key for key in held if key.kind not in COMMITS]
    commits = [key for key in held if key.kind in COMMITS]
    live = [key for key in own if key.latest is Latest.VALUE]
    classic = next((key for key in live if key.kind == CLASSIC), None)
    if classic is not None:
        state, protocol, members = _classic(classic)
        expiry = _classic_expiry(classic.value, subscription)
    elif live:
        state, protocol, members = _modern(live)
        expiry = _modern_expiry(live, protocol, members)
    else:
        has_offsets = any(key.latest is Latest.VALUE for key in commits)
        state = OwnerState.NO_GROUP if has_offsets else OwnerState.DEAD
        protocol, members, expiry = "", 0 if not has_offsets else None, _Expiry(may=True)
    by_topic: defaultdict[str | None, list[KeyHolding]] = defaultdict(list)
    for key in commits:
        by_topic[key.key["topic"]].append(key)
    topics = [_topic(topic, keys, expiry, terms) for topic, keys in by_topic.items()]
    if own:
        topics.append(_topic(None, own, _Expiry(may=False), terms))
    topics.sort(key=lambda one: (-one.holding.size_bytes, one.topic or ""))
    return Owner(
        name,
        state,
        protocol,
        members,
        _last_ms(held, commits),
        sum_of(one.holding for one in topics),
        sum(one.expired for one in topics),
        tuple(topics),
    )


def _classic(metadata: KeyHolding) -> tuple[OwnerState, str, int | None]:
    if metadata.value is None:
        return OwnerState.UNKNOWN, "", None
    members = len(metadata.value["members"])
    return OwnerState.ACTIVE if members else OwnerState.EMPTY, metadata.value["protocolType"], members


def _classic_expiry(value: Mapping[str, Any] | None, subscription: Subscription) -> _Expiry:
    """Return the rule for a classic group; without its metadata no offset is called expired."""
    if value is None:
        return _Expiry(may=False)
    if not value["protocolType"]:
        return _Expiry(may=True)
    if not value["members"]:
        since_ms = value.get("currentStateTimestamp", _NOT_SET)
        return _Expiry(may=True, since_ms=None if since_ms == _NOT_SET else since_ms)
    if value["protocolType"] != _CONSUMER or value["protocol"] is None:
        return _Expiry(may=False)
    subscribed: set[str] = set()
    for member in value["members"]:
        topics = subscription(member["subscription"])
        if topics is None:
            return _Expiry(may=False)
        subscribed.update(topics)
    return _Expiry(may=True, subscribed=subscribed)


class _Expiry(NamedTuple):
    """The rule by which offsets of a group expire.

    Attributes:
        may: False: none does, whatever its age.
        since_ms: the time from which retention counts; None counts each offset from its own commit.
        subscribed: topics whose offsets stay.
    """

    may: bool
    since_ms: int | None = None
    subscribed: Collection[str] = ()


def _topic(topic: str | None, keys: list[KeyHolding], expiry: _Expiry, terms: Terms) -> TopicHolding:
    expires = expiry.may and topic not in expiry.subscribed
    expired = sum(_is_expired(key, expiry, terms) for key in keys) if expires else 0
    return TopicHolding(topic, sum_of(key.holding for key in keys), expired)


def _is_expired(key: KeyHolding, expiry: _Expiry, terms: Terms) -> bool:
    if key.latest is not Latest.VALUE or key.value is None:
        return False
    until_ms = key.value.get("expireTimestamp", _NOT_SET)
    if until_ms != _NOT_SET:
        return bool(terms.now_ms >= until_ms)
    since_ms = key.value["commitTimestamp"] if expiry.since_ms is None else expiry.since_ms
    return bool(terms.now_ms - since_ms >= terms.offsets_retention_ms)


def _last_ms(held: list[KeyHolding], commits: list[KeyHolding]) -> int | None:
    """Return the time of the last commit; for a group without one, the time of its last record."""
    committed = [key.value["commitTimestamp"] for key in commits if key.value is not None]
    last_ms = max(committed, default=max((key.holding.last_ms for key in held), default=_NOT_SET))
    return last_ms if last_ms >= 0 else None


def _modern(live: list[KeyHolding]) -> tuple[OwnerState, str, int]:
    protocol = next((word for prefix, word in _PROTOCOLS.items() if live[0].kind.startswith(prefix)), "")
    members = sum(key.kind.endswith(_MEMBER) for key in live)
    return OwnerState.ACTIVE if members else OwnerState.EMPTY, protocol, members


def _modern_expiry(live: list[KeyHolding], protocol: str, members: int) -> _Expiry:
    """Return the rule for a group of a newer protocol: offsets of topics that a member subscribed to stay."""
    if not members:
        return _Expiry(may=True)
    if protocol != _CONSUMER:
        return _Expiry(may=False)
    subscribed: set[str] = set()
    for key in live:
        if key.value is None:
            return _Expiry(may=False)
        if key.kind.endswith(_MEMBER):
            subscribed.update(key.value["subscribedTopicNames"])
        elif key.kind == _REGULAR_EXPRESSION:
            subscribed.update(key.value["topics"])
    return _Expiry(may=True, subscribed=subscribed)


def _group_of(held: KeyHolding) -> str:
    name: str = held.key["group"] if "group" in held.key else held.key["groupId"]
    return name


def _transactional_id(key: KeyHolding, terms: Terms) -> Owner:
    name = key.key["transactionalId"]
    if key.latest is not Latest.VALUE:
        last_ms = key.holding.last_ms if key.holding.last_ms >= 0 else None
        return Owner(name, OwnerState.DEAD, "", None, last_ms, key.holding)
    if key.value is None:
        return Owner(name, OwnerState.UNKNOWN, "", None, None, key.holding)
    state = _STATES.get(key.value["transactionStatus"], OwnerState.UNKNOWN)
    last_ms = key.value["transactionLastUpdateTimestampMs"]
    is_expired = state in _MAY_EXPIRE and last_ms <= terms.now_ms - terms.transactional_id_expiration_ms
    return Owner(name, state, "", None, last_ms if last_ms >= 0 else None, key.holding, int(is_expired))
