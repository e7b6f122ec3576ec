"""Reads segments of at most a mebibyte by one reading each, into buffers that serve one segment after the other.

A log dir may have a hundred thousand such segments, and to open a reader for each costs more than to read its bytes.
``segments`` reads damaged segments, and messages of v0 and v1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Table
from storage.kernels import check_usable
from storage.kernels.layout import BATCH, CODEC_MASK, CONTROL, KEY_BYTES, LOCATED_FIELDS
from storage.kernels.locate import locate_records
from storage.kernels.scan import scan_batches
from storage.kernels.status import Status
from storage.records.v2 import OFFSET_MAX, V2_HEADER_BYTES
from storage.scan.files import Buffer
from storage.scan.slices import Slice
from storage.segment import Segment, reading

BYTES_MAX: Final = 1 << 20


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
        if found is None or found.table.size != 1 or int(found.table["attributes"][0]) & CODEC_MASK:
            return None
        if int(found.table["attributes"][0]) & CONTROL:
            return False
        records = int(found.table["record_count"][0])
        if self._located.size < records * LOCATED_FIELDS:
            self._located = np.empty(records * LOCATED_FIELDS, np.int64)
        room = self._located[: records * LOCATED_FIELDS]
        if found.sound_rows() != 1:
            return None
        status, _, count = locate_records(found.buf, found.table, 0, 1, 0, OFFSET_MAX, room, 0)
        if status != Status.OK:
            return None
        return bool((room.reshape(LOCATED_FIELDS, records)[KEY_BYTES, :count] < 0).any()) if records else False

    def _read(self, segment: Segment, size_bytes: int, parent: int | None) -> Slice | None:
        """Return the batches at the beginning of a segment, if they end at that byte."""
        rows_max = size_bytes // V2_HEADER_BYTES + 1
        if self._table.size < rows_max:
            self._table = np.zeros(rows_max, BATCH)
        log = segment.log
        with reading(log.location, parent) as descriptor:
            buf = self._buffer.read(descriptor, 0, size_bytes)
        if not size_bytes or buf.size < size_bytes:
            return None
        _, rows, stopped, *_ = scan_batches(buf, 0, size_bytes, segment.base_offset, 0, self._table)
        if not rows or stopped != size_bytes:
            return None
        return Slice(buf, 0, self._table[:rows], 0, log.path)
