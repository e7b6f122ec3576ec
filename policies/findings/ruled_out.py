"""Says of findings what people can do with them: many of one kind as one, and no remedy that a repair would refuse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

from policies.findings.findings import BY_ITSELF, FETCH_AGAIN, Finding, FindingCode, Harm, RepairGroup
from policies.findings.repairs import kind_of, missing_near
from storage.names import FileKind, FileState, parse_segment_file_name

_CUTS_NOTHING: Final = frozenset({FindingCode.BATCH_CORRUPT, FindingCode.OFFSET_BACKWARDS})
"""Damage in front of the end: no repair cuts there."""
_OF_THE_END: Final = frozenset({FindingCode.END_BELOW_WATERMARK, FindingCode.EPOCHS_WRONG})
"""What comes of an end that is not found; the start cuts the leader epochs above the end itself."""
_OF_INDEXES: Final = frozenset({FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
_KEEP_EVIDENCE: Final = (
    "Leave the file as it is: it tells which records are missing, so verify --repair does not touch it. Bring these"
    " back first, from another replica or a backup."
)
_NO_PLAIN_FILE: Final = (
    "First put a plain file in the place of {}: verify --repair mends nothing beside a segment that is none."
)
_NAME_TAKEN: Final = (
    "First run logcleaner clean, which removes {}.deleted once its delay is over: verify --repair keeps what it"
    " replaces under that name. Then stop the broker, and run verify --repair."
)


def grouped(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, with one finding for all findings of one kind in one index file. It names the first entry.

    Args:
        findings: of one partition, in any order.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for place, finding in enumerate(findings):
        name = parse_segment_file_name(PurePath(finding.path).name)
        is_of_index = name is not None and name.kind in _OF_INDEXES
        so = finding.text.rpartition(":")[2]
        key = (finding.code, finding.path, finding.harm, so) if is_of_index else (place,)
        groups.setdefault(key, []).append(finding)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: Sequence[Finding]) -> Finding:
    first = min(group, key=lambda finding: -1 if finding.position is None else finding.position)
    if len(group) == 1:
        return first
    others = "another entry is" if len(group) == 2 else f"{len(group) - 1:,} more entries are"
    how = "missing, too" if first.code is FindingCode.ABORTED_UNINDEXED else "wrong in the same way"
    return first._replace(text=f"{first.text} {others[0].upper()}{others[1:]} {how}.")


def without_repairs(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of the metadata log, which no repair touches: each start recovers it from its beginning."""
    for finding in findings:
        name = parse_segment_file_name(PurePath(finding.path).name)
        if finding.repair is None:
            yield finding
        elif name is not None and name.kind in _OF_INDEXES:
            yield finding._replace(harm=max(finding.harm, Harm.SLOW_START), remedy=BY_ITSELF, repair=None)
        else:
            remedy = finding.remedy if finding.harm >= Harm.SLOW_START else FETCH_AGAIN
            yield finding._replace(remedy=remedy, repair=None)


def with_one_remedy(findings: Sequence[Finding], directory: str, end_offset: int) -> list[Finding]:
    """Return findings. If a start would not find the end of the log, the findings that this causes get one remedy.

    Args:
        findings: all of one partition.
        directory: of the partition.
        end_offset: the end of the log, by its whole batches.
    """
    ended = next((one for one in findings if one.repair is RepairGroup.LOG_END), None)
    if ended is None:
        return list(findings)
    stem = PurePath(ended.path).stem

    def comes_of_it(one: Finding) -> bool:
        name = parse_segment_file_name(PurePath(one.path).name)
        if one.code in _OF_THE_END:
            return True
        if name is None or PurePath(one.path).parent != PurePath(directory):
            return False
        is_of_segment = PurePath(one.path).stem == stem and name.kind in (*_OF_INDEXES, FileKind.LOG)
        return is_of_segment or (name.kind is FileKind.SNAPSHOT and name.base_offset > end_offset)

    is_damaged = any(one.path == ended.path and one.code in _CUTS_NOTHING for one in findings)
    remedy = FETCH_AGAIN if is_damaged else ended.remedy
    group = None if is_damaged else RepairGroup.LOG_END
    return [
        one._replace(remedy=remedy, repair=group if one is ended else None) if comes_of_it(one) else one
        for one in findings
    ]


def with_true_remedies(findings: Sequence[Finding], deleted: Collection[str]) -> list[Finding]:
    """Return findings. If ``verify --repair`` would refuse the remedy of a finding, the finding gets another remedy.

    Args:
        findings: all of one partition.
        deleted: the names of files in its directory that carry ``.deleted``.
    """
    strange = [PurePath(one.path).name for one in findings if one.code is FindingCode.NAME_STRANGE]
    strange_logs = [name for name in strange if (file := parse_segment_file_name(name)) and file.kind is FileKind.LOG]
    return [_with_true_remedy(finding, findings, strange_logs, deleted) for finding in findings]


def _with_true_remedy(
    finding: Finding, findings: Sequence[Finding], strange_logs: Sequence[str], deleted: Collection[str]
) -> Finding:
    kind = kind_of(finding.path)
    if finding.repair is not RepairGroup.DERIVED or kind is None:
        return finding
    name = PurePath(finding.path).name
    if strange_logs:
        return finding._replace(remedy=_NO_PLAIN_FILE.format(strange_logs[0]))
    if missing_near(finding.path, kind, findings):
        return finding._replace(remedy=_KEEP_EVIDENCE)
    if f"{name}{FileState.DELETED}" in deleted:
        return finding._replace(remedy=_NAME_TAKEN.format(name))
    return finding
