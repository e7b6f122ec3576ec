"""What blocks is named with its owner and one sentence of remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.compaction import Cleanable
from policies.config.policy import BrokerPolicy, Layer, Stated, TopicPolicy
from policies.explain.blockers import Blocker, BlockerCode, bytes_missing
from policies.explain.changes import ChangeCode
from policies.explain.explanation import PartitionExplanation, explain, in_brief
from policies.explain.observations import (
    ActiveUse,
    DeleteHorizons,
    FailedAttempts,
    OpenTransaction,
    RecordPlace,
    SegmentTimes,
    TopicHere,
    WaitingFiles,
)
from policies.facts import NO_TIMESTAMP, ClockFacts, CountedRound, KeyCount, LogDirFacts
from policies.plan import PartitionPlan, Request
from policies.planning import plan, plan_partition
from policies.reasons import Reason, ReasonCode, counted, size
from policies.retention import retention
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy
from tests.policies.explain.cases import Drawn, drawn, partitions, seen_of

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
EXPIRING: Final = a_policy(retention_ms=7 * DAY_MS)
COMPACT: Final = a_policy("compact")
DIRTY: Final = a_policy("compact", min_cleanable_dirty_ratio=0.0)


def blockers(log: LogBuilder, policy: TopicPolicy, **seen: Any) -> dict[BlockerCode, Blocker]:
    return {blocker.code: blocker for blocker in drawn(log, policy, **seen).explained().blockers}


def the(code: BlockerCode, log: LogBuilder, policy: TopicPolicy, **seen: Any) -> Blocker:
    return blockers(log, policy, **seen)[code]


def compacted(*sizes: int, cleaned: int) -> LogBuilder:
    return a_log().segments(*sizes, newest_ms=NOW_MS - HOUR_MS).compacted_to(cleaned)


def test_a_future_timestamp_is_named_by_its_record_and_holds_what_lies_behind() -> None:
    log = a_log().segment(newest_ms=NOW_MS + DAY_MS, mtime_ms=NOW_MS - 9 * DAY_MS).segments(60, newest_ms=0).segment()
    found = the(BlockerCode.FUTURE_TIMESTAMP, log, EXPIRING, future=RecordPlace(7, NOW_MS + DAY_MS))
    assert found.owner == "the producer that wrote offset 7"
    assert "offset 7 has the timestamp 2027-01-16T08:00:00Z, 1d ahead of the clock" in found.text
    assert "holds 3 segments (160 bytes)" in found.text
    assert "segment 0 can go at once" in found.remedy
    assert (found.first_base_offset, found.last_base_offset, found.size_bytes) == (0, 20, 160)
    assert found.until_ms == NOW_MS + 8 * DAY_MS + 1


def test_if_every_segment_lies_in_the_future_the_clock_is_doubted() -> None:
    log = a_log().segments(1, 1, newest_ms=NOW_MS + DAY_MS)
    found = the(BlockerCode.FUTURE_TIMESTAMP, log, EXPIRING)
    assert "1 later segment reach" in found.text.replace("reaches", "reach")
    assert found.text.endswith("is --now, or the clock of this machine, behind?")


def test_the_file_times_of_a_copy_are_doubted() -> None:
    log = a_log().segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - 5000)
    log = log.segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - 2000)
    found = the(BlockerCode.FILE_TIMES_RESET, log, EXPIRING)
    assert "2 segments have no timestamps" in found.text
    assert "They lie within 3s" in found.text
    assert "cp -a" in found.remedy
    assert found.until_ms == NOW_MS - 5000 + 7 * DAY_MS + 1
    apart = a_log().segment(newest_ms=NO_TIMESTAMP, mtime_ms=NOW_MS - DAY_MS).segment(newest_ms=NO_TIMESTAMP)
    assert BlockerCode.FILE_TIMES_RESET not in blockers(apart, EXPIRING)
    assert BlockerCode.FILE_TIMES_RESET not in blockers(a_log().segments(1, 1), EXPIRING)


def test_retention_bytes_counts_for_each_partition() -> None:
    log, policy = a_log().segments(60, 60), a_policy(retention_bytes=100)
    alone = the(BlockerCode.WITHIN_SIZE, log, policy, topic=TopicHere(1, 120))
    assert "it goes once 40 bytes more are written" in alone.text
    assert "partition" not in alone.text
    found = the(BlockerCode.WITHIN_SIZE, log, policy, topic=TopicHere(5, 600))
    assert "5 partitions may keep 500 bytes, and hold 600 bytes here" in found.text
    assert "set retention.bytes=20 (20 bytes)" in found.remedy
    assert found.owner == "retention.bytes=100B (--set)"


@settings(max_examples=200)
@given(st.lists(st.integers(1, 90), min_size=2, max_size=5), st.integers(1, 300))
def test_the_bytes_that_retention_bytes_waits_for_are_exact(sizes: list[int], limit: int) -> None:
    policy = a_policy(retention_bytes=limit)
    found = blockers(a_log().segments(*sizes), policy).get(BlockerCode.WITHIN_SIZE)
    deleted = retention(a_log().segments(*sizes).facts(), policy, NOW_MS).deleted
    if found is None:
        assert deleted == len(sizes)
        return
    (told,) = re.findall(r"once (\d+) byte", found.text)
    with_more = [
        retention(a_log().segments(*sizes, more).facts(), policy, NOW_MS) for more in (int(told) - 1, int(told))
    ]
    assert [one.deleted > deleted for one in with_more] == [False, True]


def test_nobody_limits_a_log() -> None:
    found = the(BlockerCode.NO_LIMIT, a_log().segment(), a_policy())
    assert "retention.ms=no limit (nobody stated it)" in found.owner
    assert "--server-properties" in found.remedy


@pytest.mark.parametrize(
    ("retention_ms", "first_ms", "newest_ms", "is_told"),
    [
        (7 * DAY_MS, NOW_MS - 7 * DAY_MS, NOW_MS - DAY_MS, False),
        (7 * DAY_MS, NOW_MS - 7 * DAY_MS - 1, NOW_MS - DAY_MS, True),
        (7 * DAY_MS, NO_TIMESTAMP, NOW_MS - DAY_MS, False),
        (NOW_MS - 1, 0, NOW_MS - DAY_MS, True),
        (0, NOW_MS - 1, NOW_MS, True),
        (0, NOW_MS, NOW_MS, False),
        (-1, NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS, False),
    ],
)
def test_an_active_segment_is_told_of_once_a_record_in_it_has_expired(
    retention_ms: int, first_ms: int, newest_ms: int, is_told: bool
) -> None:
    log = a_log().segment(newest_ms=newest_ms)
    times = (SegmentTimes(first_ms, newest_ms),)
    found = blockers(log, a_policy(retention_ms=retention_ms), times=times)
    assert (BlockerCode.ACTIVE_SEGMENT in found) == is_told


def test_an_active_segment_keeps_expired_records_until_its_newest_one_expires() -> None:
    log = a_log().segment(newest_ms=NOW_MS - DAY_MS)
    times = (SegmentTimes(NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS),)
    found = explain(
        plan_partition(log.facts(), EXPIRING, Request(NOW_MS)),
        replace(seen_of(log.facts()), times=times),
        Request(NOW_MS),
    )
    (blocker,) = found.blockers
    assert blocker.code is BlockerCode.ACTIVE_SEGMENT
    assert "9d ago" in blocker.text
    assert blocker.until_ms == NOW_MS + 6 * DAY_MS + 1
    assert BlockerCode.ACTIVE_SEGMENT not in blockers(log, EXPIRING)


def test_the_active_segment_says_which_condition_closes_it_and_when() -> None:
    policy = a_policy("compact", segment_ms=DAY_MS, segment_bytes=1000, segment_index_bytes=80)
    log = compacted(50, 60, cleaned=10)
    young = the(BlockerCode.ACTIVE_SEGMENT, log, policy, active=ActiveUse(NOW_MS - HOUR_MS, 2, 2))
    assert "with the first record from 2027-01-16T07:00:00Z on" in young.text
    assert "940 bytes more are written (segment.bytes=1000B)" in young.text
    assert young.until_ms == NOW_MS + 23 * HOUR_MS + 1
    old = the(BlockerCode.ACTIVE_SEGMENT, log, policy, active=ActiveUse(NOW_MS - 2 * DAY_MS))
    assert "is over since 2027-01-14T08:00:00Z: the next record closes it" in old.text
    assert "While nobody writes, it is never closed" in old.remedy
    full = the(
        BlockerCode.ACTIVE_SEGMENT, log, replace(policy, index_interval_bytes=10), active=ActiveUse(NOW_MS, 7, 2)
    )
    assert "its indexes are full, after about 40 bytes (segment.index.bytes=80B)" in full.text
    timeless = the(BlockerCode.ACTIVE_SEGMENT, log, policy)
    assert "after it opened the segment" in timeless.text


def test_jitter_and_max_compaction_lag_close_the_active_segment_sooner() -> None:
    policy = a_policy("compact", segment_ms=DAY_MS, max_compaction_lag_ms=HOUR_MS, segment_jitter_ms=1001)
    found = the(BlockerCode.ACTIVE_SEGMENT, compacted(50, 60, cleaned=10), policy, active=ActiveUse(NOW_MS))
    assert found.owner == "max.compaction.lag.ms=1h (--set)"
    assert "from 2027-01-15T08:59:59Z on (2027-01-15T09:00:00Z without segment.jitter.ms)" in found.text


def test_an_open_transaction_is_named_with_its_producer_and_what_it_pins() -> None:
    log = a_log().segments(50, 60, 70, 10, newest_ms=NOW_MS - 60_000).last_stable(25)
    open_ = OpenTransaction(4001, 3, 25, NOW_MS - 120_000), OpenTransaction(5, 0, 31, None)
    found = the(BlockerCode.OPEN_TRANSACTION, log, DIRTY, transactions=open_)
    assert found.owner == "producer 4001, epoch 3"
    assert "at offset 25 on 2027-01-15T07:58:00Z, 2m ago" in found.text
    assert "1 more transaction is open behind it" in found.text
    assert "1 closed segment (70 bytes)" in found.text
    assert "--topic orders --partition 0 --start-offset 25" in found.remedy
    assert "A coordinator ends it" in found.remedy
    assert (found.since_ms, found.size_bytes) == (NOW_MS - 120_000, 70)


def test_an_open_transaction_is_named_with_the_transactional_id_of_its_producer_as_it_is_written() -> None:
    log = a_log().segments(50, 60, 70, 10, newest_ms=NOW_MS - 60_000).last_stable(25)
    open_ = (OpenTransaction(4001, 3, 25, NOW_MS - 120_000, "Pay-EU"),)
    found = the(BlockerCode.OPEN_TRANSACTION, log, DIRTY, transactions=open_)
    assert found.owner == "transactional id Pay-EU, producer 4001, epoch 3"
    assert found.text.startswith("Transactional id Pay-EU, producer 4001, epoch 3, began a transaction at offset 25")


@pytest.mark.parametrize(("newest_ms", "locked_by"), [(NOW_MS, None), (NOW_MS - 2 * HOUR_MS, "process 7")])
def test_a_transaction_that_is_open_for_too_long_hangs(newest_ms: int, locked_by: str | None) -> None:
    log = a_log().segments(50, newest_ms=newest_ms).last_stable(5)
    open_ = (OpenTransaction(4001, 3, 5, NOW_MS - HOUR_MS),)
    found = the(BlockerCode.OPEN_TRANSACTION, log, EXPIRING, transactions=open_, locked_by=locked_by)
    assert found.remedy.startswith("It hangs: no coordinator will end it.")


def test_a_transaction_in_a_log_that_stopped_with_it_does_not_hang_and_pins_nothing_of_a_deleted_topic() -> None:
    log = a_log().segments(50, newest_ms=NOW_MS - HOUR_MS).last_stable(5)
    open_ = (OpenTransaction(4001, 3, 5, NOW_MS - HOUR_MS - 1000),)
    assert BlockerCode.OPEN_TRANSACTION not in blockers(log, EXPIRING, transactions=open_)


def test_min_compaction_lag_names_the_segment_that_is_too_new() -> None:
    policy = a_policy("compact", min_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio=0.0)
    found = the(BlockerCode.MIN_COMPACTION_LAG, a_log().segments(50, 60, 70, newest_ms=NOW_MS - HOUR_MS), policy)
    assert found.owner == "min.compaction.lag.ms=1d (--set)"
    assert "segment 0 is 1h old" in found.text
    assert found.until_ms == NOW_MS + 23 * HOUR_MS
    ahead = the(BlockerCode.MIN_COMPACTION_LAG, a_log().segments(50, 60, newest_ms=NOW_MS + HOUR_MS), policy)
    assert "lies 1h in the future" in ahead.text


def test_a_low_dirty_ratio_says_how_many_bytes_are_missing() -> None:
    found = the(BlockerCode.DIRTY_RATIO_LOW, compacted(60, 40, 30, cleaned=10), COMPACT)
    assert "0.40, 40 bytes of 100 bytes" in found.text
    assert "more than 0.5: 21 bytes more in closed segments. The active segment has 30 bytes" in found.text
    assert found.remedy == "clean --force-compaction --topic orders-0 compacts it now."
    never = the(
        BlockerCode.DIRTY_RATIO_LOW,
        compacted(60, 40, 30, cleaned=10),
        a_policy("compact", min_cleanable_dirty_ratio=1.0),
    )
    assert "there is no such ratio" in never.text


@settings(max_examples=300)
@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.floats(0, 1))
def test_the_bytes_that_a_dirty_ratio_misses_are_exact(clean: int, dirty: int, least: float) -> None:
    def ratio(more: int) -> float:
        bound = Reason(ReasonCode.ACTIVE_SEGMENT, "")
        return Cleanable(0, 0, bound, clean_bytes=clean, dirty_bytes=dirty + more).dirty_ratio

    missing = bytes_missing(
        Cleanable(0, 0, Reason(ReasonCode.ACTIVE_SEGMENT, ""), clean_bytes=clean, dirty_bytes=dirty), least
    )
    if missing is None:
        assert least == 1.0 or ratio(1 << 79) <= least
        return
    assert ratio(missing) > least
    assert missing == 0 or ratio(missing - 1) <= least


def test_tombstones_wait_in_a_quiet_log() -> None:
    due = DeleteHorizons(3, 900, NOW_MS - DAY_MS, NOW_MS - HOUR_MS)
    quiet = the(BlockerCode.TOMBSTONES_WAIT, compacted(60, 30, cleaned=10), COMPACT, horizons=due)
    assert "3 batches hold tombstones or markers; their delete horizon is over since 2027-01-14T08:00:00Z" in quiet.text
    assert "no segment was closed since the last one" in quiet.text
    assert "Append a record" in quiet.remedy
    little = the(BlockerCode.TOMBSTONES_WAIT, compacted(60, 40, 30, cleaned=10), COMPACT, horizons=due)
    assert "--force-compaction" in little.remedy
    pinned = the(BlockerCode.TOMBSTONES_WAIT, compacted(60, 40, 30, cleaned=10).last_stable(12), COMPACT, horizons=due)
    assert "the open transaction holds back" in pinned.text
    assert BlockerCode.TOMBSTONES_WAIT not in blockers(compacted(60, 40, 30, cleaned=10), DIRTY, horizons=due)


def test_a_delete_horizon_to_come_is_a_change() -> None:
    coming = DeleteHorizons(2, 900, NOW_MS + HOUR_MS, NOW_MS + DAY_MS)
    explained = drawn(compacted(60, 30, cleaned=10), COMPACT, horizons=coming).explained()
    assert explained.next_change is not None
    assert (explained.next_change.code, explained.next_change.at_ms) == (ChangeCode.DELETE_HORIZON, NOW_MS + HOUR_MS)
    assert BlockerCode.TOMBSTONES_WAIT not in {blocker.code for blocker in explained.blockers}


def closed(count: int, every_ms: int) -> LogBuilder:
    """Segments of which one is closed every so often, and the active one."""
    log = a_log()
    for place in reversed(range(count + 1)):
        log = log.segment(newest_ms=NOW_MS - DAY_MS * 9, mtime_ms=NOW_MS - place * every_ms)
    return log


LONG_AGO: Final = a_log().segment(mtime_ms=NOW_MS - DAY_MS).segment(mtime_ms=NOW_MS - DAY_MS)


@pytest.mark.parametrize(
    ("story", "log", "seen", "is_late"),
    [
        ("ten segments were closed since", closed(11, 1000), {}, True),
        ("nine segments", closed(10, 1000), {}, False),
        ("an hour of writing", closed(2, HOUR_MS), {}, True),
        ("the broker stopped at once, and the log waits since", LONG_AGO, {}, False),
        ("a broker runs", LONG_AGO, {"locked_by": "process 7"}, True),
    ],
)
def test_a_dead_cleaner_is_told_by_what_was_closed_since_a_round_was_due(story, log, seen, is_late) -> None:
    assert (BlockerCode.CLEANER_BEHIND in blockers(log, COMPACT, **seen)) == is_late, story


def test_a_cleaner_that_works_elsewhere_has_given_this_partition_up() -> None:
    dead = the(BlockerCode.CLEANER_BEHIND, closed(20, 1000), COMPACT, cleaner_checkpoint_ms=NOW_MS - DAY_MS)
    assert "the cleaner is dead, or off" in dead.text
    assert "It was never compacted. A round is due since 2027-01-15T07:59:40Z: 1,000 bytes are dirty" in dead.text
    assert "19 more segments were closed since" in dead.text
    given_up = the(BlockerCode.CLEANER_BEHIND, closed(20, 1000), COMPACT, cleaner_checkpoint_ms=NOW_MS)
    assert "so this one was given up" in given_up.text
    assert "log-cleaner.log" in given_up.remedy


def test_a_low_max_decompressed_message_bytes_is_named_as_what_a_cleaner_may_have_died_of() -> None:
    limited = replace(COMPACT, max_decompressed_message_bytes=100)
    found = the(BlockerCode.CLEANER_BEHIND, closed(20, 1000), limited)
    assert "max.decompressed.message.bytes=100B" in found.text
    assert found.remedy.endswith("above that size, raise max.decompressed.message.bytes first.")
    assert "max.decompressed" not in the(BlockerCode.CLEANER_BEHIND, closed(20, 1000), COMPACT).text


def test_failed_attempts_are_told_with_their_cause() -> None:
    failed = FailedAttempts(NOW_MS - DAY_MS, NOW_MS - HOUR_MS, "0.log at byte 7: CRC-32C mismatch", files_changed=False)
    found = the(BlockerCode.FAILED_ATTEMPT, a_log().segments(5, 5), COMPACT, failed=failed)
    assert "fails since 2027-01-14T08:00:00Z, the last time at 2027-01-15T07:00:00Z: 0.log at byte 7" in found.text
    assert "replica or a backup" in found.remedy
    changed = the(
        BlockerCode.FAILED_ATTEMPT, a_log().segments(5, 5), COMPACT, failed=failed._replace(files_changed=True)
    )
    assert "tries again" in changed.remedy


def test_a_checkpoint_beyond_the_end_is_named() -> None:
    cleaner = the(BlockerCode.CHECKPOINT_OUTSIDE_LOG, a_log().segments(5, 5).compacted_to(99), COMPACT)
    assert "cleaner-offset-checkpoint says 99, but the log starts at 0 and ends at 20" in cleaner.text
    watermark = the(BlockerCode.CHECKPOINT_OUTSIDE_LOG, a_log().segments(5), EXPIRING, checkpointed_high_watermark=30)
    assert (
        "replication-offset-checkpoint says 30, but the log ends at 10: 20 committed offsets are gone" in watermark.text
    )
    passed = a_log().segments(5, 5).log_start(10).compacted_to(5)
    assert BlockerCode.CHECKPOINT_OUTSIDE_LOG not in blockers(passed, a_policy("compact,delete"))
    assert BlockerCode.CHECKPOINT_OUTSIDE_LOG in blockers(passed, COMPACT)


def test_the_high_watermark_and_a_torn_tail() -> None:
    log = a_log().segments(5, 5).high_watermark(15)
    above = the(BlockerCode.ABOVE_HIGH_WATERMARK, log, a_policy(retention_ms=0))
    assert "The high watermark is 15, the log ends at 20: the last 5 offsets" in above.text
    assert "1 segment (5 bytes) reaches above it" in above.text
    assert "under-replicated" in above.remedy
    none = the(BlockerCode.NO_HIGH_WATERMARK, a_log().segments(5).high_watermark(None), EXPIRING)
    assert "--assume-committed" in none.remedy
    torn = the(BlockerCode.TORN_TAIL, a_log().segments(5).torn_tail(3), EXPIRING)
    assert "The last 3 bytes" in torn.text
    ended = the(BlockerCode.ABOVE_HIGH_WATERMARK, a_log().segments(5, 5, 5).high_watermark(25).last_stable(3), DIRTY)
    assert ended.size_bytes == 5


WAITING: Final = WaitingFiles(6, 3 << 20, 3 << 20, 6, NOW_MS - DAY_MS, NOW_MS - HOUR_MS)


def test_deleted_files_that_a_crash_left_are_told_from_those_that_wait() -> None:
    left = the(BlockerCode.DELETED_FILES, a_log().segments(5), EXPIRING, waiting=WAITING)
    assert left.owner == "a crash of the broker"
    assert "6 .deleted files (3.0 MiB) still lie here. Their delay is over since" in left.text
    assert "None of them is in logcleaner's journal" in left.text
    some = the(BlockerCode.DELETED_FILES, a_log().segments(5), EXPIRING, waiting=WAITING._replace(unknown_files=2))
    assert "2 of them are not in logcleaner's journal" in some.text
    coming = WAITING._replace(unknown_files=0, first_due_ms=NOW_MS + 1000, last_due_ms=NOW_MS + 2000)
    ours = the(BlockerCode.DELETED_FILES, a_log().segments(5), EXPIRING, waiting=coming)
    assert ours.owner == "file.delete.delay.ms=1m (nobody stated it)"
    assert "logcleaner renamed them" in ours.text
    assert "--delete-delay 0" in ours.remedy
    assert ours.until_ms == NOW_MS + 2000
    change = drawn(a_log().segments(5), EXPIRING, waiting=coming).explained().next_change
    assert change is not None
    assert (change.code, change.at_ms, change.size_bytes) == (ChangeCode.DELETED_FILES, NOW_MS + 1000, 3 << 20)
    held = LogBuilder(replace(a_log().segments(5).facts(), held_since_ms=5))
    assert "not touched" in the(BlockerCode.DELETED_FILES, held, EXPIRING, waiting=WAITING).remedy


HELD: Final = LogBuilder(replace(a_log().segments(5).facts(), held_since_ms=0))
UNKNOWN: Final = replace(EXPIRING, unknown_because="nobody stated it; state it")
GUARDED: Final = a_policy(retention_ms=1, max_delete_ratio=0.5)


@pytest.mark.parametrize(
    ("code", "log", "policy", "words"),
    [
        (BlockerCode.HELD, HELD, EXPIRING, "restore --release orders-0"),
        (BlockerCode.CONFIG_UNKNOWN, a_log().segments(5), UNKNOWN, "State it."),
        (BlockerCode.REMOTE_STORAGE, a_log().segments(5), a_policy(remote_storage_enable=True), "local.retention.ms"),
        (BlockerCode.POLICY_EMPTY, a_log().segments(5), a_policy(""), "cleanup.policy=delete"),
        (BlockerCode.MAX_DELETE_RATIO, a_log().segments(5, 5, newest_ms=0), GUARDED, "--yes"),
    ],
)
def test_what_holds_a_whole_partition(code: BlockerCode, log: LogBuilder, policy: TopicPolicy, words: str) -> None:
    found = the(code, log, policy)
    assert words in found.remedy
    assert found.size_bytes == log.facts().size_bytes


def test_too_many_records_without_a_key_are_the_producers() -> None:
    counted_round = CountedRound(0, 20, KeyCount(10, 6))
    log = LogBuilder(replace(a_log().segments(5, 6, 7).facts(), counted=counted_round))
    found = the(BlockerCode.MAX_UNKEYED_RATIO, log, DIRTY)
    assert found.owner == "the producer that sends no keys"
    assert found.text.startswith(
        "Compaction would drop 6 of 10 records because they have no key: 0.60, more than max.un"
    )
    assert "cleanup.policy=delete" in found.remedy
    assert "--yes" in found.remedy
    assert found.size_bytes == 11  # the active segment is not compacted anyhow


def test_a_cleaner_that_is_off_is_named_with_the_place_that_says_so() -> None:
    stated = Stated(
        "log.cleaner.enable", False, Layer.SERVER_PROPERTIES, "server.properties line 9", "log.cleaner.enable"
    )
    broker = BrokerPolicy(log_cleaner_enable=False, stated={"log.cleaner.enable": stated})
    facts = a_log().segments(5, 5).facts()
    request = Request(NOW_MS)
    found = explain(plan_partition(facts, COMPACT, request, broker), seen_of(facts), request, broker).blockers
    assert [(one.code, one.owner) for one in found] == [
        (BlockerCode.CLEANER_DISABLED, "log.cleaner.enable=false (server.properties line 9)")
    ]


def test_a_clock_that_jumped_is_the_owner() -> None:
    facts = a_log().segments(5, 5, newest_ms=0).facts()
    clock = ClockFacts(NOW_MS + 90 * DAY_MS, None, None, NOW_MS)
    log_dir = LogDirFacts("/data", None, 0, 0, (facts,), clock=clock)
    explained = of_a_log_dir(log_dir, EXPIRING)
    (found,) = [one for one in explained.blockers if one.code is BlockerCode.CLOCK_JUMPED]
    assert found.owner == "the clock of this machine"
    assert "90d later than the newest file" in found.text
    assert found.remedy.startswith("An old copy, or a broker that was stopped for long, looks like this: clean --yes")
    assert not explained.changes
    assert explained.intended.deletion is not None


def test_a_clock_behind_the_files_is_to_be_set() -> None:
    facts = a_log().segments(5, 5, newest_ms=0).facts()
    log_dir = LogDirFacts("/data", None, 0, 0, (facts,), clock=ClockFacts(NOW_MS - 90 * DAY_MS, None, None, NOW_MS))
    (found,) = [one for one in of_a_log_dir(log_dir, EXPIRING).blockers if one.code is BlockerCode.CLOCK_JUMPED]
    assert "90d earlier than the newest file" in found.text
    assert found.remedy.startswith("Set the clock")


def of_a_log_dir(log_dir: LogDirFacts, policy: TopicPolicy) -> PartitionExplanation:
    request = Request(NOW_MS)
    ((planned,),) = (one.partitions for one in plan([log_dir], lambda _: policy, request).log_dirs)
    assert isinstance(planned, PartitionPlan)
    return explain(planned, seen_of(planned.facts), request)


@settings(max_examples=200)
@given(partitions())
def test_every_blocker_is_told_in_sentences(found: Drawn) -> None:
    for blocker in found.explained().blockers:
        assert blocker.owner
        for text in (blocker.text, blocker.remedy):
            named = ("clean", "retention.", "logcleaner", "replication-offset-checkpoint")
            assert text[0].isupper() or text[0].isdigit() or text.startswith(named), text
            assert text.endswith((".", "?")), text


def test_an_empty_directory_has_nothing_to_explain() -> None:
    explained = drawn(a_log(), EXPIRING).explained()
    assert (explained.segments, explained.blockers, explained.next_change) == ((), (), None)


def test_words() -> None:
    assert [size(n) for n in (0, 1, 1023, 1024, 1 << 20, (1 << 20) - 1, 5 << 60)] == [
        "0 bytes", "1 byte", "1,023 bytes", "1.0 KiB", "1.0 MiB", "1.0 MiB", "5.0 EiB",
    ]  # fmt: skip
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(1200, "batch", "batches") == "1,200 batches"


@pytest.mark.parametrize(
    ("segment_ms", "sooner"), [(7 * DAY_MS, f"{DAY_MS} (1d)"), (DAY_MS, f"{HOUR_MS} (1h)"), (600, "300 (300ms)")]
)
def test_a_shorter_limit_is_told_as_a_command_with_a_value(segment_ms: int, sooner: str) -> None:
    log = a_log("orders-0").segments(10, newest_ms=NOW_MS - DAY_MS)
    policy = a_policy("compact", segment_ms=segment_ms)
    found = the(BlockerCode.ACTIVE_SEGMENT, log, policy, active=ActiveUse(NOW_MS))
    assert (
        "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name orders"
        in found.remedy
    )
    assert f"--add-config segment.ms={sooner}." in found.remedy


@given(partitions("delete", "compact", "compact,delete"))
@settings(deadline=None)
def test_an_explanation_in_brief_has_the_blockers_that_are_findings(found: Drawn) -> None:
    request = Request(NOW_MS)
    whole, planned = found.explained(), plan_partition(found.facts, found.policy, request)
    brief = in_brief(planned, found.seen, request, BrokerPolicy())
    asked = {BlockerCode.CLEANER_BEHIND}
    if any(times.newest_ms > NOW_MS for times in found.seen.times):
        asked.add(BlockerCode.FUTURE_TIMESTAMP)
    assert brief.blockers == tuple(one for one in whole.blockers if one.code in asked)
    assert (brief.planned, brief.intended) == (whole.planned, whole.intended)


@given(partitions("delete", "compact", "compact,delete"))
@settings(deadline=None)
def test_what_retention_says_of_a_segment_is_the_same_by_the_plan_and_asked_anew(found: Drawn) -> None:
    verdicts = retention(found.facts, found.policy, NOW_MS).verdicts
    for fate, verdict in zip(found.explained().segments, verdicts, strict=True):
        assert fate.retention == verdict.reason
