"""Facts and configuration in; one verdict for every segment out, and the actions that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, UnreadablePartition
from policies.plan import Only, PartitionPlan, Plan, Request, path_of
from policies.planning import assume_committed, plan, plan_partition
from policies.reasons import Action
from storage.names import TopicPartition
from tests.builders import NOW_MS, LogBuilder, a_log, a_policy

NOW = Request(NOW_MS)
ONLY_RETENTION = Request(NOW_MS, only=Only.RETENTION)
ONLY_COMPACTION = Request(NOW_MS, only=Only.COMPACTION)


def planned(log: LogBuilder, policy: TopicPolicy, request: Request = NOW) -> PartitionPlan:
    return plan_partition(log.facts(), policy, request)


def verdicts(planned: PartitionPlan) -> list[str]:
    return [f"{v.action} {v.reason.code}" for v in planned.verdicts]


def old(segments: int) -> LogBuilder:
    """Expired segments of 50 bytes and 10 offsets, the last one active; all of it committed."""
    return a_log().segments(*[50] * segments, newest_ms=0)


def mixed(old_segments: int, fresh_segments: int) -> LogBuilder:
    return old(old_segments).segments(*[50] * fresh_segments)


EXPIRING = a_policy("delete", retention_ms=100)
COMPACT = a_policy("compact")
BOTH = a_policy("compact,delete", retention_ms=100)


# Retention


def test_a_deletion_moves_the_log_start_to_the_first_segment_left() -> None:
    found = planned(mixed(2, 1), EXPIRING)
    assert found.deletion is not None
    assert [s.base_offset for s in found.deletion.segments] == [0, 10]
    assert (found.deletion.new_log_start_offset, found.deletion.roll_at_offset) == (20, None)


def test_a_deletion_carries_the_verdict_on_each_of_its_segments() -> None:
    found = planned(mixed(2, 1), EXPIRING)
    assert found.deletion is not None
    assert [(segment.base_offset, verdict) for segment, verdict in found.deletion.decided] == [
        (0, found.verdicts[0]),
        (10, found.verdicts[1]),
    ]


def test_a_deletion_of_everything_rolls_at_the_log_end() -> None:
    found = planned(old(2).log_end(25), EXPIRING)
    assert found.deletion is not None
    assert (found.deletion.new_log_start_offset, found.deletion.roll_at_offset) == (25, 25)


def test_the_log_start_never_goes_back() -> None:
    found = planned(mixed(1, 1).log_start(15), a_policy("delete"))
    assert found.deletion is not None
    assert found.deletion.new_log_start_offset == 15


def test_the_bytes_of_a_deletion_count_logs_and_indexes() -> None:
    log = a_log().segment(bytes=100, companions_bytes=7, newest_ms=0).segment(bytes=50, companions_bytes=3)
    found = planned(log, EXPIRING)
    assert found.deletion is not None
    assert found.deletion.size_bytes == 107


def test_a_policy_without_compact_is_never_compacted() -> None:
    # Kafka LogCleanerManagerTest.testLogsWithSegmentsToDelete…: delete-only logs are not taken by the cleaner
    found = planned(mixed(0, 3).compacted_to(200), EXPIRING, Request(NOW_MS, force_compaction=True))
    assert (found.compaction, found.section, found.checkpoint_offset) == (None, None, None)
    assert not found.has_work


# Compaction


def test_a_dirty_log_is_compacted_and_each_segment_says_why() -> None:
    found = planned(a_log().segments(10, 10, 50, 50, 50).compacted_to(20).high_watermark(45), COMPACT)
    assert verdicts(found) == [
        "compact CLEAN_BEFORE",
        "compact CLEAN_BEFORE",
        "compact DIRTY",
        "compact DIRTY",
        "keep ACTIVE_SEGMENT",
    ]
    assert found.compaction is not None
    assert (found.compaction.round.first_dirty_offset, found.compaction.round.end_offset) == (20, 40)
    assert [s.base_offset for s in found.compaction.segments] == [0, 10, 20, 30]
    assert found.compaction.size_bytes == 120


def test_a_segment_that_straddles_the_first_dirty_offset_is_dirty() -> None:
    found = planned(a_log().segments(10, 10, 50, 50).compacted_to(15), COMPACT)
    assert verdicts(found)[:3] == ["compact CLEAN_BEFORE", "compact DIRTY", "compact DIRTY"]


@pytest.mark.parametrize(
    ("story", "log", "expected"),
    [
        (
            "segments above the stable offset",
            a_log().segments(50, 50, 50).last_stable(15),
            ["compact DIRTY", "keep OPEN_TRANSACTION", "keep OPEN_TRANSACTION"],
        ),
        (
            "segments above the high watermark",
            a_log().segments(50, 50, 50).high_watermark(15),
            ["compact DIRTY", "keep ABOVE_HIGH_WATERMARK", "keep ABOVE_HIGH_WATERMARK"],
        ),
        (
            "a low ratio, and what bounds the section above it",
            a_log().segments(90, 10, 50).compacted_to(10),
            ["keep DIRTY_RATIO_LOW", "keep DIRTY_RATIO_LOW", "keep ACTIVE_SEGMENT"],
        ),
        (
            "nothing dirty",
            a_log().segments(50, 50).compacted_to(10),
            ["keep NOTHING_DIRTY", "keep ACTIVE_SEGMENT"],
        ),
        ("no high watermark", a_log().segments(50, 50).high_watermark(None), ["keep NO_HIGH_WATERMARK"] * 2),
    ],
)
def test_what_stays_uncompacted_says_why(story: str, log: LogBuilder, expected: list[str]) -> None:
    assert verdicts(planned(log, COMPACT)) == expected, story


def test_force_compacts_a_log_of_low_ratio() -> None:
    log = a_log().segments(90, 10, 50).compacted_to(10)
    assert planned(log, COMPACT).compaction is None
    assert planned(log, COMPACT, Request(NOW_MS, force_compaction=True)).compaction is not None


def test_force_does_not_compact_what_retention_alone_was_asked_for() -> None:
    request = Request(NOW_MS, only=Only.RETENTION, force_compaction=True)
    assert planned(mixed(0, 3), COMPACT, request).compaction is None


@pytest.mark.parametrize(
    ("story", "log", "checkpoint"),
    [
        # Kafka LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNoCleaning, …NotSelected
        ("above the log end", a_log().segments(50).compacted_to(200), 0),
        ("below the log start", a_log().segments(50).log_start(5).compacted_to(0), 5),
        ("valid: none is written", a_log().segments(50).compacted_to(10), None),
        ("none there: none is written", a_log().segments(50), None),
    ],
)
def test_an_invalid_checkpoint_is_rewritten_even_if_nothing_is_compacted(
    story: str, log: LogBuilder, checkpoint: int | None
) -> None:
    found = planned(log, COMPACT)
    assert (found.checkpoint_offset, found.compaction) == (checkpoint, None), story
    assert found.has_work is (checkpoint is not None)


def test_a_round_writes_the_checkpoint_itself() -> None:
    found = planned(a_log().segments(50, 50).compacted_to(200), COMPACT)
    assert found.compaction is not None
    assert found.checkpoint_offset is None


# Compaction and retention


def test_both_delete_the_expired_and_compact_the_rest() -> None:
    # Kafka LogCleanerIntegrationTest.testCleansCombinedCompactAndDeleteTopic
    found = planned(mixed(1, 3), BOTH)
    assert verdicts(found) == ["delete RETENTION_TIME", "compact DIRTY", "compact DIRTY", "keep ACTIVE_SEGMENT"]
    assert found.compaction is not None
    assert [s.base_offset for s in found.compaction.segments] == [10, 20]
    assert found.compaction.round.first_dirty_offset == 10


def test_both_compact_nothing_where_everything_expired() -> None:
    found = planned(old(3), BOTH)
    assert verdicts(found) == ["delete RETENTION_TIME"] * 3
    assert (found.compaction, found.section) == (None, None)


def test_both_speak_of_retention_where_no_round_is_due() -> None:
    found = planned(mixed(0, 2).compacted_to(10), BOTH)
    assert verdicts(found) == ["keep TIME_NOT_REACHED"] * 2


def test_a_deletion_past_the_checkpoint_resets_it() -> None:
    found = planned(mixed(2, 1).compacted_to(10), BOTH)
    assert (found.checkpoint_offset, found.compaction) == (20, None)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EXPIRING, ["delete RETENTION_TIME", "keep TIME_NOT_REACHED", "keep TIME_NOT_REACHED"]),
        (COMPACT, ["keep NO_LIMIT"] * 3),
        (BOTH, ["delete RETENTION_TIME", "keep TIME_NOT_REACHED", "keep TIME_NOT_REACHED"]),
        (a_policy(""), ["keep POLICY_EMPTY"] * 3),
    ],
)
def test_only_retention_compacts_nothing(policy: TopicPolicy, expected: list[str]) -> None:
    found = planned(mixed(1, 2), policy, ONLY_RETENTION)
    assert verdicts(found) == expected
    assert found.compaction is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EXPIRING, ["keep NOT_ASKED"] * 3),
        (COMPACT, ["compact DIRTY", "compact DIRTY", "keep ACTIVE_SEGMENT"]),
        (BOTH, ["compact DIRTY", "compact DIRTY", "keep ACTIVE_SEGMENT"]),
        (a_policy(""), ["keep NOT_ASKED"] * 3),
    ],
)
def test_only_compaction_deletes_nothing(policy: TopicPolicy, expected: list[str]) -> None:
    found = planned(mixed(1, 2), policy, ONLY_COMPACTION)
    assert verdicts(found) == expected
    assert found.deletion is None


# What is left alone


def test_an_unknown_configuration_keeps_everything_and_says_why() -> None:
    because = "nobody stated its cleanup.policy; state it"
    policy = replace(a_policy("", retention_ms=0), unknown_because=because)
    found = planned(mixed(1, 1).log_start(10).compacted_to(200), policy)
    assert verdicts(found) == ["keep CONFIG_UNKNOWN"] * 2
    assert found.verdicts[0].reason.text == because
    assert found.config_is_unknown
    assert not found.has_work


@pytest.mark.parametrize("policy", [EXPIRING, COMPACT, BOTH])
@pytest.mark.parametrize("request_", [NOW, Request(NOW_MS, force_compaction=True)])
def test_a_hold_keeps_everything_and_says_how_it_ends(policy: TopicPolicy, request_: Request) -> None:
    held = LogBuilder(replace(mixed(2, 2).log_start(10).facts(), held_since_ms=NOW_MS))
    found = planned(held, policy, request_)
    assert verdicts(found) == ["keep HELD"] * 4
    text = "on hold since its restore at 2027-01-15T08:00:00Z, until logcleaner restore --release orders-0"
    assert found.verdicts[0].reason.text == text
    assert not found.has_work


@pytest.mark.parametrize("policy", [EXPIRING, COMPACT, BOTH])
def test_remote_storage_keeps_everything(policy: TopicPolicy) -> None:
    found = planned(old(2).log_start(10), replace(policy, remote_storage_enable=True))
    assert verdicts(found) == ["keep REMOTE_STORAGE"] * 2
    assert found.verdicts[0].reason.text == "remote storage is on: only the broker knows what was uploaded"
    assert not found.config_is_unknown
    assert not found.has_work


@pytest.mark.parametrize("policy", [EXPIRING, COMPACT, BOTH, a_policy("")])
@pytest.mark.parametrize("request_", [NOW, ONLY_RETENTION, ONLY_COMPACTION, Request(NOW_MS, force_compaction=True)])
def test_a_partition_without_segments_has_nothing_to_do(policy: TopicPolicy, request_: Request) -> None:
    found = planned(a_log(), policy, request_)
    assert found.verdicts == ()
    assert not found.has_work


# Without a checkpointed high watermark


def test_without_a_high_watermark_nothing_is_done() -> None:
    for policy in (EXPIRING, COMPACT, BOTH):
        found = planned(old(3).high_watermark(None), policy)
        assert set(verdicts(found)) == {"keep NO_HIGH_WATERMARK"}
        assert not found.has_work


def test_assumed_committed_a_copy_is_treated_as_committed_to_its_end() -> None:
    request = Request(NOW_MS, assume_committed=True)
    deletion = planned(old(2).high_watermark(None), EXPIRING, request).deletion
    assert deletion is not None
    assert deletion.roll_at_offset == 20
    assert planned(old(2).high_watermark(None), COMPACT, request).compaction is not None


def test_assumed_committed_open_transactions_stay_uncompacted() -> None:
    log = a_log().segments(50, 50, 50).high_watermark(None).last_stable(12)
    found = planned(log, COMPACT, Request(NOW_MS, assume_committed=True))
    assert verdicts(found) == ["compact DIRTY", "keep OPEN_TRANSACTION", "keep OPEN_TRANSACTION"]


def test_a_known_high_watermark_is_not_overridden() -> None:
    found = planned(old(2).high_watermark(5), EXPIRING, Request(NOW_MS, assume_committed=True))
    assert found.deletion is None
    assert found.facts.high_watermark == 5


def test_assume_committed_takes_the_log_end() -> None:
    assumed = assume_committed(old(2).high_watermark(None).facts())
    assert (assumed.high_watermark, assumed.last_stable_offset) == (20, 20)


# A whole run


def a_log_dir(*partitions: PartitionFacts | UnreadablePartition) -> LogDirFacts:
    return LogDirFacts("/data", None, 0, 0, partitions)


def a_run(*partitions: PartitionFacts | UnreadablePartition, policy: TopicPolicy = EXPIRING) -> Plan:
    return plan([a_log_dir(*partitions)], lambda _: policy, NOW)


BROKEN = UnreadablePartition(TopicPartition("orders", 3), "/data", "unreadable", 7)


def test_partitions_are_sorted_by_topic_and_number() -> None:
    names = ["orders-10", "orders-2", "clicks-0", "orders-1"]
    found = a_run(*(a_log(name).segments(50).facts() for name in names), BROKEN)
    listed = [p if isinstance(p, UnreadablePartition) else p.facts for p in found.log_dirs[0].partitions]
    assert [str(p.topic_partition) for p in listed] == ["clicks-0", "orders-1", "orders-2", "orders-3", "orders-10"]


def test_an_unreadable_partition_is_told_and_stops_nobody() -> None:
    found = a_run(BROKEN, a_log("orders-4").segments(50, newest_ms=0).facts())
    assert found.failures == (BROKEN,)
    assert [p.has_work for p in found.partitions] == [True]
    assert found.has_work


def test_a_run_without_work_says_so() -> None:
    assert not a_run(a_log().segments(50).facts()).has_work
    assert not a_run(BROKEN).has_work


def test_each_partition_has_the_policy_of_its_topic() -> None:
    policies = {"clicks": EXPIRING, "orders": COMPACT}
    partitions = [a_log(name).segments(50, 50, newest_ms=0).facts() for name in ("clicks-0", "orders-0")]
    found = plan([a_log_dir(*partitions)], lambda facts: policies[facts.topic_partition.topic], NOW)
    assert [p.verdicts[0].action for p in found.partitions] == [Action.DELETE, Action.COMPACT]


def test_the_same_facts_give_the_same_plan() -> None:
    facts = mixed(2, 2).facts()
    assert a_run(facts, policy=BOTH) == a_run(facts, policy=BOTH)


def test_a_partition_lies_in_its_log_dir() -> None:
    assert path_of(a_log("orders-7").facts()) == "/data/orders-7"
