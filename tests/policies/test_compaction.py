"""What part of a log is dirty, whether it is worth a round, and which segments are cleaned together."""

from __future__ import annotations

import pytest

from policies.compaction import RELATIVE_OFFSET_MAX, Cleanable, cleanable, compaction_round, refusal
from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP
from policies.reasons import Reason
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

COMPACT = a_policy("compact")


def section_of(log: LogBuilder, policy: TopicPolicy = COMPACT) -> Cleanable:
    return cleanable(log.facts(), policy, NOW_MS)


def bounds(log: LogBuilder, policy: TopicPolicy = COMPACT) -> tuple[int, int]:
    section = section_of(log, policy)
    return section.first_dirty_offset, section.first_uncleanable_offset


def why_not(log: LogBuilder, policy: TopicPolicy = COMPACT, *, forced: bool = False) -> Reason | None:
    return refusal(log.facts(), policy, section_of(log, policy), NOW_MS, forced=forced)


def code_of(reason: Reason | None) -> str | None:
    return None if reason is None else reason.code.value


def groups(log: LogBuilder, policy: TopicPolicy = COMPACT) -> list[tuple[int, ...]]:
    return list(compaction_round(log.facts(), policy, section_of(log, policy)).groups)


def a_full_log(segments: int = 4) -> LogBuilder:
    """Segments of 50 bytes and 10 offsets, the last one active; all of it old and committed."""
    return a_log().segments(*[50] * segments, newest_ms=0)


@pytest.mark.parametrize(
    ("story", "log", "first_dirty", "is_invalid"),
    [
        ("never compacted: from the log start", a_full_log(), 0, False),
        ("never compacted, records deleted: from the log start", a_full_log().log_start(15), 15, False),
        ("compacted: from the checkpoint", a_full_log().compacted_to(20), 20, False),
        # Kafka LogCleanerManagerTest.testCleanableOffsetsNeedsCheckpointReset
        ("a checkpoint inside the log is taken, a base or not", a_full_log().log_start(10).compacted_to(15), 15, False),
        ("a checkpoint below the log start is reset", a_full_log().log_start(20).compacted_to(15), 20, True),
        ("a checkpoint above the log end is reset", a_full_log().compacted_to(41), 0, True),
        ("a checkpoint at the log end is right", a_full_log().compacted_to(40), 40, False),
        ("a checkpoint at the log start is right", a_full_log().log_start(10).compacted_to(10), 10, False),
        # Kafka LogCleanerManagerTest.testDirtyOffsetResetIfLargerThanEndOffset, …IfSmallerThanStartOffset
        ("a checkpoint far above the log end is reset", a_full_log().compacted_to(200), 0, True),
        ("a checkpoint of 0 is reset where the log starts later", a_full_log().log_start(10).compacted_to(0), 10, True),
    ],
)
def test_first_dirty_offset(story: str, log: LogBuilder, first_dirty: int, is_invalid: bool) -> None:
    section = section_of(log)
    assert (section.first_dirty_offset, section.checkpoint_is_invalid) == (first_dirty, is_invalid), story


@pytest.mark.parametrize(
    ("story", "log", "uncleanable", "code"),
    [
        # Kafka LogCleanerManagerTest.testCleanableOffsetsActiveSegment
        ("all committed: up to the active segment", a_full_log(), 30, "ACTIVE_SEGMENT"),
        ("an empty active segment bounds, too", a_full_log().empty_active(), 40, "ACTIVE_SEGMENT"),
        # Kafka LogCleanerManagerTest.testCleanableOffsetsForNone
        ("the high watermark at a base", a_full_log().high_watermark(20), 20, "ABOVE_HIGH_WATERMARK"),
        (
            "the high watermark inside a segment leaves all of it",
            a_full_log().high_watermark(29),
            20,
            "ABOVE_HIGH_WATERMARK",
        ),
        (
            "the high watermark in the active segment does not bind",
            a_full_log().high_watermark(35),
            30,
            "ACTIVE_SEGMENT",
        ),
        # Kafka LogCleanerManagerTest.testUndecidedTransactionalDataNotCleanable
        ("an open transaction at the start", a_full_log().last_stable(0), 0, "OPEN_TRANSACTION"),
        ("an open transaction inside a segment leaves all of it", a_full_log().last_stable(13), 10, "OPEN_TRANSACTION"),
        ("an open transaction in the active segment does not bind", a_full_log().last_stable(33), 30, "ACTIVE_SEGMENT"),
        ("no high watermark", a_full_log().high_watermark(None), 0, "NO_HIGH_WATERMARK"),
        (
            "no high watermark, compacted before",
            a_full_log().compacted_to(15).high_watermark(None),
            10,
            "NO_HIGH_WATERMARK",
        ),
        ("no last stable offset was read", a_full_log().last_stable(None), 0, "NO_HIGH_WATERMARK"),
        (
            "the checkpoint above the stable offset wins",
            a_full_log().compacted_to(25).last_stable(5),
            20,
            "OPEN_TRANSACTION",
        ),
        ("missing records leave the segment below them", a_full_log().missing(15), 10, "RECORDS_MISSING"),
        ("the checkpoint above missing records wins", a_full_log().compacted_to(25).missing(15), 20, "RECORDS_MISSING"),
        (
            "a transaction open below missing records binds",
            a_full_log().last_stable(3).missing(15),
            0,
            "OPEN_TRANSACTION",
        ),
        ("missing records behind the active base do not bind", a_full_log().missing(35), 30, "ACTIVE_SEGMENT"),
        ("a single segment is the active one", a_log().segments(50), 0, "ACTIVE_SEGMENT"),
    ],
)
def test_first_uncleanable_offset(story: str, log: LogBuilder, uncleanable: int, code: str) -> None:
    section = section_of(log)
    assert (section.first_uncleanable_offset, section.bound.code.value) == (uncleanable, code), story


def test_a_bound_says_its_offset() -> None:
    assert section_of(a_full_log().high_watermark(25)).bound.text == "reaches above the high watermark 25"
    assert section_of(a_full_log().last_stable(13)).bound.text == "a transaction is open since offset 13"
    assert section_of(a_full_log()).bound.text == "the active segment is never compacted"


@pytest.mark.parametrize(
    "log",
    [
        a_log().segments(50).log_start(5),
        a_log().segments(50).compacted_to(5),
        a_log().segments(50).compacted_to(10),
        a_full_log().log_start(35),
        a_full_log().compacted_to(40),
    ],
)
def test_nothing_is_dirty_where_the_dirty_section_begins_in_the_active_segment(log: LogBuilder) -> None:
    # Kafka LogCleanerManagerTest.testLogStartOffsetLargerThanActiveSegmentBaseOffset,
    # testDirtyOffsetLargerThanActiveSegmentBaseOffset
    assert section_of(log).dirty_bytes == 0
    assert code_of(why_not(log)) == "NOTHING_DIRTY"
    assert code_of(why_not(log, forced=True)) == "NOTHING_DIRTY"


def within_lag(*ages_ms: int) -> LogBuilder:
    log = a_log()
    for age_ms in ages_ms:
        log = log.segment(newest_ms=NOW_MS - age_ms)
    return log


@pytest.mark.parametrize(
    ("story", "log", "uncleanable", "code"),
    [
        # Kafka LogCleanerManagerTest.testCleanableOffsetsForTime, testCleanableOffsetsForShortTime
        ("the first fresh segment bounds", within_lag(500, 500, 50, 500, 0), 20, "MIN_COMPACTION_LAG"),
        ("all are older than the lag", within_lag(500, 500, 500, 0), 30, "ACTIVE_SEGMENT"),
        ("exactly the lag is old enough", within_lag(100, 500, 0), 20, "ACTIVE_SEGMENT"),
        ("one millisecond less is not", within_lag(99, 500, 0), 0, "MIN_COMPACTION_LAG"),
        ("a future timestamp holds", within_lag(500, -5, 500, 0), 10, "MIN_COMPACTION_LAG"),
        ("clean segments are not asked", within_lag(50, 500, 500, 0).compacted_to(10), 30, "ACTIVE_SEGMENT"),
        (
            "the segment of the first dirty offset is",
            within_lag(500, 50, 500, 0).compacted_to(15),
            10,
            "MIN_COMPACTION_LAG",
        ),
        ("a lower stable offset bounds first", within_lag(500, 500, 50, 0).last_stable(10), 10, "OPEN_TRANSACTION"),
        ("a higher one does not", within_lag(500, 50, 500, 0).last_stable(20), 10, "MIN_COMPACTION_LAG"),
    ],
)
def test_min_compaction_lag(story: str, log: LogBuilder, uncleanable: int, code: str) -> None:
    section = section_of(log, a_policy("compact", min_compaction_lag_ms=100))
    assert (section.first_uncleanable_offset, section.bound.code.value) == (uncleanable, code), story


def test_the_lag_says_its_numbers_and_when_it_is_over() -> None:
    policy = a_policy("compact", min_compaction_lag_ms=60_000)
    log = within_lag(1_500, 0)
    bound = section_of(log, policy).bound
    assert bound.text == "the newest record of 0 is 1s 500ms old, within min.compaction.lag.ms=1m (--set)"
    assert bound.until_ms == NOW_MS + 58_500
    assert cleanable(log.facts(), policy, NOW_MS + 58_500).first_uncleanable_offset == 10
    assert cleanable(log.facts(), policy, NOW_MS + 58_499).first_uncleanable_offset == 0


@pytest.mark.parametrize(
    ("story", "log", "clean_bytes", "dirty_bytes"),
    [
        # Kafka LogCleanerTest.testLogToClean, testLogToCleanWithUncleanableSection
        ("all but the active segment", a_log().segments(1, 2, 4, 8), 0, 7),
        ("clean, dirty, uncleanable", a_log().segments(1, 2, 4, 8, 16, 32).compacted_to(20).high_watermark(40), 3, 12),
        ("a straddling segment counts on both sides", a_log().segments(1, 2, 4, 8).compacted_to(15), 3, 6),
        ("compacted up to the active segment", a_log().segments(1, 2, 4, 8).compacted_to(30), 7, 0),
        ("compacted to the log end: the active one counts as clean", a_log().segments(1, 2).compacted_to(20), 3, 0),
        (
            "the stable offset fell below the checkpoint",
            a_log().segments(1, 2, 4).compacted_to(20).last_stable(5),
            3,
            0,
        ),
        ("offsets before the log start still lie in its segment", a_log().segments(1, 2, 4).log_start(5), 1, 3),
    ],
)
def test_bytes_of_the_sections(story: str, log: LogBuilder, clean_bytes: int, dirty_bytes: int) -> None:
    section = section_of(log)
    assert (section.clean_bytes, section.dirty_bytes) == (clean_bytes, dirty_bytes), story


def test_dirty_ratio_is_the_dirty_share() -> None:
    assert section_of(a_log().segments(30, 10, 0).compacted_to(10)).dirty_ratio == 0.25
    assert section_of(a_log().segments(0, 0)).dirty_ratio == 0.0


@pytest.mark.parametrize(
    ("story", "clean_bytes", "dirty_bytes", "ratio", "code"),
    [
        ("above the ratio", 49, 51, 0.5, None),
        ("exactly the ratio is not enough", 50, 50, 0.5, "DIRTY_RATIO_LOW"),
        ("below the ratio", 51, 49, 0.5, "DIRTY_RATIO_LOW"),
        ("a ratio of 0 takes anything dirty", 10_000, 1, 0.0, None),
        ("a ratio of 1 takes nothing", 0, 50, 1.0, "DIRTY_RATIO_LOW"),
        ("nothing dirty, whatever the ratio", 50, 0, 0.0, "NOTHING_DIRTY"),
    ],
)
def test_dirty_ratio_decides(story: str, clean_bytes: int, dirty_bytes: int, ratio: float, code: str | None) -> None:
    log = a_log().segments(clean_bytes, dirty_bytes, 99).compacted_to(10)
    assert code_of(why_not(log, a_policy("compact", min_cleanable_dirty_ratio=ratio))) == code, story


def test_force_disregards_the_ratio_only() -> None:
    assert why_not(a_log().segments(90, 10, 0).compacted_to(10), forced=True) is None
    assert code_of(why_not(a_log().segments(90, 10, 0).compacted_to(20), forced=True)) == "NOTHING_DIRTY"


def test_a_refusal_says_its_numbers() -> None:
    low = why_not(a_log().segments(90, 10, 0).compacted_to(10), a_policy("compact", min_cleanable_dirty_ratio=0.25))
    assert low is not None
    assert low.text == "dirty ratio 0.10 is not above min.cleanable.dirty.ratio=0.25 (--set)"
    nothing = why_not(a_log().segments(90, 10, 0).compacted_to(20))
    assert nothing is not None
    assert nothing.text == "compacted up to offset 20, nothing newer is cleanable"


def lagging(*first_batch_ages_ms: int) -> LogBuilder:
    log = a_log()
    for age_ms in first_batch_ages_ms:
        log = log.segment(newest_ms=0, first_batch_ms=NOW_MS - age_ms)
    return log


@pytest.mark.parametrize(
    ("story", "log", "is_due"),
    [
        # Kafka LogCleanerIntegrationTest.testMaxLogCompactionLag
        ("a dirty record older than the lag", lagging(101, 0, 0), True),
        ("exactly the lag is not older", lagging(100, 0, 0), False),
        ("any dirty segment will do", lagging(0, 101, 0), True),
        ("clean segments are not asked", lagging(500, 0, 0).compacted_to(10), False),
        ("the segment of the first dirty offset is", lagging(500, 0, 0).compacted_to(5), True),
        ("the active segment is not asked", lagging(0, 0, 500), False),
        (
            "a first batch without a timestamp is not asked",
            a_log().segment(first_batch_ms=NO_TIMESTAMP).segments(50),
            False,
        ),
        ("a timestamp of 0 is none", lagging(NOW_MS, 0), False),
        ("nothing cleanable: nothing due", lagging(500, 0, 0).last_stable(5), False),
    ],
)
def test_max_compaction_lag_disregards_the_ratio(story: str, log: LogBuilder, is_due: bool) -> None:
    policy = a_policy("compact", max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0)
    assert (why_not(log, policy) is None) is is_due, story


@pytest.mark.parametrize(
    ("story", "sizes", "limit", "expected"),
    [
        # Kafka LogCleanerTest.testSegmentGrouping
        ("a huge limit: one group", [10] * 6, 1 << 30, [(0, 10, 20, 30, 40)]),
        ("a limit of one byte: each alone", [10] * 4, 1, [(0,), (10,), (20,)]),
        ("exactly three fit", [10] * 8, 30, [(0, 10, 20), (30, 40, 50), (60,)]),
        ("one byte less than three fit", [10] * 6, 29, [(0, 10), (20, 30), (40,)]),
        ("a large one stays alone between small ones", [10, 90, 10, 10, 0], 30, [(0,), (10,), (20, 30)]),
        ("empty ones join whatever is full", [30, 0, 0, 30, 0], 30, [(0, 10, 20), (30,)]),
    ],
)
def test_grouping_by_size(story: str, sizes: list[int], limit: int, expected: list[tuple[int, ...]]) -> None:
    assert groups(a_log().segments(*sizes), a_policy("compact", segment_bytes=limit)) == expected, story


@pytest.mark.parametrize("index", ["index_bytes", "time_index_bytes"])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1, [(0,), (10,), (20,)]), (16, [(0, 10), (20,)]), (15, [(0,), (10,), (20,)]), (24, [(0, 10, 20)])],
)
def test_grouping_by_index_size(index: str, limit: int, expected: list[tuple[int, ...]]) -> None:
    # Kafka LogCleanerTest.testSegmentGrouping
    log = a_log()
    for _ in range(4):
        log = log.segment(**{index: 8})
    assert groups(log, a_policy("compact", segment_index_bytes=limit)) == expected


@pytest.mark.parametrize(
    ("story", "second_base", "active_base", "expected"),
    [
        # Kafka LogCleanerTest.testSegmentGroupingWithSparseOffsets
        ("a last offset exactly 2^31-1 above the base", 10, RELATIVE_OFFSET_MAX + 1, [(0, 10)]),
        ("one record more", 10, RELATIVE_OFFSET_MAX + 2, [(0,), (10,)]),
        ("the second base itself out of reach", RELATIVE_OFFSET_MAX + 1, RELATIVE_OFFSET_MAX + 9, None),
    ],
)
def test_grouping_by_offset_range(
    story: str, second_base: int, active_base: int, expected: list[tuple[int, ...]] | None
) -> None:
    log = a_log().segment(base=0).segment(base=second_base).segment(base=active_base)
    assert groups(log) == (expected or [(0,), (second_base,)]), story


def test_segments_behind_a_sparse_one_group_again() -> None:
    # Kafka LogCleanerTest.testSegmentGroupingWithSparseOffsets
    far = RELATIVE_OFFSET_MAX + 2
    log = a_log().segment(base=0).segment(base=10).segment(base=far).segment(base=far + 10).segment(base=far + 20)
    assert groups(log) == [(0,), (10,), (far, far + 10)]


def test_the_range_counts_to_the_next_base_as_nobody_read_the_last_offset() -> None:
    # Kafka LogCleanerTest.testSegmentGroupingFollowingLoadOfZeroIndex
    log = a_log().segment(base=0, records=1).segment(base=1, records=1).segment(base=RELATIVE_OFFSET_MAX + 2)
    assert groups(log) == [(0,), (1,)]


def test_empty_segments_join_over_any_range() -> None:
    # Kafka LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments
    span = 1 << 31
    full, emptied = a_log(), a_log()
    for _ in range(3):
        full, emptied = full.segment(records=span), emptied.segment(records=span, bytes=0)
    assert groups(full.segments(50)) == [(0,), (span,), (2 * span,)]
    assert groups(emptied.segments(50)) == [(0, span, 2 * span)]


def test_a_round_takes_the_clean_segments_too_and_ends_at_the_first_uncleanable_one() -> None:
    log = a_log().segments(10, 10, 10, 10, 10).compacted_to(20).high_watermark(45)
    found = compaction_round(log.facts(), COMPACT, section_of(log))
    assert (found.first_dirty_offset, found.end_offset, found.groups) == (20, 40, ((0, 10, 20, 30),))
