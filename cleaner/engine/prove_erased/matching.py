"""Find some keys among the records of a chunk: nearly all others are excluded at once, what is left is compared.

Of each key a word is made of its length, its first and its last eight bytes. A table says which words the wanted keys
have. What it does not exclude is compared byte for byte, so a hit is the key, and no key is missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cleaner.engine.prove_erased.wanted import WantedKey
from storage.arrays import Bytes, Integers
from storage.kernels.layout import KEY_AT, KEY_BYTES
from storage.scan.chunks import Chunk

WIRE_PREFIX_BYTES: Final = 5
"""A zero byte and a schema id, before an Avro payload."""
_WORD_BYTES: Final = 8
_BITS_MIN: Final = 16
_BITS_A_KEY: Final = 6
"""A table has 64 places for each key."""
_MULTIPLIERS: Final = tuple(
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)


class KeyMatch(NamedTuple):
    """A record that has a wanted key."""

    place: int
    """Among the records of the chunk."""
    key: int
    """The place of the key among those wanted."""


class KeyMatcher:
    """The keys that are wanted, ready to be compared."""

    def __init__(self, keys: Sequence[WantedKey]) -> None:
        """Prepare for the forms of all keys."""
        self._whole = _Table({form: place for place, key in enumerate(keys) for form in key.forms})
        self._behind_schema = _Table({form: place for place, key in enumerate(keys) for form in key.payloads})

    def matches(self, chunk: Chunk) -> Iterator[KeyMatch]:
        """Yield the records of a chunk that have a wanted key."""
        starts, sizes = chunk.located[KEY_AT], chunk.located[KEY_BYTES]
        yield from self._whole.matches(chunk.buf, starts, sizes, np.flatnonzero(sizes >= 0))
        if self._behind_schema.forms:
            wired = np.flatnonzero(sizes >= WIRE_PREFIX_BYTES)
            wired = wired[chunk.buf[starts[wired]] == 0]
            after, left = starts + WIRE_PREFIX_BYTES, sizes - WIRE_PREFIX_BYTES
            yield from self._behind_schema.matches(chunk.buf, after, left, wired)


class _Table:
    """Some byte strings, each with the place of its key."""

    def __init__(self, forms: dict[bytes, int]) -> None:
        self.forms = forms
        self._shift = np.uint64(64 - max(_BITS_MIN, len(forms).bit_length() + _BITS_A_KEY))
        self._has = np.zeros(1 << int(np.uint64(64) - self._shift), np.bool_)
        buf = np.frombuffer(b"".join(forms) or b"\0", np.uint8)
        sizes = np.fromiter(map(len, forms), np.int64, len(forms))
        self._has[_words(buf, np.cumsum(sizes) - sizes, sizes) >> self._shift] = True

    def matches(self, buf: Bytes, starts: Integers, sizes: Integers, places: Integers) -> Iterator[KeyMatch]:
        """Yield the matches among the strings at some places of ``starts`` and ``sizes``, which index ``buf``."""
        if not self.forms:
            return
        words = _words(buf, starts[places], sizes[places])
        for place in places[self._has[words >> self._shift]].tolist():
            start = int(starts[place])
            key = self.forms.get(buf[start : start + int(sizes[place])].tobytes())
            if key is not None:
                yield KeyMatch(place, key)


def _words(buf: Bytes, starts: Integers, sizes: Integers) -> npt.NDArray[np.uint64]:
    """Return a word for each string: of its length, its first and its last eight bytes."""
    first, last, length = _MULTIPLIERS
    tails = np.maximum(sizes - _WORD_BYTES, 0)
    heads = _eight_bytes(buf, starts, sizes) * first
    words: npt.NDArray[np.uint64] = heads ^ (_eight_bytes(buf, starts + tails, sizes - tails) * last)
    return words ^ (sizes.astype(np.uint64) * length)


def _eight_bytes(buf: Bytes, starts: Integers, sizes: Integers) -> npt.NDArray[np.uint64]:
    """Load the first bytes of each string, at most eight; zeros follow a shorter one."""
    steps = np.arange(_WORD_BYTES)
    at = np.minimum(starts[:, None] + steps, buf.size - 1)
    loaded = np.where(steps < sizes[:, None], buf[at], np.uint8(0))
    words: npt.NDArray[np.uint64] = np.ascontiguousarray(loaded, np.uint8).view(np.uint64).ravel()
    return words
