"""Find out where logs are cut so that they are as they were at a moment. Nothing is written.

Newer:          the time indexes tell the first segment with a newer record, and where in it the search begins; only
                headers from there on are read.
Transactions:   the headers of that segment up to the border, and a little behind it, because clocks differ. Nothing of
                a segment is read if the producer snapshots at its start and its end name no producer of transactions.
                An earlier segment is read, too, if it may hold a part of a transaction that goes.

The rule is in ``policies.as_of``. No ``__transaction_state`` is handed to it: a coordinator that starts on what is
restored need not end anything, because each transaction is in with its markers, or absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from policies.as_of import Cut, MomentLog, TransactionPart, TransactionParts, cuts_as_of
from storage.directory import OpenFile
from storage.errors import CorruptIndex
from storage.log.end import largest_unindexed_timestamp, next_offset_of
from storage.log.listing import Listing
from storage.log.producer_state import CorruptSnapshot, ProducerEntry, parse_snapshot
from storage.log.read import position_of, time_entries
from storage.log_dir import read_file
from storage.names import TopicPartition
from storage.records import Batch, BatchHeader, LegacyHeader, PositionedHeader, TxnMarker, iter_headers, read_batch
from storage.records.read_batches import HeaderIterator
from storage.segment import Segment, reading

_BEHIND_MS: Final = 10_000
_BEHIND_BYTES: Final = 1 << 20
"""Behind the border, transactions are looked for so far."""
_CLOCKS_DIFFER_MS: Final = 60_000
"""A part of a log that ends so long before a transaction began has no marker of it."""
_FORGOTTEN_MS: Final = 86_400_000
"""A broker may have forgotten a producer that was silent for so long (``producer.id.expiration.ms``)."""


class _Place(NamedTuple):
    """The place of a border in a log."""

    segment: int
    """The number of the segment that holds it."""
    position: int
    """The byte of the first batch that is newer."""
    offset: int


class _Event(NamedTuple):
    """The header of a batch of a transaction, or of its marker."""

    offset: int
    end: int
    """The offset behind it."""
    producer_id: int
    epoch: int
    time_ms: int
    commits: bool | None
    """What a marker says; None for data."""


class LogToCut:
    """One log, of which as much is read as the decision needs."""

    def __init__(self, listing: Listing, until_ms: int, newest_ms: Mapping[int, int] | None = None) -> None:
        """Find the first batch that is newer than a moment.

        Args:
            listing: the log; it has a segment.
            until_ms: the moment, epoch ms.
            newest_ms: the largest timestamps of segments, by base offset, as far as somebody knows them.

        Raises: CorruptBatch, UnreadableFile; as a store.
        """
        self._segments, self._until_ms = listing.segments, until_ms
        self._snapshots = {file.name.base_offset: file for file in listing.snapshots}
        self._newest_ms = dict(newest_ms or {})
        self._cut: _Place = self._found()
        self._read: dict[int, list[_Event]] = {}
        self._first = min(self._cut.segment, len(self._segments) - 1)
        self._read_whole_states()

    @property
    def has_older_behind(self) -> bool:
        """Return whether a segment behind the border has no newer record: the border rests on a wrong clock, maybe."""
        return any(
            self._newest(number) <= self._until_ms for number in range(self._cut.segment + 1, len(self._segments))
        )

    @property
    def end(self) -> int:
        """Return where the log ends before it is cut."""
        return next_offset_of(self._segments[-1])

    def seen(self, name: TopicPartition) -> MomentLog:
        """Return what is known of the log by now."""
        is_cut = self._cut.segment < len(self._segments)
        return MomentLog(
            name, self._segments[0].base_offset, self.end, self._cut.offset if is_cut else None, self._parts()
        )

    def needs_more(self, cut: int, oldest_ms: int | None) -> bool:
        """Return whether an earlier segment may hold more of what goes.

        Args:
            cut: where the log would end.
            oldest_ms: when the oldest transaction that goes began; None if none goes.
        """
        if not self._first:
            return False
        before_ms = max(map(self._newest, range(self._first)))
        may_hold_part = oldest_ms is not None and before_ms + _CLOCKS_DIFFER_MS >= oldest_ms
        return cut < self._segments[self._first].base_offset or may_hold_part

    def read_back(self) -> None:
        """Read one segment more. Raises: as the class."""
        self._first -= 1
        self._read_whole_states()

    def _found(self) -> _Place:
        for number, segment in enumerate(self._segments):
            if self._newest(number) > self._until_ms and (cut := self._newer_in(number, segment)):
                return cut
        last = self._segments[-1]
        return _Place(len(self._segments), 0, next_offset_of(last))

    def _newest(self, number: int) -> int:
        """Return the largest timestamp of a segment, by its time index if nobody knows it."""
        segment = self._segments[number]
        if segment.base_offset not in self._newest_ms:
            found = None
            with suppress(CorruptIndex):
                found = segment.newest_entry()
            if found is None or found.timestamp_ms < 0:
                newest_ms = _largest(segment)
            elif number + 1 == len(self._segments):
                newest_ms = max(found.timestamp_ms, largest_unindexed_timestamp(segment))
            else:
                newest_ms = found.timestamp_ms
            self._newest_ms[segment.base_offset] = newest_ms
        return self._newest_ms[segment.base_offset]

    def _newer_in(self, number: int, segment: Segment) -> _Place | None:
        """Return the first batch of a segment that is newer; None if there is none after all."""
        older = [entry.offset for entry in time_entries(segment) if entry.timestamp_ms <= self._until_ms]
        with reading(segment.log.path) as file:
            start = position_of(file, segment, older[-1]) if older else 0
            found = _first_newer(iter_headers(file, segment.log.path, start), self._until_ms)
            if found and found[0].position == start > 0:  # the index was wrong
                found = _first_newer(iter_headers(file, segment.log.path), self._until_ms)
        if found is None:
            return None
        header, end = found
        return _Place(number, header.position, segment.base_offset if end is None else end)

    def _read_whole_states(self) -> None:
        """Read segments from the first one wanted on; earlier ones as long as no snapshot tells what was open."""
        while self._first > 0 and self._producers_at(self._segments[self._first].base_offset) is None:
            self._first -= 1
        for number in range(self._first, min(self._cut.segment + 1, len(self._segments))):
            if number not in self._read:
                self._read[number] = [] if self._is_free(number) else self._events(number)

    def _producers_at(self, offset: int) -> Sequence[ProducerEntry] | None:
        """Return the producers of a snapshot; None without one that is whole."""
        file = self._snapshots.get(offset)
        with suppress(CorruptSnapshot):
            data = read_file(file.path) if file else None
            return None if data is None or file is None else parse_snapshot(data, file.path)
        return None

    def _is_free(self, number: int) -> bool:
        """Return whether a segment surely has no batch of a transaction, by the snapshots around it."""
        segment = self._segments[number]
        end = self._segments[number + 1].base_offset if number + 1 < len(self._segments) else self.end
        before = self._producers_at(segment.base_offset) if number else ()
        behind = self._producers_at(end)
        if before is None or behind is None:
            return False
        if any(one.coordinator_epoch >= 0 or one.open_txn_first_offset is not None for one in (*before, *behind)):
            return False
        with reading(segment.log.path) as file:
            first = next(iter_headers(file, segment.log.path), None)
        return first is None or 0 <= self._newest(number) - first.header.max_timestamp_ms < _FORGOTTEN_MS

    def _events(self, number: int) -> list[_Event]:
        found: list[_Event] = []
        segment, cut = self._segments[number], self._cut
        with reading(segment.log.path) as file:
            for position, header in iter_headers(file, segment.log.path):
                if number == cut.segment and position > cut.position and self._is_far(header, position):
                    break
                if isinstance(header, BatchHeader) and header.has_producer_id and header.is_transactional:
                    marker = _marker(file, segment, PositionedHeader(position, header)) if header.is_control else None
                    whose = header.producer_id, header.producer_epoch, header.max_timestamp_ms
                    if marker or not header.is_control:
                        found.append(
                            _Event(header.base_offset, header.next_offset, *whose, marker and not marker.is_abort)
                        )
        return found

    def _is_far(self, header: BatchHeader | LegacyHeader, position: int) -> bool:
        is_much_newer = header.max_timestamp_ms > self._until_ms + _BEHIND_MS
        return is_much_newer or position > self._cut.position + _BEHIND_BYTES

    def _parts(self) -> tuple[TransactionPart, ...]:
        producers = self._producers_at(self._segments[self._first].base_offset) if self._first else ()
        parts = TransactionParts(
            TransactionPart(
                one.producer_id,
                one.epoch,
                one.open_txn_first_offset,
                one.last_timestamp_ms,
                one.open_txn_first_offset + 1,
            )
            for one in producers or ()
            if one.open_txn_first_offset is not None
        )
        for number in sorted(number for number in self._read if number >= self._first):
            for event in self._read[number]:
                whose = event.producer_id, event.epoch
                if event.commits is None:
                    parts.data(*whose, event.offset, event.end, event.time_ms)
                else:
                    parts.marker(*whose, event.offset, event.time_ms, commits=event.commits)
        return (*parts.ended, *parts.open)


def cuts_of(logs: Mapping[TopicPartition, LogToCut]) -> Mapping[TopicPartition, Cut]:
    """Return where each log ends so that all are as of a moment. Raises: as ``LogToCut``."""
    while True:
        seen = [log.seen(name) for name, log in logs.items()]
        cuts = cuts_as_of(seen).by_name
        gone = (part.first_ms for log in seen for part in log.parts if _is_cut_off(part, cuts[log.name].offset))
        oldest_ms = min(gone, default=None)
        short = [log for name, log in logs.items() if log.needs_more(cuts[name].offset, oldest_ms)]
        if not short:
            return cuts
        for log in short:
            log.read_back()


def _is_cut_off(part: TransactionPart, cut: int) -> bool:
    return part.marker_offset is None or part.marker_offset >= cut


def _marker(file: OpenFile, segment: Segment, found: PositionedHeader) -> TxnMarker | None:
    batch = read_batch(file, segment.log.path, found)
    return batch.first_txn_marker() if isinstance(batch, Batch) else None


def _largest(segment: Segment) -> int:
    with reading(segment.log.path) as file:
        return max((found.header.max_timestamp_ms for found in iter_headers(file, segment.log.path)), default=-1)


def _first_newer(headers: HeaderIterator, until_ms: int) -> tuple[PositionedHeader, int | None] | None:
    """Return the first header that is newer, and the offset behind the batch before it."""
    end = None
    for found in headers:
        if found.header.max_timestamp_ms > until_ms:
            return found, end
        end = found.header.next_offset
    return None
