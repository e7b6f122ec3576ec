"""Findings of producer snapshots: their entries held against the batches of the log below their offset.

A snapshot may know less than the log, where a producer was idle for so long that the broker forgot it, and more, where a
compaction or retention took the batches. What both know must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from policies.checking.facts import LogHistory, ProducersBatch, Step
from policies.checking.findings import Finding, FindingCode, Harm
from policies.checking.of_files import BY_ITSELF, DERIVED, FETCH_AGAIN, REBUILD
from policies.checking.of_transactions import OpenTransactions
from storage.names import FileKind, segment_file_name


class SnapshotEntry(NamedTuple):
    """A producer in a snapshot."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    """Of its last data batch; -1 where only markers are known."""
    offset_delta: int
    open_first_offset: int | None
    """First offset of its open transaction."""


Snapshots = Mapping[int, Sequence[SnapshotEntry] | str]
"""Offset of each snapshot -> its entries, or why it cannot be read."""


def snapshot_findings(log: LogHistory, snapshots: Snapshots) -> list[Finding]:
    """Return what is wrong with the snapshots of a partition."""
    found = []
    for offset, entries in snapshots.items():
        if isinstance(entries, str):
            text = f"The snapshot cannot be read: {entries}. The broker builds it anew from the log, which takes time."
            harm = Harm.SLOW_START
            found.append(_finding(FindingCode.SNAPSHOT_CORRUPT, harm, log, offset, text))
        elif offset > log.end_offset and not log.is_damaged:
            text = f"The snapshot is of offset {offset}, and the log ends at {log.end_offset}: the log lost its end."
            one = _finding(FindingCode.SNAPSHOT_WRONG, Harm.DATA_LOST, log, offset, text)
            found.append(one._replace(remedy=FETCH_AGAIN, repair=None, kafka_issue="KAFKA-17076"))
        else:
            found += [
                _finding(
                    FindingCode.SNAPSHOT_WRONG,
                    Harm.WRONG_ANSWER,
                    log,
                    offset,
                    f"Producer {entry.producer_id} has a last batch at offset {entry.last_offset}, behind the snapshot.",
                )
                for entry in entries
                if entry.last_offset >= offset
            ][:1]
    if not log.is_damaged:
        found += _disagreements(log, snapshots)
    return found


def _disagreements(log: LogHistory, snapshots: Snapshots) -> Iterator[Finding]:
    """Take the log segment by segment, and hold the snapshots at their bases, and at the end, against what it tells."""
    batches: dict[int, ProducersBatch] = {}
    transactions = OpenTransactions()
    ends = [(segment.standing.base_offset, segment) for segment in log.segments]
    for offset, segment in ends:
        yield from _at(offset, log, snapshots, batches, transactions)
        batches.update(segment.producers)
        for step in segment.steps:
            transactions.take(step)
            if step.step is not Step.DATA:
                transactions.markers[step.producer_id] = step.offset
    if log.end_offset not in {offset for offset, _ in ends}:
        yield from _at(log.end_offset, log, snapshots, batches, transactions)


def _at(
    offset: int,
    log: LogHistory,
    snapshots: Snapshots,
    batches: Mapping[int, ProducersBatch],
    transactions: OpenTransactions,
) -> Iterator[Finding]:
    entries = snapshots.get(offset, "")
    if isinstance(entries, str):
        return
    known = set()
    for entry in entries:
        known.add(entry.producer_id)
        wrong = _of_batch(entry, batches.get(entry.producer_id), is_exact=log.is_whole and log.start_offset == 0)
        wrong = wrong or _of_transaction(entry, offset, transactions, is_exact=log.is_whole)
        if wrong:
            yield _finding(
                FindingCode.SNAPSHOT_WRONG, Harm.WRONG_ANSWER, log, offset, f"Producer {entry.producer_id}: {wrong}."
            )
            return
    for producer_id, first_offset in transactions.first_offsets.items():
        if producer_id not in known:
            text = f"Producer {producer_id} has a transaction open since offset {first_offset}, and the snapshot does not know it."
            yield _finding(FindingCode.SNAPSHOT_WRONG, Harm.WRONG_ANSWER, log, offset, text)
            return


def _of_batch(entry: SnapshotEntry, batch: ProducersBatch | None, *, is_exact: bool) -> str | None:
    """Return what is wrong with the last batch of a producer; None if nothing is."""
    if entry.last_offset < 0 or (batch is None and not is_exact):
        return None
    if batch is None or batch.last_offset < entry.last_offset:
        return f"the last batch at offset {entry.last_offset} is not in the log" if is_exact else None
    if batch.last_offset > entry.last_offset:
        return f"the last batch is the one at offset {batch.last_offset}, and the snapshot names {entry.last_offset}"
    stated = entry.epoch, entry.last_sequence, entry.offset_delta
    if stated != (batch.epoch, batch.last_sequence, batch.offset_delta):
        return (
            f"the batch at offset {batch.last_offset} has epoch {batch.epoch}, sequence {batch.last_sequence}, offset delta"
            f" {batch.offset_delta}, and the snapshot {entry.epoch}, {entry.last_sequence}, {entry.offset_delta}"
        )
    return None


def _of_transaction(entry: SnapshotEntry, offset: int, transactions: OpenTransactions, *, is_exact: bool) -> str | None:
    """Return what is wrong with the open transaction of a producer; None if nothing is."""
    stated, found = entry.open_first_offset, transactions.first_offsets.get(entry.producer_id)
    if stated is None:
        return None if found is None else f"a transaction is open since offset {found}, and the snapshot has none open"
    if stated >= offset:
        return f"a transaction is open since offset {stated}, behind the snapshot"
    if stated < transactions.markers.get(entry.producer_id, -1):
        return f"the transaction that begins at offset {stated} is over"
    if found is not None and (stated > found or (is_exact and stated != found)):
        return f"the open transaction begins at offset {found}, and the snapshot says {stated}"
    return None


def _finding(code: FindingCode, harm: Harm, log: LogHistory, offset: int, text: str) -> Finding:
    path = f"{log.directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
    is_recovered = bool(log.segments) and log.segments[-1].standing.is_recovered
    if is_recovered and harm < Harm.SLOW_START:
        return Finding(code, Harm.SLOW_START, path, text, BY_ITSELF, offset=offset, repair=DERIVED)
    return Finding(code, harm, path, text, REBUILD, offset=offset, repair=DERIVED)
