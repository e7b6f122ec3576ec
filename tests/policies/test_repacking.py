"""Which neighbouring batches become one: by their headers alone."""

from __future__ import annotations

import pytest

from policies.config.policy import TopicPolicy
from policies.reasons import ReasonCode
from policies.repacking import (
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    HeaderFacts,
    RepackBounds,
    RepackRefusal,
    is_worth_it,
    may_follow,
    merged,
    refused_repack,
)
from tests.builders import a_log

FIRST = HeaderFacts(10, 12, 200, 3, 0, 1000, 1020, 7, 0, 100, 4)
NEXT = FIRST._replace(base_offset=13, last_offset=15, base_sequence=103, max_timestamp_ms=1050, base_timestamp_ms=1030)
BOUNDS = RepackBounds(1000, frozenset(), 1 << 20)
TIMED, BURIED = LOG_APPEND_TIME_BIT, DELETE_HORIZON_BIT


@pytest.mark.parametrize(
    ("after", "fits"),
    [
        (NEXT, True),
        (NEXT._replace(base_offset=14, last_offset=16), False),  # a hole: sequences would not follow from the offsets
        (NEXT._replace(base_offset=14, last_offset=16, base_sequence=104), True),
        (NEXT._replace(base_sequence=104), False),
        (NEXT._replace(base_sequence=-1), False),
        (NEXT._replace(producer_id=8), False),
        (NEXT._replace(producer_epoch=1), False),
        (NEXT._replace(leader_epoch=5), False),
        (NEXT._replace(attributes=TIMED), False),
        (NEXT._replace(attributes=BURIED), False),
        (NEXT._replace(attributes=4), False),
        (NEXT._replace(base_offset=10 + (1 << 31), base_sequence=100), False),
    ],
)
def test_one_header_must_tell_the_records_of_both(after: HeaderFacts, fits: bool) -> None:
    assert may_follow(FIRST, after, any_codec=False) is fits


def test_sequences_go_on_at_zero_behind_the_greatest_one() -> None:
    last = FIRST._replace(base_sequence=(1 << 31) - 2)
    assert may_follow(last, NEXT._replace(base_sequence=1), any_codec=False)
    assert not may_follow(last, NEXT._replace(base_sequence=2), any_codec=False)


def test_batches_of_append_time_need_one_time_and_those_with_a_horizon_one_horizon() -> None:
    timed, buried = FIRST._replace(attributes=TIMED), FIRST._replace(attributes=BURIED)
    assert not may_follow(timed, NEXT._replace(attributes=TIMED), any_codec=False)
    assert may_follow(timed, NEXT._replace(attributes=TIMED, max_timestamp_ms=1020), any_codec=False)
    assert not may_follow(buried, NEXT._replace(attributes=BURIED), any_codec=False)
    assert may_follow(buried, NEXT._replace(attributes=BURIED, base_timestamp_ms=1000), any_codec=False)


def test_batches_of_other_codecs_are_merged_if_one_is_asked_for() -> None:
    zstd = NEXT._replace(attributes=4)
    assert may_follow(FIRST, zstd, any_codec=True)
    assert merged([FIRST, zstd], BOUNDS, any_codec=True) == [(0, 2)]


@pytest.mark.parametrize(
    ("last", "bounds"),
    [
        (NEXT._replace(attributes=0x10), BOUNDS),  # transactional
        (NEXT._replace(attributes=0x20), BOUNDS),  # control
        (NEXT._replace(attributes=0x80), BOUNDS),  # unknown
        (NEXT._replace(records=0), BOUNDS),
        (NEXT, RepackBounds(15, frozenset(), 1 << 20)),  # it reaches the last stable offset
        (NEXT, RepackBounds(1000, frozenset({13}), 1 << 20)),  # one of the last five of its producer
        (NEXT, RepackBounds(1000, frozenset(), 61 + 2 * (139 + 12) - 1)),  # one byte too much
    ],
)
def test_batches_that_stay_as_they_are(last: HeaderFacts, bounds: RepackBounds) -> None:
    assert merged([FIRST, last], bounds, any_codec=False) == []
    assert merged([FIRST, NEXT], BOUNDS, any_codec=False) == [(0, 2)]


def test_a_run_takes_what_fits_and_the_next_one_the_rest() -> None:
    plain = [HeaderFacts(n, n, 100, 1, 0, 0, 0, -1, -1, -1, 0) for n in range(7)]
    assert merged(plain, RepackBounds(6, frozenset(), 61 + 3 * 43), any_codec=False) == [(0, 3), (3, 6)]


def test_a_segment_is_written_anew_for_a_hundredth_or_for_another_codec() -> None:
    assert is_worth_it(1000, 990, 0)
    assert not is_worth_it(1000, 991, 0)
    assert not is_worth_it(10, 10, 0)
    assert is_worth_it(1000, 2000, 1)


def test_every_refusal_occurs() -> None:
    facts, policy = (
        a_log("clicks-0").segments(10, 10).high_watermark(5).facts(),
        TopicPolicy(topic="clicks", cleanup_policy="delete"),
    )
    found = [
        refused_repack(facts, policy, others, moves=moves)
        for others, moves in (((), True), (None, False), ((2,), False))
    ]
    assert {one.code for one in found if one} == set(RepackRefusal)
    assert refused_repack(facts, policy, (), moves=False) is None
    remote = refused_repack(facts, TopicPolicy(topic="clicks", remote_storage_enable=True), (), moves=False)
    assert remote is not None
    assert remote.code is ReasonCode.REMOTE_STORAGE
