"""Tell which transactions hang, and which aborted ones read as committed."""

from __future__ import annotations

from collections.abc import Iterator

from policies.explain.of_compaction import aborting, hangs
from policies.explain.words import counted
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.remedies import REBUILD
from policies.findings.shapes.of_files import is_rebuilt
from policies.findings.shapes.symptoms import PartitionSymptoms
from policies.reasons import duration, moment
from storage.names import FileKind


def transaction_findings(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    """Yield the first aborted transaction that no transaction index names, and the oldest hanging one."""
    places = {glance.path: place for place, glance in enumerate(seen.glances)}
    if unindexed := [one for one in seen.walked.unindexed if not is_rebuilt(seen, places[one.path])]:
        aborted, *others = unindexed
        text = (
            f"Producer {aborted.producer_id} aborted a transaction with data from offset {aborted.first_offset} on, "
            f"and no .txnindex names it: consumers of committed records read what was aborted."
        )
        if others:
            text += f" So it is with {counted(len(others), 'more transaction')} of the partition."
        path = f"{aborted.path.removesuffix(FileKind.LOG)}{FileKind.TXN_INDEX}"
        yield Finding(
            FindingCode.ABORTED_UNINDEXED, Harm.WRONG_ANSWER, path, text, REBUILD, None, aborted.marker_offset,
            "KAFKA-13727", RepairGroup.DERIVED,
        )  # fmt: skip
    yield from _hanging(seen, now_ms)


def _hanging(seen: PartitionSymptoms, now_ms: int) -> Iterator[Finding]:
    explained = seen.explained
    if explained is None:
        return
    facts = explained.planned.facts
    hanging = [one for one in explained.seen.transactions if hangs(facts, explained.seen, one, now_ms)]
    if not hanging:
        return
    first, since_ms = hanging[0], hanging[0].since_ms or 0
    text = (
        f"Producer {first.producer_id}, epoch {first.producer_epoch}, began a transaction at offset "
        f"{first.first_offset} on {moment(since_ms)}, {duration(max(now_ms - since_ms, 0))} ago, and nobody will end "
        f"it: consumers of committed records wait there, and nothing from there on is compacted."
    )
    if len(hanging) > 1:
        text += (
            f" {counted(len(hanging) - 1, 'more transaction')} {'hangs' if len(hanging) == 2 else 'hang'} behind it."
        )
    remedy = f"End it, once the broker runs: {aborting(facts, first)}."
    yield Finding(
        FindingCode.TRANSACTION_HANGING, Harm.WASTE, seen.path, text, remedy, None, first.first_offset, "KAFKA-12671"
    )
