"""The values of an explanation that its page shows and its segments alone do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cleaner.report.overview.provenance import Provenance
from cleaner.report.overview.values import ReasonShare
from cleaner.report.page import counted, size
from policies.explain.explanation import PartitionExplanation
from policies.facts import UnreadablePartition
from policies.reasons import Action, moment


def report_fields(
    provenance: Provenance, explained: Sequence[PartitionExplanation], failures: Sequence[UnreadablePartition]
) -> dict[str, Any]:
    """Return the key ``report`` of ``logcleaner.explain/1``.

    Args:
        provenance: who makes the report.
        explained: the explanations of the partition.
        failures: why it could not be read.
    """
    partitions = [_partition(one) for one in explained]
    names = ("segments", "deleted_segments", "deleted_bytes", "compacted_segments", "compacted_bytes", "bytes")
    totals = {name: sum(partition[name] for partition in partitions) for name in names}
    return {
        **provenance.fields(),
        "sentence": _sentence(explained, failures, totals),
        "totals": totals,
        "partitions": partitions,
    }


def _partition(explained: PartitionExplanation) -> dict[str, Any]:
    facts = explained.planned.facts
    sizes: Counter[tuple[Action, str]] = Counter()
    segments: Counter[tuple[Action, str]] = Counter()
    for fate in explained.segments:
        key = fate.verdict.action, fate.verdict.reason.code
        sizes[key] += fate.facts.size_bytes
        segments[key] += 1
    reasons = [ReasonShare(act.value, code, segments[act, code], sizes[act, code]) for act, code in segments]
    return {
        "topic": facts.topic_partition.topic,
        "partition": facts.topic_partition.partition,
        "log_dir": facts.log_dir,
        "segments": sum(segments.values()),
        "bytes": facts.size_bytes,
        "deleted_segments": sum(count for (action, _), count in segments.items() if action is Action.DELETE),
        "deleted_bytes": sum(bytes_ for (action, _), bytes_ in sizes.items() if action is Action.DELETE),
        "compacted_segments": sum(count for (action, _), count in segments.items() if action is Action.COMPACT),
        "compacted_bytes": sum(bytes_ for (action, _), bytes_ in sizes.items() if action is Action.COMPACT),
        "reasons": [reason._asdict() for reason in reasons],
    }


def _sentence(
    explained: Sequence[PartitionExplanation], failures: Sequence[UnreadablePartition], totals: dict[str, int]
) -> str:
    if not explained:
        return f"{failures[0].topic_partition} cannot be read." if failures else "There is no such partition."
    name, change = explained[0].planned.facts.topic_partition, explained[0].next_change
    acts = []
    if totals["deleted_segments"]:
        acts.append(f"deletes {_segments(totals, 'deleted')}")
    if totals["compacted_segments"]:
        acts.append(f"compacts {_segments(totals, 'compacted')}")
    of = f"of the {counted(totals['segments'], 'segment')} ({size(totals['bytes'])}) of {name}"
    then = f"Next, at {moment(change.at_ms)}: {change.text}." if change else "Nothing changes by itself after that."
    return f"Clean {' and '.join(acts) or 'changes nothing'} {of}. {then}"


def _segments(totals: dict[str, int], acted: str) -> str:
    return f"{counted(totals[f'{acted}_segments'], 'segment')} ({size(totals[f'{acted}_bytes'])})"
