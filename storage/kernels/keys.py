"""SipHash-1-3 with 128 bits of output: keys become hashes that nobody outside the process can aim at.

The two secret words are drawn anew for each run, so a producer who chooses keys cannot make two of them
collide, nor make them probe the same slots (Kafka's MD5 has no secret, and can be collided).
"""

from __future__ import annotations

import numpy as np

from storage.kernels.intrinsics import load_le64, load_u8
from storage.kernels.kernel import kernel
from storage.kernels.signatures import BYTES, I64, U64, Bytes, integers


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


@kernel()
def _last_word(buf: Bytes, position: int, length: int) -> np.uint64:
    """The ``length % 8`` bytes that end the key, and the key's length in the top byte."""
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
    v0 = secret0 ^ np.uint64(0x736F6D6570736575)
    v1 = secret1 ^ np.uint64(0x646F72616E646F6D ^ 0xEE)
    v2 = secret0 ^ np.uint64(0x6C7967656E657261)
    v3 = secret1 ^ np.uint64(0x7465646279746573)
    for at in range(position, position + (length & ~7), 8):
        word = load_le64(buf, at)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    word = _last_word(buf, position, length)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    v0, v1, v2, v3 = _round(v0 ^ word, v1, v2 ^ np.uint64(0xEE), v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _round(v0, v1 ^ np.uint64(0xDD), v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel(integers(2, of=U64)(BYTES, I64, I64, U64, U64))
def sip_hash(buf: Bytes, start: int, end: int, secret0: np.uint64, secret1: np.uint64) -> tuple[np.uint64, np.uint64]:
    """SipHash-1-3-128 of ``buf[start:end]``, both cut to the buffer: its two 64-bit words."""
    start, end = max(start, 0), min(end, buf.size)
    return hash_bytes(buf, start, max(end - start, 0), secret0, secret1)
