"""Gather what is known of the segments of a tier, for its check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cleaner.engine.verify.checked import Checked
from policies.findings.findings import Finding, worst_first
from policies.findings.of_tiers import (
    CONTENT_CODES,
    RemoteSegmentFacts,
    TierPartitionFacts,
    corrupt_finding,
    of_tier,
    tier_findings,
)
from storage.errors import LogCleanerError
from storage.log_dir import LogDir
from storage.names import TopicPartition
from storage.stores.paths import StoredPath
from storage.tiers.errors import LOCKED, CorruptTier
from storage.tiers.joining import OffsetSpan, join, valid_spans
from storage.tiers.segments import RemoteSegment, TieredPartition, TierFile
from storage.tiers.view import TierView


class TierToCheck(NamedTuple):
    """The findings of names and metadata of a tier, and the segments whose content is left to check."""

    findings: list[Finding]
    problems: list[str]
    """A line for each segment that cannot be read here, such as one without its key."""
    log_dirs: list[LogDir]
    """Each shows one segment by itself."""
    partitions: set[TieredPartition]
    """The partitions that were looked at."""


def look_at_tier(view: TierView, wants: Callable[[TopicPartition], bool], now_ms: int) -> TierToCheck:
    """Look at all segments of the wanted partitions. Raises: UnreadableFile, as a store."""
    found = TierToCheck([], [], [], set())
    for partition in view.tier.partitions:
        if not wants(partition.topic_partition):
            continue
        found.partitions.add(partition)
        segments, locked = view.tier.segments(partition), set[str]()
        facts = tuple(_facts(view, segment, found.problems, locked) for segment in segments)
        gaps, doubled = _coverage(view, partition, segments)
        path = f"{view.tier.path}/{partition}"
        found.findings.extend(tier_findings(TierPartitionFacts(str(partition), path, facts, gaps, doubled), now_ms))
        for segment, fact in zip(segments, facts, strict=True):
            if segment.segment_id not in locked and _has_content(segment, fact):
                found.log_dirs.append(LogDir(view.path_of(segment).parent))
    return found


def with_content(checked: Checked, found: TierToCheck, view: TierView) -> Checked:
    """Return the check of the content of segments together with what their names told."""
    corrupt = [error for error in checked.corrupt if isinstance(error, CorruptTier)]
    told = {str(error) for error in corrupt}
    damaged = {error.path: corrupt_finding(str(error.path), error.cause) for error in corrupt}
    content = _with_sizes([*_content_findings(checked.findings, view), *damaged.values()], found, view)
    return replace(
        checked,
        findings=worst_first([*found.findings, *content]),
        problems=[*found.problems, *(problem for problem in checked.problems if problem not in told)],
        partitions=len(found.partitions),
        segments=len(found.log_dirs),
    )


def _content_findings(findings: Iterable[Finding], view: TierView) -> Iterator[Finding]:
    """Yield what is wrong with the content of segments, under the names that their files have in the tier."""
    for finding in findings:
        if finding.code in CONTENT_CODES:
            yield of_tier(finding, str(view.object_of(StoredPath(finding.path))))


def _with_sizes(findings: list[Finding], found: TierToCheck, view: TierView) -> list[Finding]:
    """Return findings about files with the sizes of the files."""
    paths = {finding.path for finding in findings}
    segments = (one for partition in found.partitions for one in view.tier.segments(partition)) if paths else ()
    objects = (one for segment in segments if segment.stored for one in segment.stored.objects.values())
    sizes = {str(one.path): one.size_bytes for one in objects if str(one.path) in paths}
    return [finding._replace(size_bytes=sizes.get(finding.path)) for finding in findings]


def _has_content(segment: RemoteSegment, fact: RemoteSegmentFacts) -> bool:
    is_damaged = fact.missing or fact.wrong_sizes or fact.problem or segment.problem
    return segment.is_readable and segment.end_offset is not None and not fact.is_orphan and not is_damaged


def _facts(view: TierView, segment: RemoteSegment, problems: list[str], locked: set[str]) -> RemoteSegmentFacts:
    """Return the facts of a segment; note it among the locked ones if it is encrypted, and its key is not here."""
    layout, stored, problem = view.tier.layout, segment.stored, segment.problem
    missing = tuple(layout.missing(stored)) if stored else (TierFile.LOG.value,)
    wrong: list[tuple[str, int, int]] = []
    wrong_epochs = None
    if stored and not missing and not problem:
        try:
            wrong = [(str(path), found, due) for path, found, due in view.tier.wrong_sizes(segment)]
            wrong_epochs = view.tier.wrong_epochs(segment) if segment.is_readable and not wrong else None
        except LOCKED as error:
            if (problem_of_all := f"{segment.partition}: {error.cause}") not in problems:
                problems.append(problem_of_all)
            locked.add(segment.segment_id)
        except (LogCleanerError, FileNotFoundError) as error:
            problem = str(error)
    return RemoteSegmentFacts(
        f"{segment.start_offset}-{segment.segment_id}",
        _path(view, segment),
        segment.start_offset,
        segment.end_offset,
        segment.state.name if segment.state is not None else None,
        segment.event_ms,
        segment.has_metadata,
        view.tier.is_orphan(segment),
        stored.size_bytes if stored else 0,
        stored.newest_ms if stored else 0,
        missing,
        tuple(wrong),
        problem,
        segment.size_bytes,
        (str(wrong_epochs.path), wrong_epochs.cause) if wrong_epochs else None,
    )


def _path(view: TierView, segment: RemoteSegment) -> str:
    if segment.stored is None:
        directory = f"{view.tier.path}/{segment.partition}-{segment.partition.topic_id}"
        return f"{directory}/{segment.start_offset}-{segment.segment_id}"
    suffix, found = next(iter(segment.stored.objects.items()))
    return str(found.path).removesuffix(suffix)


Spans = tuple[tuple[int, int], ...]


def _coverage(view: TierView, partition: TieredPartition, segments: Sequence[RemoteSegment]) -> tuple[Spans, Spans]:
    """Return the offsets that no copy has, and those that two copies of one epoch have."""
    counted = [
        segment
        for segment in segments
        if segment.is_readable and segment.end_offset is not None and not view.tier.is_orphan(segment)
    ]
    joined = view.joined(partition.topic_partition)
    is_shown = joined is not None and joined.partition == partition
    lineage = joined.lineage if joined and is_shown else view.tier.lineage(partition)
    pieces = join(counted, lineage, joined.part if joined and is_shown else None)
    gaps = [(one.end, other.start - 1) for one, other in pairwise(pieces) if one.end < other.start]
    spans = sorted(
        span
        for segment in counted
        for span in valid_spans(segment.epochs, OffsetSpan(segment.start_offset, segment.next_offset or 0), lineage)
    )
    doubled, reached = [], 0
    for span in spans:
        if span.start < reached:
            doubled.append((span.start, min(span.end, reached) - 1))
        reached = max(reached, span.end)
    return tuple(gaps), tuple(doubled)
