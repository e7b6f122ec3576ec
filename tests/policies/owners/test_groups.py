"""Groups: their states, what they hold, and when their offsets expire."""

from __future__ import annotations

import pytest

from policies.owners.groups import groups_of
from policies.owners.holdings import KeyHolding, Latest, Owner, OwnerState
from tests.builders import NOW_MS
from tests.policies.owners.keys import DAY_MS, TERMS, classic, commit, key, modern, removed

WEEK_MS = 7 * DAY_MS


def subscribed(subscription: bytes) -> list[str] | None:
    return None if subscription == b"?" else subscription.decode().split()


def groups(*keys: KeyHolding) -> list[Owner]:
    return groups_of(keys, TERMS, subscribed)


def only(*keys: KeyHolding) -> Owner:
    (found,) = groups(*keys)
    return found


def test_the_largest_group_comes_first_and_its_largest_topic() -> None:
    small, large = groups(
        commit("large", "a", records=2, size_bytes=10),
        commit("large", "b", size_bytes=500),
        commit("small", size_bytes=20),
    )[::-1]
    assert (large.name, large.holding.size_bytes, large.holding.live_keys) == ("large", 510, 2)
    assert [topic.topic for topic in large.topics] == ["b", "a"]
    assert large.holding.superseded_records == 1
    assert large.holding.superseded_bytes == 5
    assert small.name == "small"


@pytest.mark.parametrize(
    ("keys", "state", "members", "protocol"),
    [
        ([classic("g", b"orders", b"orders"), commit("g")], OwnerState.ACTIVE, 2, "consumer"),
        ([classic("g", b"x", protocol_type="connect")], OwnerState.ACTIVE, 1, "connect"),
        ([classic("g"), commit("g")], OwnerState.EMPTY, 0, "consumer"),
        ([commit("g")], OwnerState.NO_GROUP, None, ""),
        ([removed("g"), key("GroupMetadata", {"group": "g"}, None)], OwnerState.DEAD, 0, ""),
        ([commit("g", latest=Latest.NONE)], OwnerState.DEAD, 0, ""),
        ([modern("g", "ConsumerGroupMetadata"), commit("g")], OwnerState.EMPTY, 0, "consumer"),
        ([modern("g", "ShareGroupMetadata"), modern("g", "ShareGroupMemberMetadata")], OwnerState.ACTIVE, 1, "share"),
        ([modern("g", "StreamsGroupMetadata")], OwnerState.EMPTY, 0, "streams"),
        ([key("GroupMetadata", {"group": "g"}, None, latest=Latest.VALUE)], OwnerState.UNKNOWN, None, ""),
    ],
)
def test_the_records_of_a_group_tell_its_state(
    keys: list[KeyHolding], state: OwnerState, members: int | None, protocol: str
) -> None:
    found = only(*keys)
    assert (found.state, found.members, found.protocol) == (state, members, protocol)


@pytest.mark.parametrize(
    ("keys", "is_expired"),
    [
        # without a group: from the commit on
        ([commit("g", age_ms=WEEK_MS)], True),
        ([commit("g", age_ms=WEEK_MS - 1)], False),
        # an offset with its own time
        ([commit("g", expire_ms=NOW_MS)], True),
        ([commit("g", age_ms=WEEK_MS, expire_ms=NOW_MS + 1)], False),
        # an empty classic group: from when it became empty, of old from the commit
        ([commit("g", age_ms=10 * WEEK_MS), classic("g", since_ms=NOW_MS - WEEK_MS + 1)], False),
        ([commit("g"), classic("g", since_ms=NOW_MS - WEEK_MS)], True),
        ([commit("g", age_ms=WEEK_MS), classic("g", since_ms=-1)], True),
        ([commit("g", age_ms=WEEK_MS - 1), classic("g", since_ms=-1)], False),
        ([commit("g", age_ms=WEEK_MS), classic("g", protocol_type="", since_ms=NOW_MS)], True),
        # with members: offsets of topics that nobody subscribed to
        ([commit("g", age_ms=WEEK_MS), classic("g", b"orders")], False),
        ([commit("g", age_ms=WEEK_MS), classic("g", b"clicks", b"events")], True),
        ([commit("g", age_ms=WEEK_MS), classic("g", b"clicks", b"?")], False),
        ([commit("g", age_ms=WEEK_MS), classic("g", b"clicks", protocol_type="connect")], False),
        ([commit("g", age_ms=WEEK_MS), key("GroupMetadata", {"group": "g"}, None, latest=Latest.VALUE)], False),
        # the newer protocols
        ([commit("g", age_ms=WEEK_MS), modern("g", "ConsumerGroupMetadata")], True),
        (
            [
                commit("g", age_ms=WEEK_MS),
                modern("g", "ConsumerGroupMemberMetadata", {"subscribedTopicNames": ["orders"]}),
            ],
            False,
        ),
        (
            [
                commit("g", age_ms=WEEK_MS),
                modern("g", "ConsumerGroupMemberMetadata", {"subscribedTopicNames": ["clicks"]}),
            ],
            True,
        ),
        (
            [
                commit("g", age_ms=WEEK_MS),
                modern("g", "ConsumerGroupMemberMetadata", {"subscribedTopicNames": []}),
                modern("g", "ConsumerGroupRegularExpression", {"topics": ["orders"]}),
            ],
            False,
        ),
        ([commit("g", age_ms=WEEK_MS), modern("g", "StreamsGroupMemberMetadata")], False),
        # what is gone, or cannot be decoded, is not called expired
        ([removed("g"), commit("g", "b", age_ms=0)], False),
        ([key("OffsetCommit", {"group": "g", "topic": "a", "partition": 0}, None, latest=Latest.VALUE)], False),
    ],
)
def test_an_offset_expires_as_a_broker_has_it_expire(keys: list[KeyHolding], is_expired: bool) -> None:
    found = only(*keys)
    assert found.expired == sum(topic.expired for topic in found.topics) == int(is_expired)


def test_the_last_commit_is_the_latest_of_all_topics() -> None:
    assert only(commit("g", "a", age_ms=5), commit("g", "b", age_ms=3)).last_ms == NOW_MS - 3
    assert only(removed("g", last_ms=NOW_MS - 9)).last_ms == NOW_MS - 9
