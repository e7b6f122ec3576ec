"""Keys and values of a coordinator's topic: the type and the version in front of them."""

from __future__ import annotations

import struct

import pytest

from storage.errors import InvalidRecord
from storage.schemas.coordinator import TRANSACTIONS_TOPIC, CoordinatorRecords
from storage.schemas.offsets_topic import OFFSETS_TOPIC
from tests.coordinator_records import (
    group_key,
    group_value,
    offset_key,
    offset_value,
    transaction_key,
    transaction_value,
)

GROUPS = CoordinatorRecords(OFFSETS_TOPIC)
TRANSACTIONS = CoordinatorRecords(TRANSACTIONS_TOPIC)


def test_an_offset_commit_is_told_by_its_type() -> None:
    assert GROUPS.key(offset_key("g", "orders", 3)) == (
        "OffsetCommit", {"group": "g", "topic": "orders", "partition": 3}
    )  # fmt: skip
    assert GROUPS.value("OffsetCommit", offset_value(9, expire_ms=10))["expireTimestamp"] == 10


def test_an_offset_of_the_first_kafkas_has_a_type_of_its_own() -> None:
    assert GROUPS.key(b"\0\0" + offset_key("g")[2:]).kind == "LegacyOffsetCommit"


def test_a_group_has_its_members() -> None:
    kind, fields = GROUPS.key(group_key("g"))
    assert (kind, fields) == ("GroupMetadata", {"group": "g"})
    assert [member["memberId"] for member in GROUPS.value(kind, group_value("a", "b"))["members"]] == ["a", "b"]


def test_a_transactional_id_has_its_state() -> None:
    kind, fields = TRANSACTIONS.key(transaction_key("t"))
    assert fields == {"transactionalId": "t"}
    assert TRANSACTIONS.value(kind, transaction_value(4))["transactionStatus"] == 4


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "a key of 0 bytes"),
        (struct.pack(">h", 99), "a key of type 99, which is not known"),
        (group_key("g") + b"x", "1 bytes are left behind it"),
    ],
)
def test_a_key_that_cannot_be_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(InvalidRecord, match=cause):
        GROUPS.key(data)


def test_a_value_of_a_later_version_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="version 9 is not known"):
        GROUPS.value("OffsetCommit", b"\0\x09")
