"""Decide the effect of ``delete-records`` on a partition: the new log start, the segments that go, or the refusal.

Kafka's DeleteRecords only raises the log start offset. The segments wholly below it go with the next retention,
whatever the limits are; the active segment stays. Here both happen in one run.

Source: Kafka ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader,
UnifiedLog.maybeIncrementLogStartOffset, UnifiedLog.deleteLogStartOffsetBreachedSegments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from policies.config.policy import TopicPolicy
from policies.facts import PartitionFacts
from policies.plan import Deletion, LogDirPlan, PartitionPlan
from policies.planning import exemption
from policies.reasons import Action, ReasonCode, Verdict
from policies.retention import below_log_start
from storage.names import INTERNAL_TOPICS, FileIdentity

HIGH_WATERMARK: Final = -1
"""The offset by which DeleteRecords means the high watermark. Source: Kafka DeleteRecordsRequest.HIGH_WATERMARK."""


class DeletionRefusal(StrEnum):
    """The closed list of refusals of ``delete-records`` alone (docs/delete-records.md). A broker refuses the same."""

    INVALID_TOPIC = "INVALID_TOPIC"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    NO_RECORD_AT_TIME = "NO_RECORD_AT_TIME"


class RefusedDeletion(NamedTuple):
    """The reason why no record is deleted."""

    code: DeletionRefusal | ReasonCode
    text: str

    @property
    def is_about_the_offset(self) -> bool:
        """True if another offset, or another time, could be accepted."""
        return self.code in (DeletionRefusal.OFFSET_OUT_OF_RANGE, DeletionRefusal.NO_RECORD_AT_TIME)


class Before(NamedTuple):
    """The records to delete: those below an offset, or those in front of the first record with a time or a
    later one.
    """

    offset: int | None = None
    """An offset, or ``HIGH_WATERMARK``; None if a time was asked for."""
    time_ms: int | None = None
    """Epoch ms."""


@dataclass(frozen=True, slots=True)
class RecordDeletion:
    """The decision on one partition: where its log then starts, and which segments go."""

    facts: PartitionFacts
    """The facts before the deletion."""
    policy: TopicPolicy
    deletion: Deletion
    """The segments that go; it may be none. ``new_log_start_offset`` is where the log then starts."""

    @property
    def log_start_offset(self) -> int:
        """The log start offset after the deletion."""
        return self.deletion.new_log_start_offset

    @property
    def moves_the_start(self) -> bool:
        """True if records become unreadable."""
        return self.log_start_offset > self.facts.log_start_offset

    @property
    def has_work(self) -> bool:
        """True if the deletion would change anything."""
        return self.moves_the_start or bool(self.deletion.segments)

    @property
    def first_base_left(self) -> int:
        """The base offset of the first segment that stays."""
        return self.facts.segments[len(self.deletion.segments)].base_offset

    @property
    def checkpoint_after(self) -> int | None:
        """The line of ``log-start-offset-checkpoint`` after the deletion; None for no line. Source: Kafka
        LogManager.
        """
        return self.log_start_offset if self.log_start_offset > self.first_base_left else None


def record_deletion(
    log_dir: LogDirPlan, planned: PartitionPlan, offset: int | None
) -> RecordDeletion | RefusedDeletion:
    """Decide on one partition, as a broker that leads it would.

    Args:
        log_dir: the plan of its log dir, for the guard rails of the whole log dir.
        planned: the partition with its facts and its configuration; the rest of the plan does not matter.
        offset: the wanted log start; or ``HIGH_WATERMARK``; or None if no record has the wanted time.
    """
    facts, policy = planned.facts, planned.policy
    refused = _refused_topic(log_dir, facts, policy) or _refused_offset(facts, offset)
    if refused is not None:
        return refused
    wanted = facts.high_watermark if offset == HIGH_WATERMARK else offset
    assert wanted is not None
    return RecordDeletion(facts, policy, _deletion(facts, max(wanted, facts.log_start_offset)))


def _refused_topic(log_dir: LogDirPlan, facts: PartitionFacts, policy: TopicPolicy) -> RefusedDeletion | None:
    """Return why no record of the topic is deleted, wherever it lies; None if records may be."""
    topic = facts.topic_partition.topic
    if topic in INTERNAL_TOPICS:
        text = f"{topic} is a topic of Kafka's own, of which a broker deletes no records"
        return RefusedDeletion(DeletionRefusal.INVALID_TOPIC, text)
    if reason := log_dir.guard or exemption(facts, policy):
        return RefusedDeletion(reason.code, reason.text)
    if policy.cleanup_compact and not policy.cleanup_delete:
        stated = policy.value_of("cleanup.policy").sentence
        text = f"{stated}: a broker deletes no records of a topic that is only compacted"
        return RefusedDeletion(DeletionRefusal.POLICY_VIOLATION, text)
    return None


def _refused_offset(facts: PartitionFacts, offset: int | None) -> RefusedDeletion | None:
    """Return why the log cannot start at an offset; None if it can. An offset below the present start does nothing."""
    watermark = facts.high_watermark
    if offset is None:
        text = f"no committed record has this time, or a later one; the log ends at offset {facts.log_end_offset}"
        return RefusedDeletion(DeletionRefusal.NO_RECORD_AT_TIME, text)
    if offset < HIGH_WATERMARK:
        return RefusedDeletion(DeletionRefusal.OFFSET_OUT_OF_RANGE, f"{offset} is no offset")
    if watermark is None and (offset == HIGH_WATERMARK or offset > facts.log_start_offset):
        text = "no high watermark was checkpointed, so nothing is known to be committed; start the broker and stop it"
        return RefusedDeletion(ReasonCode.NO_HIGH_WATERMARK, text)
    if watermark is not None and offset > watermark:
        text = f"offset {offset} lies above the high watermark {watermark}: what lies there may not be committed"
        return RefusedDeletion(DeletionRefusal.OFFSET_OUT_OF_RANGE, text)
    return None


def _deletion(facts: PartitionFacts, log_start_offset: int) -> Deletion:
    reasons = below_log_start(replace(facts, log_start_offset=log_start_offset))
    segments = facts.segments[: len(reasons)]
    verdicts = (Verdict(s.base_offset, s.size_bytes, Action.DELETE, r) for s, r in zip(segments, reasons, strict=True))
    return Deletion(segments, tuple(verdicts), log_start_offset, None)


def changed_since(asked: RecordDeletion, now: RecordDeletion) -> str | None:
    """Return what changed since a person was asked about a deletion; None if nothing that was shown changed.

    Every segment counts, also a segment that stays, because another file may have its name now.
    """
    before, after = asked.facts, now.facts
    if before.log_dir != after.log_dir:
        return f"it lies in {after.log_dir} now"
    if before.log_start_offset != after.log_start_offset:
        return f"the log now starts at offset {after.log_start_offset}, and not at {before.log_start_offset}"
    if asked.log_start_offset != now.log_start_offset:
        return f"it would now delete up to offset {now.log_start_offset}, and not up to {asked.log_start_offset}"
    found = {segment.base_offset: segment.identity for segment in after.segments}
    for segment in before.segments:
        identity = found.pop(segment.base_offset, None)
        if identity is None:
            return f"segment {segment.base_offset} is gone"
        if identity != segment.identity:
            return f"segment {segment.base_offset} {_difference(segment.identity, identity)}"
    return f"segment {min(found)} is new" if found else None


def _difference(before: FileIdentity, after: FileIdentity) -> str:
    if (before.device, before.inode) != (after.device, after.inode):
        return "is another file"
    if before.size_bytes != after.size_bytes:
        return f"has {after.size_bytes:,} bytes, and had {before.size_bytes:,}"
    return "was written to"


def restorable_until(deleted: RecordDeletion, now_ms: int) -> int:
    """Return until when ``restore`` takes the deletion back, epoch ms: its files wait for ``file.delete.delay.ms``."""
    return now_ms + deleted.policy.file_delete_delay_ms
