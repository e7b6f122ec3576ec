"""Key filter: a file that tells, without reading a segment, that the segment has none of some keys.

It holds 48 bits of every key's hash: for a key of the segment, the filter never says no; for other keys, it rarely says
yes (of 300,000 keys against 30 million, one in 30 times). Kafka knows no such file. It lies in a cache, and describes
one state of one ``.log``: a segment that is cleaned or restored has no filter then.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from storage.arrays import HalfWords, Words
from storage.kernels.filter_probe import HASH_BITS, REST_BITS, draw, have_common
from storage.names import FileIdentity

_MAGIC: Final = b"logcleaner/1"
_PREFIX: Final = struct.Struct("<12sI")
"""Magic, and the CRC-32C of the rest of the file."""
_HEAD: Final = struct.Struct("<QQ QQQq qqQQ")
"""Secret, identity of the ``.log``, its change time, quiet until, records, keys. Sketch, starts and rests follow."""
_ARRAYS_AT: Final = _PREFIX.size + _HEAD.size
_BUCKETS: Final = 1 << (HASH_BITS - REST_BITS)
_SKETCH_BITS_A_KEY: Final = 16


class About(NamedTuple):
    """The file that a filter describes."""

    secret: tuple[int, int]
    """The secret of the hashes."""
    log: FileIdentity
    changed_ns: int
    """``ctime`` of the ``.log``."""
    quiet_until_ms: int
    """Until this moment, epoch ms, no record of the segment is due, except those that newer records supersede."""
    records: int
    keys: int
    """The number of hashes; at least the number of distinct keys."""


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The keys of a segment, by their hashes."""

    about: About
    starts: HalfWords
    """The place in ``rests`` at which each bucket begins, and the end of the last bucket."""
    rests: HalfWords
    sketch: Words

    @classmethod
    def of(cls, about: About, hashes: Words) -> Self:
        """Make a filter of all keys, which come from ``hashes_of``."""
        edges = np.arange(_BUCKETS + 1, dtype=np.uint64) << np.uint64(REST_BITS)
        starts = np.searchsorted(hashes, edges).astype(np.uint32)
        sketch = np.zeros(_sketch_words(hashes.size), np.uint64)
        draw(hashes, sketch)
        return cls(about, starts, hashes.astype(np.uint32), sketch)

    def may_have_any(self, hashes: Words) -> bool:
        """Return whether the segment may have one of some keys, which come from ``hashes_of``."""
        return bool(have_common(self.starts, self.rests, self.sketch, hashes))


def hashes_of(low_words: Words) -> Words:
    """Sort the low words of hashes in place, and return the part that filters keep and compare."""
    low_words.sort()
    low_words >>= np.uint64(64 - HASH_BITS)
    return low_words


def _sketch_words(keys: int) -> int:
    """Return the number of words of a sketch: a power of two, 8 to 16 bits a key."""
    return 1 << max((keys * _SKETCH_BITS_A_KEY // 64).bit_length() - 1, 0)


def format_key_filter(key_filter: KeyFilter) -> list[npt.NDArray[np.uint8]]:
    """Return the file's content, in parts."""
    from crc32c import crc32c  # noqa: PLC0415

    about = key_filter.about
    head = _HEAD.pack(*about.secret, *about.log, about.changed_ns, about.quiet_until_ms, about.records, about.keys)
    arrays = key_filter.sketch, key_filter.starts, key_filter.rests
    parts = [np.frombuffer(head, np.uint8), *(array.view(np.uint8) for array in arrays)]
    crc = 0
    for part in parts:
        crc = crc32c(part.data, crc)
    return [np.frombuffer(_PREFIX.pack(_MAGIC, crc), np.uint8), *parts]


def parse_about(data: bytes) -> About | None:
    """Return the file that a filter describes, from its first bytes, unverified; None if it is no key filter."""
    if len(data) < _ARRAYS_AT or not data.startswith(_MAGIC):
        return None
    low, high, device, inode, size_bytes, mtime_ns, *rest = _HEAD.unpack_from(data, _PREFIX.size)
    return About((low, high), FileIdentity(device, inode, size_bytes, mtime_ns), *rest)


def parse_key_filter(data: npt.NDArray[np.uint8]) -> KeyFilter | None:
    """Return the filter that a file holds; None if the file is damaged."""
    from crc32c import crc32c  # noqa: PLC0415

    about = parse_about(data[:_ARRAYS_AT].tobytes())
    if about is None or crc32c(data[_PREFIX.size :].data) != _PREFIX.unpack_from(data.data)[1]:
        return None
    starts_at = _ARRAYS_AT + 8 * _sketch_words(about.keys)
    rests_at = starts_at + 4 * (_BUCKETS + 1)
    if data.size != rests_at + 4 * about.keys:
        return None
    sketch = data[_ARRAYS_AT:starts_at].view(np.uint64)
    return KeyFilter(about, data[starts_at:rests_at].view(np.uint32), data[rests_at:].view(np.uint32), sketch)
