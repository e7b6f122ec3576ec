"""CRC-32C (Castagnoli), the checksum of v2 batches, and CRC-32, the checksum of messages of v0 and v1.

The crc32 instruction takes 3 cycles, but a new one can start each cycle. So three lanes of the input are fed side by
side, and their results joined. A CRC is linear: to append n zero bytes is to multiply by a 32x32 bit matrix, which is
kept as four tables of 256 entries. A CPU without the instruction uses Intel's slicing-by-8: eight look-ups for 8 bytes.
CRC-32 does so on every CPU, because no level has an instruction for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrays import Bytes, Table
from storage.kernels.layout import BATCHES
from storage.machine.intrinsics import HAS_CRC32C, crc32c_u8, crc32c_u64, load_le64, load_u8, prefetch
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, U32

POLYNOMIAL: Final = 0x82F63B78  # bit-reversed
_POLYNOMIAL_32: Final = 0xEDB88320
_ALL_ONES: Final = np.uint64(0xFFFFFFFF)
_LONG: Final = 1024  # bytes a lane
_SHORT: Final = 128
_CACHE_LINE_BYTES: Final = 64


def _matrix_times(matrix: npt.NDArray[np.uint32], vectors: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return, for each vector, the sum modulo 2 of the rows that its bits choose."""
    chosen = np.where(vectors[..., np.newaxis] >> np.arange(32, dtype=np.uint32) & 1, matrix, np.uint32(0))
    sums: npt.NDArray[np.uint32] = np.bitwise_xor.reduce(chosen, axis=-1)
    return sums


def _zeros_tables(log2_bytes: int) -> npt.NDArray[np.uint32]:
    """Make four tables, one for each byte of a CRC, that append ``2**log2_bytes`` zero bytes to it."""
    matrix = np.array([POLYNOMIAL] + [1 << bit for bit in range(31)], np.uint32)  # appends one zero bit
    for _ in range(log2_bytes + 3):
        matrix = _matrix_times(matrix, matrix)
    shifts = np.arange(0, 32, 8, dtype=np.uint32)[:, np.newaxis]
    return _matrix_times(matrix, np.arange(256, dtype=np.uint32) << shifts)


def _slicing_tables(polynomial: int) -> npt.NDArray[np.uint32]:
    """Make the tables ``[k][byte]``: the CRC of ``byte`` followed by ``k`` zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(polynomial), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 0xFF])
    return np.array(tables, np.uint32)


_AFTER_LONG: Final = _zeros_tables(_LONG.bit_length() - 1)
_AFTER_SHORT: Final = _zeros_tables(_SHORT.bit_length() - 1)
_SLICES: Final = _slicing_tables(POLYNOMIAL)
_SLICES_32: Final = _slicing_tables(_POLYNOMIAL_32)


@kernel()
def _append_zeros(tables: npt.NDArray[np.uint32], crc: np.uint64) -> np.uint64:
    return np.uint64(
        tables[0, crc & np.uint64(0xFF)]
        ^ tables[1, (crc >> np.uint64(8)) & np.uint64(0xFF)]
        ^ tables[2, (crc >> np.uint64(16)) & np.uint64(0xFF)]
        ^ tables[3, (crc >> np.uint64(24)) & np.uint64(0xFF)]
    )


@kernel()
def _three_lanes(crc: np.uint64, buf: Bytes, start: int, lane: int, tables: npt.NDArray[np.uint32]) -> np.uint64:
    first, second, third = crc, np.uint64(0), np.uint64(0)
    for line in range(start, start + lane, _CACHE_LINE_BYTES):
        for ahead in range(3 * lane, 6 * lane, lane):  # the hardware follows one stream a page, not three
            prefetch(buf, line + ahead)
        for position in range(line, line + _CACHE_LINE_BYTES, 8):
            first = crc32c_u64(first, load_le64(buf, position))
            second = crc32c_u64(second, load_le64(buf, position + lane))
            third = crc32c_u64(third, load_le64(buf, position + 2 * lane))
    return _append_zeros(tables, _append_zeros(tables, first) ^ second) ^ third


@kernel()
def _by_instruction(buf: Bytes, start: int, end: int) -> np.uint64:
    crc = _ALL_ONES
    while end - start >= 3 * _LONG:
        crc = _three_lanes(crc, buf, start, _LONG, _AFTER_LONG)
        start += 3 * _LONG
    while end - start >= 3 * _SHORT:
        crc = _three_lanes(crc, buf, start, _SHORT, _AFTER_SHORT)
        start += 3 * _SHORT
    while end - start >= 8:
        crc = crc32c_u64(crc, load_le64(buf, start))
        start += 8
    while start < end:
        crc = crc32c_u8(crc, np.uint64(load_u8(buf, start)))
        start += 1
    return crc ^ _ALL_ONES


@kernel()
def _by_slices(slices: npt.NDArray[np.uint32], buf: Bytes, start: int, end: int) -> np.uint64:
    crc = _ALL_ONES
    while end - start >= 8:
        mixed = load_le64(buf, start) ^ crc
        crc = np.uint64(0)
        for byte in range(8):
            crc ^= np.uint64(slices[7 - byte, (mixed >> np.uint64(8 * byte)) & np.uint64(0xFF)])
        start += 8
    while start < end:
        crc = (crc >> np.uint64(8)) ^ np.uint64(slices[0, (crc ^ np.uint64(load_u8(buf, start))) & np.uint64(0xFF)])
        start += 1
    return crc ^ _ALL_ONES


@kernel()
def _by_tables(buf: Bytes, start: int, end: int) -> np.uint64:
    return _by_slices(_SLICES, buf, start, end)


@kernel()
def checksum_32(buf: Bytes, start: int, end: int) -> np.uint64:
    """Compute the CRC-32 of ``buf[start:end]``, which the caller knows to lie in the buffer."""
    return _by_slices(_SLICES_32, buf, start, end)


# Kernels call this name. HAS_CRC32C chooses its body before anything is compiled.
checksum = _by_instruction if HAS_CRC32C else _by_tables


@kernel(U32(BYTES, I64, I64))
def crc32c(buf: Bytes, start: int, end: int) -> int:
    """Compute the CRC-32C of ``buf[start:end]``; both are cut to the buffer."""
    return checksum(buf, max(start, 0), min(end, buf.size))  # type: ignore[return-value]


@kernel(U32(BYTES, I64, I64))
def crc32(buf: Bytes, start: int, end: int) -> int:
    """Compute the CRC-32 of ``buf[start:end]``; both are cut to the buffer."""
    return checksum_32(buf, max(start, 0), min(end, buf.size))  # type: ignore[return-value]


@kernel()
def crc32c_portable(buf: Bytes, start: int, end: int) -> int:
    """Compute the CRC-32C as ``crc32c`` does, without the instruction."""
    return _by_tables(buf, max(start, 0), min(end, buf.size))  # type: ignore[return-value]


@kernel()
def agrees(buf: Bytes, position: int, size: int, stated: int) -> bool:
    """Return whether a v2 batch, which lies in ``buf``, has the CRC that it states."""
    return checksum(buf, position + 21, position + size) == stated  # type: ignore[no-any-return]


@kernel()
def is_sound(buf: Bytes, table: Table, row: int) -> bool:
    """Return whether a batch lies in ``buf`` and its CRC agrees."""
    position, size = table[row].position, table[row].size
    if position < 0 or size < 61 or size > buf.size - position:
        return False
    return agrees(buf, position, size, table[row].crc)


@kernel(I64(BYTES, BATCHES, I64, I64))
def first_bad_crc(buf: Bytes, table: Table, first: int, last: int) -> int:
    """Compare the CRC of the batches ``table[first:last]``, which lie in ``buf``.

    Returns:
        The row of the first batch whose CRC differs or that is not in ``buf``, else -1.

    Source: Kafka DefaultRecordBatch#ensureValid.
    """
    for row in range(max(first, 0), min(last, table.size)):
        if not is_sound(buf, table, row):
            return row
    return -1
