"""Tell what is wrong with a tier: files that are missing, files that nobody names, offsets that no copy has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from policies.findings.findings import Finding, FindingCode, Harm
from policies.reasons import counted, duration, size

HANGS_MS: Final = 86_400_000
"""A copy or a deletion that began so long ago does not end by itself."""
_COPY_STARTED: Final = "COPY_SEGMENT_STARTED"
_COPY_FINISHED: Final = "COPY_SEGMENT_FINISHED"
_DELETE_STARTED: Final = "DELETE_SEGMENT_STARTED"
_RESTORE: Final = "Bring back the object from a version or a copy of the bucket"
_REPLICA: Final = "or take these offsets from a replica or a mirror that still has them"
_OF_A_LOG: Final = frozenset({".log", ".rsm-manifest"})


class RemoteSegmentFacts(NamedTuple):
    """The facts of one segment of a tier. None is for what nobody tells."""

    name: str
    """Start offset and id, as in the names of its files."""
    path: str
    """Of its files, without their suffix."""
    start_offset: int
    end_offset: int | None
    state: str | None
    """Kafka's name of it."""
    event_ms: int | None
    is_named: bool
    """Whether ``__remote_log_metadata`` names it."""
    is_orphan: bool | None
    """Whether nobody names its files; None if the metadata that tell are not here."""
    stored_bytes: int = 0
    newest_ms: int = 0
    """When the last of its files was written; 0 if there is none."""
    missing: tuple[str, ...] = ()
    """The suffixes of the files that a whole copy has and that are not there."""
    wrong_sizes: tuple[tuple[str, int, int], ...] = ()
    """Path, size and due size of files."""
    problem: str = ""
    size_bytes: int | None = None
    """The original size of its log."""
    wrong_epochs: tuple[str, str] | None = None
    """The file of its leader epochs, and what is wrong with it."""


class TierPartitionFacts(NamedTuple):
    """The facts of one partition of a tier."""

    name: str
    path: str
    segments: tuple[RemoteSegmentFacts, ...]
    gaps: tuple[tuple[int, int], ...] = ()
    """First and last offset of what no copy has, by the epochs of the log."""
    doubled: tuple[tuple[int, int], ...] = ()
    """First and last offset of what two copies of one epoch have."""


def tier_findings(partition: TierPartitionFacts, now_ms: int) -> Iterator[Finding]:
    """Yield what is wrong with a partition of a tier, apart from the content of its files."""
    for segment in partition.segments:
        if segment.is_named:
            yield from _of_named(segment, now_ms)
        elif not segment.is_orphan:
            if not segment.problem:
                yield from _lacking(segment)
            yield from _of_content(segment)
    yield from _orphans(partition, now_ms)
    yield from _unknown(partition)
    for first, last in partition.gaps:
        text = f"No copy has the offsets {first} to {last} of {partition.name}, neither here nor in the tier."
        remedy = f"Name the log dir that has them with --log-dir; {_REPLICA}."
        yield Finding(FindingCode.TIER_GAP, Harm.DATA_LOST, partition.path, text, remedy, None, first)
    if partition.doubled:
        offsets = sum(last - first + 1 for first, last in partition.doubled)
        text = (
            f"{counted(offsets, 'offset')} of {partition.name} were copied twice in one epoch, as two leaders in a row "
            f"do. Readers get each once."
        )
        remedy = "Nothing: retention deletes both copies."
        first = partition.doubled[0][0]
        yield Finding(FindingCode.TIER_OVERLAP, Harm.NOTE, partition.path, text, remedy, None, first)


def _of_named(segment: RemoteSegmentFacts, now_ms: int) -> Iterator[Finding]:
    if segment.state == _COPY_FINISHED:
        yield from _lacking(segment)
        yield from _of_content(segment)
    since_ms = now_ms - (segment.event_ms or now_ms)
    if segment.state in (_COPY_STARTED, _DELETE_STARTED) and since_ms > HANGS_MS:
        is_copy = segment.state == _COPY_STARTED
        what = "began to be copied" if is_copy else "began to be deleted"
        held = (
            f"{size(segment.stored_bytes)} of it lie in the tier" if segment.stored_bytes else "no file of it is left"
        )
        text = f"Segment {segment.name} {what} {duration(since_ms)} ago, which never ended; {held}."
        remedy = (
            "Kafka from 3.9 on deletes it with the topic's retention; an older one never does: update it."
            if is_copy
            else "kafka-delete-records.sh past it makes the broker try again; look for its error in the broker's log."
        )
        offset, issue = segment.start_offset, "KAFKA-17062" if is_copy else "KAFKA-16511"
        yield Finding(
            FindingCode.TIER_HANGING, Harm.WASTE, segment.path, text, remedy, None, offset, issue, None,
            segment.stored_bytes,
        )  # fmt: skip


def _lacking(segment: RemoteSegmentFacts) -> Iterator[Finding]:
    if not segment.missing:
        return
    is_lost = not _OF_A_LOG.isdisjoint(segment.missing)
    last = "" if segment.end_offset is None else f" to {segment.end_offset}"
    lost = f"the offsets {segment.start_offset}{last} cannot be read" if is_lost else "a broker cannot read it"
    what = "no file of it is there" if not segment.stored_bytes else f"{', '.join(segment.missing)} is not there"
    named = f"The metadata name segment {segment.name}, and" if segment.is_named else f"Of segment {segment.name}"
    text = f"{named} {what}: {lost}."
    remedy = f"{_RESTORE}; {_REPLICA}." if is_lost else f"{_RESTORE}; restore-tier makes indexes anew."
    harm = Harm.DATA_LOST if is_lost else Harm.WRONG_ANSWER
    yield Finding(
        FindingCode.TIER_LACKS, harm, segment.path, text, remedy, None, segment.start_offset, None, None,
        segment.size_bytes if is_lost else None,
    )  # fmt: skip


def _of_content(segment: RemoteSegmentFacts) -> Iterator[Finding]:
    remedy = f"{_RESTORE}; {_REPLICA}."
    for path, found, due in segment.wrong_sizes:
        text = f"It has {found:,} bytes, and {due:,} were copied."
        yield Finding(
            FindingCode.TIER_CORRUPT, Harm.DATA_LOST, path, text, remedy, None, segment.start_offset, None, None, found
        )
    if segment.wrong_epochs is not None:
        path, cause = segment.wrong_epochs
        text, remedy_of_epochs = f"Segment {segment.name}: {cause}.", f"{_RESTORE}; restore-tier makes it anew."
        yield Finding(FindingCode.EPOCHS_WRONG, Harm.WRONG_ANSWER, path, text, remedy_of_epochs)
    if segment.problem:
        text = f"Segment {segment.name} cannot be read: {segment.problem}."
        yield Finding(
            FindingCode.TIER_CORRUPT, Harm.DATA_LOST, segment.path, text, remedy, None, segment.start_offset, None,
            None, segment.stored_bytes,
        )  # fmt: skip


def _orphans(partition: TierPartitionFacts, now_ms: int) -> Iterator[Finding]:
    for segment in partition.segments:
        if segment.is_orphan and segment.stored_bytes:
            age = duration(max(0, now_ms - segment.newest_ms))
            why = "a broker deleted it" if segment.state else "no broker names it"
            text = f"{size(segment.stored_bytes)} of segment {segment.name}, written {age} ago: {why}."
            remedy = "If no other cluster uses this tier, remove these files by the tool of the store."
            offset = segment.start_offset
            yield Finding(
                FindingCode.TIER_ORPHAN, Harm.WASTE, segment.path, text, remedy, None, offset, "KAFKA-15817", None,
                segment.stored_bytes,
            )  # fmt: skip


def _unknown(partition: TierPartitionFacts) -> Iterator[Finding]:
    unknown = [segment for segment in partition.segments if segment.is_orphan is None]
    if unknown:
        held_bytes = sum(segment.stored_bytes for segment in unknown)
        text = (
            f"{counted(len(unknown), 'segment')} of {partition.name} ({size(held_bytes)}) may be orphans: the "
            f"partition of __remote_log_metadata that tells is not here, or ends before they were written."
        )
        remedy = "Name the log dirs of a broker that has it, with --log-dir."
        code, path = FindingCode.TIER_UNKNOWN, partition.path
        yield Finding(code, Harm.NOTE, path, text, remedy, None, None, None, None, held_bytes)


def corrupt_finding(path: str, cause: str) -> Finding:
    """Return that a file of a tier cannot be decoded."""
    return Finding(FindingCode.TIER_CORRUPT, Harm.DATA_LOST, path, f"{cause}.", f"{_RESTORE}; {_REPLICA}.")


def of_tier(finding: Finding, path: str) -> Finding:
    """Return a finding about the content of a file, with the path in the tier, and a remedy that fits a tier."""
    is_of_log = finding.path.endswith(".log")
    remedy = f"{_RESTORE}; {_REPLICA}." if is_of_log else f"{_RESTORE}; restore-tier makes indexes anew."
    return finding._replace(path=path, remedy=remedy, repair=None)


CONTENT_CODES: Final = frozenset({
    FindingCode.BATCH_CORRUPT, FindingCode.BATCH_HEADER, FindingCode.EPOCH_BACKWARDS, FindingCode.OFFSET_BACKWARDS,
    FindingCode.OFFSET_OVERFLOW, FindingCode.RECORDS_CORRUPT, FindingCode.TORN_TAIL, FindingCode.ZERO_TAIL,
    FindingCode.OFFSET_INDEX_CORRUPT, FindingCode.OFFSET_INDEX_WRONG, FindingCode.TIME_INDEX_CORRUPT,
    FindingCode.TIME_INDEX_WRONG, FindingCode.TXN_INDEX_CORRUPT, FindingCode.TXN_INDEX_WRONG,
    FindingCode.ABORTED_UNINDEXED, FindingCode.SNAPSHOT_CORRUPT,
})  # fmt: skip
"""What the files of one segment can tell by themselves."""


class TierKind(NamedTuple):
    """All findings of one code and harm."""

    code: FindingCode
    harm: Harm
    findings: int
    size_bytes: int | None
    """The bytes that they are about, each file once; None if nobody knows any of them."""
    remedy: str
    """What to do, in a few words."""


def kinds_of(findings: Iterable[Finding]) -> list[TierKind]:
    """Return the kinds of findings about a tier, worst first."""
    kinds = []
    for (harm, code), group in groupby(sorted(findings, key=_kind), key=_kind):
        together = list(group)
        known = {found.path: found.size_bytes for found in together if found.size_bytes is not None}
        kinds.append(TierKind(code, harm, len(together), sum(known.values()) if known else None, _in_short(code, harm)))
    return kinds


def _kind(finding: Finding) -> tuple[Harm, FindingCode]:
    return finding.harm, finding.code


def _in_short(code: FindingCode, harm: Harm) -> str:
    if code in _IN_SHORT:
        return _IN_SHORT[code]
    is_of_index = code in _OF_INDEXES or (code is FindingCode.TIER_LACKS and harm is not Harm.DATA_LOST)
    return "bring it back; restore-tier remakes it" if is_of_index else "bring it back, or use a replica"


_IN_SHORT: Final = {
    FindingCode.TIER_GAP: "name a log dir or replica that has it",
    FindingCode.TIER_HANGING: "update Kafka, or look in its log",
    FindingCode.TIER_ORPHAN: "remove it, unless a cluster uses it",
    FindingCode.TIER_OVERLAP: "nothing: retention deletes both",
    FindingCode.TIER_UNKNOWN: "name the log dirs that tell",
}
_OF_INDEXES: Final = frozenset({
    FindingCode.EPOCHS_WRONG,
    FindingCode.OFFSET_INDEX_CORRUPT, FindingCode.OFFSET_INDEX_WRONG, FindingCode.TIME_INDEX_CORRUPT,
    FindingCode.TIME_INDEX_WRONG, FindingCode.TXN_INDEX_CORRUPT, FindingCode.TXN_INDEX_WRONG,
    FindingCode.ABORTED_UNINDEXED, FindingCode.SNAPSHOT_CORRUPT,
})  # fmt: skip
