"""Where a log starts after ``delete-records``, and what it refuses: stories over drawn facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts
from policies.plan import LogDirPlan, PartitionPlan
from policies.reasons import Reason, ReasonCode
from policies.record_deletion import HIGH_WATERMARK, DeletionRefusal, RecordDeletion, RefusedDeletion, record_deletion
from storage.names import FileIdentity, TopicPartition
from tests.partition_dirs import configured

CLICKS = TopicPartition("clicks", 0)
DELETED, COMPACTED = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}


def policy(**config: str) -> TopicPolicy:
    return configured(clicks={key.replace("_", "."): value for key, value in config.items()}).policy_for("clicks")


def facts(**others: object) -> PartitionFacts:
    """Segments of ten offsets from 0 on; the log ends at 40, and is committed up to 35."""
    segments = tuple(SegmentFacts(base, 100, 8, 4, 4, 0, 0, FileIdentity(1, base, 100, 0)) for base in range(0, 40, 10))
    return replace(PartitionFacts(CLICKS, "/data", segments, 0, 40, 35), **others)  # type: ignore[arg-type]


def decided(
    offset: int | None,
    given: PartitionFacts | None = None,
    config: TopicPolicy | None = None,
    guard: Reason | None = None,
) -> RecordDeletion | RefusedDeletion:
    planned = PartitionPlan(given or facts(), config or policy(cleanup_policy="delete"), ())
    log_dir = LogDirPlan(LogDirFacts("/data", None, 0, 0, ()), (planned,), guard)
    return record_deletion(log_dir, planned, offset)


@pytest.mark.parametrize(
    ("story", "offset", "given", "start", "gone", "line"),
    [
        ("within the first segment", 5, facts(), 5, [], 5),
        ("a segment lies below", 15, facts(), 15, [0], 15),
        ("the start of a segment needs no line", 20, facts(), 20, [0, 10], None),
        ("up to the high watermark", HIGH_WATERMARK, facts(), 35, [0, 10, 20], 35),
        ("the active segment stays, though all of it goes", 40, facts(high_watermark=40), 40, [0, 10, 20], 40),
        ("the log starts later already", 5, facts(log_start_offset=7), 7, [], 7),
        ("the log starts there, and a crash left the segments below", 25, facts(log_start_offset=25), 25, [0, 10], 25),
        ("no high watermark, and nothing moves", 0, facts(high_watermark=None), 0, [], None),
    ],
)
def test_log_starts_there_and_segments_wholly_below_go(story, offset, given, start, gone, line) -> None:
    found = decided(offset, given)
    assert isinstance(found, RecordDeletion), story
    bases = [segment.base_offset for segment in found.deletion.segments]
    assert (found.log_start_offset, bases, found.checkpoint_after) == (start, gone, line), story
    assert found.deletion.roll_at_offset is None
    assert found.has_work is (start > given.log_start_offset or bool(gone))
    assert {verdict.reason.code for verdict in found.deletion.verdicts} <= {ReasonCode.LOG_START_OFFSET}


@pytest.mark.parametrize(
    ("code", "offset", "given", "config"),
    [
        (DeletionRefusal.OFFSET_OUT_OF_RANGE, 36, facts(), None),
        (DeletionRefusal.OFFSET_OUT_OF_RANGE, -2, facts(), None),
        (DeletionRefusal.NO_RECORD_AT_TIME, None, facts(), None),
        (ReasonCode.NO_HIGH_WATERMARK, 1, facts(high_watermark=None), None),
        (ReasonCode.NO_HIGH_WATERMARK, HIGH_WATERMARK, facts(high_watermark=None), None),
        (DeletionRefusal.POLICY_VIOLATION, 1, facts(), policy(cleanup_policy="compact")),
        (ReasonCode.REMOTE_STORAGE, 1, facts(), policy(cleanup_policy="delete", remote_storage_enable="true")),
        (ReasonCode.HELD, 1, facts(held_since_ms=7), None),
        (ReasonCode.CONFIG_UNKNOWN, 1, facts(), configured().policy_for("clicks")),
        (DeletionRefusal.INVALID_TOPIC, 0, facts(topic_partition=TopicPartition("__consumer_offsets", 3)), None),
    ],
)
def test_refused_where_a_broker_refuses_or_nobody_knows(code, offset, given, config) -> None:
    found = decided(offset, given, config)
    assert isinstance(found, RefusedDeletion)
    assert (found.code, found.is_about_the_offset) == (
        code,
        code in (DeletionRefusal.OFFSET_OUT_OF_RANGE, "NO_RECORD_AT_TIME"),
    )


def test_every_refusal_of_its_own_occurs() -> None:
    marks = test_refused_where_a_broker_refuses_or_nobody_knows.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} >= set(DeletionRefusal)


def test_topic_that_is_compacted_too_may_lose_its_oldest_records() -> None:
    assert isinstance(decided(5, config=policy(cleanup_policy="compact,delete")), RecordDeletion)


def test_guard_rail_of_the_log_dir_holds_it_back() -> None:
    found = decided(5, guard=Reason(ReasonCode.FOREIGN_CONFIG, "of another node"))
    assert isinstance(found, RefusedDeletion)
    assert found == (ReasonCode.FOREIGN_CONFIG, "of another node")
