"""The offsets at which logs are cut so that together they are the log dirs of one moment.

A log can be cut at offsets alone, and batches need not lie in the order of their timestamps. So a log is first cut
below its first batch with a record newer than the moment. Then cuts are lowered until they agree: if a batch is in, so
is what came before it. ``_Need`` says what came before. The cuts that agree are closed under union, so the greatest of
them exists, and lowering finds it.

A transaction is then whole for consumers that read committed records, or absent:
    its data come behind the record of ``__transaction_state`` that names their partition, so that a coordinator that
    starts knows of every open transaction;
    its Prepare record comes behind all its data, so that the coordinator commits all of it or none;
    its markers come behind the Prepare record; its Complete record comes behind all markers.
Where ``__transaction_state`` does not tell of a transaction, no coordinator will end it, so that its marker must be in,
in every partition; else all of it goes. Which parts are of one transaction is then told by the epoch and by times: the
data of a transaction are older than its markers.

Source: Kafka TransactionStateManager.loadTransactionsForTxnTopicPartition, TransactionCoordinator.endTransaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from storage.names import TopicPartition

_NEVER: Final = 1 << 63
"""An offset that no log reaches, and a time that never comes."""
_SKEW_MS_MAX: Final = 60_000
"""How far the clocks of two brokers may differ: a marker further from its transaction belongs to another one."""


class TransactionState(IntEnum):
    """The states of a transaction that matter here, as ``__transaction_state`` has them."""

    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class StateRecord(NamedTuple):
    """A record of ``__transaction_state``."""

    transactional_id: str
    offset: int
    """The base offset of its batch."""
    next_offset: int
    """The offset behind its batch."""
    time_ms: int
    producer_id: int
    state: TransactionState
    partitions: frozenset[TopicPartition]


class TransactionPart(NamedTuple):
    """The batches that one partition has of a transaction."""

    producer_id: int
    epoch: int
    """The producer epoch of its data."""
    first_offset: int
    first_ms: int
    """The largest timestamp of its first batch."""
    data_end: int
    """The offset behind its last batch of data."""
    marker_offset: int | None = None
    """None: it is open at the end of the log."""
    marker_ms: int = _NEVER
    commits: bool = False
    ends_epoch: bool = False
    """Whether the marker has a higher epoch: then the epoch had no later transaction. Since Kafka 4, all are so."""


class TransactionParts:
    """Puts the transactions of one log together, of the headers of its batches in their order."""

    def __init__(self, begun: Iterable[TransactionPart] = ()) -> None:
        """Begin where some transactions are open already."""
        self._begun = {part.producer_id: part for part in begun}
        self._ended: list[TransactionPart] = []

    @property
    def ended(self) -> Sequence[TransactionPart]:
        """The parts whose marker was met, in the order of their markers."""
        return self._ended

    @property
    def open(self) -> Iterable[TransactionPart]:
        """The parts whose marker was not met."""
        return self._begun.values()

    def data(self, producer_id: int, epoch: int, offset: int, end: int, time_ms: int) -> None:
        """Take a batch of data: its base offset, the offset behind it, and its largest timestamp, epoch ms."""
        begun = self._begun.get(producer_id) or TransactionPart(producer_id, epoch, offset, time_ms, end)
        self._begun[producer_id] = begun._replace(data_end=end)

    def marker(self, producer_id: int, epoch: int, offset: int, time_ms: int, *, commits: bool) -> None:
        """Take a marker. A marker behind no data tells nothing."""
        if begun := self._begun.pop(producer_id, None):
            ends_epoch = epoch > begun.epoch
            self._ended.append(
                begun._replace(marker_offset=offset, marker_ms=time_ms, commits=commits, ends_epoch=ends_epoch)
            )


class MomentLog(NamedTuple):
    """The facts about one log that decide about its cut."""

    name: TopicPartition
    start_offset: int
    end_offset: int
    newer_offset: int | None
    """The base offset of the first batch with a record newer than the moment; None if there is none."""
    parts: tuple[TransactionPart, ...] = ()
    """In the order of their markers, open ones last."""
    states: tuple[StateRecord, ...] = ()
    """Of a partition of ``__transaction_state``."""


class CutReason(StrEnum):
    """The reason for which a log ends where it ends."""

    END = "END"
    """Nothing in the log is newer than the moment."""
    NEWER = "NEWER"
    """A batch with a newer record follows."""
    TRANSACTION = "TRANSACTION"
    """A transaction that would not be whole follows."""
    GIVEN = "GIVEN"
    """A file of offsets says so."""


class Cut(NamedTuple):
    """The cut of one log: batches that begin at or above the offset are left out."""

    name: TopicPartition
    offset: int
    reason: CutReason
    producer_id: int | None = None
    """The producer whose transaction follows, for ``TRANSACTION``."""


class SpoilCode(StrEnum):
    """The reasons for which a log cannot be what it was at the moment."""

    COMPACTED = "COMPACTED"
    """Compaction passed the moment: records below the cut may have gone for newer ones above it."""
    BEGINS_LATER = "BEGINS_LATER"
    """The log begins at or behind the cut: what it had at the moment was deleted since."""
    ENDS_EARLIER = "ENDS_EARLIER"
    """The log ends before the cut that a file gives: another replica had more."""


def spoiled(
    log: MomentLog, cut: Cut, first_dirty_offset: int | None, last_hole: int, given: int | None = None
) -> SpoilCode | None:
    """Return why a log cannot be what it was at the moment; None if it can.

    Args:
        log: the log. cut: where it is cut.
        first_dirty_offset: of ``cleaner-offset-checkpoint``; None without a line.
        last_hole: the offset behind the last place where offsets are missing; 0 if none is.
        given: the offset that a file gives.
    """
    if cut.offset >= log.end_offset:
        return SpoilCode.ENDS_EARLIER if given is not None and given > log.end_offset else None
    if cut.offset <= log.start_offset and log.start_offset:
        return SpoilCode.BEGINS_LATER
    return SpoilCode.COMPACTED if max(first_dirty_offset or 0, last_hole) > cut.offset else None


class OpenPart(NamedTuple):
    """The part of a transaction that is open at the cut of its partition."""

    name: TopicPartition
    part: TransactionPart
    commits: bool | None
    """What a coordinator that starts makes of it; None if no ``__transaction_state`` tells."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of all logs, which agree."""

    by_name: Mapping[TopicPartition, Cut]
    open_parts: tuple[OpenPart, ...]

    def __getitem__(self, name: TopicPartition) -> Cut:
        return self.by_name[name]


class _Need(NamedTuple):
    """If the batch at ``offset`` of one log is in, the other log must be in up to ``up_to``."""

    name: TopicPartition
    offset: int
    other: TopicPartition
    up_to: int
    producer_id: int


@dataclass(slots=True)
class _Transaction:
    """A transaction as ``__transaction_state`` tells of it."""

    log: TopicPartition
    producer_id: int
    registered: dict[TopicPartition, StateRecord] = field(default_factory=dict)
    """Each partition, with the first record that names it."""
    prepared: StateRecord | None = None
    complete: StateRecord | None = None

    @property
    def commits(self) -> bool:
        return self.prepared is not None and self.prepared.state is TransactionState.PREPARE_COMMIT

    def distance_ms(self, marker_ms: int) -> int:
        """Return how far a marker lies from the time in which the markers of this transaction were written."""
        assert self.prepared is not None
        end_ms = self.complete.time_ms if self.complete else _NEVER
        return max(self.prepared.time_ms - marker_ms, marker_ms - end_ms, 0)


_Placed = tuple[TopicPartition, TransactionPart]


def cuts_as_of(logs: Sequence[MomentLog], hung_since_ms: int = -1) -> Cuts:
    """Return the greatest cuts that agree and have no batch newer than the moment.

    Args:
        logs: of all partitions that are there; each name once.
        hung_since_ms: a part that began before it, and is open at the end of its log, hung at the moment, too; it stays
            as it is unless a coordinator knows of it.
    """
    transactions = _transactions(logs)
    matched, alone = _matched(logs, transactions)
    alone = [(name, part) for name, part in alone if part.marker_offset is not None or part.first_ms >= hung_since_ms]
    cuts = {log.name: _by_time(log) for log in logs}
    needs = [*_needs_of(matched), *_needs_of_untold(alone)]
    while _lower(cuts, needs):
        needs = [need for need in needs if cuts[need.name].offset > need.offset]
    return Cuts(cuts, tuple(_open_parts(logs, cuts, matched)))


def cuts_given(logs: Sequence[MomentLog], offsets: Mapping[TopicPartition, int]) -> Cuts:
    """Return cuts at given offsets, as they were decided where more logs were seen.

    Args:
        logs: of the partitions that are there.
        offsets: one for each of them.
    """
    matched, _ = _matched(logs, _transactions(logs))
    cuts = {log.name: Cut(log.name, offsets[log.name], CutReason.GIVEN) for log in logs}
    for log in logs:
        if offsets[log.name] >= log.end_offset:
            cuts[log.name] = Cut(log.name, log.end_offset, CutReason.END)
    return Cuts(cuts, tuple(_open_parts(logs, cuts, matched)))


def _by_time(log: MomentLog) -> Cut:
    if log.newer_offset is None:
        return Cut(log.name, log.end_offset, CutReason.END)
    return Cut(log.name, log.newer_offset, CutReason.NEWER)


def _lower(cuts: dict[TopicPartition, Cut], needs: Iterable[_Need]) -> bool:
    """Lower the cuts of which a need is not met. Return whether one was lowered."""
    is_lowered = False
    for need in needs:
        if cuts[need.name].offset > need.offset and cuts[need.other].offset < need.up_to:
            cuts[need.name] = Cut(need.name, need.offset, CutReason.TRANSACTION, need.producer_id)
            is_lowered = True
    return is_lowered


def _transactions(logs: Iterable[MomentLog]) -> dict[int, list[_Transaction]]:
    """Return the transactions of each producer id, in their order."""
    found: defaultdict[int, list[_Transaction]] = defaultdict(list)
    for log in logs:
        latest: dict[str, _Transaction] = {}
        for record in log.states:
            known = latest.get(record.transactional_id)
            if record.state in _COMPLETE:
                if known and known.prepared and not known.complete:
                    known.complete = record
                continue
            if known is None or known.prepared or known.producer_id != record.producer_id:
                known = latest[record.transactional_id] = _Transaction(log.name, record.producer_id)
                found[record.producer_id].append(known)
            for name in record.partitions:
                known.registered.setdefault(name, record)
            if record.state in _PREPARED:
                known.prepared = record
    return found


class _Match(NamedTuple):
    name: TopicPartition
    part: TransactionPart
    transaction: _Transaction


def _matched(
    logs: Iterable[MomentLog], transactions: Mapping[int, Sequence[_Transaction]]
) -> tuple[list[_Match], list[_Placed]]:
    """Find the transaction of each part. Return the matches, and the parts of which no record tells."""
    matched: list[_Match] = []
    alone: list[_Placed] = []
    for log in logs:
        by_producer: defaultdict[int, list[TransactionPart]] = defaultdict(list)
        for part in log.parts:
            by_producer[part.producer_id].append(part)
        for producer_id, parts in by_producer.items():
            told = [one for one in transactions.get(producer_id, ()) if log.name in one.registered]
            for part, transaction in _pairs(parts, told):
                if transaction is None:
                    alone.append((log.name, part))
                else:
                    matched.append(_Match(log.name, part, transaction))
    return matched, alone


def _pairs(
    parts: Sequence[TransactionPart], told: Sequence[_Transaction]
) -> Iterator[tuple[TransactionPart, _Transaction | None]]:
    """Match the parts of one producer in one partition with its transactions there, both in their order.

    A marker is written between the Prepare and the Complete record of its transaction, and tells the same outcome. A
    transaction may have no data here, and so no part.
    """
    used: set[int] = set()
    for commits in (True, False):
        candidates = [one for one in told if one.prepared and one.commits is commits]
        at = 0
        for part in (part for part in parts if part.marker_offset is not None and part.commits is commits):
            while at + 1 < len(candidates) and 0 < candidates[at].distance_ms(part.marker_ms) >= candidates[
                at + 1
            ].distance_ms(part.marker_ms):
                at += 1
            if at < len(candidates) and candidates[at].distance_ms(part.marker_ms) <= _SKEW_MS_MAX:
                used.add(id(candidates[at]))
                yield part, candidates[at]
                at += 1
            else:
                yield part, None
    for part in (part for part in parts if part.marker_offset is None):
        last = told[-1] if told and not told[-1].complete and id(told[-1]) not in used else None
        yield part, last


def _needs_of(matched: Iterable[_Match]) -> Iterator[_Need]:
    """Yield what the batches of transactions need of which ``__transaction_state`` tells."""
    for name, part, transaction in matched:
        log, producer_id = transaction.log, part.producer_id
        yield _Need(name, part.first_offset, log, transaction.registered[name].next_offset, producer_id)
        if (prepared := transaction.prepared) is not None:
            yield _Need(log, prepared.offset, name, part.data_end, producer_id)
            if part.marker_offset is not None:
                yield _Need(name, part.marker_offset, log, prepared.next_offset, producer_id)
        if transaction.complete is not None and part.marker_offset is not None:
            yield _Need(log, transaction.complete.offset, name, part.marker_offset + 1, producer_id)


def _needs_of_untold(alone: Iterable[_Placed]) -> Iterator[_Need]:
    """Yield what the batches of all other transactions need: every marker."""
    by_producer: defaultdict[int, list[_Placed]] = defaultdict(list)
    for placed in alone:
        by_producer[placed[1].producer_id].append(placed)
    for producer_id, placed_parts in by_producer.items():
        for group in _groups(placed_parts):
            for name, part in group:
                for other, another in group:
                    up_to = _NEVER if another.marker_offset is None else another.marker_offset + 1
                    yield _Need(name, part.first_offset, other, up_to, producer_id)


def _groups(placed: Iterable[_Placed]) -> list[list[_Placed]]:
    """Group the parts of one producer by transaction."""
    groups: list[list[_Placed]] = []
    for name, part in sorted(placed, key=lambda one: one[1].marker_ms):
        group = groups[-1] if groups else None
        if group is not None and _may_join(name, part, group):
            group.append((name, part))
        else:
            groups.append([(name, part)])
    return groups


def _may_join(name: TopicPartition, part: TransactionPart, group: Sequence[_Placed]) -> bool:
    first = group[0][1]
    if part.epoch != first.epoch or any(name == other for other, _ in group):
        return False
    if part.marker_offset is not None and (part.commits, part.ends_epoch) != (first.commits, first.ends_epoch):
        return False
    return first.ends_epoch or part.first_ms <= first.marker_ms


def _open_parts(
    logs: Iterable[MomentLog], cuts: Mapping[TopicPartition, Cut], matched: Iterable[_Match]
) -> Iterator[OpenPart]:
    """Yield the parts that are open at the cuts."""
    told = {(name, part.first_offset): transaction for name, part, transaction in matched}
    for log in logs:
        cut = cuts[log.name].offset
        for part in log.parts:
            if part.first_offset < cut and (part.marker_offset is None or part.marker_offset >= cut):
                transaction = told.get((log.name, part.first_offset))
                commits = None
                if transaction is not None:
                    prepared = transaction.prepared
                    is_prepared = prepared is not None and prepared.offset < cuts[transaction.log].offset
                    commits = is_prepared and transaction.commits
                yield OpenPart(log.name, part, commits)
