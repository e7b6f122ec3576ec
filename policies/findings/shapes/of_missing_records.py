"""Tell which records a log lacks already: the findings that ``doctor`` and ``preflight`` share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.shapes.of_files import file_findings
from policies.findings.shapes.of_offsets import offset_findings
from policies.findings.shapes.symptoms import PartitionSymptoms

_MISSING: Final = frozenset({
    FindingCode.OFFSET_GAP,
    FindingCode.END_BELOW_WATERMARK,
    FindingCode.CHECKPOINT_BEYOND_END,
    FindingCode.TORN_TAIL,
    FindingCode.ZERO_TAIL,
})  # fmt: skip


def missing_record_findings_of(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield the findings of ``doctor`` that say: records of this partition are gone."""
    for finding in (*file_findings(seen), *offset_findings(seen)):
        is_told = finding.repair is RepairGroup.LOG_END  # preflight says itself what is appended behind
        if finding.harm is Harm.DATA_LOST and finding.code in _MISSING and not is_told:
            yield finding
