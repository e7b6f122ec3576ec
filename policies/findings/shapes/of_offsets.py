"""Tell which checkpoints and snapshots speak of offsets that the log lacks, and all that says: records are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.findings.findings import CLEANED_ANEW, END_LOST, START_LOST, Finding, FindingCode, Harm, RepairGroup
from policies.findings.of_files import INDEXES_GO, RECOVER_TAIL
from policies.findings.shapes.of_files import file_findings
from policies.findings.shapes.symptoms import PartitionSymptoms
from policies.reasons import counted

_NAMED_MAX: Final = 5
_MISSING: Final = frozenset({
    FindingCode.OFFSET_GAP,
    FindingCode.END_BELOW_WATERMARK,
    FindingCode.CHECKPOINT_BEYOND_END,
    FindingCode.TORN_TAIL,
    FindingCode.ZERO_TAIL,
})  # fmt: skip


def offset_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield that the log ends too early, and which checkpoint lies outside the log for another reason."""
    end = seen.log_end_offset
    if end is None:
        return
    start = seen.noted.log_start
    if start is not None and start > end:
        text = (
            f"The log ends at offset {end}, below its log start {start} in log-start-offset-checkpoint: segments are "
            f"missing, and a starting broker deletes all that is left."
        )
        yield Finding(FindingCode.CHECKPOINT_BEYOND_END, Harm.DATA_LOST, seen.path, text, START_LOST, None, end)
        return
    beyond = seen.claims_beyond_end
    if beyond:
        yield _lost_end(seen, end, beyond)
    first_dirty = seen.noted.first_dirty
    if not beyond and first_dirty is not None and first_dirty > end:
        text = (
            f"cleaner-offset-checkpoint says {first_dirty}, but the log ends at {end}: the log counts as never "
            f"compacted, and the next round reads all of it."
        )
        yield Finding(FindingCode.CHECKPOINT_BEYOND_END, Harm.WASTE, seen.path, text, CLEANED_ANEW, None, end)


def _lost_end(seen: PartitionSymptoms, end: int, beyond: dict[str, int]) -> Finding:
    count = max(beyond.values()) - end
    lost = "offset is" if count == 1 else f"{count:,} offsets are"
    claimed = ", ".join(f"{what} {offset}" for what, offset in beyond.items())
    gone = f"the last {lost} gone from this replica."
    text = f"The log ends at offset {end}, below {claimed}: {gone}"
    if seen.ends_early and seen.counted_end is not None:
        text = f"The log ends at offset {seen.counted_end} for the next start, below {claimed}. Whole batches reach"
        text, end = f"{text} offset {end}: {gone}", seen.counted_end
    bases = [str(base) for base in seen.lost_segments if base >= end]
    if bases:
        named = ", ".join(bases[:_NAMED_MAX]) + (" ..." if len(bases) > _NAMED_MAX else "")
        text += f" {counted(len(bases), 'segment')} left index files without a .log: of base offset {named}."
        text += f" {INDEXES_GO}"
    is_hidden = seen.ends_early or (seen.was_clean and not seen.is_live and seen.has_torn_end)
    remedy = RECOVER_TAIL if is_hidden else END_LOST
    return Finding(FindingCode.END_BELOW_WATERMARK, Harm.DATA_LOST, seen.path, text, remedy, None, end, "KAFKA-17076")


def missing_record_findings_of(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the findings of ``doctor`` that ``preflight`` tells, too: records of this partition are gone."""
    for finding in (*file_findings(seen), *offset_findings(seen)):
        is_told = finding.repair is RepairGroup.LOG_END  # preflight says itself what is appended behind
        if finding.harm is Harm.DATA_LOST and finding.code in _MISSING and not is_told:
            yield finding
