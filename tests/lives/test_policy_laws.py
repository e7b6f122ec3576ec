"""Each law of policies tells a log that broke it from one that kept it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.lives.policy_laws import of_deleted_keys, of_producers, of_transactions, overdue
from tests.lives.seen import End, Fact, Marker, Piece, Placed, SeenLog
from tests.lives.world import Stated

HOUR_MS: Final = 3_600_000


def placed(offset: int, value: str | None = "v", *, is_transactional: bool = False) -> Placed:
    return Placed(Fact(offset, 0, b"k", value), 7, is_transactional, None)


def piece(base: int, *there: Placed, markers: tuple[Marker, ...] = (), ends: tuple[End, ...] = ()) -> Piece:
    return Piece(Path(f"{base}.log"), base, 100, base + 2, base, there, markers, ends=ends)


def log(*pieces: Piece) -> SeenLog:
    return SeenLog("orders-0", pieces, pieces[0].base_offset, 6)


def test_commit_marker_that_is_lost_opens_its_transaction() -> None:
    data = piece(0, placed(0, is_transactional=True))
    before = log(data, piece(2, markers=(Marker(2, 7, is_abort=False),)), piece(4))
    assert not list(of_transactions(before, before))
    assert list(of_transactions(before, log(data, piece(4)))) == ["orders-0: [(0, 'committed', 'open')]"]


def test_transaction_below_missing_records_may_have_ended_there() -> None:
    gone = log(piece(0, placed(0, is_transactional=True)), piece(4))
    assert not list(of_transactions(gone, log(piece(0, placed(0, is_transactional=True)), piece(4), piece(6))))


def test_end_of_a_producer_goes_only_where_a_snapshot_may_tell_of_a_later_batch() -> None:
    mine = End(7, 0, 3, 1, HOUR_MS)
    whole, gap = log(piece(0, ends=(mine,)), piece(2)), log(piece(0, ends=(mine,)), piece(4))
    assert len(list(of_producers(whole, log(piece(0), piece(2)), HOUR_MS))) == 1
    assert not list(of_producers(gap, log(piece(0), piece(4)), HOUR_MS))


def test_tombstone_that_goes_before_an_older_value_brings_it_back() -> None:
    value, tombstone = piece(0, placed(0)), piece(2, placed(2, None))
    before = log(value, tombstone, piece(4))
    assert not list(of_deleted_keys(before, log(piece(4)), ()))
    assert list(of_deleted_keys(before, log(value, piece(4)), ()))
    assert list(of_deleted_keys(before, replace(log(piece(4)), log_start=0), [value]))


def test_producer_loses_its_last_sequence_number_with_its_last_batch() -> None:
    end = End(7, 0, 3, 2, 10)
    before = log(piece(0), piece(2, ends=(end,)), piece(4))
    assert not list(of_producers(before, log(piece(0), piece(2, ends=(end._replace(timestamp_ms=9),))), 10))
    assert list(of_producers(before, log(piece(0), piece(4)), 10))
    assert not list(of_producers(before, log(piece(4)), 10))  # retention took the batch
    assert not list(of_producers(before, log(piece(0), piece(4)), 10, lost_power=True))  # which kept an older one


def test_segment_that_is_due_by_age_goes_once_all_older_ones_may() -> None:
    stated = Stated("delete", HOUR_MS, None, 0)
    before = log(piece(0), piece(2), piece(4))
    assert len(list(overdue(before, before, stated, HOUR_MS + 3))) == 2
    assert not list(overdue(before, before, stated, HOUR_MS))
    young = log(replace(piece(0), newest_ms=HOUR_MS), piece(2), piece(4))
    assert not list(overdue(young, young, stated, HOUR_MS + 3))
