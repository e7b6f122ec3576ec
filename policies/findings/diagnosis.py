"""Put the findings of a log dir together, worst first. Pure: symptoms go in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from policies.compaction import Cleanable, cause
from policies.explain.blockers import Blocker, BlockerCode, aborting, hangs
from policies.explain.explanation import PartitionExplanation
from policies.facts import PartitionFacts
from policies.findings.findings import UNOWNED, WORST_ADVICE, Finding, FindingCode, Harm, worst_first
from policies.findings.of_history import transaction_findings
from policies.findings.of_log_dir import (
    BY_METADATA,
    checkpoint_findings,
    copy_findings,
    log_dir_name_findings,
    lost_finding,
    meta_findings,
    offset_findings,
    partition_name_findings,
    set_aside_finding,
    topic_id_finding,
    twice_findings,
    unread_topic_id_finding,
)
from policies.findings.of_partition import epoch_findings, file_findings
from policies.findings.of_tiering import index_cache_findings, remote_metadata_findings, tiering_findings
from policies.findings.ruled_out import grouped
from policies.findings.symptoms import (
    NOTHING_TIERED,
    DamagedMetadata,
    EntryKind,
    EntrySymptoms,
    LogDirSymptoms,
    PartitionSymptoms,
    TieredTotals,
)
from policies.plan import PartitionPlan
from policies.preflight.facts import NEWEST
from policies.preflight.start import StartVerdict
from policies.reasons import counted, duration, moment, size

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
    assert limit.actual is not None, "the lag is compared with an age"
    alive_ms = now_ms if seen.is_live else min(facts.active.mtime_ms, now_ms)
    late_ms = int(limit.actual) - (now_ms - alive_ms) - policy.max_compaction_lag_ms
    if late_ms <= MISSED_MS:
        return
    text = (
        f"The oldest record that was never compacted is {duration(int(limit.actual))} old, and "
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
    if not seen.unkeyed_offsets:
        return
    first = seen.unkeyed_offsets[0]
    text = (
        f"The topic is compacted, and holds records without a key, the first found at offset {first}: the next round "
        f"drops every one of them."
    )
    remedy = "With cleanup.policy=delete the topic keeps them. Set that, if they are wanted, before a cleaner comes by."
    yield Finding(FindingCode.UNKEYED_RECORDS, Harm.NOTE, seen.path, text, remedy, None, first)


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
    if max((times.newest_ms for times in explained.seen.times), default=0) <= now_ms + SKEW_MS:
        return
    blocker = next((b for b in explained.blockers if b.code is BlockerCode.FUTURE_TIMESTAMP), None)
    policy = explained.planned.policy
    if blocker is not None:
        text, remedy, base = blocker.text, f"{blocker.remedy} {_BY_VERSION}.", blocker.first_base_offset
    elif policy.remote_storage_enable:
        both = zip(explained.planned.facts.segments, explained.seen.times, strict=True)
        base, newest_ms = next((one.base_offset, times.newest_ms) for one, times in both if times.newest_ms > now_ms)
        ahead = duration(newest_ms - now_ms)
        text = (
            f"A record of segment {base} has the timestamp {moment(newest_ms)}, {ahead} ahead of the "
            f"clock: until then local retention by time does not take the segment, nor those behind it."
        )
        remedy = f"local.retention.bytes takes it by size. {_BY_VERSION}."
    else:
        return
    yield Finding(FindingCode.FUTURE_TIMESTAMP, Harm.WASTE, seen.path, text, remedy, None, base, "KAFKA-20609")


SETTLED_MS: Final = 60_000
"""Beside a live broker a directory is judged only if its names are older: a topic may just be made, or deleted."""


def identity_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield that the topic id is missing or another topic's, or that the cluster has no such topic."""
    own, known, is_cluster_known = seen.identity
    if own is not None and own.error is not None:
        yield unread_topic_id_finding(own)
    elif not is_cluster_known or (seen.is_live and seen.age_ms < SETTLED_MS):
        return
    elif known is None:
        text = (
            f"The cluster metadata has no topic {seen.topic_partition.topic}: the topic was deleted while this broker "
            f"was away, or the directory is a copy from elsewhere. The next start sets it aside as -stray."
        )
        yield Finding(FindingCode.DIRECTORY_UNOWNED, Harm.NOTE, seen.path, text, UNOWNED, kafka_issue="KAFKA-15605")
    elif own is not None and own.topic_id != known:
        yield topic_id_finding(seen.path, own.topic_id, known, BY_METADATA)


def entry_findings(entries: Iterable[EntrySymptoms], *, is_live: bool) -> Iterator[Finding]:
    """Yield what the directories are that are no live partition."""
    for entry in entries:
        held = size(entry.size_bytes)
        if entry.sole_copy is not None and not is_live:  # a broker knows more than what it wrote so far
            yield set_aside_finding(entry.path, entry.sole_copy)
            continue
        match entry.kind:
            case EntryKind.STRAY:
                text = f"The broker set this replica aside ({held}){_since(entry)}, and never deletes it."
                remedy = "If nobody misses its records, doctor --sweep NAME takes it, with its delay; else keep it."
                yield Finding(
                    FindingCode.STRAY_DIRECTORY, Harm.WASTE, entry.path, text, remedy, None, None, "KAFKA-15605"
                )
            case EntryKind.DELETE if not is_live or entry.age_ms > entry.delay_ms + SETTLED_MS:
                text = f"The topic was deleted{_since(entry)}, and its directory ({held}) is still here."
                remedy = "The next start of the broker removes it; doctor --sweep NAME does it now, by its delay."
                yield Finding(FindingCode.DELETE_DIRECTORY, Harm.WASTE, entry.path, text, remedy)
            case EntryKind.IMPORT | EntryKind.MOVE if not is_live:
                what, next_one = ("An import", "The next import into this log dir")
                if entry.kind is EntryKind.MOVE:
                    what, next_one = "A move", "The same move, run again,"
                age = duration(entry.age_ms)
                text = f"{what} that was killed {age} ago left its directory ({held}): no partition."
                remedy = f"{next_one} removes it, or the next start of the broker."
                yield Finding(FindingCode.DELETE_DIRECTORY, Harm.WASTE, entry.path, text, remedy)
            case _:
                pass


def _since(entry: EntrySymptoms) -> str:
    """Return the age of a rename as far as it is known: whoever copies a directory, or changes its owner, hides it."""
    return f" {duration(entry.age_ms)} ago or earlier"


def transactions_of(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    """Yield where transaction indexes and markers disagree, as far as headers were read, and the oldest hanging one.

    What the next start makes anew by itself is left out.
    """
    yield from (one for one in grouped(transaction_findings(seen.log)) if one.harm < WORST_ADVICE)
    yield from _hanging(seen, now_ms)


def _hanging(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    explained = seen.explained
    if explained is None:
        return
    facts = explained.planned.facts
    hanging = [one for one in explained.seen.transactions if hangs(facts, explained.seen, one, now_ms)]
    if not hanging:
        return
    first, since_ms = hanging[0], hanging[0].since_ms or 0
    text = (
        f"Producer {first.producer_id}, epoch {first.producer_epoch}, began a transaction at offset "
        f"{first.first_offset} on {moment(since_ms)}, {duration(max(now_ms - since_ms, 0))} ago, and nobody will end "
        f"it: consumers of committed records wait there, and nothing from there on is compacted."
    )
    if len(hanging) > 1:
        text += (
            f" {counted(len(hanging) - 1, 'more transaction')} {'hangs' if len(hanging) == 2 else 'hang'} behind it."
        )
    remedy = f"End it, once the broker runs: {aborting(facts, first)}."
    yield Finding(
        FindingCode.TRANSACTION_HANGING, Harm.WASTE, seen.path, text, remedy, None, first.first_offset, "KAFKA-12671"
    )


FULL_BELOW_BYTES: Final = 1 << 20
"""With less free space a broker cannot write its checkpoints and indexes for long."""
_SAYS_ALL: Final = frozenset({
    FindingCode.TOPIC_ID_FOREIGN, FindingCode.CHECKPOINT_BEYOND_END, FindingCode.TORN_TAIL, FindingCode.ZERO_TAIL,
})  # fmt: skip
"""Findings that say why a partition cannot be read: the bare error is then left out."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of all log dirs, worst first, and how far the batches were looked at."""

    now_ms: int
    log_dirs: tuple[str, ...]
    findings: tuple[Finding, ...]
    partitions: int
    bytes_read: int
    """The bytes of the segments whose headers were walked."""
    bytes_unread: int
    """The bytes of the segments whose headers were left out."""
    bytes_verified: int = 0
    """The bytes of the segments of which every byte was read."""
    tiered: TieredTotals = NOTHING_TIERED
    """The segments in tiers, by the metadata in the log dirs."""
    start: StartVerdict | None = None
    """The effects of the next start of Kafka; None if nobody asked."""

    @property
    def damages(self) -> tuple[Finding, ...]:
        """The findings that are damage, not advice."""
        return tuple(finding for finding in self.findings if finding.harm < WORST_ADVICE)


def diagnose(seen: Sequence[LogDirSymptoms], now_ms: int, metadata: DamagedMetadata | None = None) -> Diagnosis:
    """Return what is wrong with some log dirs.

    Args:
        seen: their symptoms.
        now_ms: the moment of the look, epoch ms.
        metadata: the cluster metadata, if it could not be read.
    """
    found = [finding for log_dir in seen for finding in _of_log_dir(log_dir, now_ms)]
    if metadata is not None:
        cause, _, remedy = metadata.error.removeprefix(f"{metadata.path} ").partition("; ")
        text = f"The cluster metadata cannot be read {cause}. Nobody knows the topics, their ids and configurations."
        remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "Bring it back from another controller."
        found.append(Finding(FindingCode.METADATA_UNREADABLE, Harm.NO_START, metadata.path, text, remedy))
    metadata_dir = next((log_dir.path for log_dir in seen if log_dir.has_metadata), None)
    found += meta_findings([log_dir.identity for log_dir in seen if log_dir.identity is not None], metadata_dir)
    partitions = [partition for log_dir in seen for partition in log_dir.partitions]
    return Diagnosis(
        now_ms,
        tuple(log_dir.path for log_dir in seen),
        tuple(worst_first([*found, *twice_findings((one.topic_partition, one.path) for one in partitions)])),
        len(partitions),
        sum(partition.walked.bytes_read for partition in partitions),
        sum(partition.walked.bytes_unread for partition in partitions),
        tiered=reduce(TieredTotals.plus, (one.tiered for log_dir in seen for one in log_dir.remote), NOTHING_TIERED),
    )


def with_checked(diagnosis: Diagnosis, checked: Sequence[Finding], size_bytes: int) -> Diagnosis:
    """Return a diagnosis with the findings of a check that read every byte.

    Where both tell of one thing, the check has the last word: it saw more.

    Args:
        diagnosis: by names, ends and headers.
        checked: the findings of the check.
        size_bytes: of the segments that it read.
    """
    places = {(finding.code, finding.path) for finding in checked}
    told = [finding for finding in diagnosis.findings if (finding.code, finding.path) not in places]
    return replace(diagnosis, findings=tuple(worst_first([*told, *checked])), bytes_verified=size_bytes)


def _of_log_dir(seen: LogDirSymptoms, now_ms: int) -> Iterator[Finding]:
    for error in seen.errors:
        remedy = (
            "Mend what the sentence names: until then a broker takes the log dir offline, and logcleaner touches none."
        )
        yield Finding(FindingCode.CHECKPOINT_CORRUPT, Harm.NO_START, seen.path, f"{error}.", remedy)
    for checkpoint in seen.checkpoints:
        yield from checkpoint_findings(checkpoint, None)
    yield from copy_findings(seen.path, seen.copy)
    for lost in seen.lost:
        yield lost_finding(f"{seen.path}/{lost.topic_partition}", lost)
    for partition in seen.partitions:
        yield from of_partition(partition, now_ms)
    yield from entry_findings(seen.entries, is_live=seen.is_live)
    yield from log_dir_name_findings(seen.path, seen.names)
    yield from index_cache_findings(seen)
    for remote in seen.remote:
        yield from remote_metadata_findings(remote, now_ms)
    if seen.free_bytes is not None and seen.free_bytes < FULL_BELOW_BYTES:
        free = size(seen.free_bytes)
        text = f"The disk is full: {free} are free. A broker takes the log dir offline, or does not start."
        command = f"logcleaner free --log-dir {seen.path} --target SIZE"
        remedy = f"Make space: {command} deletes what retention allows, oldest first."
        yield Finding(FindingCode.DISK_FULL, Harm.NO_START, seen.path, text, remedy)
    if seen.unlinked:
        files = counted(seen.unlinked.files, "file")
        text = (
            f"{files} of this log dir ({size(seen.unlinked.disk_bytes)}) have no name any more, but "
            f"{seen.unlinked.command} (pid {seen.unlinked.pid}) keeps them open: their space is not free. The largest "
            f"was {seen.unlinked.path}."
        )
        remedy = "Restart that process: its blocks are freed as it ends."
        yield Finding(FindingCode.UNLINKED_OPEN, Harm.WASTE, seen.path, text, remedy)


def of_partition(seen: PartitionSymptoms, now_ms: int) -> list[Finding]:
    """Return what is wrong with one partition."""
    found = [
        *file_findings(seen),
        *offset_findings(seen.claims),
        *identity_findings(seen),
        *epoch_findings(seen),
        *transactions_of(seen, now_ms),
        *compaction_findings(seen, now_ms),
        *retention_findings(seen, now_ms),
        *tiering_findings(seen, now_ms),
    ]
    found += list(partition_name_findings(seen.path, seen.names, seen.topic_partition, found))
    says_all = any(finding.code in _SAYS_ALL for finding in found)
    return [f for f in found if not (says_all and f.code is FindingCode.PARTITION_UNREADABLE)]
