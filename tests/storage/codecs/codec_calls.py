"""The codec kernels called on bytes, with plain values back, between guard bytes that must stay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.codecs import batches
from storage.codecs.rewrite_batches import rewrite_batches
from storage.codecs.symbols import CodecCalls
from storage.kernels import decide
from storage.kernels.layout import BATCH, HEADER_BYTES, WRITTEN
from storage.kernels.status import Status
from tests.storage.kernels.calls import Scanned, bits_of, window

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


@dataclass(slots=True)
class Rewritten:
    status: Status
    row: int
    out: bytes
    written: npt.NDArray[np.void]


def rewritten(
    data: bytes, found: Scanned, kept: set[int], now: int = 0, horizon: int = 0, room: int = 1 << 16
) -> Rewritten:
    """Every batch decided and written."""
    buf, rows, bits = window(data), len(found.table), bits_of(kept, found.ordinals)
    written = np.zeros(rows + 1, WRITTEN)
    status, row = decide.decide_batches(buf, found.table, 0, rows, bits, now)
    if status != Status.OK:
        return Rewritten(Status(status), row, b"", written[:0])
    out = np.zeros(room, np.uint8)
    status, row, end, count = rewrite(buf, found.table, bits, out, written, now, horizon)
    return Rewritten(Status(status), row, out[:end].tobytes(), written[:count])


def rewrite(
    buf: Any, table: Any, bits: Any, out: Any, written: Any, now: int = 0, horizon: int = 0, arena_room: int = ROOM
) -> tuple[int, int, int, int]:
    """What ``rewrite_batches`` answers for decided batches."""
    arena, plain, calls = np.zeros(arena_room, np.uint8), np.zeros(arena_room, np.uint8), _calls()
    answer: tuple[int, int, int, int] = rewrite_batches(
        buf, table, 0, table.size, bits, now, horizon, arena, plain, out, 0, written, 0, calls.words, calls.last_seen
    )
    return answer


@cache
def _calls() -> CodecCalls:
    return batches.open_codecs()
