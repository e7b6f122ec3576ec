"""Why an internal topic is large: what is told, of which partition, and what is too little to be told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from policies.config.policy import BrokerPolicy
from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.explanation import PartitionExplanation
from policies.owners.causes import CauseCode, causes_of
from policies.owners.groups import groups_of, transactional_ids_of
from policies.owners.holdings import Holding, KeyHolding, PartitionOwners, terms_of
from policies.plan import Request
from policies.planning import plan_partition
from tests.builders import NOW_MS, a_log, a_policy
from tests.policies.explain.cases import seen_of
from tests.policies.owners.keys import DAY_MS, TERMS, commit, key, removed, transaction

DOCS = Path(__file__).parents[3] / "docs/owners.md"


def explained(size_bytes: int, blockers: tuple[Blocker, ...], number: int) -> PartitionExplanation:
    facts = a_log(f"__consumer_offsets-{number}").segment(bytes=size_bytes).facts()
    planned = plan_partition(facts, a_policy("compact"), Request(NOW_MS))
    return PartitionExplanation(planned, planned, seen_of(facts), (), (), blockers)


def partition(*keys: KeyHolding, blockers: tuple[Blocker, ...] = (), number: int = 0, size: int = 0) -> PartitionOwners:
    is_groups = all("transactionalId" not in one.key for one in keys)
    owners = groups_of(keys, TERMS, lambda _: []) if is_groups else transactional_ids_of(keys, TERMS)
    size = size or sum(one.holding.size_bytes for one in keys)
    return PartitionOwners(explained(size, blockers, number), 0, tuple(owners))


def causes(*partitions: PartitionOwners, **broker: Any) -> dict[str, Any]:
    return {cause.code.value: cause for cause in causes_of(partitions, BrokerPolicy(**broker))}


def blocker(code: BlockerCode, size_bytes: int | None = None) -> Blocker:
    return Blocker(code, "somebody", "It waits.", "Do it.", size_bytes=size_bytes)


def test_a_blocker_is_told_once_of_the_partition_that_it_keeps_most_in() -> None:
    behind = (blocker(BlockerCode.CLEANER_BEHIND, 10_000),)
    found = causes(
        partition(commit("a", records=10, size_bytes=100), blockers=behind, number=3),
        partition(commit("b", records=10, size_bytes=5_000), blockers=behind, number=7),
    )["CLEANER_BEHIND"]
    assert found.text == "__consumer_offsets-7: It waits. The same holds for 1 more partition."
    assert (found.remedy, found.partition, found.size_bytes) == ("Do it.", 7, 4_590)


def test_a_blocker_keeps_no_more_than_could_go_and_than_lies_behind_it() -> None:
    active = (blocker(BlockerCode.ACTIVE_SEGMENT, 300),)
    assert (
        causes(partition(commit("a", records=2, size_bytes=1_000), blockers=active))["ACTIVE_SEGMENT"].size_bytes == 300
    )
    assert "ACTIVE_SEGMENT" not in causes(partition(commit("a"), blockers=active))  # every record is the latest


def test_tombstones_that_wait_are_told_though_nothing_is_superseded() -> None:
    waiting = (blocker(BlockerCode.TOMBSTONES_WAIT, 60),)
    assert causes(partition(removed("a"), blockers=waiting))["TOMBSTONES_WAIT"].size_bytes == 60


@pytest.mark.parametrize("code", [BlockerCode.WITHIN_SIZE, BlockerCode.DELETED_FILES, BlockerCode.NO_LIMIT])
def test_what_blocks_retention_is_no_cause(code: BlockerCode) -> None:
    assert causes(partition(commit("a", records=9), blockers=(blocker(code, 100),))).keys() <= {
        "GROUPS_WITHOUT_MEMBERS"
    }


def test_less_than_a_hundredth_is_not_told() -> None:
    dead = removed("gone", size_bytes=99)
    assert "DEAD_OWNERS" in causes(partition(dead, size=9_900))
    assert "DEAD_OWNERS" not in causes(partition(dead, size=9_901))


def often(records: int, span_ms: int, keys: int = 1) -> list[KeyHolding]:
    held = Holding(1_000 * records // keys, 0, 1_000, records // keys, 1, 0, NOW_MS - span_ms, NOW_MS)
    return [commit("g", f"t{n}")._replace(holding=held) for n in range(keys)]


@pytest.mark.parametrize(
    ("keys", "is_told"),
    [
        (often(1_000, 1_000_000), True),
        (often(1_000, 1_000_001), False),
        (often(999, 1_000), False),
        (often(10_000, 1_000_000, keys=10), True),
        (often(10_000, 1_000_100, keys=10), False),
        ([*often(1_000, 1_000), commit("other", records=1_001)], False),
    ],
)
def test_an_owner_writes_often_if_it_writes_each_key_more_than_once_a_second(
    keys: list[KeyHolding], is_told: bool
) -> None:
    assert ("FREQUENT_WRITES" in causes(partition(*keys))) == is_told


def test_groups_without_members_are_counted_with_what_expired() -> None:
    found = causes(partition(commit("a", age_ms=8 * DAY_MS), commit("b")))["GROUPS_WITHOUT_MEMBERS"]
    assert found.text.startswith(
        "2 groups without members hold 2 offsets (200 bytes). 1 of them expired, by offsets.ret"
    )
    assert "A broker removes expired offsets" in found.remedy


def test_unused_transactional_ids_are_told() -> None:
    found = causes(partition(transaction("a", 4, age_ms=8 * DAY_MS), transaction("b", 4)))
    assert found["UNUSED_TRANSACTIONAL_IDS"].text.startswith(
        "1 transactional id is unused for longer than transactional."
    )
    assert "UNUSED_TRANSACTIONAL_IDS" not in causes(partition(transaction("b", 4)))


def test_what_keeps_most_comes_first() -> None:
    found = causes(
        partition(removed("gone", size_bytes=50), key("GroupMetadata", {"group": "x"}, None, size_bytes=400))
    )
    assert [cause.size_bytes for cause in found.values()] == sorted(
        (cause.size_bytes for cause in found.values()), reverse=True
    )


def test_the_terms_are_those_of_the_broker() -> None:
    broker = BrokerPolicy(offsets_retention_minutes=3, transactional_id_expiration_ms=5)
    assert terms_of(broker, 7) == (7, 180_000, 5)


def test_every_cause_is_documented_and_no_other() -> None:
    assert re.findall(r"^\| `([A-Z_]+)` \|", DOCS.read_text("utf-8"), re.MULTILINE) == list(CauseCode)
