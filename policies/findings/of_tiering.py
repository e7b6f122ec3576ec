"""Tell what tiering leaves behind, and where ``__remote_log_metadata`` does not add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from policies.config.policy import TopicPolicy
from policies.facts import SegmentFacts
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.symptoms import EntryKind, LogDirSymptoms, PartitionSymptoms, RemoteMetadata
from policies.reasons import counted, duration, moment, size

LATE_MS: Final = 3_600_000
"""An upload, or a local deletion, that is due for longer is late."""
COPY_STARTED: Final = "COPY_SEGMENT_STARTED"
COPY_FINISHED: Final = "COPY_SEGMENT_FINISHED"
DELETE_STARTED: Final = "DELETE_SEGMENT_STARTED"
UNKNOWN_START: Final = "unknown"
_WITHOUT_A_LIMIT: Final = -1
_AS_RETENTION: Final = -2


def tiering_findings(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    """Yield the residues of a tiered partition, and that it was compacted before."""
    explained = seen.explained
    if explained is None or not explained.planned.policy.remote_storage_enable:
        return
    planned = explained.planned
    facts = planned.facts
    if seen.claims.noted.first_dirty is not None or seen.walked.gaps:
        text = (
            "The topic is tiered, and was compacted before: its segments have gaps, which go to remote storage as they "
            "are. Kafka 3.6 finds no batch for an offset within such a gap, and a consumer there gets no further."
        )
        remedy = "Run Kafka 3.8 or later; where that cannot be, have consumers seek past the gap."
        offset = seen.claims.noted.first_dirty
        yield Finding(FindingCode.COMPACTED_NOW_TIERED, Harm.NOTE, seen.path, text, remedy, None, offset, "KAFKA-15388")
    yield from _residue(seen, planned.policy, facts.segments, now_ms)
    if (
        facts.segments
        and facts.segments[0].base_offset > 0
        and not seen.epochs.entries
        and seen.claims.newest_snapshot is None
    ):
        base = facts.segments[0].base_offset
        text = (
            f"The replica begins at offset {base}, without the leader epochs and the producer snapshot that it takes "
            f"from remote storage: building them failed, and the replica tries again and again."
        )
        remedy = "Look for 'aux' state in server.log; Kafka 3.8 and later begin such a log where remote storage does."
        yield Finding(FindingCode.TIERED_RESIDUE, Harm.WASTE, seen.path, text, remedy, None, base, "KAFKA-16890")


def _residue(
    seen: PartitionSymptoms, policy: TopicPolicy, segments: tuple[SegmentFacts, ...], now_ms: int
) -> Iterator[Finding]:
    """Yield closed segments that local retention should have taken for long."""
    limit_ms = policy.retention_ms if policy.local_retention_ms == _AS_RETENTION else policy.local_retention_ms
    if limit_ms <= _WITHOUT_A_LIMIT or not segments:
        return
    alive_ms = now_ms if seen.is_live else min(segments[-1].mtime_ms, now_ms)
    late = [s for s in segments[:-1] if 0 <= s.largest_timestamp_ms < alive_ms - limit_ms - LATE_MS]
    if not late:
        return
    key = "retention.ms" if policy.local_retention_ms == _AS_RETENTION else "local.retention.ms"
    text = (
        f"{counted(len(late), 'closed segment')} ({size(sum(s.size_bytes for s in late))}), the oldest of "
        f"{moment(late[0].largest_timestamp_ms)}, should have left this disk by {policy.value_of(key).sentence}: they "
        f"were never uploaded, or are a residue that this replica forgot."
    )
    remedy = "If the leader's uploads work (RemoteCopyLagSegments), restart this broker: it then deletes a residue."
    base = late[0].base_offset
    yield Finding(FindingCode.TIERED_RESIDUE, Harm.WASTE, seen.path, text, remedy, None, base, "KAFKA-17020")


def index_cache_findings(log_dir: LogDirSymptoms) -> Iterator[Finding]:
    """Yield the cache of remote indexes where no topic is tiered any more."""
    if not log_dir.tiered_topics or any(log_dir.tiered_topics.values()):
        return
    for entry in log_dir.entries:
        if entry.kind is EntryKind.INDEX_CACHE and entry.size_bytes:
            held = size(entry.size_bytes)
            text = f"No topic here is tiered any more, and the cache of remote indexes still holds {held}."
            remedy = (
                "With remote.log.storage.system.enable=false on this broker, remove it while the broker is stopped."
            )
            yield Finding(FindingCode.TIERED_RESIDUE, Harm.WASTE, entry.path, text, remedy, None, None, "KAFKA-17020")


def remote_metadata_findings(remote: RemoteMetadata, now_ms: int) -> Iterator[Finding]:
    """Yield the segments in remote storage whose events do not add up, one finding a kind."""
    old = [copy for copy in remote.copies if now_ms - copy.since_ms > LATE_MS]
    kinds = Counter(copy.state for copy in old)
    for state, (what, remedy, issue) in _REMOTE.items():
        if kinds[state]:
            first = min((copy for copy in old if copy.state == state), key=lambda copy: copy.since_ms)
            text = (
                f"{counted(kinds[state], 'remote segment')} of {remote.segments:,} {what}, the first "
                f"{duration(max(now_ms - first.since_ms, 0))} ago, of {first.topic_partition}."
            )
            yield Finding(FindingCode.REMOTE_METADATA, Harm.WASTE, remote.path, text, remedy, None, None, issue)


_REMOTE: Final = {
    COPY_STARTED: (
        "began to be uploaded and never were, nor deleted",
        "Kafka before 3.8.1 and 3.9 counts their bytes for retention.bytes, and deletes others too early: update it.",
        "KAFKA-17062",
    ),
    DELETE_STARTED: (
        "began to be deleted and never were",
        "They may still take space in remote storage: kafka-delete-records.sh past them makes the broker try again.",
        "KAFKA-16511",
    ),
    UNKNOWN_START: (
        "have events without the first one, which says what they hold",
        "Retention of __remote_log_metadata must be longer than that of every tiered topic: set its retention.ms=-1.",
        "KAFKA-15632",
    ),
}
