"""Findings of what batches tell: leader epochs, producer snapshots and transaction indexes held against the batches.

Findings of transaction indexes: their entries held against the markers in the log, and the other way round.

A reader of committed records leaves out what an entry names, and nothing else. So an aborted transaction without an
entry reads as committed (KAFKA-13727), and an entry too many hides records.

Findings of producer snapshots: their entries held against the batches of the log below their offset.

A snapshot may know less than the log, where a producer was idle for so long that the broker forgot it, and more, where
a compaction or retention took the batches. What both know must agree.

A clean stop writes a snapshot at the end of the log. A start behind a clean stop loads the newest snapshot, and reads
the batches behind it; but if there is no snapshot at all, it reads none: it takes the log for one without producers.
The snapshots at the bases of segments serve a truncation alone, which reads the log where they are missing.

Source: Kafka UnifiedLog.rebuildProducerState, UnifiedLog.close, ProducerStateManager.truncateAndReload.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from policies.findings.findings import (
    BY_ITSELF,
    FETCH_AGAIN,
    REBUILD,
    Finding,
    FindingCode,
    Harm,
    LogHistory,
    RepairGroup,
    SegmentHistory,
    Standing,
)
from storage.anomalies import ABORT, DATA, EpochRun, LastBatch, TxnEvent
from storage.names import LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, FileKind, segment_file_name
from storage.txn_index import AbortedTxn

_NO_EPOCH = -1


class EpochStart(NamedTuple):
    """An entry of a ``leader-epoch-checkpoint``."""

    epoch: int
    start_offset: int


class ReadEpochs(NamedTuple):
    """The ``leader-epoch-checkpoint`` of a partition."""

    entries: tuple[EpochStart, ...] | None = None
    """Ascending; None if the file is missing or cannot be read."""
    error: str | None = None
    """Why it cannot be read."""
    takes_offline: bool = False
    """Whether a start takes the log dir offline over the error, by ``policies.preflight``; else it stops the broker."""


NO_EPOCHS: Final = ReadEpochs()


def corrupt_epochs_finding(directory: str, epochs: ReadEpochs) -> Finding:
    """Return the finding of a ``leader-epoch-checkpoint`` that cannot be read, in the directory of a partition."""
    path, so = f"{directory}/{LEADER_EPOCH_CHECKPOINT}", "takes the log dir offline"
    text = f"It cannot be read: {epochs.error}; the broker {so if epochs.takes_offline else 'does not start'}."
    repair = RepairGroup.DERIVED
    return Finding(FindingCode.EPOCHS_CORRUPT, Harm.NO_START, path, text, REBUILD, repair=repair)


class _Placed(NamedTuple):
    stretch: EpochRun
    standing: Standing


def order_findings(log: LogHistory) -> list[Finding]:
    """Return a finding for each place where leader epochs go back: for the neighbour that differs from the other
    batches.
    """
    placed, found = list(_placed(log)), []
    for place in range(1, len(placed)):
        before, here = placed[place - 1], placed[place]
        if here.stretch.epoch >= before.stretch.epoch:
            continue
        behind = placed[place + 1].stretch.epoch if place + 1 < len(placed) else _NO_EPOCH
        is_dip = behind >= before.stretch.epoch
        is_before = not is_dip and (place == 1 or placed[place - 2].stretch.epoch <= here.stretch.epoch)
        wrong, other = (before, here) if is_before else (here, before)
        text = (
            f"The batch of offset {wrong.stretch.first_offset} has leader epoch {wrong.stretch.epoch}, its neighbour"
            f" {other.stretch.epoch}: a follower that compares epochs may cut off the wrong records."
        )
        place_of = wrong.stretch.position, wrong.stretch.first_offset
        path = wrong.standing.path_of(FileKind.LOG)
        found.append(Finding(FindingCode.EPOCH_BACKWARDS, Harm.WRONG_ANSWER, path, text, FETCH_AGAIN, *place_of))
    return found


def checkpoint_findings(
    log: LogHistory, entries: Sequence[EpochStart] | None, log_start_offset: int, *, is_whole: bool = True
) -> list[Finding]:
    """Return at most one finding: the first batch that the checkpoint has another epoch for.

    Args:
        log: the partition.
        entries: ascending by epoch; None where there is no checkpoint.
        log_start_offset: offsets below it need no epoch. Where the broker did not stop cleanly, it may be older than
            the entries, which a broker cuts at the log start.
        is_whole: whether all batches were read; of the first batches of segments alone less is told.
    """
    placed = [one for one in _placed(log) if one.stretch.last_offset >= log_start_offset]
    is_clean = bool(log.segments) and log.segments[-1].standing.is_clean
    if entries and not is_clean:
        log_start_offset = max(log_start_offset, entries[0].start_offset)
    path = f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
    if (cut := cut_entry([one.stretch for one in placed], entries or (), log_start_offset)) is not None:
        return [forgotten_start_finding(path, cut)]
    lost = next((one.stretch for one in placed if is_lost(one.stretch, entries or (), log_start_offset)), None)
    if lost is not None:
        return [lost_finding(path, lost.epoch, lost.first_offset, entries[-1].epoch if entries else None)]
    if not is_whole:
        return []
    text = _disorder(entries, log.end_offset) or _disagreement(placed, entries, log_start_offset) if entries else None
    if text is None:
        return []
    harm, repair = Harm.WRONG_ANSWER, RepairGroup.DERIVED
    return [Finding(FindingCode.EPOCHS_WRONG, harm, path, text, REBUILD, repair=repair)]


def cut_entry(stretches: Iterable[EpochRun], entries: Sequence[EpochStart], log_start_offset: int) -> EpochStart | None:
    """Return the first entry of a checkpoint if it was cut at a log start that is forgotten; None if it was not.

    A broker that deletes records cuts the entries at the new log start: the first one then begins within its epoch.
    Where the log start lies below by now, the deleted records are a part of the log again.

    Args:
        stretches: of batches.
        entries: of the checkpoint, ascending by epoch.
        log_start_offset: by ``log-start-offset-checkpoint``; 0 without a line.
    """
    if not entries or entries[0].start_offset <= log_start_offset:
        return None
    epoch, start = entries[0]
    return entries[0] if any(one.epoch == epoch and one.first_offset < start for one in stretches) else None


def forgotten_start_finding(path: str, cut: EpochStart) -> Finding:
    """Return the finding of a log start that only ``leader-epoch-checkpoint`` knows, at the path of that file."""
    directory, _, name = path.rpartition("/")
    topic, _, partition = directory.rpartition("/")[2].rpartition("-")
    text = (
        f"{name} begins at offset {cut.start_offset}, within leader epoch {cut.epoch}: the records below were deleted,"
        f" as kafka-delete-records does it, and {LOG_START_OFFSET_CHECKPOINT} does not say so any more. The next start"
        " of the broker makes the deleted records readable again."
    )
    line = f"{topic} {partition} {cut.start_offset}"
    remedy = (
        f"Before the broker starts, put the line '{line}' into {LOG_START_OFFSET_CHECKPOINT} of the log dir, and raise"
        " the number in its second line, which counts the lines below; if that file is empty or missing, its whole"
        f" content is '0\\n1\\n{line}\\n' (printf writes it). Or put it back from a backup. If nobody deleted records,"
        " remove the epoch file, and run logcleaner verify --repair."
    )
    return Finding(FindingCode.EPOCHS_WRONG, Harm.WRONG_ANSWER, path, text, remedy, None, cut.start_offset)


def is_lost(stretch: EpochRun, entries: Sequence[EpochStart], log_start_offset: int) -> bool:
    """Return whether a checkpoint does not know the epoch of some batches at their offset, nor a later one.

    Args:
        stretch: the batches.
        entries: of the checkpoint, ascending by epoch.
        log_start_offset: the log start offset. All entries below it but one were cut off.
    """
    if stretch.last_offset < log_start_offset:
        return False
    offset = max(stretch.first_offset, log_start_offset)
    return all(entry.start_offset > offset or entry.epoch < stretch.epoch for entry in entries)


def lost_finding(path: str, epoch: int, offset: int, newest_epoch: int | None) -> Finding:
    """Return the finding of a leader epoch that ``leader-epoch-checkpoint`` does not know.

    Args:
        path: of the checkpoint.
        epoch: of the batches.
        offset: of the first of them.
        newest_epoch: of the checkpoint; None if it has no entry, or is missing.
    """
    newest = "it is missing, or has no entry" if newest_epoch is None else f"its newest entry is {newest_epoch}"
    text = (
        f"The batch at offset {offset} was written in leader epoch {epoch}, which leader-epoch-checkpoint does not"
        f" know: {newest}. Followers that ask for the end of that epoch get no answer, and fetch in a loop or truncate"
        " too much."
    )
    return Finding(
        FindingCode.EPOCHS_LOST,
        Harm.WRONG_ANSWER,
        path,
        text,
        REBUILD,
        None,
        offset,
        "KAFKA-20961",
        RepairGroup.DERIVED,
    )


def _disorder(entries: Sequence[EpochStart], end_offset: int) -> str | None:
    """Return what is wrong with the entries alone, in a sentence."""
    if entries[0].epoch < 0 or entries[0].start_offset < 0:
        return f"The entry of epoch {entries[0].epoch}, offset {entries[0].start_offset}, is negative."
    for one, other in pairwise(entries):
        if other.start_offset <= one.start_offset:
            at = f"at offset {other.start_offset}, and epoch {one.epoch} at {one.start_offset}"
            return f"Leader epoch {other.epoch} begins {at}."
    last = entries[-1]
    if last.start_offset > end_offset:
        return f"Leader epoch {last.epoch} begins at offset {last.start_offset}, and the log ends at {end_offset}."
    return None


def _disagreement(placed: Sequence[_Placed], entries: Sequence[EpochStart], log_start_offset: int) -> str | None:
    """Return what batches say against the entries, in a sentence."""
    starts = [entry.start_offset for entry in entries]
    for stretch, _ in placed:
        if stretch.last_offset < log_start_offset:
            continue
        first_offset = max(stretch.first_offset, log_start_offset)
        place = bisect_right(starts, first_offset) - 1
        said = entries[place].epoch if place >= 0 else None
        if said != stretch.epoch:
            says = "no epoch" if said is None else f"epoch {said}"
            at = f"offset {stretch.first_offset} has leader epoch {stretch.epoch}"
            return f"The batch of {at}, and the file has {says} there."
        if place + 1 < len(starts) and starts[place + 1] <= stretch.last_offset:
            later, at = entries[place + 1], f"offset {stretch.last_offset} is of epoch {stretch.epoch}"
            return f"Leader epoch {later.epoch} begins at offset {later.start_offset}, and the batch of {at}."
    return None


def _placed(log: LogHistory) -> Iterator[_Placed]:
    """Yield the stretches with an epoch: what a compaction made of messages of v0 and v1 has none."""
    for standing, facts in log.segments:
        for one in facts.epochs:
            if one.epoch != _NO_EPOCH:
                yield _Placed(one, standing)


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
    began_in: dict[int, int] = {}  # producers with a transaction open, and the segment that it begins in
    for segment in log.segments:
        if segment.facts.is_damaged:
            break  # a marker may be lost: nothing behind it is judged
        if not (segment.facts.events or segment.facts.aborted):
            continue
        entries = {entry.last_offset: place for place, entry in enumerate(segment.facts.aborted)}
        met = set()
        for step in segment.facts.events:
            before = transactions.markers.get(step.producer_id, -1)
            first_offset, has_records = transactions.take(step)
            if step.what == DATA:
                began_in.setdefault(step.producer_id, segment.standing.base_offset)
                continue
            transactions.markers[step.producer_id] = step.offset
            base_offset = began_in.pop(step.producer_id, segment.standing.base_offset)
            place = entries.get(step.offset)
            if place is None:
                if step.what == ABORT and has_records:
                    first = f"offset {first_offset} in {segment_file_name(base_offset, FileKind.LOG)}"
                    found.append(_unindexed(step, segment, first))
                continue
            met.add(place)
            stable_offset = min([*transactions.first_offsets.values(), step.offset + 1])
            wrong = _disagreement_of_transactions(
                segment.facts.aborted[place], step, first_offset, before, is_exact=is_exact
            )
            wrong = wrong or _instability(segment.facts.aborted[place], stable_offset, is_exact=is_from_start)
            if wrong:
                found.append(_finding(segment, wrong, place, step.offset))
        found += _without_marker(segment, met)
    return found


def _disagreement_of_transactions(
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


def _unindexed(step: TxnEvent, segment: SegmentHistory, first: str) -> Finding:
    text = (
        f"No entry names the transaction of producer {step.producer_id} that begins at {first}, and was aborted at"
        f" offset {step.offset}: consumers of committed records read what was aborted."
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


def snapshot_findings(log: LogHistory, snapshots: Snapshots) -> list[Finding]:
    """Return what is wrong with the snapshots of a partition, by offset.

    A snapshot behind the end says that records are gone (``of_log_dir.offset_findings``).
    """
    found = []
    for offset, entries in snapshots.items():
        if isinstance(entries, str):
            text = f"The snapshot cannot be read: {entries}. The broker builds it anew from the log, which takes time."
            found.append(_finding_of_producer(FindingCode.SNAPSHOT_CORRUPT, Harm.SLOW_START, log, offset, text))
        elif offset > log.end_offset and not log.is_damaged:
            continue
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
        yield _finding_of_producer(FindingCode.SNAPSHOT_MISSING, Harm.SLOW_START, log, end_offset, text)
        return
    text = (
        "No snapshot is here, and the stop was clean: the next start of the broker forgets all producers and open"
        " transactions, takes duplicates for new records, and shows what is aborted later as committed."
    )
    yield _finding_of_producer(FindingCode.SNAPSHOT_MISSING, Harm.WRONG_ANSWER, log, end_offset, text)


def _has_producers(segment: SegmentHistory, offset: int = 0) -> bool:
    """Return whether a segment has batches of producers with an id, or of transactions, at an offset or behind it."""
    return any(batch.last_offset >= offset for batch in segment.facts.producers.values()) or any(
        step.offset >= offset for step in segment.facts.events
    )


def _disagreements(log: LogHistory, snapshots: Snapshots) -> Iterator[Finding]:
    """Compare each producer snapshot with the state that the batches below it give.

    A clean stop leaves a snapshot within a segment. Kafka loads it if it is the newest, and a repair goes on from it.
    So it is judged, too: by the transactions below it, and by the batches that are known to be the last ones below it.
    """
    told = _Told({}, OpenTransactions(), log.is_whole, log.is_whole and log.start_offset == 0)
    offsets, bases = sorted(snapshots), [segment.standing.base_offset for segment in log.segments]
    for segment, next_base in zip_longest(log.segments, bases[1:], fillvalue=log.end_offset):
        assert isinstance(segment, SegmentHistory)
        base_offset = segment.standing.base_offset
        yield from _at(base_offset, log, snapshots, told)
        steps = deque(segment.facts.events)
        for offset in offsets[bisect_right(offsets, base_offset) : bisect_left(offsets, next_base)]:
            told.take_steps_below(offset, steps)
            below = {id_: batch for id_, batch in segment.facts.producers.items() if batch.last_offset < offset}
            yield from _at(offset, log, snapshots, told._replace(batches=told.batches | below, is_all=False))
        told.take_steps_below(None, steps)
        told.batches.update(segment.facts.producers)
    if log.end_offset not in bases:
        yield from _at(log.end_offset, log, snapshots, told)


class _Told(NamedTuple):
    """The batches and transactions of a log up to some offset."""

    batches: dict[int, LastBatch]
    transactions: OpenTransactions
    is_whole: bool
    """Whether nothing behind the log's start is gone."""
    is_all: bool
    """Whether nothing at all is gone, and the last batch of every producer is known."""

    def take_steps_below(self, offset: int | None, steps: deque[TxnEvent]) -> None:
        """Take the steps of transactions below an offset, or all, off the steps that are left of a segment."""
        while steps and (offset is None or steps[0].offset < offset):
            step = steps.popleft()
            self.transactions.take(step)
            if step.what != DATA:
                self.transactions.markers[step.producer_id] = step.offset


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
    return _finding_of_producer(FindingCode.SNAPSHOT_WRONG, Harm.WRONG_ANSWER, log, offset, text)


def _finding_of_producer(code: FindingCode, harm: Harm, log: LogHistory, offset: int, text: str) -> Finding:
    path = _path(log, offset)
    is_recovered = bool(log.segments) and log.segments[-1].standing.is_recovered
    if is_recovered and harm < Harm.SLOW_START:
        return Finding(code, Harm.SLOW_START, path, text, BY_ITSELF, offset=offset, repair=RepairGroup.DERIVED)
    return Finding(code, harm, path, text, REBUILD, offset=offset, repair=RepairGroup.DERIVED)


def _path(log: LogHistory, offset: int) -> str:
    return f"{log.directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
