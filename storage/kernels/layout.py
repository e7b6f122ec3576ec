"""The tables that kernels and callers share, as numpy dtypes, without numba.

``BATCH`` has one row for each record batch. ``scan`` fills all of it. A caller changes ``fate``, ``tombstones`` and,
after it decompressed a batch, ``records_start`` and ``records_end``; these two always index the buffer that is passed
to the kernel with the row.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.machine.signatures import Array

HEADER_BYTES: Final = 61
RECORD_BYTES_MIN: Final = 7
NOT_HERE: Final = -1  # records_start of a compressed batch that nobody decompressed
NOTHING_IS_DUE: Final = -(1 << 63)  # as "now": no delete horizon has come
UNKNOWN: Final = -1  # tombstones of a batch whose records nobody walked

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
MIXED_VERSIONS: Final = 0x200
"""Flag of a row of v0 or v1, outside the byte that is stored: a message in the wrapper is of another version than the
wrapper (KAFKA-4298), so that the bytes are not copied even if all records stay."""

BATCH: Final = np.dtype(
    [
        ("position", "i8"),  # of the header, in the scanned buffer
        ("size", "i8"),  # bytes, header included
        ("records_start", "i8"),  # of the plain records; NOT_HERE for a compressed batch
        ("records_end", "i8"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
        ("first_ordinal", "i8"),
        ("base_timestamp", "i8"),  # epoch ms; the delete horizon when attribute bit 6 is set
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("crc", "u4"),
        ("leader_epoch", "i4"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),
        ("tombstones", "i4"),  # records without a value; UNKNOWN until the records were walked
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("fate", "u1"),  # status.BatchFate, from scan and the caller
        ("outcome", "u1"),  # status.BatchAction, from decide
    ],
    align=True,
)

WRITTEN: Final = np.dtype(
    [
        ("position", "i8"),  # in the output buffer
        ("size", "i8"),
        ("last_offset", "i8"),
        ("max_timestamp", "i8"),
        ("records", "i8"),
    ],
    align=True,
)
"""One row for each batch written, in order."""

DIGEST: Final = np.dtype(
    [
        ("offset", "i8"),
        ("ordinal", "i8"),
        ("timestamp", "i8"),  # epoch ms
        ("key_low", "u8"),  # keyed hash of the key; void without one
        ("key_high", "u8"),
        ("body_low", "u8"),  # keyed hash from the key's first byte to the end of the headers, if asked for
        ("body_high", "u8"),
        ("key_bytes", "i4"),  # negative without a key
        ("value_bytes", "i4"),  # negative without a value
    ],
    align=True,
)
"""One row for each record, in order."""

NEW_RECORD: Final = np.dtype(
    [
        ("timestamp", "i8"),  # epoch ms
        ("key_at", "i8"),  # in the bytes of all keys
        ("key_bytes", "i8"),  # negative: null
        ("value_at", "i8"),
        ("value_bytes", "i8"),
        ("first_header", "i8"),  # the row of NEW_HEADER
        ("header_count", "i8"),
    ],
    align=True,
)
"""One row for each record to be written."""

NEW_HEADER: Final = np.dtype(
    [("key_at", "i8"), ("key_bytes", "i8"), ("value_at", "i8"), ("value_bytes", "i8")], align=True
)
"""One row for each header of records to be written."""

INDEX_STATE: Final = np.dtype(
    [
        ("unindexed_bytes", "i8"),
        ("max_timestamp", "i8"),
        ("max_timestamp_offset", "i8"),
        ("last_time_entry", "i8"),
    ],
    align=True,
)
"""The state of ``index.index_batches`` within one segment; ``index_state`` makes the first."""

BATCHES: Final = Array(BATCH)
WRITTEN_BATCHES: Final = Array(WRITTEN)
DIGESTS: Final = Array(DIGEST)
NEW_RECORDS: Final = Array(NEW_RECORD)
NEW_HEADERS: Final = Array(NEW_HEADER)
INDEX: Final = Array(INDEX_STATE)
"""Parameters of kernels that take these tables."""


def index_state(base_offset: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Make the state of an empty segment: no timestamp seen, at its base offset (Kafka ``LogSegment``)."""
    return np.array([(0, -1, base_offset, -1)], INDEX_STATE)


# Rows of what ``locate.locate_records`` fills: a column of int64 for each field of a record.
OFFSET: Final = 0
TIMESTAMP: Final = 1  # epoch ms
KEY_AT: Final = 2  # positions index the buffer that was walked
KEY_BYTES: Final = 3  # negative: null
VALUE_AT: Final = 4
VALUE_BYTES: Final = 5
HEADERS_AT: Final = 6  # of the header count
HEADERS_BYTES: Final = 7
ROW: Final = 8  # of the record's batch in the table
LOCATED_FIELDS: Final = 9
