"""The values of an overview: named tuples and dataclasses that JSON, and through it the page, is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cleaner.report.overview.provenance import Provenance
from cleaner.report.runways import documents
from policies.forecast.runway import Runway


class ReasonShare(NamedTuple):
    """The segments of a topic with one action and reason code."""

    action: str
    code: str
    segments: int
    bytes: int


class TopicOverview(NamedTuple):
    """The figures of one topic. Sizes are those of ``.log`` files, as far as nothing else is said."""

    topic: str
    cleanup_policy: str | None
    partitions: int
    segments: int
    bytes: int
    deleted_bytes: int
    """The bytes of the segments that the run deletes: planned, and not failed."""
    compacted_bytes: int
    """The bytes of the segments that the run compacts, before the compaction."""
    kept_bytes: int
    dirty_bytes: int | None
    """The dirty bytes; None if no partition is compacted."""
    dirty_ratio: float | None
    min_cleanable_dirty_ratio: float | None
    later_bytes: int
    """The bytes that time alone will let go within the next seven days, index files included."""
    reasons: tuple[ReasonShare, ...]


class PartitionOverview(NamedTuple):
    """The figures of one partition; sizes are those of ``.log`` files."""

    topic: str
    partition: int
    log_dir: str
    segments: int
    deleted_bytes: int
    compacted_bytes: int
    next_expiry_ms: int | None
    """The first moment at which time lets one of the segments go that stay now; None if time alone lets none go."""


class ReasonOverview(NamedTuple):
    """The segments with one action, reason code and stated value."""

    action: str
    code: str
    key: str | None
    """The key of the value that the reason rests on; None if it rests on none."""
    value: str | None
    origin: str | None
    topics: int
    segments: int
    bytes: int
    text: str
    """The sentence of one of the segments."""


class Later(NamedTuple):
    """The segments that time alone will let go, after this run. Index files are included."""

    bytes: int
    """Within the next seven days."""
    days: int
    first_ms: int | None
    """The first moment at which a segment may go, epoch ms; None if time alone lets none go."""
    first_bytes: int
    by_day: tuple[tuple[str, int], ...]
    """Day (UTC) and bytes, for the days on which something may go, up to 30 days ahead."""


class CurvePlace(NamedTuple):
    """A ``retention.ms``, and what a run with it for all topics that delete would keep and free."""

    limit_ms: int
    kept_bytes: int
    freed_bytes: int


class InForce(NamedTuple):
    """A ``retention.ms`` in force."""

    limit_ms: int
    topics: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RetentionCurve:
    """The bytes that each ``retention.ms`` would keep for the topics that delete, index files included."""

    places: tuple[CurvePlace, ...]
    """The points of the line, closely spaced, by rising limit."""
    round: tuple[CurvePlace, ...]
    """The points at limits that people ask for."""
    in_force: tuple[InForce, ...]
    """The limits in force, the limit of the most bytes first."""


@dataclass(frozen=True, slots=True)
class WrittenByDay:
    """The bytes that are there, by the day on which they were written."""

    days: tuple[str, ...]
    series: tuple[tuple[str | None, tuple[int, ...]], ...]
    """Topic and its bytes of each day; None stands for all other topics."""
    older_bytes: int
    undated_bytes: int


class OverviewFinding(NamedTuple):
    """A thing that keeps bytes here, or is wrong, with its remedy."""

    code: str
    topic: str | None
    partition: int | None
    log_dir: str | None
    owner: str | None
    text: str
    remedy: str | None
    bytes: int | None
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class OverviewTotals:
    """The sums over all topics."""

    topics: int
    partitions: int
    segments: int
    bytes: int
    deleted_segments: int
    deleted_bytes: int
    compacted_segments: int
    compacted_bytes: int
    kept_segments: int
    kept_bytes: int
    freed_bytes: int
    """The bytes that this run frees on the disk in the end: the blocks of ``totals.reclaimed_disk_bytes`` and unlinked
    files.
    """
    freed_at_once_bytes: int
    """The part of it that is free when the run ends; below 0 if the run takes more until the ``.deleted`` files go."""
    bytes_now: int
    """The blocks that the logs take when the report is made, with files that wait to be unlinked, or would be now."""
    is_estimate: bool
    """Compactions may free more than ``freed_bytes`` says, because the data was not read."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All values that a page of a plan shows beside the plan."""

    provenance: Provenance
    sentence: str
    freed: str
    """The space that is free at once, in a few words."""
    freed_when: str
    """The space that is free at once, and the space that follows with its time, in a sentence."""
    totals: OverviewTotals
    topics: tuple[TopicOverview, ...]
    partitions: tuple[PartitionOverview, ...]
    """All partitions in the order of the plan, unreadable partitions included."""
    reasons: tuple[ReasonOverview, ...]
    runways: tuple[Runway, ...]
    later: Later
    curve: RetentionCurve | None
    growth: WrittenByDay
    findings: tuple[OverviewFinding, ...]
    findings_left_out: int

    def fields(self) -> dict[str, Any]:
        """Return the values as JSON."""
        curve = self.curve
        return {
            **self.provenance.fields(),
            "sentence": self.sentence,
            "freed": self.freed,
            "freed_when": self.freed_when,
            "totals": {name: getattr(self.totals, name) for name in OverviewTotals.__slots__},
            "topics": [
                {**topic._asdict(), "reasons": [one._asdict() for one in topic.reasons]} for topic in self.topics
            ],
            "partitions": [partition._asdict() for partition in self.partitions],
            "reasons": [reason._asdict() for reason in self.reasons],
            "runway": documents(self.runways),
            "later": {
                **self.later._asdict(),
                "by_day": [{"day": day, "bytes": size} for day, size in self.later.by_day],
            },
            "retention_curve": None if curve is None else _curve(curve),
            "growth": {
                "days": list(self.growth.days),
                "series": [{"topic": topic, "bytes": list(sizes)} for topic, sizes in self.growth.series],
                "older_bytes": self.growth.older_bytes,
                "undated_bytes": self.growth.undated_bytes,
            },
            "findings": [finding._asdict() for finding in self.findings],
            "findings_left_out": self.findings_left_out,
        }


def _curve(curve: RetentionCurve) -> Mapping[str, Any]:
    return {
        "places": [place._asdict() for place in curve.places],
        "round": [place._asdict() for place in curve.round],
        "in_force": [value._asdict() for value in curve.in_force],
    }
