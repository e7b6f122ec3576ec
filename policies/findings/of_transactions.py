"""Findings of transaction indexes: their entries held against the markers in the log, and the other way round.

A reader of committed records leaves out what an entry names, and nothing else. So an aborted transaction without an
entry reads as committed (KAFKA-13727), and an entry too many hides records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.findings.facts import LogHistory, SegmentHistory
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.remedies import BY_ITSELF, REBUILD
from storage.anomalies import ABORT, DATA, TxnEvent
from storage.names import FileKind
from storage.txn_index import AbortedTxn

_ENTRY_BYTES: Final = 34


class OpenTransactions:
    """The transactions that are open while steps are taken, in the order of the log."""

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}
        """Producers, and the first offset here of the transaction that each has open."""
        self.markers: dict[int, int] = {}
        """The offset of the last marker of each producer."""
        self._with_records: set[int] = set()

    def take(self, step: TxnEvent) -> tuple[int | None, bool]:
        """Take a step. For a marker, return the first offset here of its transaction, and whether it has records."""
        producer_id = step.producer_id
        if step.what == DATA:
            self.first_offsets.setdefault(producer_id, step.offset)
            if step.has_records:
                self._with_records.add(producer_id)
            return None, False
        first_offset, has_records = self.first_offsets.pop(producer_id, None), producer_id in self._with_records
        self._with_records.discard(producer_id)
        return first_offset, has_records


def transaction_findings(log: LogHistory) -> list[Finding]:
    """Return what is wrong with the transaction indexes of a partition."""
    transactions, is_exact, found = OpenTransactions(), log.is_whole, []
    is_from_start = is_exact and log.start_offset == 0
    for segment in log.segments:
        if segment.facts.is_damaged:
            break  # a marker may be lost: nothing behind it is judged
        entries = {entry.last_offset: place for place, entry in enumerate(segment.facts.aborted)}
        met = set()
        for step in segment.facts.events:
            before = transactions.markers.get(step.producer_id, -1)
            first_offset, has_records = transactions.take(step)
            if step.what == DATA:
                continue
            transactions.markers[step.producer_id] = step.offset
            place = entries.get(step.offset)
            if place is None:
                if step.what == ABORT and has_records:
                    found.append(_unindexed(step, segment))
                continue
            met.add(place)
            stable_offset = min([*transactions.first_offsets.values(), step.offset + 1])
            wrong = _disagreement(segment.facts.aborted[place], step, first_offset, before, is_exact=is_exact)
            wrong = wrong or _instability(segment.facts.aborted[place], stable_offset, is_exact=is_from_start)
            if wrong:
                found.append(_finding(segment, wrong, place, step.offset))
        found += _without_marker(segment, met)
    return found


def _disagreement(
    entry: AbortedTxn, step: TxnEvent, first_offset: int | None, before: int, *, is_exact: bool
) -> str | None:
    """Return what is wrong with the entry that names a marker; None if nothing is.

    Args:
        entry: of the index.
        step: the marker.
        first_offset: of its transaction, as far as it lies in the log.
        before: offset of the producer's marker before it; -1 for none.
        is_exact: whether nothing was compacted away.
    """
    named = f"The entry of the marker at offset {step.offset}"
    if step.what != ABORT:
        return f"{named} hides a transaction that was committed."
    if entry.producer_id != step.producer_id:
        whose = f"names producer {entry.producer_id}, and the marker is of {step.producer_id}"
        return f"{named} {whose}: aborted records read as committed."
    if first_offset is not None and (
        entry.first_offset > first_offset or (is_exact and entry.first_offset < first_offset)
    ):
        where = f"begins at offset {entry.first_offset}, and its transaction at {first_offset}"
        return f"{named} {where}: readers of committed records get wrong ones."
    if not before < entry.first_offset <= step.offset:
        return f"{named} begins at offset {entry.first_offset}, which lies outside its transaction."
    return None


def _instability(entry: AbortedTxn, stable_offset: int, *, is_exact: bool) -> str | None:
    stated = entry.last_stable_offset
    if stated <= stable_offset and not (is_exact and stated < stable_offset) and stated >= 0:
        return None
    return (
        f"The entry of the marker at offset {entry.last_offset} states the last stable offset {stated}, and it was"
        f" {stable_offset}: readers may not see the entries behind it."
    )


def _without_marker(segment: SegmentHistory, met: set[int]) -> Iterator[Finding]:
    for place, entry in enumerate(segment.facts.aborted):
        if place not in met:
            text = f"An entry names a marker at offset {entry.last_offset}, and there is none: it may hide records."
            yield _finding(segment, text, place, entry.last_offset)


def _unindexed(step: TxnEvent, segment: SegmentHistory) -> Finding:
    text = (
        f"No entry names the transaction of producer {step.producer_id} that was aborted at offset {step.offset}:"
        " its records read as committed."
    )
    return _finding(segment, text, None, step.offset)._replace(
        code=FindingCode.ABORTED_UNINDEXED, kafka_issue="KAFKA-13727"
    )


def _finding(segment: SegmentHistory, text: str, place: int | None, offset: int) -> Finding:
    is_recovered = segment.standing.is_recovered
    return Finding(
        FindingCode.TXN_INDEX_WRONG,
        Harm.SLOW_START if is_recovered else Harm.WRONG_ANSWER,
        segment.standing.path_of(FileKind.TXN_INDEX),
        text,
        BY_ITSELF if is_recovered else REBUILD,
        None if place is None else place * _ENTRY_BYTES,
        offset,
        repair=RepairGroup.DERIVED,
    )
