"""Findings of producer snapshots: their entries held against the batches of the log below their offset.

A snapshot may know less than the log, where a producer was idle for so long that the broker forgot it, and more, where
a compaction or retention took the batches. What both know must agree.

A clean stop writes a snapshot at the end of the log. A start behind a clean stop loads the newest snapshot, and reads
the batches behind it; but if there is no snapshot at all, it reads none: it takes the log for one without producers.
The snapshots at the bases of segments serve a truncation alone, which reads the log where they are missing.

Source: Kafka UnifiedLog.rebuildProducerState, UnifiedLog.close, ProducerStateManager.truncateAndReload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from policies.findings.facts import LogHistory, SegmentHistory
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.of_transactions import OpenTransactions
from policies.findings.remedies import BY_ITSELF, END_LOST, REBUILD
from storage.anomalies import DATA, LastBatch
from storage.names import FileKind, segment_file_name


class SnapshotEntry(NamedTuple):
    """A producer in a snapshot."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    """The last offset of the producer's last data batch; -1 if only markers are known."""
    offset_delta: int
    open_first_offset: int | None
    """First offset of its open transaction."""


Snapshots = Mapping[int, Sequence[SnapshotEntry] | str]
"""Offset of each snapshot -> its entries, or why it cannot be read."""


def snapshot_findings(log: LogHistory, snapshots: Snapshots, counted: int | None = None) -> list[Finding]:
    """Return what is wrong with the snapshots of a partition.

    Args:
        log: the partition.
        snapshots: by offset.
        counted: the offset that the next start takes for the end of the log; None if it looks for the end.
    """
    found = []
    end = log.end_offset if counted is None else min(counted, log.end_offset)
    ends = f"the log ends at {end}" + (" for the next start" if end < log.end_offset else "")
    for offset, entries in snapshots.items():
        if isinstance(entries, str):
            text = f"The snapshot cannot be read: {entries}. The broker builds it anew from the log, which takes time."
            found.append(_finding(FindingCode.SNAPSHOT_CORRUPT, Harm.SLOW_START, log, offset, text))
        elif offset > log.end_offset and not log.is_damaged:
            text = f"The snapshot is of offset {offset}, and {ends}: the log lost its end."
            path, code = _path(log, offset), FindingCode.END_BELOW_WATERMARK
            issue = "KAFKA-17076"
            found.append(Finding(code, Harm.DATA_LOST, path, text, END_LOST, None, end, issue))
        elif (behind := next((entry for entry in entries if entry.last_offset >= offset), None)) is not None:
            who = f"Producer {behind.producer_id} has its last batch at offset {behind.last_offset}"
            found.append(_wrong(log, offset, f"{who}, behind the snapshot."))
    if not log.is_damaged:
        found += _disagreements(log, snapshots)
        found += _missing(log, snapshots)
    return found


def _missing(log: LogHistory, snapshots: Snapshots) -> Iterator[Finding]:
    """Yield at most one finding: that no snapshot tells of the producers at the end of the log."""
    if not log.segments:
        return
    standing, end_offset = log.segments[-1].standing, log.end_offset
    newest = max((offset for offset in snapshots if offset <= end_offset), default=None)
    if not standing.is_clean:
        is_due = newest is None and standing.is_recovered and any(map(_has_producers, log.segments[:-1]))
        if is_due:
            text = "No snapshot is here: the next start of the broker reads the whole log to know its producers."
            path = _path(log, standing.base_offset)
            yield Finding(FindingCode.SNAPSHOT_MISSING, Harm.NOTE, path, text, BY_ITSELF, offset=standing.base_offset)
        return
    if newest == end_offset or not any(_has_producers(one, newest or 0) for one in log.segments):
        return
    if newest is not None:
        text = (
            f"A clean stop writes this snapshot, and it is missing: the next start of the broker reads the log from"
            f" offset {newest} on to know its producers."
        )
        yield _finding(FindingCode.SNAPSHOT_MISSING, Harm.SLOW_START, log, end_offset, text)
        return
    text = (
        "No snapshot is here, and the stop was clean: the next start of the broker forgets all producers and open"
        " transactions, takes duplicates for new records, and shows what is aborted later as committed."
    )
    yield _finding(FindingCode.SNAPSHOT_MISSING, Harm.WRONG_ANSWER, log, end_offset, text)


def _has_producers(segment: SegmentHistory, offset: int = 0) -> bool:
    """Return whether a segment has batches of producers with an id, or of transactions, at an offset or behind it."""
    return any(batch.last_offset >= offset for batch in segment.facts.producers.values()) or any(
        step.offset >= offset for step in segment.facts.events
    )


def _disagreements(log: LogHistory, snapshots: Snapshots) -> Iterator[Finding]:
    """Take the log segment by segment, and hold the snapshots at their bases, and at the end, against what it tells."""
    told = _Told({}, OpenTransactions(), log.is_whole, log.is_whole and log.start_offset == 0)
    for segment in log.segments:
        yield from _at(segment.standing.base_offset, log, snapshots, told)
        told.batches.update(segment.facts.producers)
        for step in segment.facts.events:
            told.transactions.take(step)
            if step.what != DATA:
                told.transactions.markers[step.producer_id] = step.offset
    if all(segment.standing.base_offset != log.end_offset for segment in log.segments):
        yield from _at(log.end_offset, log, snapshots, told)


class _Told(NamedTuple):
    """The batches and transactions of a log up to some offset."""

    batches: dict[int, LastBatch]
    transactions: OpenTransactions
    is_whole: bool
    """Whether nothing behind the log's start is gone."""
    is_all: bool
    """Whether nothing at all is gone."""


def _at(offset: int, log: LogHistory, snapshots: Snapshots, told: _Told) -> Iterator[Finding]:
    """Yield at most one finding of the snapshot at an offset."""
    entries = snapshots.get(offset, "")
    if isinstance(entries, str):
        return
    for entry in entries:
        wrong = _of_batch(entry, told.batches.get(entry.producer_id), is_exact=told.is_all)
        wrong = wrong or _of_transaction(entry, offset, told.transactions, is_exact=told.is_whole)
        if wrong:
            yield _wrong(log, offset, f"Producer {entry.producer_id}: {wrong}.")
            return
    known = {entry.producer_id for entry in entries}
    for producer_id, first_offset in told.transactions.first_offsets.items():
        if producer_id not in known:
            who = f"producer {producer_id}, which has a transaction open since offset {first_offset}"
            yield _wrong(log, offset, f"The snapshot does not know {who}.")
            return


def _of_batch(entry: SnapshotEntry, batch: LastBatch | None, *, is_exact: bool) -> str | None:
    """Return what is wrong with the last batch of a producer; None if nothing is."""
    if entry.last_offset < 0 or (batch is None and not is_exact):
        return None
    if batch is None or batch.last_offset < entry.last_offset:
        return f"the last batch at offset {entry.last_offset} is not in the log" if is_exact else None
    if batch.last_offset > entry.last_offset:
        return f"the last batch is the one at offset {batch.last_offset}, and the snapshot names {entry.last_offset}"
    stated = entry.epoch, entry.last_sequence, entry.offset_delta
    if stated != (batch.epoch, batch.last_sequence, batch.offset_delta):
        has = f"epoch {batch.epoch}, sequence {batch.last_sequence}, offset delta {batch.offset_delta}"
        says = f"{entry.epoch}, {entry.last_sequence}, {entry.offset_delta}"
        return f"the batch at offset {batch.last_offset} has {has}, and the snapshot {says}"
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


def _wrong(log: LogHistory, offset: int, text: str) -> Finding:
    return _finding(FindingCode.SNAPSHOT_WRONG, Harm.WRONG_ANSWER, log, offset, text)


def _finding(code: FindingCode, harm: Harm, log: LogHistory, offset: int, text: str) -> Finding:
    path = _path(log, offset)
    is_recovered = bool(log.segments) and log.segments[-1].standing.is_recovered
    if is_recovered and harm < Harm.SLOW_START:
        return Finding(code, Harm.SLOW_START, path, text, BY_ITSELF, offset=offset, repair=RepairGroup.DERIVED)
    return Finding(code, harm, path, text, REBUILD, offset=offset, repair=RepairGroup.DERIVED)


def _path(log: LogHistory, offset: int) -> str:
    return f"{log.directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
