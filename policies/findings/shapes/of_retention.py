"""Tell what retention leaves: records from the future, and Kafka's own topics that only grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.explain.blockers import BlockerCode
from policies.explain.explanation import PartitionExplanation
from policies.explain.words import counted, size
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.shapes.symptoms import PartitionSymptoms
from policies.preflight.facts import NEWEST
from policies.reasons import duration, moment

SHARE_GROUP_STATE: Final = "__share_group_state"
PRUNED_WITHIN_MS: Final = 86_400_000
"""A broker prunes every few minutes; what is a day old was not pruned."""
SKEW_MS: Final = 3_600_000
"""A clock that is ahead by less holds nothing for long: Kafka's default of ``message.timestamp.after.max.ms``."""
_BY_VERSION: Final = f"No release takes the file time instead, up to Kafka {NEWEST}"


def retention_findings(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    """Yield the records from the future that retention waits for, and share group state that nobody prunes."""
    explained = seen.explained
    if explained is None:
        return
    yield from _future(seen, explained, now_ms)
    facts = explained.planned.facts
    closed = facts.segments[:-1]
    if seen.topic_partition.topic == SHARE_GROUP_STATE and closed:
        oldest_ms = closed[0].largest_timestamp_ms
        alive_ms = now_ms if seen.is_live else min(facts.active.mtime_ms, now_ms)
        if alive_ms - oldest_ms > PRUNED_WITHIN_MS:
            text = (
                f"The broker keeps the state of share groups here, and prunes what is redundant every few minutes; but "
                f"{counted(len(closed), 'closed segment')} ({size(facts.size_bytes)}) reach back to "
                f"{moment(oldest_ms)}."
            )
            remedy = (
                "Look for a share group that nobody uses any more, and delete it: its oldest record holds the rest."
            )
            yield Finding(FindingCode.SHARE_STATE_GROWS, Harm.WASTE, seen.path, text, remedy, None, None, "KAFKA-18058")


def _future(seen: PartitionSymptoms, explained: PartitionExplanation, now_ms: int) -> Iterator[Finding]:
    if max((fate.times.newest_ms for fate in explained.segments), default=0) <= now_ms + SKEW_MS:
        return
    blocker = next((b for b in explained.blockers if b.code is BlockerCode.FUTURE_TIMESTAMP), None)
    policy = explained.planned.policy
    if blocker is not None:
        text, remedy, base = blocker.text, f"{blocker.remedy} {_BY_VERSION}.", blocker.first_base_offset
    elif policy.remote_storage_enable:
        first = next((fate for fate in explained.segments if fate.times.newest_ms > now_ms), None)
        if first is None:
            return
        base = first.facts.base_offset
        ahead = duration(first.times.newest_ms - now_ms)
        text = (
            f"A record of segment {base} has the timestamp {moment(first.times.newest_ms)}, {ahead} ahead of the "
            f"clock: until then local retention by time does not take the segment, nor those behind it."
        )
        remedy = f"local.retention.bytes takes it by size. {_BY_VERSION}."
    else:
        return
    yield Finding(FindingCode.FUTURE_TIMESTAMP, Harm.WASTE, seen.path, text, remedy, None, base, "KAFKA-20609")
