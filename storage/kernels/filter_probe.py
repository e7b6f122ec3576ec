"""The probe of a key filter: it tells whether two sets of key hashes have a hash in common.

See ``cleaner.engine.compaction.key_filter``.

The hashes of a set are sorted into buckets by their top bits; of each hash the bucket keeps the rest. A *sketch* of the
set (a Bloom filter a word wide) excludes nearly every other hash at one look: the top bits of a hash choose a word of
the sketch, its last bits choose three bits of that word, and these are set. The hashes to find are sorted, too, so the
probe reads from front to back.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import HalfWords, Words
from storage.machine.intrinsics import popcount
from storage.machine.kernel import kernel
from storage.machine.signatures import BOOLEAN, HALF_WORDS_READ, VOID, WORDS, WORDS_READ, signed

HASH_BITS: Final = 48
REST_BITS: Final = 32


@kernel(inline=True)
def _word_shift(sketch: Words) -> np.uint64:
    """Return the shift that turns a hash into the number of its word; the number of words is a power of two."""
    return np.uint64(HASH_BITS) - popcount(np.uint64(sketch.size - 1))


@kernel(inline=True)
def _bits_of(hash_: np.uint64) -> np.uint64:
    """Return the three bits that a hash sets in its word."""
    one, place = np.uint64(1), np.uint64(63)
    return one << (hash_ & place) | one << (hash_ >> np.uint64(6) & place) | one << (hash_ >> np.uint64(12) & place)


@kernel(VOID(WORDS_READ, WORDS))
def draw(hashes: Words, sketch: Words) -> None:
    """Set the bits of some hashes in a sketch, whose words are a power of two."""
    shift = _word_shift(sketch)
    for i in range(hashes.size):
        word = hashes[i] >> shift
        if word < np.uint64(sketch.size):
            sketch[word] |= _bits_of(hashes[i])


@kernel(inline=True)
def _is_in(starts: HalfWords, rests: HalfWords, hash_: np.uint64) -> bool:
    bucket = signed(hash_ >> np.uint64(REST_BITS))
    if not 0 <= bucket < starts.size - 1:
        return True
    rest = np.uint32(hash_)
    for at in range(signed(np.uint64(starts[bucket])), min(signed(np.uint64(starts[bucket + 1])), rests.size)):
        if rests[at] == rest:
            return True
    return False


@kernel(BOOLEAN(HALF_WORDS_READ, HALF_WORDS_READ, WORDS_READ, WORDS_READ))
def have_common(starts: HalfWords, rests: HalfWords, sketch: Words, hashes: Words) -> bool:
    """Return whether a set has one of some hashes.

    Args:
        starts: where each bucket begins in ``rests``, and where the last bucket ends.
        rests: the low REST_BITS of each hash of the set; the bucket is the bits above.
        sketch: of the set.
        hashes: looked for; in ascending order they are found faster.
    """
    shift = _word_shift(sketch)
    for i in range(hashes.size):
        word, bits = hashes[i] >> shift, _bits_of(hashes[i])
        if word >= np.uint64(sketch.size) or (sketch[word] & bits == bits and _is_in(starts, rests, hashes[i])):
            return True
    return False
