"""The offset map, from the hash of a key to the greatest ordinal seen, and the survivor bitmap that follows from it.

A table of 16-byte slots, four a cache line, none across two: 64 bits of the key's hash, then its *entry*, which is 24
more bits of the hash (the tag) above the ordinal + 1. Open addressing by the top bits of the first word, linear
probing. A free slot has the entry 0. Two of a hundred million keys have the same 88 bits with a chance of 2e-11.

A slot keeps the *greatest* ordinal, so batches may come in any order, or twice, and from several threads at once. A
thread takes a free slot: it swaps the 0 for _TAKEN, writes the hash, then the entry. A thread that meets _TAKEN waits
for these few instructions.

If distinct keys outgrow the table, the answer is MAP_FULL. The caller then narrows the range of tags that it maps
(``shrink_range``), goes on from the row returned, and maps the rest of the range in a later pass. Every pass adds its
bits to one bitmap.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Final

import numpy as np

from storage.arrays import Integers, Words
from storage.kernels.bitmap import holds, set_bit
from storage.machine.intrinsics import compare_and_swap, load_acquire, popcount, raise_to, store_release
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, I64, INTEGERS, U64, VOID, WORDS, WORDS_READ, signed

SLOT_BYTES: Final = 16
WORDS_A_SLOT: Final = SLOT_BYTES // 8
ASIDE_WORDS: Final = WORDS_A_SLOT << 12
"""The words set aside for the slots at the front, whose keys may find no room when a map doubles."""
TAG_MAX: Final = (1 << 24) - 1
ORDINAL_MAX: Final = (1 << 40) - 3
_ORDINAL_BITS: Final = 40
_NO_RECORD: Final = -1
_TAKEN: Final = 2**64 - 1  # in place of the entry, while another thread writes the slot; no entry, by ORDINAL_MAX

USED: Final = 0
LIMIT: Final = 1
KEYLESS: Final = 2


def new_map(log2_slots: int, load_factor: float) -> tuple[Words, Integers]:
    """Make an empty map of ``2**log2_slots`` slots and its counters ``(USED, LIMIT, KEYLESS)``.

    A slot takes memory when it is first written to: a caller may begin with the front part, and double it
    (``double_slots``).

    At least one slot always stays free: a probe ends there. The memory starts on a page, so that no slot lies in two
    cache lines. Pages are huge if Linux allows it, since else every probe would also miss the TLB.
    """
    slots = 1 << log2_slots
    memory = mmap.mmap(-1, slots * SLOT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a Linux without huge pages is only slower
        memory.madvise(mmap.MADV_HUGEPAGE)
    limit = min(int(slots * load_factor), slots - 1)
    return np.frombuffer(memory, np.uint64), np.array([0, limit, 0], np.int64)


@kernel(inline=True)
def home_of(words: Words, low: np.uint64) -> np.uint64:
    """Return the slot of a hash: the top bits of its low word, so that the order stays when the slots double."""
    slots = np.uint64(words.size // WORDS_A_SLOT)
    return low >> np.uint64(64 - popcount(slots - np.uint64(1)))


@kernel(inline=True)
def tag_of(entry: np.uint64) -> np.uint64:
    """Return the part of the hash that an entry holds."""
    return entry >> np.uint64(_ORDINAL_BITS)


@kernel(inline=True)
def entry_of(high: np.uint64, ordinal: np.uint64) -> np.uint64:
    """Return the entry for a hash, by its high word, and an ordinal."""
    return tag_of(high) << np.uint64(_ORDINAL_BITS) | ordinal + np.uint64(1)


@kernel(inline=True)
def ordinal_of(entry: np.uint64) -> int:
    """Return the ordinal that an entry holds."""
    return signed(entry & np.uint64((1 << _ORDINAL_BITS) - 1)) - 1


@kernel()
def slot_of(words: Words, low: np.uint64, entry: np.uint64) -> np.uint64:
    """Return the index of the first word of the slot that holds this hash, or of the free slot where it belongs."""
    mask = np.uint64(words.size // WORDS_A_SLOT - 1)
    slot = home_of(words, low)
    while True:
        at = slot << np.uint64(1)
        held = words[at + np.uint64(1)]
        if held == np.uint64(0):
            return at
        if words[at] == low and tag_of(held) == tag_of(entry):
            return at
        slot = (slot + np.uint64(1)) & mask


@kernel()
def upsert(words: Words, counters: Integers, low: np.uint64, entry: np.uint64) -> bool:
    """Raise the ordinal of a hash to this one. Return False if the hash is new and the map has no room."""
    at = slot_of(words, low, entry)
    held = words[at + np.uint64(1)]
    if held == np.uint64(0):
        if counters[USED] >= min(counters[LIMIT], words.size // WORDS_A_SLOT - 1):
            return False
        counters[USED] += 1
        words[at] = low
    words[at + np.uint64(1)] = max(held, entry)
    return True


@kernel()
def upsert_shared(words: Words, counters: Integers, low: np.uint64, entry: np.uint64) -> bool:
    """Do as ``upsert`` while other threads do the same; ``counters`` are this thread's own."""
    mask = np.uint64(words.size // WORDS_A_SLOT - 1)
    slot = home_of(words, low)
    while True:
        at = signed(slot << np.uint64(1))
        held = load_acquire(words, at + 1)
        if held == np.uint64(0):
            if counters[USED] >= counters[LIMIT]:
                return False
            if compare_and_swap(words, at + 1, np.uint64(0), np.uint64(_TAKEN)):
                counters[USED] += 1
                words[at] = low
                store_release(words, at + 1, entry)
                return True
        elif held != np.uint64(_TAKEN):
            if words[at] == low and tag_of(held) == tag_of(entry):
                raise_to(words, at + 1, entry)
                return True
            slot = (slot + np.uint64(1)) & mask


@kernel(I64(WORDS_READ, WORDS))
def collect_survivors(words: Words, bitmap: Words) -> int:
    """Set the bit of every ordinal in the map. Return the first ordinal that lies outside the bitmap, else -1."""
    for at in range(1, words.size, WORDS_A_SLOT):
        if words[at] != np.uint64(0):
            ordinal = ordinal_of(words[at])
            if not holds(bitmap, ordinal, 1):
                return ordinal
            set_bit(bitmap, ordinal)
    return _NO_RECORD


@kernel()
def _range_of(bounds: Integers, ordinal: int) -> int:
    """Count the bounds at or below the ordinal, without a branch that depends on its value."""
    found, size = 0, bounds.size
    while size > 0:
        half = (size + 1) >> 1
        found += half * (bounds[found + half - 1] <= ordinal)
        size -= half
    return found


@kernel(VOID(WORDS_READ, INTEGERS, INTEGERS, WORDS))
def hashes_by_range(words: Words, bounds: Integers, ends: Integers, low_words: Words) -> None:
    """List the low words of the hashes in a map. Hashes with ordinals in one range lie side by side.

    Args:
        words: from ``new_map``.
        bounds: the first ordinal of every range but the first range, ascending.
        ends: one more than bounds: the end of each range in ``low_words``, raised by the hashes found.
        low_words: takes the low words; those without room are only counted.
    """
    for at in range(0, words.size - 1, WORDS_A_SLOT):
        if words[at + 1] != np.uint64(0):
            place = _range_of(bounds, ordinal_of(words[at + 1]))
            if place < ends.size:
                if 0 <= ends[place] < low_words.size:
                    low_words[ends[place]] = words[at]
                ends[place] += 1


@kernel()
def _close_gap(words: Words, free: np.uint64) -> None:
    """Free a slot, and move back each slot behind it that a probe would no longer reach."""
    mask = np.uint64(words.size // WORDS_A_SLOT - 1)
    slot = free
    while True:
        slot = (slot + np.uint64(1)) & mask
        at = slot << np.uint64(1)
        if words[at + np.uint64(1)] == np.uint64(0):
            break
        home = home_of(words, words[at])
        if (slot - home) & mask >= (slot - free) & mask:
            to = free << np.uint64(1)
            words[to], words[to + np.uint64(1)] = words[at], words[at + np.uint64(1)]
            free = slot
    words[(free << np.uint64(1)) + np.uint64(1)] = np.uint64(0)


@kernel(VOID(WORDS, INTEGERS, U64))
def shrink_range(words: Words, counters: Integers, tag_max: np.uint64) -> None:
    """Take out every key whose tag is above ``tag_max``, so that the map holds the narrower range."""
    for slot in range(np.uint64(words.size // WORDS_A_SLOT)):
        held_at = (slot << np.uint64(1)) + np.uint64(1)
        while words[held_at] != np.uint64(0) and tag_of(words[held_at]) > tag_max:
            _close_gap(words, np.uint64(slot))
            counters[USED] -= 1


@kernel()
def _is_spread(words: Words) -> bool:
    """Return whether each key lies so near to its slot that doubling overwrites no key that is not yet moved."""
    slots = np.uint64(words.size // WORDS_A_SLOT)
    for slot in range(slots):
        at = np.uint64(slot) << np.uint64(1)
        if words[at + np.uint64(1)] != np.uint64(0):
            away = (np.uint64(slot) - home_of(words, words[at])) & (slots - np.uint64(1))
            if away >= np.uint64(ASIDE_WORDS // WORDS_A_SLOT // 2):
                return False
    return True


@kernel()
def _put_back(words: Words, low: np.uint64, entry: np.uint64) -> None:
    at = slot_of(words, low, entry)
    words[at], words[at + np.uint64(1)] = low, entry


@kernel(BOOLEAN(WORDS, WORDS))
def double_slots(words: Words, aside: Words) -> bool:
    """Spread the keys of the first half of the slots over all of them; nothing is copied elsewhere.

    Args:
        words: all slots; those of the second half are free.
        aside: of ``ASIDE_WORDS`` words, for use meanwhile.

    Returns:
        False if keys lie too far from their slots; nothing has changed then.
    """
    half = words.size // 2
    if not _is_spread(words[:half]):
        return False
    front = min(aside.size, half)
    for at in range(front):
        aside[at], words[at] = words[at], np.uint64(0)
    for at in range(half - WORDS_A_SLOT, front - 1, -WORDS_A_SLOT):
        entry = words[at + 1]
        if entry != np.uint64(0):
            words[at + 1] = np.uint64(0)
            _put_back(words, words[at], entry)
    for at in range(0, front, WORDS_A_SLOT):
        if aside[at + 1] != np.uint64(0):
            _put_back(words, aside[at], aside[at + 1])
    return True
