"""Tell what is wrong with one partition by the ends of its files, its names and its checkpoints.

What the ends of the files show is judged by the rules of ``of_files`` and ``of_history``, as a check of every byte is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.of_files import early_end_findings, missing_record_findings, segment_findings, swap_findings
from policies.findings.of_history import checkpoint_findings, corrupt_epochs_finding
from policies.findings.of_log_dir import offset_findings
from policies.findings.sweeping import only_copy_findings
from policies.findings.symptoms import PartitionSymptoms
from policies.reasons import counted, size
from storage.names import is_cluster_scratch, parse_staged_name

_DENIED: Final = "Permission denied"
_VERIFY: Final = "logcleaner verify {} tells more, and verify --repair rebuilds what can be rebuilt"
_MISSING: Final = frozenset({
    FindingCode.OFFSET_GAP,
    FindingCode.END_BELOW_WATERMARK,
    FindingCode.CHECKPOINT_BEYOND_END,
    FindingCode.TORN_TAIL,
    FindingCode.ZERO_TAIL,
})  # fmt: skip


def file_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield what is wrong with the files of a partition."""
    if seen.epochs.error is not None:
        yield corrupt_epochs_finding(seen.path, seen.epochs)
    if seen.error is not None and not seen.is_told(seen.error):
        yield _unreadable(seen, seen.error)
    found = segment_findings(seen.log, seen.claims.counted_end)
    yield from found
    yield from early_end_findings(seen.log, found, seen.claims.counted_end, is_lost=bool(seen.claims.beyond))
    circumstances = seen.claims.noted.circumstances(is_live=seen.is_live, was_clean=seen.was_clean)
    start_offset, whole_to = circumstances.log_start_offset, circumstances.whole_to
    yield from missing_record_findings(seen.log, seen.emptied, (), start_offset, whole_to)
    yield from only_copy_findings(seen.only_copies)
    yield from swap_findings(seen.hollow_swaps)
    if seen.unfinished_files and not seen.is_live and not seen.hollow_swaps:
        files = counted(seen.unfinished_files, ".swap or .cleaned file")
        waits = "waits" if seen.unfinished_files == 1 else "wait"
        text = f"A compaction was interrupted: {files} {waits} to be put in, or thrown away."
        remedy = "Leave them: the next start of the broker, or the next clean, finishes or undoes the compaction."
        yield Finding(FindingCode.SWAP_LEFT, Harm.SLOW_START, seen.path, text, remedy, kafka_issue="KAFKA-12520")
    if (scratch := sum(map(is_cluster_scratch, seen.names.others))) and not seen.is_live:
        text = f"A compaction on a cluster was interrupted, and left {counted(scratch, 'scratch file')}."
        remedy = "The next clean removes what a cluster left; a broker takes no notice of it."
        yield Finding(FindingCode.SWAP_LEFT, Harm.WASTE, seen.path, text, remedy)
    if (staged := sum(map(bool, map(parse_staged_name, seen.names.others)))) and not seen.is_live:
        text = f"A stream of Spark was stopped within a commit, and left {counted(staged, 'staged segment')}."
        remedy = "Start its query again before the broker: it puts them in, or removes what it has not committed."
        yield Finding(FindingCode.SWAP_LEFT, Harm.WASTE, seen.path, text, remedy)
    if seen.deleted_files:
        files = f"{counted(seen.deleted_files, '.deleted file')} ({size(seen.deleted_bytes)})"
        text = f"The delay of {files} is over, and nobody has unlinked them."
        remedy = (
            "The broker that holds the lock forgot them; its next start removes them."
            if seen.is_live
            else "The next start of the broker removes them; doctor --sweep does it now, named one by one."
        )
        yield Finding(FindingCode.DELETED_LEFT, Harm.WASTE, seen.path, text, remedy)


def epoch_findings(seen: PartitionSymptoms) -> list[Finding]:
    """Return at most one finding: that the first batches of segments disagree with ``leader-epoch-checkpoint``."""
    if seen.error is not None or seen.epochs.error is not None:
        return []
    entries = seen.epochs.entries or ()
    log = seen.log
    if seen.is_live:
        log = log._replace(segments=log.segments[:-1])  # a broker writes the file a moment later than the batch
    return checkpoint_findings(log, entries, seen.claims.noted.log_start or 0, is_whole=False)


def _unreadable(seen: PartitionSymptoms, error: str) -> Finding:
    cause = error.removeprefix(f"{seen.path}: ")
    text = f"The partition cannot be read as it is: {cause}."
    remedy = _VERIFY.format(seen.topic_partition) + "; logcleaner leaves the partition alone."
    if "is a symlink" in cause:
        remedy = (
            "Stop the broker, and put the file that the symlink leads to in its place; never remove the symlink alone."
        )
    elif _DENIED in cause:
        remedy = (
            "Run doctor as the broker's user, or as root. If that user may not read it either, mend the owner or mode."
        )
    return Finding(FindingCode.PARTITION_UNREADABLE, Harm.NO_START, seen.path, text, remedy)


def missing_record_findings_of(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the findings of ``doctor`` that ``preflight`` tells, too: records of this partition are gone."""
    for finding in (*file_findings(seen), *offset_findings(seen.claims)):
        is_told = finding.repair is RepairGroup.LOG_END  # preflight says itself what is appended behind
        if finding.harm is Harm.DATA_LOST and finding.code in _MISSING and not is_told:
            yield finding
