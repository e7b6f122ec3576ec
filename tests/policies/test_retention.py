"""Which of the oldest segments go, and why each other one stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.config.policy import TopicPolicy
from policies.facts import NO_TIMESTAMP, MissingRecords, PartitionFacts
from policies.reasons import Action, ReasonCode, Verdict
from policies.retention import Retention, newest, retention
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

DAY_MS = 86_400_000
FILE_TIME = "the file time of its .log (no record has a timestamp)"


def outcome(log: LogBuilder, policy: TopicPolicy, now_ms: int = NOW_MS) -> Retention:
    return retention(log.facts(), policy, now_ms)


def deleted(log: LogBuilder, policy: TopicPolicy, now_ms: int = NOW_MS) -> list[int]:
    return [v.base_offset for v in outcome(log, policy, now_ms).verdicts if v.action is Action.DELETE]


def codes(log: LogBuilder, policy: TopicPolicy, now_ms: int = NOW_MS) -> list[str]:
    return [v.reason.code.value for v in outcome(log, policy, now_ms).verdicts]


def only_verdict(log: LogBuilder, policy: TopicPolicy, now_ms: int = NOW_MS) -> Verdict:
    (verdict,) = outcome(log, policy, now_ms).verdicts
    return verdict


def aged(*ages_ms: int) -> LogBuilder:
    """Segments of 50 bytes and 10 offsets whose newest record is so old; all of it committed."""
    log = a_log()
    for age_ms in ages_ms:
        log = log.segment(newest_ms=NOW_MS - age_ms)
    return log


@pytest.mark.parametrize(
    ("story", "log", "gone"),
    [
        ("a log of exactly the limit keeps a segment that is the whole limit", a_log().segments(100), []),
        ("an overrun smaller than the oldest segment deletes nothing", a_log().segments(50, 60), []),
        ("an overrun of exactly the oldest segment deletes it", a_log().segments(10, 50, 50), [0]),
        ("an overrun of one byte less than the oldest segment keeps it", a_log().segments(10, 50, 49), []),
        ("the log stays at least as large as the limit", a_log().segments(50, 50, 50, 50), [0, 10]),
        ("a large old segment holds the small ones behind it", a_log().segments(100, 10, 80), []),
        ("empty segments go with the overrun", a_log().segments(0, 50, 50, 0), [0]),
        ("a log below the limit keeps even its empty segments", a_log().segments(0, 50, 49), []),
    ],
)
def test_size_retention(story: str, log: LogBuilder, gone: list[int]) -> None:
    assert deleted(log, a_policy(retention_bytes=100)) == gone, story


def test_size_retention_keeps_two_segments_of_three_where_the_limit_is_two() -> None:
    # Kafka UnifiedLogTest.shouldDeleteSizeBasedSegments
    log = a_log().segments(50, 50, 50)
    assert deleted(log, a_policy(retention_bytes=100)) == [0]


def test_size_retention_deletes_nothing_under_the_limit() -> None:
    # Kafka UnifiedLogTest.shouldNotDeleteSizeBasedSegmentsWhenUnderRetentionSize
    assert deleted(a_log().segments(50, 50, 50), a_policy(retention_bytes=1500)) == []


def test_a_size_limit_of_zero_deletes_all_committed_segments() -> None:
    found = outcome(a_log().segments(50, 50), a_policy(retention_bytes=0))
    assert found.deleted == 2
    assert found.deletes_everything


@pytest.mark.parametrize("no_limit", [-1, -2, -(1 << 63)])
def test_any_negative_limit_is_none(no_limit: int) -> None:
    policy = a_policy(retention_bytes=no_limit, retention_ms=no_limit)
    assert codes(aged(10 * DAY_MS, 0), policy) == ["NO_LIMIT", "NO_LIMIT"]


@pytest.mark.parametrize(
    ("story", "log", "gone"),
    [
        ("a record of exactly the retention's age stays", aged(100, 0), []),
        ("one millisecond older goes", aged(101, 0), [0]),
        ("expired segments go oldest first up to the first fresh one", aged(300, 200, 50, 200), [0, 10]),
        ("a fresh oldest segment holds all expired ones", aged(50, 500, 500), []),
        ("a future timestamp pins its segment and all later ones", aged(500, -1, 500), [0]),
        ("an expired active segment goes, too", aged(500, 500), [0, 10]),
    ],
)
def test_time_retention(story: str, log: LogBuilder, gone: list[int]) -> None:
    assert deleted(log, a_policy(retention_ms=100)) == gone, story


def test_old_segments_go_and_fresh_ones_stay() -> None:
    # Kafka UnifiedLogTest.shouldDeleteTimeBasedSegmentsReadyToBeDeleted,
    # shouldNotDeleteTimeBasedSegmentsWhenNoneAreReadyToBeDeleted
    full = a_log().segment(newest_ms=10)
    assert outcome(full, a_policy(retention_ms=10_000)).deletes_everything
    assert deleted(aged(0, 0, 0), a_policy(retention_ms=10_000_000)) == []


@pytest.mark.parametrize(("mtime_age_ms", "gone"), [(100, []), (101, [0])])
def test_a_segment_without_timestamps_expires_by_its_file_time(mtime_age_ms: int, gone: list[int]) -> None:
    log = a_log().segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - mtime_age_ms).segments(50)
    assert newest(log.facts().segments[0], a_policy(), NOW_MS)[1] == FILE_TIME
    assert deleted(log, a_policy(retention_ms=100)) == gone


def test_a_record_time_wins_over_the_file_time() -> None:
    log = a_log().segment(newest_ms=0, mtime_ms=NOW_MS).segment(newest_ms=NOW_MS, mtime_ms=0)
    assert [newest(s, a_policy(), NOW_MS)[1] for s in log.facts().segments] == ["its newest record"] * 2
    assert deleted(log, a_policy(retention_ms=100)) == [0]


@pytest.mark.parametrize(
    ("log_start", "gone"), [(1, []), (9, []), (10, [0]), (19, [0]), (20, [0, 10]), (29, [0, 10]), (30, [0, 10])]
)
@pytest.mark.parametrize("cleanup", ["", "delete", "compact", "compact,delete"])
def test_segments_below_the_log_start_go_under_any_policy(cleanup: str, log_start: int, gone: list[int]) -> None:
    # Kafka UnifiedLogTest.shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete,
    # testLogDeletionAfterDeleteRecords
    assert deleted(a_log().segments(50, 50, 50).log_start(log_start), a_policy(cleanup)) == gone


def test_an_active_segment_never_goes_by_the_log_start_alone() -> None:
    # Kafka UnifiedLogTest.testLogDeletionAfterDeleteRecords: start == log end leaves one segment
    log = a_log().segments(50).log_start(10)
    assert deleted(log, a_policy("delete")) == []


def test_a_start_offset_breach_unblocks_the_expiry_behind_it() -> None:
    # Kafka UnifiedLogTest.testRetentionIdempotency
    log = aged(0, 500, 0).log_start(10)
    found = outcome(log, a_policy(retention_ms=100))
    assert [v.reason.code for v in found.verdicts[:2]] == [ReasonCode.LOG_START_OFFSET, ReasonCode.RETENTION_TIME]
    assert found.deleted == 2
    assert retention(log.facts().without_oldest(2), a_policy(retention_ms=100), NOW_MS).deleted == 0


def test_size_counts_only_what_the_log_start_leaves() -> None:
    log = a_log().segments(50, 50, 50).log_start(10)
    assert deleted(log, a_policy(retention_bytes=100)) == [0]


def test_time_takes_what_size_leaves() -> None:
    found = outcome(aged(500, 500, 500, 0), a_policy(retention_bytes=150, retention_ms=100))
    assert [v.reason.code.value for v in found.verdicts] == [
        "RETENTION_SIZE",
        "RETENTION_TIME",
        "RETENTION_TIME",
        "TIME_NOT_REACHED",
    ]


@pytest.mark.parametrize(("cleanup", "left"), [("compact", 3), ("", 3), ("compact,delete", 1), ("delete,compact", 1)])
def test_limits_bind_only_where_the_policy_says_delete(cleanup: str, left: int) -> None:
    # Kafka UnifiedLogTest.shouldNotDeleteSegmentsWhenPolicyDoesNotIncludeDelete,
    # shouldDeleteSegmentsReadyToBeDeletedWhenCleanupPolicyIsCompactAndDelete
    log = aged(500, 500).empty_active()
    assert 3 - outcome(log, a_policy(cleanup, retention_ms=100, retention_bytes=0)).deleted == left


@pytest.mark.parametrize(
    ("high_watermark", "gone"),
    [(0, []), (9, []), (10, [0]), (19, [0]), (20, [0, 10]), (29, [0, 10]), (30, [0, 10, 20])],
)
@pytest.mark.parametrize("limit", ["retention_ms", "retention_bytes"])
def test_nothing_goes_that_reaches_above_the_high_watermark(limit: str, high_watermark: int, gone: list[int]) -> None:
    # Kafka UnifiedLogTest.testCannotDeleteSegmentsAtOrAboveHighWatermark,
    # testSegmentDeletionWithHighWatermarkInitialization, testDeleteOldSegments
    log = aged(500, 500, 500).high_watermark(high_watermark)
    assert deleted(log, a_policy(**{limit: 0})) == gone


def test_the_log_start_does_not_reach_over_the_high_watermark() -> None:
    assert codes(a_log().segments(50, 50).log_start(10).high_watermark(5), a_policy()) == ["ABOVE_HIGH_WATERMARK"] * 2


def test_without_a_high_watermark_nothing_goes() -> None:
    log = aged(500, 500).log_start(10).empty_active().log_start(20).high_watermark(None)
    assert codes(log, a_policy(retention_ms=0, retention_bytes=0)) == ["NO_HIGH_WATERMARK"] * 2 + ["ACTIVE_EMPTY"]


def test_an_empty_active_segment_never_goes() -> None:
    # Kafka UnifiedLogTest.testDeletableSegmentsFilter
    log = a_log().segments(50, newest_ms=0).segment(bytes=0, records=0, newest_ms=0, mtime_ms=0)
    found = outcome(log, a_policy(retention_ms=0, retention_bytes=0))
    assert [v.reason.code.value for v in found.verdicts] == ["RETENTION_SIZE", "ACTIVE_EMPTY"]
    assert not found.deletes_everything


def test_an_empty_sealed_segment_goes_as_any_other() -> None:
    log = a_log().segment(bytes=0, newest_ms=NO_TIMESTAMP, mtime_ms=0).segments(50)
    assert deleted(log, a_policy(retention_ms=100)) == [0]


def test_a_torn_tail_holds_the_active_segment_only() -> None:
    log = aged(500, 500).torn_tail(17)
    assert codes(log, a_policy(retention_ms=100)) == ["RETENTION_TIME", "TORN_TAIL"]


def missing_at(base_offset: int, newest_ms: int = NOW_MS) -> PartitionFacts:
    """A log of five segments from 0 on, ten offsets each, without the one of this base; the oldest three are due."""
    facts = a_log().segments(50, 50, 50, newest_ms=0).segments(50, 50).facts()
    kept = tuple(segment for segment in facts.segments if segment.base_offset != base_offset)
    return replace(facts, segments=kept, missing=(MissingRecords(base_offset, f"{base_offset}.index", newest_ms),))


@pytest.mark.parametrize(
    ("base_offset", "gone"),
    [
        pytest.param(0, [], id="below all that is there"),
        pytest.param(10, [], id="within what is due"),
        pytest.param(20, [0], id="where the limit ends"),
        pytest.param(30, [0, 10], id="above what is due"),
        pytest.param(40, [0, 10, 20], id="above a segment that stays"),
        pytest.param(50, [0, 10, 20], id="behind the log"),
    ],
)
@pytest.mark.parametrize("newest_ms", [NOW_MS, NO_TIMESTAMP], ids=["young", "of an age that nobody knows"])
def test_missing_records_stop_a_limit_as_if_they_were_there(base_offset: int, gone: list[int], newest_ms: int) -> None:
    found = retention(missing_at(base_offset, newest_ms), a_policy(retention_ms=DAY_MS), NOW_MS)
    assert [verdict.base_offset for verdict in found.gone] == gone
    held = [verdict for verdict in found.kept if verdict.reason.code is ReasonCode.RECORDS_MISSING]
    due = [base for base in (0, 10, 20) if base != base_offset]
    assert [verdict.base_offset for verdict in held] == due[len(gone) :]
    assert all(f"{base_offset}.index" in verdict.reason.text for verdict in held)


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        pytest.param(a_policy(retention_ms=DAY_MS), [0, 10], id="by their age"),
        pytest.param(a_policy(retention_bytes=100), [0, 10], id="by the bytes above them, which are the limit"),
        pytest.param(a_policy(retention_bytes=101), [0], id="not by one byte less"),
    ],
)
def test_missing_records_that_are_due_themselves_hold_nothing(policy: TopicPolicy, gone: list[int]) -> None:
    found = retention(missing_at(20, newest_ms=0), policy, NOW_MS)
    assert [verdict.base_offset for verdict in found.gone] == gone


def test_missing_records_behind_the_end_keep_the_active_segment() -> None:
    """A new segment at the log end would take their names."""
    facts = replace(missing_at(50), segments=tuple(s._replace(newest_record_ms=0) for s in missing_at(50).segments))
    assert retention(facts, a_policy(retention_ms=DAY_MS), NOW_MS).deleted == 4


@pytest.mark.parametrize("base_offset", [0, 10, 20, 30, 40, 50])
@pytest.mark.parametrize("newest_ms", [NOW_MS, 0, NOW_MS + DAY_MS, NO_TIMESTAMP])
@pytest.mark.parametrize("retention_bytes", [-1, 100])
def test_each_segment_tells_the_first_moment_at_which_time_lets_it_go(
    base_offset: int, newest_ms: int, retention_bytes: int
) -> None:
    """Also one that waits for missing records, which go when they are due themselves, or never."""
    facts, policy = missing_at(base_offset, newest_ms), a_policy(retention_ms=DAY_MS, retention_bytes=retention_bytes)
    for verdict in retention(facts, policy, NOW_MS).kept:
        at_ms = verdict.reason.until_ms
        moments = (NOW_MS + 3650 * DAY_MS,) if at_ms is None else (at_ms - 1, at_ms)
        gone = [verdict.base_offset in {v.base_offset for v in retention(facts, policy, ms).gone} for ms in moments]
        assert gone == [False, True][: len(moments)], verdict


def test_the_log_start_goes_over_missing_records_as_a_user_or_the_cluster_said() -> None:
    facts = replace(missing_at(20), log_start_offset=30)
    assert retention(facts, a_policy(), NOW_MS).deleted == 2


@pytest.mark.parametrize("records", [0, 1, 25])
def test_a_second_run_deletes_nothing(records: int) -> None:
    # Kafka UnifiedLogTest.testThatGarbageCollectingSegmentsDoesntChangeOffset
    log = a_log()
    for _ in range(records):
        log = log.segment(bytes=10, records=1, newest_ms=0)
    end = log.facts().log_end_offset
    rolled = a_log().log_end(end).empty_active()
    assert outcome(log, a_policy(retention_ms=1)).deleted == records
    assert outcome(rolled, a_policy(retention_ms=1)).deleted == 0
    assert rolled.facts().log_end_offset == end


def test_a_partition_without_segments_has_no_verdicts() -> None:
    found = outcome(a_log(), a_policy(retention_ms=0, retention_bytes=0))
    assert found == Retention((), 0)
    assert not found.deletes_everything


def test_every_segment_has_its_verdict_in_order_with_its_bytes() -> None:
    found = outcome(a_log().segments(10, 20, 30, newest_ms=0), a_policy(retention_bytes=50))
    assert [(v.base_offset, v.size_bytes, v.action.value) for v in found.verdicts] == [
        (0, 10, "delete"),
        (10, 20, "keep"),
        (20, 30, "keep"),
    ]


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (
            a_log().segments(50, 60, 70).log_start(10),
            "LOG_START_OFFSET: ends at offset 10, below the log start offset 10",
        ),
        (
            a_log().segments(50, 60, 70),
            "RETENTION_SIZE: 130B stay without it, at least retention.bytes=100B (--set)",
        ),
        (
            aged(5 * DAY_MS, 0),
            "RETENTION_TIME: its newest record is 5d old, more than retention.ms=3d (--set)",
        ),
        (
            a_log().segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - 4 * DAY_MS),
            f"RETENTION_TIME: {FILE_TIME} is 4d old, more than retention.ms=3d (--set)",
        ),
        (
            aged(2 * DAY_MS, 0),
            "TIME_NOT_REACHED: its newest record is 2d old, not more than retention.ms=3d (--set)",
        ),
        (
            aged(-DAY_MS, 0),
            "FUTURE_TIMESTAMP: its newest record lies in the future, 2027-01-16T08:00:00Z; it holds all later segments",
        ),
        (
            a_log().segment(newest_ms=NOW_MS + DAY_MS, newest_record_offset=7),
            "FUTURE_TIMESTAMP: its newest record (in the batch up to offset 7) lies in the future, "
            "2027-01-16T08:00:00Z",
        ),
        (
            a_log().segment().high_watermark(9),
            "ABOVE_HIGH_WATERMARK: reaches to offset 10, above the high watermark 9",
        ),
        (
            a_log().segment().high_watermark(None),
            "NO_HIGH_WATERMARK: no high watermark was checkpointed, so nothing is known to be committed"
            " (--assume-committed for copies)",
        ),
        (
            a_log().empty_active(),
            "ACTIVE_EMPTY: the empty active segment: a log has at least one segment",
        ),
        (
            a_log().segment(newest_ms=0).torn_tail(17),
            "TORN_TAIL: 17 bytes at its end are no record batch; nothing is rolled behind them",
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_a_reason_says_its_numbers(log: LogBuilder, text: str) -> None:
    reason = outcome(log, a_policy(retention_ms=3 * DAY_MS, retention_bytes=100)).verdicts[0].reason
    assert f"{reason.code}: {reason.text}" == text


def test_a_segment_that_waits_for_another_names_the_one_that_stays_longest() -> None:
    found = outcome(aged(DAY_MS, -DAY_MS, 2 * DAY_MS, 5 * DAY_MS, -2 * DAY_MS, 0), a_policy(retention_ms=3 * DAY_MS))
    stays = "segments go oldest first and 10 stays"
    assert [verdict.reason.text for verdict in found.verdicts] == [
        "its newest record is 1d old, not more than retention.ms=3d (--set)",
        "its newest record lies in the future, 2027-01-16T08:00:00Z; it holds all later segments",
        f"its newest record is 2d old, not more than retention.ms=3d (--set); {stays}",
        f"expired, but {stays}",
        "its newest record lies in the future, 2027-01-17T08:00:00Z; it holds all later segments",
        "its newest record is 0ms old, not more than retention.ms=3d (--set); segments go oldest first and 40 stays",
    ]


def test_an_age_just_over_the_limit_does_not_look_like_the_limit() -> None:
    (verdict, _) = outcome(aged(3 * DAY_MS + 5_000, 0), a_policy(retention_ms=3 * DAY_MS)).verdicts
    assert verdict.reason.text == "its newest record is 3d 5s old, more than retention.ms=3d (--set)"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (
            a_policy(retention_bytes=100),
            "WITHIN_SIZE: 0B would stay without it, less than retention.bytes=100B (--set)",
        ),
        (a_policy(), "NO_LIMIT: no retention.ms and no retention.bytes limits it"),
        (a_policy("compact", retention_ms=0), "NO_LIMIT: cleanup.policy compact deletes by no limit"),
        (
            a_policy("", retention_ms=0),
            "POLICY_EMPTY: cleanup.policy is empty: no limit deletes, nothing is compacted",
        ),
    ],
)
def test_a_reason_to_stay_names_the_limit_that_leaves_it(policy: TopicPolicy, text: str) -> None:
    reason = only_verdict(aged(500), policy).reason
    assert f"{reason.code}: {reason.text}" == text


def test_a_segment_behind_a_kept_one_names_it() -> None:
    behind = outcome(aged(500, 50, 500), a_policy(retention_ms=100)).verdicts[2].reason
    assert behind.code is ReasonCode.BEHIND_KEPT_SEGMENT
    assert behind.text == "expired, but segments go oldest first and 10 stays"


def test_a_deleted_segment_says_since_when_it_was_due() -> None:
    assert only_verdict(aged(500), a_policy(retention_ms=100)).reason.until_ms == NOW_MS - 500 + 100 + 1


@pytest.mark.parametrize(
    ("story", "log", "until_ms"),
    [
        ("one millisecond after the retention's age", aged(100), [NOW_MS + 1]),
        ("each in its turn", aged(90, 80), [NOW_MS + 11, NOW_MS + 21]),
        ("not before those ahead of it", aged(10, 90, 500), [NOW_MS + 91] * 3),
        ("a future timestamp holds itself and the later ones", aged(-1000, 50), [NOW_MS + 1101] * 2),
        ("a deleted one holds nobody", aged(500, 90), [NOW_MS - 399, NOW_MS + 11]),
    ],
)
def test_a_kept_segment_says_when_time_retention_takes_it(story: str, log: LogBuilder, until_ms: list[int]) -> None:
    policy = a_policy(retention_ms=100)
    found = outcome(log, policy).verdicts
    assert [v.reason.until_ms for v in found] == until_ms, story
    for place, verdict in enumerate(found):
        if verdict.action is Action.KEEP and verdict.reason.until_ms is not None:
            assert outcome(log, policy, verdict.reason.until_ms).deleted > place, story
            assert outcome(log, policy, verdict.reason.until_ms - 1).deleted <= place, story


@pytest.mark.parametrize("cleanup", ["compact", ""])
def test_a_segment_that_no_limit_binds_has_no_moment(cleanup: str) -> None:
    assert only_verdict(aged(0), a_policy(cleanup, retention_ms=100)).reason.until_ms is None


def test_facts_without_the_oldest_segments_start_where_the_first_left_begins() -> None:
    log: PartitionFacts = a_log().segments(1, 2, 3).facts()
    left = log.without_oldest(2)
    assert (left.log_start_offset, left.size_bytes, left.active) == (20, 3, log.active)
    assert log.without_oldest(0) is log
    assert a_log().segments(1, 2).log_start(15).facts().without_oldest(1).log_start_offset == 15


BY_FILE_TIME = a_policy(retention_ms=3 * DAY_MS, retention_future_timestamps="mtime")


@pytest.mark.parametrize(
    ("story", "newest_days", "mtime_days", "told"),
    [
        (
            "an old file goes",
            -100,
            4,
            "RETENTION_TIME: the file time of its .log (its newest record lies in the future) is 4d",
        ),
        ("a fresh one stays as long as any", -100, 2, "TIME_NOT_REACHED: the file time of its .log"),
        ("a file of the future stays", -100, -1, "FUTURE_TIMESTAMP: the file time of its .log"),
        ("a record of this moment is none of the future", 0, 100, "TIME_NOT_REACHED: its newest record is "),
        ("records of the past count as ever", 2, 100, "TIME_NOT_REACHED: its newest record is 2d"),
        ("records of the past count as ever, also old ones", 4, 0, "RETENTION_TIME: its newest record is 4d"),
    ],
)
def test_file_time_stands_in_for_a_future_record_where_that_is_wanted(story, newest_days, mtime_days, told) -> None:
    log = a_log().segment(newest_ms=NOW_MS - newest_days * DAY_MS, mtime_ms=NOW_MS - mtime_days * DAY_MS)
    reason = retention(log.facts(), BY_FILE_TIME, NOW_MS).verdicts[0].reason
    assert f"{reason.code}: {reason.text}".startswith(told), story


@pytest.mark.parametrize(("newest_days", "first_days"), [(100, 3), (3, 6), (1, 4)])
def test_moment_of_an_unpinned_segment_is_by_its_file_while_its_record_is_of_the_future(
    newest_days, first_days
) -> None:
    log = a_log().segment(newest_ms=NOW_MS + newest_days * DAY_MS, mtime_ms=NOW_MS)
    first_ms = NOW_MS + first_days * DAY_MS + 1
    assert retention(log.facts(), BY_FILE_TIME, NOW_MS).verdicts[0].reason.until_ms == first_ms
    assert retention(log.facts(), BY_FILE_TIME, first_ms - 1).deleted == 0
    assert retention(log.facts(), BY_FILE_TIME, first_ms).deleted == 1
