"""The report of ``explain``: text for people, ``logcleaner.explain/1`` for machines, from the same values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.explain.choosing import ChosenSegment
from cleaner.engine.space.account import PartitionSpace
from cleaner.report.account import directory_fields
from cleaner.report.cleaning import reason_fields
from policies.config.policy import TopicPolicy
from policies.explain.explanation import PartitionExplanation
from policies.explain.fates import SegmentFate
from policies.facts import NO_TIMESTAMP, UnreadablePartition

if TYPE_CHECKING:
    from cleaner.report.overview.provenance import Provenance
    from cleaner.report.page import Lines, Page

SCHEMA: Final = "logcleaner.explain/1"
_KEYS: Final = (
    *("cleanup.policy", "retention.ms", "retention.bytes", "min.cleanable.dirty.ratio", "min.compaction.lag.ms"),
    *("max.compaction.lag.ms", "delete.retention.ms", "segment.ms", "segment.bytes", "segment.index.bytes"),
    *("segment.jitter.ms", "file.delete.delay.ms"),
)
"""The keys that decide what happens to a segment, and when."""


@dataclass(frozen=True, slots=True)
class ExplanationReport:
    """Explanations of one partition: one for each log dir that holds it."""

    now_ms: int
    explained: Sequence[PartitionExplanation]
    chosen: Sequence[ChosenSegment] = ()
    """The segment that the user asked for, for each explanation; empty if the report tells all segments."""
    failures: Sequence[UnreadablePartition] = ()
    spaces: Sequence[PartitionSpace] = ()
    """The space that each partition's directory takes, as ``du`` counts it; empty if nobody looked."""
    provenance: Provenance | None = None
    """Who makes the page of the explanation; None if no page is asked for."""

    def document(self) -> dict[str, Any]:
        """Return what ``explain --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        chosen, spaces = dict(enumerate(self.chosen)), dict(enumerate(self.spaces))
        partitions = [_partition(one, chosen.get(place), spaces.get(place)) for place, one in enumerate(self.explained)]
        failed = [_unreadable(failure) for failure in self.failures]
        document = {"schema": SCHEMA, "now": self.now_ms, "partitions": [*partitions, *failed]}
        if self.provenance is None:
            return document
        from cleaner.report.overview.of_explanation import report_fields  # noqa: PLC0415 - only a page needs it

        return {**document, "report": report_fields(self.provenance, self.explained, self.failures)}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the explanations one after the other."""
        from cleaner.report.explanation_text import fill  # noqa: PLC0415 - which --json does without

        for place, one in enumerate(self.explained):
            chosen, space = self.chosen[place] if self.chosen else None, self.spaces[place] if self.spaces else None
            fill(page, one, self.now_ms, chosen, space)
        for failure in self.failures:
            page.line(f"{failure.topic_partition} in {failure.log_dir}", "bold")
            page.note(f"FAILED: {failure.error}", "bold red")
        yield page.text


def _partition(
    explained: PartitionExplanation, chosen: ChosenSegment | None, space: PartitionSpace | None
) -> dict[str, Any]:
    planned, seen = explained.planned, explained.seen
    facts, section = planned.facts, explained.intended.section
    told = explained.segments if chosen is None else (chosen.fate,)
    return {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "log_dir": facts.log_dir,
        "locked_by": seen.locked_by,
        "error": None,
        "cleanup_policy": planned.policy.cleanup_policy,
        "config": {key: _stated(planned.policy, key) for key in _KEYS},
        "bytes": facts.size_bytes,
        **(directory_fields(space.account, space.removals) if space else directory_fields(None)),
        "topic_partitions": seen.topic.partitions if seen.topic else None,
        "topic_bytes": seen.topic.size_bytes if seen.topic else None,
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "high_watermark": facts.high_watermark,
        "last_stable_offset": seen.last_stable_offset,
        "first_dirty_offset": section.first_dirty_offset if section else None,
        "first_uncleanable_offset": section.first_uncleanable_offset if section else None,
        "dirty_bytes": section.dirty_bytes if section else None,
        "dirty_ratio": round(section.dirty_ratio, 6) if section else None,
        "open_transactions": [transaction._asdict() for transaction in seen.transactions],
        "records_unkeyed": seen.records_unkeyed,
        "delete_horizons": _with_bytes(seen.horizons._asdict()),
        "deleted_files": _with_bytes(seen.waiting._asdict()) if seen.waiting else None,
        "changes": [_with_bytes(change._asdict()) for change in explained.changes],
        "blockers": [_with_bytes(blocker._asdict()) for blocker in explained.blockers],
        "segments": [_segment(fate, is_active=fate is explained.segments[-1]) for fate in told],
        "chosen": _chosen(chosen) if chosen else None,
        "problems": list(seen.problems),
    }


def _unreadable(failure: UnreadablePartition) -> dict[str, Any]:
    topic, partition = failure.topic_partition
    return {"topic": topic, "partition": partition, "log_dir": failure.log_dir, "error": failure.error}


def _stated(policy: TopicPolicy, key: str) -> dict[str, Any]:
    stated = policy.value_of(key)
    value = ",".join(stated.value) if isinstance(stated.value, tuple) else stated.value
    return {"value": value, "layer": stated.layer.title, "file": stated.file, "line": stated.line}


def _segment(fate: SegmentFate, *, is_active: bool) -> dict[str, Any]:
    facts = fate.facts
    rules = {"retention": fate.retention, "compaction": fate.compaction}
    return {
        "base_offset": facts.base_offset,
        "last_offset_max": fate.upper_offset - 1 if facts.size_bytes else None,
        "first_timestamp_ms": _known(fate.times.first_ms),
        "newest_timestamp_ms": _known(fate.times.newest_ms),
        "file_time_ms": facts.mtime_ms,
        "bytes": facts.size_bytes,
        "index_bytes": facts.companions_bytes,
        "disk_bytes": facts.disk_bytes,
        "is_active": is_active,
        "action": fate.verdict.action.value,
        "reason": reason_fields(fate.verdict.reason),
        "rules": [{"rule": rule, **reason_fields(reason)} for rule, reason in rules.items() if reason is not None],
        "expires_ms": fate.expires_ms,
    }


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == NO_TIMESTAMP else timestamp_ms


def _chosen(chosen: ChosenSegment) -> dict[str, Any]:
    contents = chosen.contents
    return {
        "offset": chosen.offset,
        "record": chosen.record._asdict() if chosen.record else None,
        "files": [
            {"name": f.file_name, "bytes": f.size_bytes, "disk_bytes": f.disk_bytes, "links": f.links}
            for f in contents.files
        ],
        "batches": contents.batches,
        "records": contents.records,
        "codecs": dict(contents.codecs),
        "transactional_batches": contents.transactional_batches,
        "control_batches": contents.control_batches,
        "producers": contents.producers,
        "delete_horizons": _with_bytes(contents.stamped._asdict()),
        "problem": contents.problem,
    }


def _with_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the size under the name that all documents give it."""
    return {"bytes" if name == "size_bytes" else name: value for name, value in fields.items()}
