"""Doubling the slots of an offset map where they lie."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from storage.kernels.offset_map import ASIDE_WORDS, double_slots

Words = npt.NDArray[np.uint64]
ASIDE = np.empty(ASIDE_WORDS, np.uint64)


def put(words: Words, lows: list[int]) -> None:
    """Each key with ordinal 7, by linear probing from the top bits of its low word."""
    slots = words.reshape(-1, 2)
    shift = 64 - (len(slots).bit_length() - 1)
    for low in lows:
        slot = low >> shift
        while slots[slot, 1]:
            slot = (slot + 1) % len(slots)
        slots[slot] = low, (low & 0xFFFFFF) << 40 | 8


def reachable(words: Words) -> set[int]:
    """Low words of the keys that a probe finds."""
    slots = words.reshape(-1, 2)
    shift, found = 64 - (len(slots).bit_length() - 1), set()
    for at in np.flatnonzero(slots[:, 1]):
        slot = int(slots[at, 0]) >> shift
        while slot != at and slots[slot, 1]:
            slot = (slot + 1) % len(slots)
        if slot == at:
            found.add(int(slots[at, 0]))
    return found


def lows_of(kind: str, slots: int) -> list[int]:
    chance = np.random.default_rng(5)
    if kind == "spread":
        return chance.integers(0, 2**64, int(slots * 0.6), np.uint64).tolist()
    width = min(2**64 // slots * 40, 2**62)
    start = {"front": 0, "end": 2**64 - width, "middle": 2**63}[kind]
    return [(start + int(step)) % 2**64 for step in chance.integers(0, width, 200)]


@pytest.mark.parametrize("log2_slots", [4, 11, 12, 13, 15])
@pytest.mark.parametrize("kind", ["spread", "front", "end", "middle"])
def test_every_key_is_found_after_doubling(kind: str, log2_slots: int) -> None:
    slots = 1 << log2_slots
    lows = lows_of(kind, slots)[: slots - 1]
    words = np.zeros(4 * slots, np.uint64)
    put(words[: 2 * slots], lows)
    assert double_slots(words, ASIDE)
    assert reachable(words) == set(lows)
    assert np.count_nonzero(words[1::2]) == len(set(lows))


def test_keys_far_from_their_slots_stay_where_they_are() -> None:
    slots = 1 << 14
    words = np.zeros(4 * slots, np.uint64)
    put(words[: 2 * slots], [2**63 + step for step in range(5000)])
    before = words.copy()
    assert not double_slots(words, ASIDE)
    assert (words == before).all()
