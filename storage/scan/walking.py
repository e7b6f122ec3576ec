"""A walk over a ``.log`` in search of damage: it checks every batch's length, header, checksum and place.

The walk reads window by window into one buffer, which stays in the cache between the copy and the checksum. It never
maps a file: a log dir that a broker works on may change at any moment. Behind a damaged batch, the walk goes on where
the batch's length says, if something like a batch stands there, else at the next sound batch of the offset index.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from storage.anomalies import Anomaly, SeenAnomaly, tail_seen
from storage.arrays import Bytes, Table
from storage.directory import OpenFile, pread
from storage.errors import CorruptBatch, InvalidRecord, PlanOutOfDate
from storage.kernels.crc import first_bad_crc
from storage.kernels.layout import BATCH, CODEC_MASK
from storage.kernels.status import Status
from storage.names import FileKind
from storage.records.legacy import parse_legacy_header
from storage.records.read_batches import batch_size
from storage.records.v2 import MAGIC_POSITION, NO_LEADER_EPOCH, NO_PRODUCER_ID, OFFSET_MAX, agrees
from storage.scan.arena import Arena
from storage.scan.files import Buffer
from storage.scan.reader import BatchReader, Found
from storage.scan.slices import CAUSES

WINDOW_BYTES: Final = 1 << 20
"""The bytes that are read at once: few enough to be still in the second cache when their checksum is computed."""
ROWS_MAX: Final = 16_384
SEEN_MAX: Final = 100
"""The most anomalies that are reported for one file."""
_OFFSET: Final = struct.Struct(">q")
_CODEC_MAX: Final = 4
_MAGIC_V2: Final = 2
_RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
_PIECE_BYTES: Final = 64 << 20
"""A larger batch is verified piece by piece before memory is taken for it, because its length may be damaged."""
_TRIES_MAX: Final = 1_000


class Hand:
    """The buffers of one thread, which one walk after another uses."""

    def __init__(self) -> None:
        self.buffer = Buffer(WINDOW_BYTES)
        self.table: Table = np.zeros(ROWS_MAX, BATCH)
        self._arena: Arena | None = None

    @property
    def arena(self) -> Arena:
        """Codecs, made when they are first needed."""
        if self._arena is None:
            self._arena = Arena()
        return self._arena


class Rows(NamedTuple):
    """Batches with right checksums that lie side by side, in the order of their offsets."""

    buf: Bytes
    """The window."""
    table: Table
    """``layout.BATCH``, valid until the next rows are taken; of messages of v0 and v1 without their records."""
    file_position: int
    """The position of ``buf[0]`` in the file."""
    is_legacy: bool
    first_offset: int
    """The offset behind the batch in front of the rows."""


class LogFile(NamedTuple):
    """A ``.log`` to walk over, open for reading."""

    descriptor: OpenFile
    path: Path
    base_offset: int
    size_bytes: int
    """Bytes to read, from its beginning: a broker may append more meanwhile."""
    upper_offset: int | None
    """Base offset of the next segment; None for the last one."""
    known_starts: list[int]
    """Positions, ascending, where batches start, as the offset index says. The walk checks each of them."""


class _Batch(NamedTuple):
    """A batch as its first bytes describe it."""

    position: int
    base_offset: int
    size_bytes: int
    magic: int
    is_here: bool
    """Whether its length is possible, and the file has so many bytes."""


class _Neighbour(NamedTuple):
    """The last batch taken, and the offset behind the batch before that one."""

    position: int
    base_offset: int
    lower_offset: int


class LogWalk:
    """A walk over one ``.log``."""

    def __init__(self, file: LogFile, hand: Hand, spend: Callable[[int], None]) -> None:
        """Prepare to walk.

        Args:
            file: what is read.
            hand: buffers.
            spend: is called with the number of bytes read; it may wait, or raise to end the walk.
        """
        self.seen: list[SeenAnomaly] = []
        self.damaged: list[tuple[int, int]] = []
        """Ranges of bytes, ascending, that hold no sound batch."""
        self.end_position = 0
        """The byte behind the last sound batch."""
        self.next_offset = file.base_offset
        """The offset behind the last sound batch."""
        self.is_disordered = False
        """Whether the offset of a batch did not fit its neighbours, so that offsets tell little."""
        self._file, self._hand, self._spend = file, hand, spend
        self._reader = BatchReader(self._window, 0, file.size_bytes, hand.table, WINDOW_BYTES)
        self._last = _Neighbour(-1, -1, file.base_offset)
        self._told: set[Anomaly] = set()

    @property
    def is_sound(self) -> bool:
        """Return whether all that was read so far are batches in their order."""
        return not (self.damaged or self.is_disordered)

    def rows(self, *, stops_at_damage: bool = False) -> Iterator[Rows]:
        """Yield the sound batches, in runs; all else goes to ``seen`` and ``damaged``.

        Args:
            stops_at_damage: end before the first batch that is not sound, and do not report that batch.

        Raises: PlanOutOfDate where the file is shorter than it was, OSError, and what ``spend`` raises.
        """
        reader, file = self._reader, self._file
        reader.go_on(0, self.next_offset)
        while (read := reader.read(self._takes)) is not None:
            status, table = read.status, read.table
            is_legacy = status == Status.LEGACY_MAGIC and not table.size
            if is_legacy:
                table = self._read_legacy(read)
            elif table.size and (bad := int(first_bad_crc(read.buf, table, 0, table.size))) >= 0:
                table, status = table[:bad], Status.BAD_CRC
            if table.size:
                found = Rows(read.buf, table, read.file_position, is_legacy, read.least_offset)
                self._take(found)
                reader.go_on(self.end_position, self.next_offset)
                yield found
            if status == Status.BAD_CRC or not table.size:
                if stops_at_damage:
                    return
                position = self._past(status, self.end_position if table.size else read.position)
                reader.go_on(position, self.next_offset)
            if len(self.seen) >= SEEN_MAX:
                position = reader.position
                text = f"there are more than {SEEN_MAX:,} such places: the rest of the file was not looked at"
                self.seen.append(SeenAnomaly(Anomaly.UNREADABLE, FileKind.LOG, position, self.next_offset, text))
                self.damaged.append((position, file.size_bytes))
                return

    def _window(self, start: int, end: int) -> tuple[Bytes, int]:
        buf = self._hand.buffer.read(self._file.descriptor, start, end)
        if buf.size < end - start:
            raise PlanOutOfDate(self._file.path, "it was truncated while it was read")
        self._spend(end - start)
        return buf, start

    def _takes(self, position: int, size_bytes: int) -> bool:
        """Return whether to take memory for a batch that is there in full: its length may be damaged."""
        return size_bytes <= _PIECE_BYTES or self._is_sound(self._batch_at(position))

    def _read_legacy(self, read: Found) -> Table:
        """Return v0 and v1 messages as rows, up to a message that is damaged or of another version."""
        table, data, count, next_offset = self._hand.table, read.buf.data, 0, read.least_offset
        position, end = read.span
        while count < table.size:
            try:
                header = parse_legacy_header(data, position, self._file.path, read.file_position)
            except CorruptBatch:
                break
            behind = position + header.size_bytes
            if behind > end or header.last_offset < next_offset or not agrees(data[position:behind], header.magic):
                break
            is_wrapper = header.attributes & CODEC_MASK != 0
            row = table[count]
            row["position"], row["size"] = position, header.size_bytes
            row["base_offset"] = next_offset if is_wrapper else header.last_offset
            row["last_offset"], row["max_timestamp"] = header.last_offset, header.max_timestamp_ms
            row["attributes"], row["record_count"] = header.attributes & 0x0F, 1
            row["producer_id"], row["leader_epoch"] = NO_PRODUCER_ID, NO_LEADER_EPOCH
            position, next_offset, count = behind, header.last_offset + 1, count + 1
        return table[:count]

    def _take(self, rows: Rows) -> None:
        """Note sound batches, and the faults of their places."""
        table, file = rows.table, self._file
        last = table[-1]
        self.end_position = rows.file_position + int(last["position"] + last["size"])
        self.next_offset = int(last["last_offset"]) + 1
        if file.upper_offset is not None and self.next_offset > file.upper_offset:
            text = f"reaches into the segment of offset {file.upper_offset}"
            self._tell_first(Anomaly.BEYOND_NEXT, rows, file.upper_offset, text)
        if self.next_offset - 1 - file.base_offset > _RELATIVE_OFFSET_MAX:
            text = f"lies more than 2^31 - 1 offsets behind the segment's base {file.base_offset}"
            self._tell_first(Anomaly.OVERFLOW, rows, file.base_offset + _RELATIVE_OFFSET_MAX + 1, text)
        if not rows.is_legacy:
            codecs = table["attributes"] & CODEC_MASK
            for row in np.flatnonzero(codecs > _CODEC_MAX).tolist():
                self._tell(
                    Anomaly.HEADER, rows, row, f"names the compression codec {codecs[row]}, which does not exist"
                )
        lower_offset = rows.first_offset if table.size == 1 else int(table[-2]["last_offset"]) + 1
        self._last = _Neighbour(rows.file_position + int(last["position"]), int(last["base_offset"]), lower_offset)

    def _tell_first(self, anomaly: Anomaly, rows: Rows, offset: int, text: str) -> None:
        """Report the first batch that reaches an offset, once a file, because all batches behind reach the
        offset, too.
        """
        if anomaly not in self._told:
            self._told.add(anomaly)
            self._tell(anomaly, rows, int(np.searchsorted(rows.table["last_offset"], offset)), text)

    def _tell(self, anomaly: Anomaly, rows: Rows, row: int, text: str) -> None:
        batch = rows.table[row]
        position, offset = rows.file_position + int(batch["position"]), int(batch["base_offset"])
        self.seen.append(SeenAnomaly(anomaly, FileKind.LOG, position, offset, f"the batch of offset {offset} {text}"))

    def _past(self, status: Status, position: int) -> int:
        """Report the fault at a byte, and return the position at which the walk goes on."""
        found = self._batch_at(position)
        if not found.is_here:
            return self._past_unreadable(position, CAUSES.get(status, "the file ends within a batch"))
        behind = position + found.size_bytes
        if not self._is_sound(found):
            text = (
                f"the checksum of the batch of offset {found.base_offset} ({found.size_bytes:,} bytes) does not agree"
            )
            anomaly = Anomaly.CRC
            if behind < self._file.size_bytes and not self._is_plausible(self._batch_at(behind)):
                behind = self._next_sound(position) or behind
        elif self._accepts(found):
            return position  # taken by the next scan
        else:
            cause = CAUSES.get(status, "it contradicts itself")
            text = f"the header of the batch of offset {found.base_offset} cannot be: {cause}"
            anomaly = Anomaly.HEADER
        self.seen.append(SeenAnomaly(anomaly, FileKind.LOG, position, found.base_offset, text))
        self.damaged.append((position, behind))
        return behind

    def _accepts(self, found: _Batch) -> bool:
        """Take a sound batch whose offset alone does not fit; tell which of two neighbours is in the wrong place."""
        if found.base_offset >= self.next_offset or not 0 <= found.base_offset < OFFSET_MAX:
            return False
        last, file = self._last, self._file
        if last.position < 0:
            text = f"the batch of offset {found.base_offset} lies below the segment's base {file.base_offset}"
            self.seen.append(SeenAnomaly(Anomaly.BELOW_BASE, FileKind.LOG, found.position, found.base_offset, text))
        elif (
            last.lower_offset
            <= found.base_offset
            < (last.base_offset if found.magic == _MAGIC_V2 else self.next_offset)
        ):
            text = f"offset {last.base_offset} lies between offsets below {last.lower_offset} and {found.base_offset}"
            self.seen.append(SeenAnomaly(Anomaly.OFFSET_BACK, FileKind.LOG, last.position, last.base_offset, text))
        else:
            text = f"offset {found.base_offset} follows offset {self.next_offset - 1}"
            self.seen.append(SeenAnomaly(Anomaly.OFFSET_BACK, FileKind.LOG, found.position, found.base_offset, text))
        self.next_offset, self.is_disordered = found.base_offset, True
        return True

    def _past_unreadable(self, position: int, cause: str) -> int:
        file = self._file
        behind = self._next_sound(position)
        if behind is not None:
            text = f"{behind - position:,} bytes between two batches are no batch: {cause}"
            self.seen.append(SeenAnomaly(Anomaly.UNREADABLE, FileKind.LOG, position, self.next_offset, text))
        else:
            behind = file.size_bytes
            is_zero, size_bytes = self._is_zero(position), behind - position
            self.seen.append(tail_seen(position, size_bytes, self.next_offset, is_zero=is_zero, cause=cause))
        self.damaged.append((position, behind))
        return behind

    def _is_zero(self, position: int) -> bool:
        return not any(piece.strip(b"\0") for piece in self._pieces(position, self._file.size_bytes))

    def _next_sound(self, position: int) -> int | None:
        """Return the next byte at which a sound batch starts, of the bytes that the offset index names."""
        starts = self._file.known_starts
        for start in starts[(first := bisect_right(starts, position)) : first + _TRIES_MAX]:
            found = self._batch_at(start)
            if self._is_plausible(found) and self._is_sound(found):
                return start
        return None

    def _is_plausible(self, found: _Batch) -> bool:
        return found.is_here and found.base_offset >= self.next_offset

    def _batch_at(self, position: int) -> _Batch:
        left_bytes = self._file.size_bytes - position
        data = pread(self._file.descriptor, MAGIC_POSITION + 1, position) if left_bytes > MAGIC_POSITION else b""
        if len(data) <= MAGIC_POSITION:
            return _Batch(position, -1, 0, -1, is_here=False)
        (base_offset,), magic = _OFFSET.unpack_from(data), data[MAGIC_POSITION]
        try:
            size_bytes = batch_size(memoryview(data), left_bytes) or 0
        except InvalidRecord:
            size_bytes = 0
        return _Batch(position, base_offset, size_bytes, magic, is_here=size_bytes > 0 and magic <= _MAGIC_V2)

    def _is_sound(self, found: _Batch) -> bool:
        """Check the checksum of a batch that is there in full, piece by piece."""
        pieces = self._pieces(found.position, found.position + found.size_bytes)
        return agrees(next(pieces), found.magic, pieces)

    def _pieces(self, position: int, end: int) -> Iterator[bytes]:
        while position < end:
            piece = pread(self._file.descriptor, min(WINDOW_BYTES, end - position), position)
            if not piece:
                raise PlanOutOfDate(self._file.path, "it was truncated while it was read")
            yield piece
            position += len(piece)
            self._spend(0)
