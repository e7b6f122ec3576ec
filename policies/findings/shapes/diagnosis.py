"""Put the findings of a log dir together, worst first. Pure: symptoms go in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from policies.explain.words import counted, size
from policies.findings.findings import Finding, FindingCode, Harm, worst_first
from policies.findings.of_log_dir import lost_finding, meta_findings, missing_meta_findings
from policies.findings.shapes.of_compaction import compaction_findings
from policies.findings.shapes.of_files import epoch_findings, file_findings
from policies.findings.shapes.of_offsets import offset_findings
from policies.findings.shapes.of_retention import retention_findings
from policies.findings.shapes.of_tiering import index_cache_findings, remote_metadata_findings, tiering_findings
from policies.findings.shapes.of_topics import entry_findings, identity_findings, twice
from policies.findings.shapes.of_transactions import transaction_findings
from policies.findings.shapes.symptoms import DamagedMetadata, LogDirSymptoms, PartitionSymptoms
from policies.preflight.verdict import StartVerdict
from storage.names import META_PROPERTIES_FILE

WORST_ADVICE: Final = Harm.SLOW_START
"""A finding that does this harm, or less, is advice; a worse one is damage."""
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
    partitions: int = 0
    bytes_read: int = 0
    """The bytes of the segments whose headers were walked."""
    bytes_unread: int = 0
    """The bytes of the segments whose headers were left out."""
    bytes_verified: int = 0
    """The bytes of the segments of which every byte was read."""
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
    found += meta_findings([log_dir.meta for log_dir in seen if log_dir.meta is not None])
    if any(log_dir.has_metadata for log_dir in seen):
        lacking = [log_dir.path for log_dir in seen if log_dir.meta is None]
        found += missing_meta_findings(f"{path}/{META_PROPERTIES_FILE}" for path in lacking)
    partitions = [partition for log_dir in seen for partition in log_dir.partitions]
    return Diagnosis(
        now_ms,
        tuple(log_dir.path for log_dir in seen),
        tuple(worst_first([*found, *twice(seen)])),
        len(partitions),
        sum(partition.walked.bytes_read for partition in partitions),
        sum(partition.walked.bytes_unread for partition in partitions),
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
    for lost in seen.lost:
        yield lost_finding(f"{seen.path}/{lost.topic_partition}", lost)
    for partition in seen.partitions:
        yield from of_partition(partition, now_ms)
    yield from entry_findings(seen.entries, is_live=seen.is_live)
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
        *offset_findings(seen),
        *identity_findings(seen),
        *epoch_findings(seen),
        *transaction_findings(seen, now_ms),
        *compaction_findings(seen, now_ms),
        *retention_findings(seen, now_ms),
        *tiering_findings(seen, now_ms),
    ]
    says_all = any(finding.code in _SAYS_ALL for finding in found)
    return [f for f in found if not (says_all and f.code is FindingCode.PARTITION_UNREADABLE)]
