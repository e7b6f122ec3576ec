"""Plans of hand-built facts, made by the real policies, and what became of them."""

from __future__ import annotations

from dataclasses import replace

from cleaner.engine.outcome import Basis, Outcome, PartitionResult
from cleaner.engine.space import DiskFigures
from policies import Plan, Request, plan
from policies.config.policy import TopicPolicy
from policies.facts import LogDirFacts, PartitionFacts, SegmentFacts, UnreadablePartition
from storage.names import FileIdentity, TopicPartition

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
MIB = 1 << 20

POLICIES = {
    "clicks": TopicPolicy(topic="clicks", cleanup_policy="delete", retention_ms=3 * DAY_MS),
    "orders": TopicPolicy(topic="orders", cleanup_policy="compact"),
    "copied": TopicPolicy(topic="copied", unknown_because="nobody stated its cleanup.policy; state it"),
    "guarded": TopicPolicy(topic="guarded", cleanup_policy="delete", retention_ms=3 * DAY_MS, max_delete_ratio=0.5),
    "empty": TopicPolicy(topic="empty", cleanup_policy="compact"),
}


def a_partition(name: str, *ages_days: float, cleaned: int | None = None) -> PartitionFacts:
    """Segments of 100 records and 1 MiB, with 4 KiB of index files; the newest record of each is so old."""
    topic, _, partition = name.rpartition("-")
    segments = tuple(_segment(100 * place, age) for place, age in enumerate(ages_days))
    end = 100 * len(segments)
    return PartitionFacts(TopicPartition(topic, int(partition)), "/data", segments, 0, end, end, end, cleaned)


def an_empty_partition(name: str) -> PartitionFacts:
    """One empty active segment."""
    facts = a_partition(name, 0)
    return replace(facts, segments=(facts.segments[0]._replace(size_bytes=0),), log_end_offset=0)


def unreadable(name: str, error: str) -> UnreadablePartition:
    """A partition that could not be read."""
    topic, _, partition = name.rpartition("-")
    return UnreadablePartition(TopicPartition(topic, int(partition)), "/data", error, 5 * MIB, 5 * MIB)


def a_plan(
    *partitions: PartitionFacts | UnreadablePartition,
    locked_by: str | None = None,
    errors: tuple[str, ...] = (),
) -> Plan:
    """The plan of one log dir with these partitions."""
    facts = LogDirFacts("/data", locked_by, 1 << 34, 100 * MIB, partitions, errors, disk_bytes=100 * MIB)
    return plan([facts], lambda facts: POLICIES[facts.topic_partition.topic], Request(NOW_MS))


def a_dry_run(planned: Plan) -> Outcome:
    """What a run would do; a compaction is estimated to halve its input."""
    results = {}
    for p in planned.partitions:
        if p.has_work:
            result = PartitionResult(Basis.EXACT)
            if p.deletion:
                result = result.with_deletion(p.deletion, at_once=False)
            if p.compaction:
                size_bytes = p.compaction.size_bytes
                result = replace(
                    result,
                    basis=Basis.ESTIMATE,
                    compacted_from_bytes=size_bytes,
                    compacted_to_bytes=size_bytes // 2,
                    space=result.space.plus(DiskFigures(size_bytes, added_disk_bytes=size_bytes // 2)),
                )
            results[p.facts.log_dir, p.facts.topic_partition] = result
    return Outcome(True, results, seconds=0.25)


def a_run(planned: Plan) -> Outcome:
    """The same, done: half of the records stay."""
    results = {
        key: replace(
            result,
            basis=Basis.DONE,
            records_read=2000 if result.compacted_from_bytes else 0,
            records_kept=1000 if result.compacted_from_bytes else 0,
        )
        for key, result in a_dry_run(planned).results.items()
    }
    return Outcome(False, results, seconds=0.25)


def _segment(base_offset: int, age_days: float) -> SegmentFacts:
    newest_ms = NOW_MS - round(age_days * DAY_MS)
    identity = FileIdentity(1, base_offset, MIB, newest_ms * 1_000_000)
    return SegmentFacts(base_offset, MIB, 4096, 2048, 2048, newest_ms, newest_ms, identity, disk_bytes=MIB + 4096)
