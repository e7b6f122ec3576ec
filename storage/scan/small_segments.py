"""Reads segments of at most a mebibyte by one reading each, into buffers that serve one segment after the other.

A log dir may have a hundred thousand such segments, and to open a reader for each costs more than to read its bytes.
The smallest are read one behind the other, and looked at together, because a call of a kernel or of numpy costs more
than one of them. ``segments`` reads damaged segments, and messages of v0 and v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from storage.anomalies import TxnEvent
from storage.arrays import Bytes, Integers, Table
from storage.codecs.compression import Compression
from storage.directory import pread, pread_within, size_of
from storage.errors import UnreadableFile
from storage.kernels import check_usable
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK, CONTROL, KEY_BYTES, LOCATED_FIELDS, ROW
from storage.kernels.locate import locate_records
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.log.end import SegmentEdges, SegmentEnd
from storage.names import FileKind
from storage.records.v2 import (
    ATTRIBUTE_TRANSACTIONAL,
    NO_TIMESTAMP,
    OFFSET_MAX,
    V2_HEADER,
    V2_HEADER_BYTES,
    BatchHeader,
)
from storage.scan.files import Buffer
from storage.scan.segment_contents import TxnSteps, are_empty
from storage.scan.slices import Slice
from storage.segment import Segment, reading

BYTES_MAX: Final = 1 << 20
SMALLEST_BYTES_MAX: Final = 16 << 10
"""To read so much of a file takes hardly longer than to read its first header."""
TOGETHER_BYTES: Final = 1 << 20
_LOG: Final = FileKind.LOG
_INDEX: Final = FileKind.INDEX
_new: Final = tuple.__new__
"""Makes a named tuple in half the time, which counts where there are hundreds of thousands."""


class SmallLog(NamedTuple):
    """The contents of one of the smallest segments, as far as headers tell them; every header is sound."""

    edges: SegmentEdges
    batches: int
    empty_batches: int
    empty_bytes: int
    gaps: int
    events: tuple[TxnEvent, ...]
    """As of ``TxnSteps``."""
    lacks_a_key: bool | None
    """As of ``SmallSegments.lacks_a_key``; None also if nobody asked."""


class _Read(NamedTuple):
    """A segment, its place among the segments that are asked for, and its ``.log``."""

    place: int
    segment: Segment
    data: bytes


class SmallSegments:
    """The buffers of one thread."""

    def __init__(self) -> None:
        """Take no memory yet."""
        check_usable()
        self._buffer = Buffer()
        self._table: Table = np.zeros(0, BATCH)
        self._located = np.empty(0, np.int64)

    def sound(self, segment: Segment, parent: int | None = None) -> Slice | None:
        """Return all batches of a small segment, valid until the next call; nobody verifies their checksums.

        Args:
            segment: its files.
            parent: as for ``Segment.newest_entry``.

        Returns:
            None if the segment is larger, empty, shorter than listed, or has anything but sound headers of v2.

        Raises: UnreadableFile.
        """
        size_bytes = segment.size_bytes
        return self._read(segment, size_bytes, parent) if size_bytes <= BYTES_MAX else None

    def lacks_a_key(self, segment: Segment, batch_bytes: int, parent: int | None = None) -> bool | None:
        """Return whether the first batch of a segment, of so many bytes, holds a record without a key.

        ``parent``: as for ``sound``.

        Returns:
            None if the batch is larger, damaged, compressed, or of v0 or v1; False if it is a marker.

        Raises: UnreadableFile.
        """
        found = self._read(segment, batch_bytes, parent) if batch_bytes <= BYTES_MAX else None
        return self._lacking(found.buf, found.table)[0] if found and found.table.size == 1 else None

    def smallest(
        self, segments: Sequence[Segment], parent: int | None = None, *, with_keys: bool = False
    ) -> list[SmallLog | None]:
        """Read the smallest segments at once.

        Args:
            segments: of one partition.
            parent: as for ``sound``.
            with_keys: ask the records of the first batches for their keys.

        Returns:
            An item for each segment: None if the segment is larger than ``SMALLEST_BYTES_MAX`` or empty, if its offset
            index has entries, if its size is not the listed one, if it has anything but sound headers of v2, or if it
            cannot be read.
        """
        found: list[SmallLog | None] = [None] * len(segments)
        reads: list[_Read] = []
        together_bytes = 0
        for place, segment in enumerate(segments):
            data = _whole(segment, parent)
            if data:
                reads.append(_new(_Read, (place, segment, data)))
                together_bytes += len(data)
            if reads and (together_bytes >= TOGETHER_BYTES or place == len(segments) - 1):
                for read, log in zip(reads, self._together(reads, with_keys=with_keys), strict=True):
                    found[read.place] = log
                reads, together_bytes = [], 0
        return found

    def _together(self, reads: Sequence[_Read], *, with_keys: bool) -> list[SmallLog | None]:
        """Look at segments as if they were one. If that is not sound, look at each half alone."""
        data, sizes = b"".join([read.data for read in reads]), [len(read.data) for read in reads]
        buf, starts = np.frombuffer(data, np.uint8), np.cumsum([0, *sizes[:-1]])
        table, bases = self._scanned(buf, reads[0].segment.base_offset), [read.segment.base_offset for read in reads]
        firsts = np.searchsorted(table["position"], starts) if table is not None else starts
        if table is None or not _are_segments(table, firsts, starts, np.array(bases, np.int64)):
            if len(reads) == 1:
                return [None]
            half = len(reads) // 2
            return [log for part in (reads[:half], reads[half:]) for log in self._together(part, with_keys=with_keys)]
        ends = np.append(firsts[1:], table.size)
        columns = zip(
            (table["last_offset"][ends - 1] + 1).tolist(),
            np.maximum(np.maximum.reduceat(table["max_timestamp"], firsts), NO_TIMESTAMP).tolist(),
            (ends - firsts).tolist(),
            *_empty_batches(table, firsts),
            _gaps(table, firsts),
            self._lacking(buf, table[firsts]) if with_keys else [None] * len(reads),
            strict=True,
        )
        events = _events(reads, buf, table, firsts, ends)
        found: list[SmallLog | None] = []
        for read, start, (next_offset, largest_ms, batches, empty, empty_bytes, gaps, lacks) in zip(
            reads, starts.tolist(), columns, strict=True
        ):
            first = _new(BatchHeader, V2_HEADER.unpack_from(data, start))  # the scan has found it sound
            edges = _new(SegmentEdges, (first, _new(SegmentEnd, (next_offset, 0)), largest_ms))
            taken = events.get(read.place, ())
            found.append(_new(SmallLog, (edges, batches, empty, empty_bytes, gaps, taken, lacks)))
        return found

    def _lacking(self, buf: Bytes, table: Table) -> list[bool | None]:
        """Return of each batch whether it holds a record without a key, as ``lacks_a_key`` does."""
        is_marker = table["attributes"] & CONTROL != 0
        answers: list[bool | None] = [False if marker else None for marker in is_marker.tolist()]
        asked = np.flatnonzero(~is_marker & (table["attributes"] & CODEC_MASK == 0))
        rows, bad = table[asked], -1
        is_sound = np.ones(rows.size, np.bool_)
        while (bad := int(first_bad_crc(buf, rows, bad + 1, rows.size))) >= 0:
            is_sound[bad] = False
        asked, rows = asked[is_sound], rows[is_sound]
        room_size = int(rows["record_count"].sum()) * LOCATED_FIELDS
        if self._located.size < room_size:
            self._located = np.empty(room_size, np.int64)
        room, at, place = self._located[:room_size], 0, 0
        while at < rows.size:
            before = at
            status, at, place = locate_records(buf, rows, at, rows.size, 0, OFFSET_MAX, room, place)
            for row in asked[before:at].tolist():
                answers[row] = False
            at += status != Status.OK  # the records of that batch do not parse
        located = room.reshape(LOCATED_FIELDS, -1)[:, :place]
        for row in asked[np.unique(located[ROW][located[KEY_BYTES] < 0])].tolist():
            answers[row] = True
        return answers

    def _read(self, segment: Segment, size_bytes: int, parent: int | None) -> Slice | None:
        """Return the batches at the beginning of a segment, if they end at that byte."""
        log = segment.log
        with reading(log.location, parent) as descriptor:
            buf = self._buffer.read(descriptor, 0, size_bytes)
        table = self._scanned(buf, segment.base_offset) if buf.size == size_bytes else None
        return None if table is None else Slice(buf, 0, table, 0, log.path)

    def _scanned(self, buf: Bytes, base_offset: int) -> Table | None:
        """Return the batches of a buffer, valid until the next call; None if anything in it is no sound batch of v2."""
        rows_max = buf.size // V2_HEADER_BYTES + 1
        if self._table.size < rows_max:
            self._table = np.zeros(rows_max, BATCH)
        _, rows, stopped, *_ = scan_batches(buf, 0, buf.size, base_offset, 0, self._table)
        return self._table[:rows] if rows and stopped == buf.size else None


def _whole(segment: Segment, parent: int | None) -> bytes | None:
    """Read one of the smallest segments; None if it is none, if it cannot be read, or if it is not as it was listed."""
    log, index = segment.files[_LOG], segment.files.get(_INDEX)
    size_bytes = log.identity.size_bytes
    if not 0 < size_bytes <= SMALLEST_BYTES_MAX or (index and index.identity.size_bytes):
        return None
    try:
        if parent is not None:
            data = pread_within(parent, log.file_name, size_bytes + 1)
        else:
            with reading(log.location) as file:
                data = pread(file, size_bytes, 0) if size_of(file) == size_bytes else b""
    except (OSError, UnreadableFile):
        return None
    return data if len(data) == size_bytes else None


def _are_segments(table: Table, firsts: Integers, starts: Integers, bases: Integers) -> bool:
    """Return whether a batch begins where each segment does, none below its base, and every codec is known."""
    if firsts[-1] == table.size or (table["attributes"] & CODEC_MASK > max(Compression)).any():
        return False
    return bool((table["position"][firsts] == starts).all() and (table["base_offset"][firsts] >= bases).all())


def _empty_batches(table: Table, firsts: Integers) -> tuple[list[int], list[int]]:
    """Return of each segment what ``empty_batches_in`` does."""
    empty = are_empty(table)
    bytes_ = np.where(empty, table["size"], 0)
    return np.add.reduceat(empty, firsts, dtype=np.int64).tolist(), np.add.reduceat(bytes_, firsts).tolist()


def _gaps(table: Table, firsts: Integers) -> list[int]:
    """Return of each segment how many gaps there are between its batches."""
    is_gap = np.zeros(table.size, np.int64)
    is_gap[1:] = table["base_offset"][1:] > table["last_offset"][:-1] + 1
    is_gap[firsts] = 0
    counts: list[int] = np.add.reduceat(is_gap, firsts).tolist()
    return counts


def _events(
    reads: Sequence[_Read], buf: Bytes, table: Table, firsts: Integers, ends: Integers
) -> dict[int, tuple[TxnEvent, ...]]:
    """Return the steps of transactions of the segments that have any, by their places."""
    is_transactional = table["attributes"] & ATTRIBUTE_TRANSACTIONAL != 0
    found: dict[int, tuple[TxnEvent, ...]] = {}
    for one in np.flatnonzero(np.logical_or.reduceat(is_transactional, firsts)).tolist():
        rows = table[firsts[one] : ends[one]]
        steps = TxnSteps(reads[one].segment.log.path)
        steps.take(buf, rows, -int(rows["position"][0]))
        found[reads[one].place] = tuple(steps.events)
    return found
