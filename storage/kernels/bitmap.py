"""The survivor bitmap: bit ``n & 63`` of word ``n >> 6`` belongs to the record with ordinal ``n``."""

from __future__ import annotations

import numpy as np

from storage.arrays import Words
from storage.machine.intrinsics import popcount
from storage.machine.kernel import kernel
from storage.machine.signatures import I64, VOID, WORDS, WORDS_READ

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def new_bitmap(ordinals: int) -> Words:
    """Make a bitmap of ``ordinals`` clear bits, rounded up to whole words."""
    return np.zeros((ordinals + 63) // 64, np.uint64)


@kernel()
def get_bit(bitmap: Words, ordinal: int) -> bool:
    """Return whether the bit is set. The caller knows that ``ordinal`` lies in the bitmap."""
    word = bitmap[np.uint64(ordinal >> 6)]
    return bool(word >> np.uint64(ordinal & 63) & np.uint64(1))


@kernel()
def set_bit(bitmap: Words, ordinal: int) -> None:
    """Set one bit, which the caller knows to lie in the bitmap."""
    bitmap[np.uint64(ordinal >> 6)] |= np.uint64(1) << np.uint64(ordinal & 63)


@kernel()
def clear_bit(bitmap: Words, ordinal: int) -> None:
    """Clear one bit, which the caller knows to lie in the bitmap."""
    bitmap[np.uint64(ordinal >> 6)] &= ~(np.uint64(1) << np.uint64(ordinal & 63))


@kernel()
def holds(bitmap: Words, first: int, count: int) -> bool:
    """Return whether all ordinals of ``[first, first + count)`` lie in the bitmap."""
    return first >= 0 and count >= 0 and first <= bitmap.size * 64 - count


@kernel()
def _mask(word: int, first: int, last: int) -> np.uint64:
    """Return the bits of ``[first, last)`` that lie in word number ``word``."""
    low, high = max(first - word * 64, 0), min(last - word * 64, 64)
    return (_ALL << np.uint64(low)) & (_ALL >> np.uint64(64 - high))


@kernel(I64(WORDS_READ, I64, I64))
def count_bits(bitmap: Words, first: int, last: int) -> int:
    """Count the bits set in ``[first, last)``, cut to the bitmap."""
    first, last = max(first, 0), min(last, bitmap.size * 64)
    total = 0
    if first < last:
        for word in range(first >> 6, (last + 63) >> 6):
            total += popcount(bitmap[word] & _mask(word, first, last))
    return total


@kernel(VOID(WORDS, I64, I64))
def set_range(bitmap: Words, first: int, last: int) -> None:
    """Set all bits of ``[first, last)``, cut to the bitmap."""
    first, last = max(first, 0), min(last, bitmap.size * 64)
    if first < last:
        for word in range(first >> 6, (last + 63) >> 6):
            bitmap[word] |= _mask(word, first, last)
