"""Transactional ids: their states, and when they expire."""

from __future__ import annotations

import pytest

from policies.owners.groups import transactional_ids_of
from policies.owners.holdings import OwnerState
from tests.builders import NOW_MS
from tests.policies.owners.keys import DAY_MS, TERMS, key, transaction

WEEK_MS = 7 * DAY_MS


@pytest.mark.parametrize(
    ("status", "state", "may_expire"),
    [
        (0, OwnerState.UNUSED, True),
        (1, OwnerState.ONGOING, False),
        (2, OwnerState.PREPARE_COMMIT, False),
        (3, OwnerState.PREPARE_ABORT, False),
        (4, OwnerState.COMMITTED, True),
        (5, OwnerState.ABORTED, True),
        (6, OwnerState.DEAD, False),
        (7, OwnerState.FENCED, False),
        (42, OwnerState.UNKNOWN, False),
    ],
)
def test_an_id_expires_once_it_is_unused_for_long_enough(status: int, state: OwnerState, may_expire: bool) -> None:
    just, not_yet = transactional_ids_of(
        [transaction("a", status, age_ms=WEEK_MS), transaction("b", status, age_ms=WEEK_MS - 1)], TERMS
    )
    assert (just.state, not_yet.state) == (state, state)
    assert (just.expired, not_yet.expired) == (int(may_expire), 0)
    assert just.last_ms == NOW_MS - WEEK_MS


def test_an_id_whose_latest_record_is_a_tombstone_is_dead() -> None:
    (found,) = transactional_ids_of([key("TransactionLog", {"transactionalId": "t"}, None)], TERMS)
    assert (found.state, found.expired, found.holding.tombstones) == (OwnerState.DEAD, 0, 1)


def test_the_largest_id_comes_first_and_equal_ones_by_name() -> None:
    sizes = {"small": 5, "large": 900, "b": 20, "a": 20}
    found = transactional_ids_of(
        [key("TransactionLog", {"transactionalId": name}, None, size_bytes=size) for name, size in sizes.items()], TERMS
    )
    assert [owner.name for owner in found] == ["large", "a", "b", "small"]
