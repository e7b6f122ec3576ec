"""More room in an offset map: by twice the slots, or by fewer keys."""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Integers, Words
from storage.kernels.offset_map import USED, WORDS_A_SLOT, home_of, slot_of, tag_of
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, INTEGERS, U64, VOID, WORDS

ASIDE_WORDS: Final = WORDS_A_SLOT << 12
"""The words set aside for slots at the front, whose keys find no room behind themselves when a map doubles."""


@kernel()
def _close_gap(words: Words, free: np.uint64) -> None:
    """Free a slot, and move back those behind it that probes would no longer reach."""
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
