"""xxHash of 32 bits with seed 0, the checksum within lz4 frames. Source: the xxHash specification, XXH32."""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes
from storage.machine.intrinsics import load_u8
from storage.machine.kernel import kernel
from storage.machine.signatures import signed

_PRIME_1: Final = np.uint64(2654435761)
_PRIME_2: Final = np.uint64(2246822519)
_PRIME_3: Final = np.uint64(3266489917)
_PRIME_4: Final = np.uint64(668265263)
_PRIME_5: Final = np.uint64(374761393)
_MASK: Final = np.uint64(0xFFFFFFFF)
_LANE_1: Final = np.uint64((2654435761 + 2246822519) & 0xFFFFFFFF)
_LANE_4: Final = np.uint64(-2654435761 & 0xFFFFFFFF)
_STRIPE_BYTES: Final = 16


@kernel(inline=True)
def load_le32(buf: Bytes, position: int) -> int:
    """Load four bytes, lowest first, unsigned. No bound is checked; the compiler makes one load of it."""
    low = load_u8(buf, position) | load_u8(buf, position + 1) << 8
    return low | load_u8(buf, position + 2) << 16 | load_u8(buf, position + 3) << 24


@kernel()
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits) | value >> np.uint64(32 - bits)) & _MASK


@kernel()
def _round(lane: np.uint64, word: int) -> np.uint64:
    return _rotate((lane + np.uint64(word) * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK


@kernel()
def _stripes(buf: Bytes, start: int, end: int) -> np.uint64:
    first, second, third, fourth = _LANE_1, _PRIME_2, np.uint64(0), _LANE_4
    for position in range(start, end, _STRIPE_BYTES):
        first = _round(first, load_le32(buf, position))
        second = _round(second, load_le32(buf, position + 4))
        third = _round(third, load_le32(buf, position + 8))
        fourth = _round(fourth, load_le32(buf, position + 12))
    return _rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18)


@kernel()
def xxh32(buf: Bytes, start: int, end: int) -> int:
    """Hash ``buf[start:end]``, which the caller has checked to be there."""
    position = start + (end - start) // _STRIPE_BYTES * _STRIPE_BYTES
    acc = _stripes(buf, start, position) if position > start else _PRIME_5
    acc = (acc + np.uint64(end - start)) & _MASK
    while end - position >= 4:
        acc = _rotate((acc + np.uint64(load_le32(buf, position)) * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        position += 4
    while position < end:
        acc = _rotate((acc + np.uint64(load_u8(buf, position)) * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
        position += 1
    acc = (acc ^ acc >> np.uint64(15)) * _PRIME_2 & _MASK
    acc = (acc ^ acc >> np.uint64(13)) * _PRIME_3 & _MASK
    return signed(acc ^ acc >> np.uint64(16))
