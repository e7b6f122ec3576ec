"""zstd frames as Kafka writes them: this module measures their parts, and libzstd decompresses their content.

The kernels handle one frame that takes all of the body, as Kafka's clients write it. Python handles the rest: frames
one behind another, skippable frames, a dictionary, a window that Kafka's reader refuses.

Source: RFC 8878; Kafka ``ZstdCompression``.
"""

from __future__ import annotations

from typing import Final

from storage.arrays import Bytes, Integers
from storage.codecs.symbols import (
    ZSTD_COMPRESS,
    ZSTD_COMPRESS_CONTEXT,
    ZSTD_DECOMPRESS,
    ZSTD_DECOMPRESS_CONTEXT,
)
from storage.codecs.xxhash import load_le32
from storage.kernels.status import Status
from storage.machine.c_calls import address, call_zstd
from storage.machine.intrinsics import load_u8
from storage.machine.kernel import kernel

_MAGIC: Final = 0xFD2FB528
_FRAME_BYTES_MIN: Final = 9  # magic, flags, a byte of window or size, the header of a block
_DICTIONARY_MASK: Final = 0x03
_HAS_CHECKSUM: Final = 0x04
_SINGLE_SEGMENT: Final = 0x20
_WINDOW_BYTES_MAX: Final = 1 << 27  # the library's own limit for streams
_BLOCK_BYTES_MAX: Final = 1 << 17
_CHECKSUM_BYTES: Final = 4
_BLOCK_HEADER_BYTES: Final = 3
_RLE_BLOCK: Final = 1

# A size_t that is an error is minus its code (zstd_errors.h: the codes are pinned down).
_ERROR_CODE_MAX: Final = 120
_OUTPUT_TOO_SMALL: Final = -70


@kernel()
def _window_bytes(descriptor: int) -> int:
    exponent, mantissa = descriptor >> 3, descriptor & 7
    return (1 << 10 + exponent) + (1 << 7 + exponent) * mantissa


@kernel()
def _blocks_start(buf: Bytes, start: int) -> int:
    """Return where the first block starts, of a frame that has its least bytes; -1: not for this kernel."""
    flags = load_u8(buf, start + 4)
    if load_le32(buf, start) != _MAGIC or flags & _DICTIONARY_MASK:
        return -1
    content_size_bytes = (1 << (flags >> 6)) & ~1
    if flags & _SINGLE_SEGMENT:  # the window is the content
        is_huge = content_size_bytes == 8 or (content_size_bytes == 4 and load_le32(buf, start + 5) > _WINDOW_BYTES_MAX)
        return -1 if is_huge else start + 5 + max(content_size_bytes, 1)
    if _window_bytes(load_u8(buf, start + 5)) > _WINDOW_BYTES_MAX:
        return -1
    return start + 6 + content_size_bytes


@kernel()
def _blocks_end(buf: Bytes, at: int, end: int) -> int:
    """Return where the last block ends; past ``end`` if it is cut short."""
    while end - at >= _BLOCK_HEADER_BYTES:
        header = load_u8(buf, at) | load_u8(buf, at + 1) << 8 | load_u8(buf, at + 2) << 16
        at += _BLOCK_HEADER_BYTES + (1 if header >> 1 & 3 == _RLE_BLOCK else header >> 3)
        if header & 1:
            return at
    return end + 1


@kernel()
def _frame_status(buf: Bytes, start: int, end: int) -> int:
    """Check that one frame takes all of ``buf[start:end]``: then the status is OK."""
    blocks_start = _blocks_start(buf, start) if end - start >= _FRAME_BYTES_MIN else -1
    if blocks_start < 0:
        return Status.NEEDS_PYTHON
    checksum_bytes = _CHECKSUM_BYTES if load_u8(buf, start + 4) & _HAS_CHECKSUM else 0
    frame_end = _blocks_end(buf, blocks_start, end) + checksum_bytes
    if frame_end > end:
        return Status.BAD_COMPRESSED
    return Status.OK if frame_end == end else Status.NEEDS_PYTHON


@kernel()
def _may_outgrow_window(buf: Bytes, start: int, content_bytes: int) -> bool:
    """Return whether a block may hold more than the window.

    Such damage would be accepted here, and is refused in a stream.
    """
    if load_u8(buf, start + 4) & _SINGLE_SEGMENT:
        return False
    window_bytes = _window_bytes(load_u8(buf, start + 5))
    return content_bytes > window_bytes and window_bytes < _BLOCK_BYTES_MAX


@kernel()
def _status_of(answer: int) -> int:
    """Return the status of an answer, never BAD_COMPRESSED: a stream, as Kafka reads it, takes more frames."""
    if answer < -_ERROR_CODE_MAX or answer >= 0:
        return Status.OK
    return Status.OUTPUT_FULL if answer == _OUTPUT_TOO_SMALL else Status.NEEDS_PYTHON


@kernel()
def decompress_zstd(buf: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers) -> tuple[int, int]:
    """Decompress the frame in ``buf[start:end]`` to ``out`` from ``position``: ``(status, next position)``."""
    status = _frame_status(buf, start, end)
    if status != Status.OK:
        return status, position
    arguments = (
        calls[ZSTD_DECOMPRESS_CONTEXT],
        address(out, position),
        out.size - position,
        address(buf, start),
        end - start,
    )
    made = call_zstd(calls[ZSTD_DECOMPRESS], arguments)
    status = _status_of(made)
    if status == Status.OK and _may_outgrow_window(buf, start, made):
        return Status.NEEDS_PYTHON, position
    return status, position + made if status == Status.OK else position


@kernel()
def compress_zstd(source: Bytes, start: int, end: int, out: Bytes, position: int, calls: Integers) -> tuple[int, int]:
    """Write one frame, with the settings of the context, to ``out``: ``(status, next position)``."""
    arguments = (
        calls[ZSTD_COMPRESS_CONTEXT],
        address(out, position),
        out.size - position,
        address(source, start),
        end - start,
    )
    made = call_zstd(calls[ZSTD_COMPRESS], arguments)
    status = _status_of(made)
    return status, position + made if status == Status.OK else position
