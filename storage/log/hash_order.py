"""The order in which Kafka writes producers into a snapshot: that of Java's ``HashMap<Long, ...>``.

A map keeps its entries in buckets, and doubles them when it holds more than three quarters as many entries, or nine in
one bucket while there are fewer than 64 buckets. It never has fewer again. Within a bucket the order is that of
insertion. Not mirrored: nine ids or more in one of 64 buckets or more, which Java makes a tree of; ids that brokers
hand out do not come to that.

Source: ``java.util.HashMap``, ``Long.hashCode``; Kafka ``ProducerStateManager.writeSnapshot``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

_BUCKETS_MIN: Final = 16
_TREE_BUCKETS_MIN: Final = 64
_CROWD: Final = 9
_HASH_BITS: Final = (1 << 32) - 1
_LONG_BITS: Final = (1 << 64) - 1


class HashOrder:
    """The buckets of one map, whose keys are held by somebody else."""

    def __init__(self) -> None:
        self._buckets = _BUCKETS_MIN

    def grow(self, keys: Iterable[int]) -> None:
        """Have as many buckets as the keys asked for when they were put in. To be told before keys go."""
        listed = list(keys)
        while len(listed) * 4 > self._buckets * 3:
            self._buckets *= 2
        while self._buckets < _TREE_BUCKETS_MIN and self._is_crowded(listed):
            self._buckets *= 2

    def ordered(self, keys: Iterable[int]) -> list[int]:
        """Return the keys, given in the order of insertion, as the map gives them."""
        listed = list(keys)
        self.grow(listed)
        return sorted(listed, key=self._bucket)

    def _is_crowded(self, keys: list[int]) -> bool:
        return any(count >= _CROWD for count in Counter(map(self._bucket, keys)).values())

    def _bucket(self, key: int) -> int:
        unsigned = key & _LONG_BITS
        hashed = (unsigned ^ unsigned >> 32) & _HASH_BITS
        return (hashed ^ hashed >> 16) & (self._buckets - 1)
