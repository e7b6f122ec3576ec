"""The common part of the printing kernels: the room that a record may take, and the check of where its fields lie."""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers, Table
from storage.kernels.layout import (
    HEADERS_AT,
    HEADERS_BYTES,
    KEY_AT,
    KEY_BYTES,
    LOCATED_FIELDS,
    OFFSET,
    ROW,
    VALUE_AT,
    VALUE_BYTES,
)
from storage.kernels.records import read_varint
from storage.kernels.status import Status
from storage.machine.kernel import kernel

BATCH_BYTES_MAX: Final = 1024
"""More than the bytes of a batch's line and of a word's slot behind it."""
_RECORD_BYTES: Final = 768
"""More than the bytes of a record's line without its fields, and of a word's slot behind it."""
_FIELD_BYTES: Final = 6
"""The most bytes that a byte of a field takes when printed: as a control character in JSON."""
_HEADER_BYTES: Final = 48
"""The most bytes that the names of a header's fields take, for each of the two bytes that a header has at least."""
_SEQUENCE_MASK: Final = 0x7FFFFFFF


@kernel(inline=True)
def _lies_in(buf: Bytes, start: int, length: int) -> bool:
    return length < 0 or (start >= 0 and length <= buf.size - start)


@kernel()
def check_record(buf: Bytes, table: Table, located: Integers, place: int) -> int:
    """Return OK if the fields of a record lie in the buffer, and its batch in the table."""
    room = located.size // LOCATED_FIELDS
    of_row = located[ROW * room + place]
    if of_row < 0 or of_row >= table.size:
        return Status.BAD_OFFSETS
    if not _lies_in(buf, located[KEY_AT * room + place], located[KEY_BYTES * room + place]):
        return Status.BAD_LENGTH
    if not _lies_in(buf, located[VALUE_AT * room + place], located[VALUE_BYTES * room + place]):
        return Status.BAD_LENGTH
    headers_bytes = located[HEADERS_BYTES * room + place]
    if headers_bytes < 1 or not _lies_in(buf, located[HEADERS_AT * room + place], headers_bytes):
        return Status.BAD_HEADERS
    return Status.OK


@kernel()
def record_room(located: Integers, place: int) -> int:
    """Return the most bytes that the line of a record can take."""
    room = located.size // LOCATED_FIELDS
    headers_bytes: int = located[HEADERS_BYTES * room + place]
    fields: int = (
        max(located[KEY_BYTES * room + place], 0) + max(located[VALUE_BYTES * room + place], 0) + headers_bytes
    )
    return _RECORD_BYTES + _FIELD_BYTES * fields + _HEADER_BYTES * headers_bytes


@kernel(inline=True)
def sequence_after(base_sequence: int, delta: int) -> int:
    """Return the sequence of a record; -1 if the batch has none."""
    return -1 if base_sequence < 0 else (base_sequence + delta) & _SEQUENCE_MASK


@kernel()
def record_sequence(table: Table, located: Integers, place: int) -> int:
    """Return the sequence of the record at a place."""
    room = located.size // LOCATED_FIELDS
    batch = table[located[ROW * room + place]]
    return sequence_after(batch.base_sequence, located[OFFSET * room + place] - batch.base_offset)


@kernel()
def next_header(buf: Bytes, position: int, end: int) -> tuple[int, int, int, int, int]:
    """Return status, key position, key length, value position and value length of the header at a position.

    A null value has a negative length. The next header begins behind the value.
    """
    key_bytes, key = read_varint(buf, position, end)
    if key > end or key_bytes < 0 or key_bytes > end - key:
        return Status.BAD_HEADERS, 0, 0, 0, 0
    value_bytes, value = read_varint(buf, key + key_bytes, end)
    if value > end or value_bytes > end - value:
        return Status.BAD_HEADERS, 0, 0, 0, 0
    return Status.OK, key, key_bytes, value, value_bytes
