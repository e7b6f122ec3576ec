"""The folding of a partition's segments for people: neighbours with the same fate become one stretch.

A verdict tells the plan. The partition's result tells what was done, and decides the word of each stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from cleaner.engine.outcome import Outcome, PartitionResult
from cleaner.report.page import YEAR_9999_MS
from policies.plan import PartitionPlan
from policies.reasons import Action, Reason, ReasonCode, Verdict, counted, moment

STYLES: Final = {Action.DELETE: "red", Action.COMPACT: "cyan", Action.KEEP: "green"}
"""The style of the word for a fate."""


NOT_DONE: Final = "NOT_DONE"
"""The word in place of a reason for segments whose deletion or compaction was planned, and failed or was not begun."""


class Stretch(NamedTuple):
    """Neighbouring segments with the same word and reason code; the report prints the reason of ``verdict``."""

    word: str
    verdict: Verdict
    first_base_offset: int
    last_base_offset: int
    segments: int
    size_bytes: int
    alike: bool
    """Whether all have the same reason text."""


def runs_of(planned: PartitionPlan, outcome: Outcome, *, every_segment: bool = False) -> list[Stretch]:
    """Return the stretches of one partition, ascending.

    Args:
        planned: the plan of the partition.
        outcome: the outcome of the run.
        every_segment: make a stretch of each segment.
    """
    result = outcome.results.get((planned.facts.log_dir, planned.facts.topic_partition))
    worded = list(zip(words_of(planned.verdicts, outcome, result), planned.verdicts, strict=True))
    if every_segment:
        return [_run(word, [verdict]) for word, verdict in worded]
    alike = groupby(worded, key=lambda pair: (pair[0], pair[1].reason.code))
    return [_run(word, [verdict for _, verdict in pairs]) for (word, _), pairs in alike]


def where(run: Stretch) -> str:
    """Return the place of a stretch: its first and last base offset."""
    if run.segments == 1:
        return str(run.first_base_offset)
    return f"{run.first_base_offset} to {run.last_base_offset}, {counted(run.segments, 'segment')}"


def told(reason: Reason, whose: str) -> str:
    """Return the reason's sentence, after the segment that it is about, if any, and before the time until it holds."""
    is_past = reason.code is ReasonCode.RETENTION_TIME
    until_ms = None if is_past else reason.until_ms
    until = f"; until {moment(until_ms)}" if until_ms and until_ms < YEAR_9999_MS else ""
    return f"{whose + ': ' if whose else ''}{reason.text}{until}"


def policy_of(planned: PartitionPlan) -> str:
    """Return the cleanup policy of a partition, in words if it has none."""
    if planned.config_is_unknown:
        return "policy unknown"
    return planned.policy.cleanup_policy or "no policy"


def words_of(verdicts: Sequence[Verdict], outcome: Outcome, result: PartitionResult | None) -> Iterator[str]:
    """Yield the word for the fate of each segment; it begins with ``not`` if a step that was planned was not done."""
    deleted = result.deleted_segments if result else 0
    compacted = bool(result and result.compacted_from_bytes)
    for place, verdict in enumerate(verdicts):
        if verdict.action is Action.KEEP:
            yield "keep"
        elif outcome.dry_run and not (outcome.no_kernels and verdict.action is Action.COMPACT):
            yield f"would {verdict.action.value}"
        elif verdict.action is Action.DELETE:
            yield "deleted" if place < deleted else "not deleted"
        else:
            yield "compacted" if compacted else "not compacted"


def acts_of(planned: PartitionPlan, outcome: Outcome) -> Iterator[tuple[Verdict, Action, str]]:
    """Yield the verdict on each segment after the run, with the reason. A segment whose step was not done is kept."""
    for verdict, word in zip(
        planned.verdicts, words_of(planned.verdicts, outcome, outcome.results.get(planned.key)), strict=True
    ):
        if word.startswith("not "):
            yield verdict, Action.KEEP, NOT_DONE
        else:
            yield verdict, verdict.action, verdict.reason.code


def _run(word: str, verdicts: Sequence[Verdict]) -> Stretch:
    # people ask about the verdict next to the border between deleted and kept segments
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
