"""What ``diff`` makes of what happened between two states: appends, rounds, retention, a topic made again.

Every explanation has its broken twin: the same states with something really lost, which is damage.
"""

from __future__ import annotations

import pytest

from cleaner.engine.diff.comparing import ComparedDir, UnlikePlaces, check_alike, compared
from cleaner.engine.diff.record_diff import Cause
from storage.records import ControlType
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.cleaner.engine.diff.test_record_diff import Pair
from tests.partition_dirs import COMPACT, DAY_MS, NOW_MS, PartitionDir, a_cleaner, committed, configured, keyed, request

LONG_AGO_MS = NOW_MS - 10 * DAY_MS
OF_ONE = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


def data(base_offset, *pairs, id_=7):
    return keyed(base_offset, *pairs, **{**OF_ONE, "producer_id": id_})


def marker(kind, offset, id_=7, **fields):
    return encode_control_batch(
        kind, offset=offset, timestamp_ms=NOW_MS, producer_id=id_, producer_epoch=0, coordinator_epoch=0, **fields
    )


def abort(offset, **fields):
    return marker(ControlType.ABORT, offset, **fields)


def commit(offset, **fields):
    return marker(ControlType.COMMIT, offset, **fields)


class Between(Pair):
    """As ``Pair``; the earlier state was written long ago, and ``delete.retention.ms`` is a day."""

    def found(self, compacted_to=None, retention_ms=DAY_MS):
        self.end(compacted_to)
        before, after = ComparedDir.open(self.root / "before"), ComparedDir.open(self.root / "after")
        (only,) = compared(before, after, NOW_MS, lambda _: retention_ms)
        return only

    def end(self, compacted_to):
        committed(self.root / "before", self.before)
        committed(self.root / "after", self.after)
        if compacted_to is not None:
            (self.root / "after" / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {compacted_to}\n")


@pytest.fixture
def pair(tmp_path):
    return Between(tmp_path)


def before_append(pair):
    pair.before.segment(0, keyed(0, "a=1", "b=1")).segment(2, keyed(2, "c=1"))
    return pair


def test_record_that_an_appended_one_supersedes_may_be_gone(pair):
    before_append(pair).after.segment(0, keyed(1, "b=1")).segment(2, keyed(2, "c=1"), keyed(3, "a=2"))
    pair.after.segment(4, keyed(4, "z=1"))
    assert pair.gone(4) == {Cause.SUPERSEDED: 1}
    assert pair.difference(4).added == 2


def test_record_that_an_appended_one_supersedes_only_behind_what_was_compacted_is_damage(pair):
    before_append(pair).after.segment(0, keyed(1, "b=1")).segment(2, keyed(2, "c=1"), keyed(3, "a=2"))
    pair.after.segment(4, keyed(4, "z=1"))
    assert pair.damage(3).offset == 0


def test_record_whose_key_was_not_appended_is_damage_whatever_else_was(pair):
    before_append(pair).after.segment(0, keyed(0, "a=1")).segment(2, keyed(2, "c=1"), keyed(3, "a=2"))
    pair.after.segment(4, keyed(4, "z=1"))
    assert (pair.damage(4).offset, pair.difference(4).damaged) == (1, 1)


def test_older_record_in_a_segment_that_reaches_behind_the_earlier_end_supersedes_nothing(pair):
    pair.before.segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"), keyed(2, "b=1"))
    pair.after.segment(0, keyed(0, "a=1"), keyed(2, "b=1"), keyed(3, "c=1")).segment(4, keyed(4, "z=1"))
    assert pair.damage(4).offset == 1


def test_appended_record_of_an_aborted_transaction_supersedes_nothing(pair):
    before_append(pair).after.segment(0, keyed(1, "b=1")).segment(2, keyed(2, "c=1"), data(3, "a=2"), abort(4),
        aborted=format_aborted_txn(AbortedTxn(7, 3, 4, 5)))  # fmt: skip
    pair.after.segment(5, keyed(5, "z=1"))
    assert pair.damage(5).offset == 0


@pytest.mark.parametrize("entries", [b"", format_aborted_txn(AbortedTxn(7, 1, 3, 4))], ids=["unindexed", "indexed"])
def test_transaction_that_was_open_and_then_aborted_may_be_gone(pair, entries):
    pair.before.segment(0, keyed(0, "a=1"), data(1, "a=2"))
    pair.after.segment(0, keyed(0, "a=1"), abort(3), aborted=entries).segment(4, keyed(4, "z=1"))
    assert pair.gone(4) == {Cause.ABORTED: 1}


@pytest.mark.parametrize(
    "end",
    [commit(3), abort(3, id_=8), keyed(3, "y=1"), commit(3) + data(4, "x=1") + abort(5)],
    ids=["committed", "another's marker", "no marker", "the next transaction's marker"],
)
def test_transaction_that_was_open_and_not_aborted_is_damage_when_it_is_gone(pair, end):
    pair.before.segment(0, keyed(0, "a=1"), data(1, "b=2"))
    pair.after.segment(0, keyed(0, "a=1"), end).segment(6, keyed(6, "z=1"))
    if b"x" in end:
        (pair.after.path / f"{0:020d}.txnindex").write_bytes(format_aborted_txn(AbortedTxn(7, 4, 5, 6)))
    assert pair.damage(6).offset == 1


def test_what_an_open_transaction_wrote_supersedes_nothing_once_it_was_aborted(pair):
    pair.before.segment(0, keyed(0, "a=1"), data(1, "a=2"))
    pair.after.segment(0, abort(3)).segment(4, keyed(4, "z=1"))
    assert (pair.damage(4).offset, pair.difference(4).gone[Cause.ABORTED]) == (0, 1)


def tombstones(pair, *left, mtime_ms=LONG_AGO_MS):
    """``a`` and ``b`` are deleted, without a horizon; of that, and of what was there before, this is left."""
    pair.before.segment(0, keyed(0, "a=1", "b=1"), mtime_ms=mtime_ms)
    pair.before.segment(2, keyed(2, "a"), keyed(3, "b"), mtime_ms=mtime_ms).segment(
        4, keyed(4, "c=1"), mtime_ms=mtime_ms
    )
    pair.after.segment(0, *left).segment(4, keyed(4, "c=1"))
    return pair


def test_tombstones_without_a_horizon_may_be_gone_once_delete_retention_has_passed(pair):
    assert tombstones(pair).gone(4) == {Cause.SUPERSEDED: 2, Cause.EXPIRED_BETWEEN: 2}
    assert (pair.found(4).delete_retention_ms, pair.found(4).since_ms) == (DAY_MS, LONG_AGO_MS)


def test_tombstone_above_those_that_went_may_stay(pair):
    assert tombstones(pair, keyed(3, "b")).gone(4) == {Cause.SUPERSEDED: 2, Cause.EXPIRED_BETWEEN: 1}


def test_tombstone_is_damage_before_delete_retention_has_passed(pair):
    damage = tombstones(pair, mtime_ms=NOW_MS - DAY_MS + 1).damage(4)
    assert (damage.offset, "delete.retention.ms has not passed" in damage.cause) == (2, True)


def test_tombstone_is_damage_if_nobody_says_what_delete_retention_is(pair):
    damage = tombstones(pair).damage(4, retention_ms=None)
    assert (damage.offset, "--set delete.retention.ms=" in damage.cause) == (2, True)


def test_retention_for_ever_lets_no_tombstone_go(pair):
    assert tombstones(pair).damage(4, retention_ms=(1 << 63) - 1).offset == 2


def test_tombstone_is_damage_behind_what_was_compacted(pair):
    assert (tombstones(pair).damage(3).offset, pair.difference(3).damaged) == (1, 2)  # and what it would have taken


def test_tombstone_is_damage_if_an_older_record_of_its_key_is_left(pair):
    difference = tombstones(pair, keyed(1, "b=1")).difference(4)
    assert (difference.damage.offset, difference.damaged, difference.gone[Cause.EXPIRED_BETWEEN]) == (3, 1, 1)


def test_tombstone_with_a_horizon_is_damage_too_if_an_older_record_of_its_key_is_left(pair):
    pair.before.segment(0, keyed(0, "a=1"), keyed(1, "a", delete_horizon_ms=NOW_MS)).segment(2, keyed(2, "c=1"))
    pair.after.segment(0, keyed(0, "a=1")).segment(2, keyed(2, "c=1"))
    assert pair.damage(2).offset == 1


def test_tombstone_whose_horizon_has_not_come_is_damage_whatever_has_passed(pair):
    pair.before.segment(0, keyed(0, "a", delete_horizon_ms=NOW_MS + 1), mtime_ms=LONG_AGO_MS)
    pair.before.segment(1, keyed(1, "b=1"), mtime_ms=LONG_AGO_MS)
    pair.after.segment(0).segment(1, keyed(1, "b=1"))
    assert pair.damage(1).offset == 0


def test_tombstone_is_damage_if_one_below_it_is_left(pair):
    assert tombstones(pair, keyed(2, "a")).damage(4).offset == 3


def test_tombstone_is_damage_if_another_one_of_its_batch_is_left(pair):
    pair.before.segment(0, keyed(0, "a", "b"), mtime_ms=LONG_AGO_MS).segment(2, keyed(2, "c=1"), mtime_ms=LONG_AGO_MS)
    pair.after.segment(0, keyed(1, "b")).segment(2, keyed(2, "c=1"))
    assert pair.damage(2).offset == 0


def test_live_record_is_damage_whatever_has_passed(pair):
    tombstones(pair)
    pair.after.log(4).write_bytes(b"")
    pair.after.segment(5, keyed(5, "z=1"))
    assert (pair.damage(5).offset, pair.difference(5).damaged) == (4, 1)


def committed_data(pair, *left):
    """A transaction whose only record is superseded; of it and its marker this is left."""
    pair.before.segment(0, data(0, "a=1"), commit(1), keyed(2, "a=2"), mtime_ms=LONG_AGO_MS)
    pair.before.segment(3, keyed(3, "z=1"), mtime_ms=LONG_AGO_MS)
    pair.after.segment(0, *left).segment(3, keyed(3, "z=1"))
    return pair


def test_marker_without_a_horizon_may_be_gone_with_the_data_of_its_transaction(pair):
    assert committed_data(pair, keyed(2, "a=2")).gone(3) == {Cause.SUPERSEDED: 1, Cause.EXPIRED_BETWEEN: 1}


def test_marker_is_damage_if_data_of_its_transaction_is_left(pair):
    assert committed_data(pair, data(0, "a=1"), keyed(2, "a=2")).damage(3).offset == 1


def test_marker_is_damage_before_delete_retention_has_passed(pair):
    assert committed_data(pair, keyed(2, "a=2")).damage(3, retention_ms=11 * DAY_MS).offset == 1


def test_marker_without_data_is_damage_behind_what_was_compacted(pair):
    pair.before.segment(0, keyed(0, "a=1"), commit(1), mtime_ms=LONG_AGO_MS)
    pair.after.segment(0, keyed(0, "a=1"))
    assert pair.damage(1).offset == 1
    assert pair.gone(2) == {Cause.EXPIRED_BETWEEN: 1}


@pytest.mark.parametrize(
    ("ids", "is_damaged"), [("AA", False), ("AB", True), ("A-", False), ("-A", False), ("A?", False)]
)
def test_two_incarnations_of_a_topic_are_not_the_same_log(pair, ids, is_damaged):
    for state, letter in zip((pair.before, pair.after), ids, strict=True):
        state.segment(0, keyed(0, "a=1"))
        text = f"version: 0\ntopic_id: {letter * 21}Q"
        if letter != "-":
            (state.path / "partition.metadata").write_text(text)
    found = pair.found()
    assert found.is_damaged == is_damaged
    if is_damaged:
        assert "not the same log" in found.error


@pytest.fixture
def two_topics(tmp_path):
    """A log dir, and a copy of ``orders`` alone."""
    root = tmp_path / "data"
    orders = PartitionDir(root).segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    clicks = PartitionDir(root, "clicks-0").segment(0, keyed(0, "x=1"))
    committed(root, orders, clicks)
    a_cleaner(root, configured(orders=COMPACT)).copy(request(topics=("orders",)), tmp_path / "copy", tool_version="1")
    return tmp_path


def of_two_topics(root):
    before, after = ComparedDir.open(root / "data"), ComparedDir.open(root / "copy")
    check_alike(before, after)
    return {found.name: found for found in compared(before, after, NOW_MS, lambda _: 0)}


def test_partition_that_a_copy_left_out_is_not_missing(two_topics):
    found = of_two_topics(two_topics)
    assert {name: (one.is_damaged, one.is_left_out) for name, one in found.items()} == {
        "orders-0": (False, False),
        "clicks-0": (False, True),
    }


def test_partition_that_a_copy_did_not_leave_out_is_missing(two_topics):
    PartitionDir(two_topics / "data", "late-0").segment(0, keyed(0, "x=1"))
    found = of_two_topics(two_topics)
    assert found["late-0"].is_damaged
    assert not found["clicks-0"].is_damaged


def test_copy_is_made_in_one_round_which_takes_no_tombstone_without_a_horizon(tmp_path):
    root = tmp_path / "data"
    made = PartitionDir(root).segment(0, keyed(0, "a=1", "a"), mtime_ms=LONG_AGO_MS)
    made.segment(2, keyed(2, "b=1"), mtime_ms=LONG_AGO_MS)
    layers = configured(orders=COMPACT)
    a_cleaner(committed(root, made), layers).copy(request(), tmp_path / "copy", tool_version="1")
    (tmp_path / "copy/orders-0" / f"{0:020d}.log").write_bytes(b"")
    found = of_two_topics(tmp_path)["orders-0"]
    assert found.difference.damage.offset == 1
    assert "one round made this copy" in found.difference.damage.cause
    root.rename(tmp_path / "backup")  # a copy of something older, as far as is known
    (found,) = compared(ComparedDir.open(tmp_path / "backup"), ComparedDir.open(tmp_path / "copy"), NOW_MS, lambda _: 0)
    assert found.difference.gone[Cause.EXPIRED_BETWEEN] == 1


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("data", "copy/orders-0", "name {root}/data/orders-0 in place of the log dir"),
        ("data/orders-0", "copy", "name {root}/copy/orders-0 in place of the log dir"),
        ("data/clicks-0", "copy", "name two log dirs, or two partition directories"),
    ],
)
def test_log_dir_and_partition_directory_are_not_compared(two_topics, before, after, told):
    with pytest.raises(UnlikePlaces) as refused:
        check_alike(ComparedDir.open(two_topics / before), ComparedDir.open(two_topics / after))
    assert str(refused.value).endswith(told.format(root=two_topics))


def test_log_dirs_without_a_partition_in_common_are_not_compared(tmp_path):
    for name, topic in (("before", "orders-0"), ("after", "clicks-0")):
        made = PartitionDir(tmp_path / name, topic).segment(0, keyed(0, "a=1"))
        committed(tmp_path / name, made)
    before, after = ComparedDir.open(tmp_path / "before"), ComparedDir.open(tmp_path / "after")
    with pytest.raises(UnlikePlaces, match="have no partition in common"):
        check_alike(before, after)
    (tmp_path / "after/recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    check_alike(before, after)  # it had it: lost, and told as damage
    (found,) = compared(before, after, NOW_MS)
    assert found.is_damaged


@pytest.mark.parametrize(("before", "after"), [("before", "after2"), ("after", "after2"), ("before", "before2")])
def test_what_two_rounds_of_kafkas_own_cleaner_took_is_accounted_for(samples, before, after):
    earlier, later = ComparedDir.open(samples.root / before, ["ledger"]), ComparedDir.open(samples.root / after)
    (found,) = compared(earlier, later, samples.cleaned_at_ms("after2"), lambda _: 1)
    assert found.error is None
    assert found.difference.damage is None
    assert found.difference.added
