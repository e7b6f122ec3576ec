"""The codec kernels called on bytes, with plain values back, between guard bytes that must stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storage.codecs import batches
from storage.codecs.symbols import CodecCalls
from storage.kernels.layout import BATCH, HEADER_BYTES

ROOM = 1 << 19
GUARD = 64
UNTOUCHED = 0xA5


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes
    """Up to the position returned, whatever the status."""


def log(*bodies: tuple[int, bytes]) -> tuple[np.ndarray, np.ndarray]:
    """A buffer of batches ``(codec, body)`` behind empty headers, each said to hold one record, and its table."""
    table, data = np.zeros(len(bodies), BATCH), bytearray()
    for row, (codec, body) in enumerate(bodies):
        table[row]["position"], table[row]["size"] = len(data), HEADER_BYTES + len(body)
        table[row]["attributes"], table[row]["record_count"] = codec | 0x10, 1
        data += bytes(HEADER_BYTES) + body
    return np.frombuffer(bytes(data), np.uint8), table


def guarded(room: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory, and the part of it that a kernel may write."""
    memory = np.full(room + 2 * GUARD, UNTOUCHED, np.uint8)
    return memory, memory[GUARD : GUARD + room]


def assert_untouched_around(memory: np.ndarray) -> None:
    assert (memory[:GUARD] == UNTOUCHED).all()
    assert (memory[-GUARD:] == UNTOUCHED).all()


def decompressed(codec: int, body: bytes, calls: CodecCalls, room: int = ROOM) -> Answer:
    buf, table = log((codec, body))
    memory, arena = guarded(room)
    status, row, position = batches.decompress_batches(buf, table, 0, 1, arena, 0, calls.words, False)
    assert_untouched_around(memory)
    assert row == (status == 0)
    return Answer(status, arena[:position].tobytes())


def compressed(codec: int, plain: bytes, calls: CodecCalls, room: int | None = None) -> Answer:
    memory, out = guarded(batches.body_bytes_max(len(plain)) if room is None else room)
    source = np.frombuffer(plain, np.uint8)
    status, position = batches.compress_records(codec, source, 0, len(plain), out, 0, calls.words, calls.last_seen)
    assert_untouched_around(memory)
    return Answer(status, out[:position].tobytes())
