"""Tell what compaction leaves undone: a dead cleaner, a missed deadline, empty batches, records without a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.compaction import Cleanable, cause
from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.words import counted, size
from policies.facts import PartitionFacts
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.shapes.symptoms import PartitionSymptoms
from policies.plan import PartitionPlan
from policies.reasons import duration

EMPTY_BATCHES_MIN: Final = 100
"""Fewer empty batches are what idempotent producers leave."""
MISSED_MS: Final = 600_000
"""The time that a cleaner may take beyond ``max.compaction.lag.ms``: it looks every 15 s, and a round takes its time.
"""


def compaction_findings(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    """Yield what compaction leaves undone."""
    explained = seen.explained
    if explained is None:
        return
    missed = list(_lag_missed(seen, explained.intended, now_ms))
    yield from missed
    behind = next((b for b in explained.blockers if b.code is BlockerCode.CLEANER_BEHIND), None)
    if behind is not None and not missed:
        yield _behind(seen, behind)
    if explained.intended.policy.cleanup_compact:
        yield from _empty_batches(seen)
        yield from _unkeyed(seen)


def _lag_missed(seen: PartitionSymptoms, planned: PartitionPlan, now_ms: int) -> Iterator[Finding]:
    """Yield that a record is dirty for longer than ``max.compaction.lag.ms`` allows, although somebody could clean."""
    section = planned.section
    if section is None or not section.dirty_bytes:
        return
    facts, policy = planned.facts, planned.policy
    limit = cause(facts, policy, section, now_ms)
    if limit is None or limit.key != "max.compaction.lag.ms":
        return
    alive_ms = now_ms if seen.is_live else min(facts.active.mtime_ms, now_ms)
    late_ms = int(limit.actual or 0) - (now_ms - alive_ms) - policy.max_compaction_lag_ms
    if late_ms <= MISSED_MS:
        return
    text = (
        f"The oldest record that was never compacted is {duration(int(limit.actual or 0))} old, and "
        f"{limit.stated.sentence} is the longest that it may wait: what must be erased by a deadline is still here."
    )
    remedy = f"clean --topic {seen.topic_partition} compacts it now; log-cleaner.log says why the broker did not."
    offset = _first_dirty(facts, section)
    yield Finding(FindingCode.LAG_MISSED, Harm.WASTE, seen.path, text, remedy, None, offset, "KAFKA-7321")


def _first_dirty(facts: PartitionFacts, section: Cleanable) -> int:
    return max(section.first_dirty_offset, facts.log_start_offset)


def _behind(seen: PartitionSymptoms, blocker: Blocker) -> Finding:
    return Finding(
        FindingCode.CLEANER_BEHIND, Harm.WASTE, seen.path, blocker.text, blocker.remedy, None, blocker.first_base_offset
    )


def _empty_batches(seen: PartitionSymptoms) -> Iterator[Finding]:
    walked = seen.walked
    if walked.empty_batches < EMPTY_BATCHES_MIN or 2 * walked.empty_batches < walked.batches:
        return
    batches = counted(walked.empty_batches, "batch", "batches")
    text = (
        f"{batches} of {walked.batches:,} ({size(walked.empty_bytes)}) hold no record: compaction left them, and "
        f"readers step over each of them."
    )
    remedy = "Kafka 4.4 leaves no more of them; clean takes those that no producer and no high watermark needs."
    yield Finding(FindingCode.EMPTY_BATCHES, Harm.WASTE, seen.path, text, remedy, None, None, "KAFKA-20452")


def _unkeyed(seen: PartitionSymptoms) -> Iterator[Finding]:
    unkeyed = [glance for glance in seen.glances if glance.is_first_unkeyed]
    if not unkeyed:
        return
    first = unkeyed[0]
    text = (
        f"The topic is compacted, and holds records without a key, the first found at offset {first.first_offset}: the "
        f"next round drops every one of them."
    )
    remedy = "With cleanup.policy=delete the topic keeps them. Set that, if they are wanted, before a cleaner comes by."
    yield Finding(FindingCode.UNKEYED_RECORDS, Harm.NOTE, seen.path, text, remedy, None, first.first_offset)
