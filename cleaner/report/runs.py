"""What a person reads of a partition: neighbours that share one fate are one run, so that it fits on a page.

A verdict says what was planned; the partition's result says what became of it, and gives each run its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from cleaner.engine.outcome import Outcome, PartitionResult
from policies.facts import UnreadablePartition
from policies.plan import PartitionPlan
from policies.reasons import Action, Verdict


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring segments of one word and one reason code; ``verdict`` is the one whose reason is told."""

    word: str
    verdict: Verdict
    first_base_offset: int
    last_base_offset: int
    segments: int
    size_bytes: int
    alike: bool
    """All have the very same reason text."""


def runs_of(planned: PartitionPlan, outcome: Outcome, *, every_segment: bool = False) -> list[Stretch]:
    """The runs of one partition, ascending.

    Args:
        planned: the plan of the partition.
        outcome: what became of it.
        every_segment: one run a segment.
    """
    result = outcome.results.get((planned.facts.log_dir, planned.facts.topic_partition))
    worded = list(zip(_words(planned.verdicts, outcome, result), planned.verdicts, strict=True))
    if every_segment:
        return [_run(word, [verdict]) for word, verdict in worded]
    alike = groupby(worded, key=lambda pair: (pair[0], pair[1].reason.code))
    return [_run(word, [verdict for _, verdict in pairs]) for (word, _), pairs in alike]


def folded(
    partitions: Sequence[PartitionPlan | UnreadablePartition],
) -> Iterator[list[PartitionPlan | UnreadablePartition]]:
    """Join neighbours of one topic that all stay for the same reason: internal topics have 50 of them."""
    for _, group in groupby(enumerate(partitions), key=lambda pair: _fold_key(*pair)):
        yield [partition for _, partition in group]


def _fold_key(place: int, planned: PartitionPlan | UnreadablePartition) -> tuple[object, ...]:
    if isinstance(planned, UnreadablePartition) or planned.has_work:
        return (place,)
    codes = {verdict.reason.code for verdict in planned.verdicts}
    topic = planned.facts.topic_partition.topic
    return (topic, *codes) if len(codes) == 1 else (place,)


def _words(verdicts: Sequence[Verdict], outcome: Outcome, result: PartitionResult | None) -> Iterator[str]:
    deleted = result.deleted_segments if result else 0
    compacted = bool(result and result.compacted_from_bytes)
    for place, verdict in enumerate(verdicts):
        if verdict.action is Action.KEEP:
            yield "keep"
        elif outcome.dry_run:
            yield f"would {verdict.action.value}"
        elif verdict.action is Action.DELETE:
            yield "deleted" if place < deleted else "not deleted"
        else:
            yield "compacted" if compacted else "not compacted"


def _run(word: str, verdicts: Sequence[Verdict]) -> Stretch:
    # the verdict next to the border between what goes and what stays is the one that people ask about
    telling = verdicts[-1] if verdicts[0].action is Action.DELETE else verdicts[0]
    return Stretch(
        word,
        telling,
        verdicts[0].base_offset,
        verdicts[-1].base_offset,
        len(verdicts),
        sum(verdict.size_bytes for verdict in verdicts),
        len({verdict.reason.text for verdict in verdicts}) == 1,
    )
