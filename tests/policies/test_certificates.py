"""Which replicas are still owed, by the certificates of several brokers, some of them of copies."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from policies.certificates import (
    CertifiedReplica,
    ErasureOutcome,
    PendingReplica,
    ReplicaState,
    UnseenPartition,
    pending_replicas,
)

DATA: Final = "/data"
BACKUP: Final = "/backup"


def certified(node_id: int | None = 1, time_ms: int = 1, *, place: str = DATA, **fields: Any) -> CertifiedReplica:
    found = CertifiedReplica(
        "orders", 0, "id", node_id, time_ms, ErasureOutcome.ERASED, (1, 2), time_ms, "a", place, frozenset({place}),
        is_copy=False,
    )  # fmt: skip
    return found._replace(**fields)


def states(*found: CertifiedReplica) -> dict[int | None, ReplicaState]:
    return {one.node_id: one.state for one in pending_replicas(found)}


def of(node_id: int, *found: CertifiedReplica) -> PendingReplica:
    return next(one for one in pending_replicas(found) if one.node_id == node_id)


def test_a_partition_that_no_certified_log_dir_has_is_owed_by_all_its_brokers() -> None:
    unseen = [UnseenPartition("orders", partition, (1, 2)) for partition in (0, 1, 1)]
    found = pending_replicas((certified(), certified(2)), unseen)
    assert [(one.partition, one.node_id, one.state) for one in found] == [
        (0, 1, ReplicaState.ERASED), (0, 2, ReplicaState.ERASED), (1, 1, ReplicaState.OWED), (1, 2, ReplicaState.OWED)
    ]  # fmt: skip


def test_a_later_certificate_of_the_same_log_dir_takes_the_place_of_an_earlier_one() -> None:
    first = certified(outcome=ErasureOutcome.STAYS)
    assert states(first, certified(2)) == {1: ReplicaState.STAYS, 2: ReplicaState.ERASED}
    assert states(first, certified(time_ms=2), certified(2)) == {1: ReplicaState.ERASED, 2: ReplicaState.ERASED}


@pytest.mark.parametrize("where", [{"place": BACKUP}, {"host": "b"}])
@pytest.mark.parametrize("copied_ms", [1, 3])
def test_a_copy_erases_nothing_for_its_broker(where: dict[str, str], copied_ms: int) -> None:
    copy, own = certified(time_ms=copied_ms, **where), certified(time_ms=2, outcome=ErasureOutcome.STAYS)
    found = of(1, copy, own)
    assert (found.state, found.certified, found.elsewhere) == (ReplicaState.STAYS, own, (copy,))
    assert of(1, copy, certified(time_ms=2)).state is ReplicaState.ERASED


def test_a_log_dir_that_is_marked_as_a_copy_is_no_replica_at_all() -> None:
    copy = certified(time_ms=3, place=BACKUP, is_copy=True, assigned=(1,))
    assert states(copy) == {1: ReplicaState.OWED}
    assert states(copy, certified(), certified(2)) == {1: ReplicaState.ERASED, 2: ReplicaState.ERASED}
    assert states(copy._replace(assigned=None)) == {1: ReplicaState.OWED, None: ReplicaState.UNKNOWN}


def test_a_copy_with_old_metadata_hides_no_replica() -> None:
    old = certified(time_ms=3, place=BACKUP, assigned=(1,))
    assert states(old, certified(assigned=(1, 2)))[2] is ReplicaState.OWED


def test_a_copy_of_a_topic_that_was_deleted_since_hides_no_replica() -> None:
    own = certified(outcome=ErasureOutcome.STAYS)
    assert states(certified(time_ms=3, place=BACKUP, topic_id="old"), own)[1] is ReplicaState.STAYS


def test_a_certificate_of_a_topic_that_was_deleted_since_counts_for_nothing() -> None:
    old = certified(2, time_ms=1, topic_id="old")
    assert states(old, certified(time_ms=2)) == {1: ReplicaState.ERASED, 2: ReplicaState.OWED}


def test_a_partition_that_moved_to_another_log_dir_is_superseded_where_both_were_searched() -> None:
    first, both = certified(outcome=ErasureOutcome.STAYS), frozenset({DATA, "/data2"})
    assert states(first, certified(time_ms=2, place="/data2", searched=both))[1] is ReplicaState.ERASED
    assert states(first, certified(time_ms=2, place="/data2"))[1] is ReplicaState.STAYS


def test_two_log_dirs_of_one_certificate_that_both_have_the_partition_count_both() -> None:
    both = frozenset({DATA, "/data2"})
    one, other = (certified(place=place, searched=both) for place in sorted(both))
    for outcome in ErasureOutcome:
        assert states(one, other._replace(outcome=outcome))[1] == outcome


def test_no_order_and_no_copy_makes_a_broker_erased_whose_newest_certificate_is_not() -> None:
    """Every set of an own certificate and two of copies, over outcomes, times and marks."""
    tried = 0
    for outcome, times, marks, outcomes in product(
        ErasureOutcome,
        product((1, 3, 5), repeat=2),
        product((False, True), repeat=2),
        product(ErasureOutcome, repeat=2),
    ):
        own = certified(time_ms=3, source=0, outcome=outcome)
        copies = [
            certified(time_ms=time_ms, source=number, place=f"{BACKUP}{number}", is_copy=mark, outcome=other)
            for number, (time_ms, mark, other) in enumerate(zip(times, marks, outcomes, strict=True), 1)
        ]
        found = of(1, *copies, own)
        assert outcome is ErasureOutcome.ERASED or found.is_owed
        assert of(1, own, *reversed(copies)).is_owed == found.is_owed
        tried += 1
    assert tried == 4 * 9 * 4 * 16
