"""SipHash-1-3 with 128 bits of output: keys become hashes that nobody outside the process can aim at.

The two secret words are drawn anew for each run, so a producer who chooses keys cannot make two of them
collide, nor make them probe the same slots (Kafka's MD5 has no secret, and can be collided).

A hash is one long chain of operations, each waiting for the one before: so keys are hashed in groups, side by side.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from storage.arrays import Bytes, Words
from storage.machine.intrinsics import load_le64, load_u8, stack_words
from storage.machine.kernel import kernel
from storage.machine.signatures import BYTES, I64, U64, integers, signed

GROUP: Final = 64
"""The keys hashed side by side, in the lanes of vector registers: 5 ns a key of 16 bytes; one by one takes 15."""
_GROUP_LENGTH_MAX: Final = 128
"""The most bytes of a key in a group. If one key is longer, all keys are hashed one by one."""
_STATE_WORDS: Final = 4 * GROUP


@kernel()
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return word << np.uint64(bits) | word >> np.uint64(64 - bits)


@kernel()
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotate(v1, 17) ^ v2
    v3 = _rotate(v3, 21) ^ v0
    return v0, v1, _rotate(v2, 32), v3


@kernel(inline=True)
def _begin(secret0: np.uint64, secret1: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    return (
        secret0 ^ np.uint64(0x736F6D6570736575),
        secret1 ^ np.uint64(0x646F72616E646F6D ^ 0xEE),
        secret0 ^ np.uint64(0x6C7967656E657261),
        secret1 ^ np.uint64(0x7465646279746573),
    )


@kernel(inline=True)
def _finish(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, last_word: np.uint64
) -> tuple[np.uint64, np.uint64]:
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ last_word)
    v0, v1, v2, v3 = _round(v0 ^ last_word, v1, v2 ^ np.uint64(0xEE), v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _round(v0, v1 ^ np.uint64(0xDD), v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel()
def _last_word(buf: Bytes, position: int, length: int) -> np.uint64:
    """Return the ``length % 8`` bytes that end the key, with the key's length in the top byte."""
    rest = length & 7
    word = np.uint64(length) << np.uint64(56)
    end = position + length
    if rest == 0:
        return word
    if end >= 8:  # one load of the 8 bytes up to the key's end, which lie in the buffer; what precedes is shifted out
        return word | load_le64(buf, end - 8) >> np.uint64(64 - 8 * rest)
    for i in range(rest):
        word |= np.uint64(load_u8(buf, end - rest + i)) << np.uint64(8 * i)
    return word


@kernel(inline=True)
def hash_bytes(
    buf: Bytes, position: int, length: int, secret0: np.uint64, secret1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Hash ``length`` bytes from ``position``, which the caller knows to lie in ``buf``."""
    v0, v1, v2, v3 = _begin(secret0, secret1)
    for at in range(position, position + (length & ~7), 8):
        word = load_le64(buf, at)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    return _finish(v0, v1, v2, v3, _last_word(buf, position, length))


@kernel()
def _longest_of_group(keys: Words) -> int:
    """Return the bytes of the longest key; -1 if one is too long for a group or ends within the buffer's first word."""
    longest, first_end = np.uint64(0), np.uint64(8)
    for i in range(GROUP):
        longest = max(longest, keys[GROUP + i])
        first_end = min(first_end, keys[i] + keys[GROUP + i])
    return signed(longest) if longest <= np.uint64(_GROUP_LENGTH_MAX) and first_end >= np.uint64(8) else -1


@kernel()
def _absorb(buf: Bytes, keys: Words, word: int, state: Words) -> None:
    """Take in one whole word of each key that has it."""
    last_load = buf.size - 8
    words = stack_words(GROUP)
    for i in range(GROUP):
        words[i] = load_le64(buf, min(signed(keys[i]) + 8 * word, last_load))
    for i in range(GROUP):
        v0, v1, v2, v3 = state[i], state[GROUP + i], state[2 * GROUP + i], state[3 * GROUP + i]
        n0, n1, n2, n3 = _round(v0, v1, v2, v3 ^ words[i])
        has_it = keys[GROUP + i] >= np.uint64(8 * word + 8)
        state[i] = n0 ^ words[i] if has_it else v0
        state[GROUP + i] = n1 if has_it else v1
        state[2 * GROUP + i] = n2 if has_it else v2
        state[3 * GROUP + i] = n3 if has_it else v3


@kernel()
def _hash_side_by_side(buf: Bytes, keys: Words, longest: int, secret0: np.uint64, secret1: np.uint64) -> None:
    state, words = stack_words(_STATE_WORDS), stack_words(GROUP)
    v0, v1, v2, v3 = _begin(secret0, secret1)
    for i in range(GROUP):
        state[i], state[GROUP + i], state[2 * GROUP + i], state[3 * GROUP + i] = v0, v1, v2, v3
    for word in range(longest >> 3):
        _absorb(buf, keys, word, state)
    for i in range(GROUP):
        length = keys[GROUP + i]
        ending = load_le64(buf, signed(keys[i] + length) - 8) >> np.uint64(8)  # in two steps: 64 at once is no shift
        words[i] = length << np.uint64(56) | ending >> np.uint64(56) - np.uint64(8) * (length & np.uint64(7))
    for i in range(GROUP):
        v0, v1, v2, v3 = state[i], state[GROUP + i], state[2 * GROUP + i], state[3 * GROUP + i]
        keys[i], keys[GROUP + i] = _finish(v0, v1, v2, v3, words[i])


@kernel()
def hash_group(buf: Bytes, keys: Words, count: int, secret0: np.uint64, secret1: np.uint64) -> None:
    """Hash up to GROUP keys, in place: GROUP positions, then GROUP lengths, become low and high words.

    The caller knows every key to lie in ``buf``.
    """
    longest = _longest_of_group(keys) if count == GROUP else -1
    if longest >= 0:
        _hash_side_by_side(buf, keys, longest, secret0, secret1)
        return
    for i in range(count):
        keys[i], keys[GROUP + i] = hash_bytes(buf, signed(keys[i]), signed(keys[GROUP + i]), secret0, secret1)


@kernel(integers(2, of=U64)(BYTES, I64, I64, U64, U64))
def sip_hash(buf: Bytes, start: int, end: int, secret0: np.uint64, secret1: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Compute the SipHash-1-3-128 of ``buf[start:end]``, both cut to the buffer. Return its two 64-bit words."""
    start, end = max(start, 0), min(end, buf.size)
    return hash_bytes(buf, start, max(end - start, 0), secret0, secret1)
