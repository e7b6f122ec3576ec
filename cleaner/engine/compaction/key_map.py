"""The offset map of a round, filled by all its threads at once, one range of key hashes after the other."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np

from storage.arrays import Integers, Words
from storage.kernels.map_walk import map_records, mark_superseded
from storage.kernels.offset_map import (
    ASIDE_WORDS,
    KEYLESS,
    LIMIT,
    SLOT_BYTES,
    TAG_MAX,
    USED,
    WORDS_A_SLOT,
    collect_survivors,
    double_slots,
    hashes_by_range,
    new_map,
    shrink_range,
)
from storage.kernels.status import Status
from storage.scan.arena import Run
from storage.scan.slices import Slice

_OFFSET_END: Final = (1 << 63) - 1
LOG2_SLOTS_MIN: Final = 10
_WORDS_FIRST: Final = WORDS_A_SLOT << 17
"""The words with which a large map begins, one huge page; then the map doubles. Untouched memory costs nothing."""
_WORDS_FIRST_OF_SMALL: Final = WORDS_A_SLOT << 12
"""The words with which a map of one huge page or less begins: of small logs, the zeroing would cost more than keys."""
_FULL_ENOUGH_TO_DOUBLE: Final = 0.6
_FILL_MIN: Final = 0.05
_BYTES_A_RECORD: Final = 16
"""The least bytes of log for a record, by which the size of a map is estimated.

Compressed records may take less; the map then needs more passes.
"""
_FULL_ENOUGH: Final = 0.9
"""The used share of the map from which on the range is narrowed; below, the free room is shared out anew."""


_SAFELY: Final = 0.98
"""The share of the map that the next range should fill. Hashes are spread evenly, so its width follows from that."""


Secret = tuple[np.uint64, np.uint64]


def secret_of(words: tuple[int, int]) -> Secret:
    """Return two words in the form that kernels take."""
    return np.uint64(words[0]), np.uint64(words[1])


def new_secret() -> Secret:
    """Draw two random words that no writer of records knows."""
    words = os.urandom(16)
    return secret_of((int.from_bytes(words[:8]), int.from_bytes(words[8:])))


class Budget(NamedTuple):
    """Memory for the offset map."""

    map_bytes: int
    """``log.cleaner.dedupe.buffer.size``."""
    load_factor: float
    """``log.cleaner.io.buffer.load.factor``, of which Kafka checks no range."""

    @property
    def fill(self) -> float:
        """The share of the map to fill: the load factor, within the bounds of a map."""
        return min(max(self.load_factor, _FILL_MIN), 1.0)


class KeyMap:
    """Key hash -> greatest ordinal, for the hashes of the current range.

    Every thread has a share of the room, and counts the slots that it took. Threads read and fill the map at the same
    time. A thread whose share is used up waits until all others are out of the kernel; then it shares the rest out
    anew, or narrows the range.
    """

    def __init__(self, dirty_bytes: int, budget: Budget, threads: int, secret: Secret | None = None) -> None:
        """Make an empty map.

        Args:
            dirty_bytes: the bytes of log whose keys the map will take.
            budget: of memory.
            threads: the number of threads that fill the map.
            secret: of the hashes; by default a new one.
        """
        self._all_words, counters = new_map(_log2_slots(dirty_bytes, budget), budget.fill)
        is_small = self._all_words.size <= _WORDS_FIRST
        if is_small:  # by small pages, of which few are touched
            memory = mmap.mmap(-1, self._all_words.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._all_words = np.frombuffer(memory, np.uint64)
        self._limit_of_all = int(counters[LIMIT])
        self._keys_max = _keys_max(budget)
        self._shares: list[Integers] = [np.zeros_like(counters) for _ in range(threads)]
        self._is_shared = threads > 1
        self._secret = secret or new_secret()
        self._range = (0, TAG_MAX)
        self._gate = threading.Condition()
        self._inside = 0
        self._changes = 0
        """How often room was made. By this number a thread sees whether another thread made room since."""
        self._use_words(min(self._all_words.size, _WORDS_FIRST_OF_SMALL if is_small else _WORDS_FIRST))
        self._share_out(0)

    @property
    def unkeyed(self) -> int:
        """Records without a key that were met so far."""
        return sum(int(share[KEYLESS]) for share in self._shares)

    def unkeyed_of(self, share: int) -> int:
        """Return the records without a key that one thread met so far."""
        return int(self._shares[share][KEYLESS])

    @property
    def utilisation(self) -> float:
        """The used share of the room that the budget allows; 1 once the range of hashes was narrowed."""
        return 1.0 if not self.is_first_range or not self.is_last_range else self._used() / self._keys_max

    @property
    def is_first_range(self) -> bool:
        """Return whether no range came before this one."""
        return self._range[0] == 0

    @property
    def is_last_range(self) -> bool:
        """Return whether this range is the last one."""
        return self._range[1] == TAG_MAX

    def begin_next_range(self) -> None:
        """Forget all keys, and take the next range of hashes, as wide as will fit. No thread may be at work."""
        tag_min, tag_max = self._range
        will_fit = int((tag_max - tag_min) * self._limit / max(self._used(), 1) * _SAFELY)
        self._range = (tag_max + 1, min(tag_max + will_fit, TAG_MAX))
        self._words[:] = 0
        self._share_out(0)

    def add(self, slice_: Slice, run: Run, first_dirty: int, share: int, *, is_counted: bool = True) -> None:
        """Map the keys of some rows. Raises: CorruptBatch.

        Args:
            slice_: of the dirty section.
            run: rows of it.
            first_dirty: first dirty offset; records before it are only checked.
            share: of the thread.
            is_counted: whether the records without a key count here, and not where ``mark`` meets them.
        """
        row, unkeyed = run.first, int(self._shares[share][KEYLESS])
        while row < run.last:
            with self._entered() as (tags, changes):
                status, row = map_records(
                    run.buf, slice_.table, row, run.last, self._words, self._shares[share],
                    *tags, *self._secret, first_dirty, self._is_shared, run.is_unverified,
                )  # fmt: skip
            if status == Status.MAP_FULL:
                self._make_room(changes)
            elif status != Status.OK:
                raise slice_.fail(status, row)
        if not is_counted:
            self._shares[share][KEYLESS] = unkeyed

    def mark(self, slice_: Slice, run: Run, bitmap: Words, ordinal_base: int, kept: Words, share: int) -> int:
        """Clear the bits of the records whose key is in the map, or that have no key. No key is added any more.

        Args:
            slice_: of the clean section.
            run: rows of it.
            bitmap: of the slice's records.
            ordinal_base: the ordinal that the first bit belongs to.
            kept: takes the hashes of the other keys, as far as there is room.
            share: of the thread.

        Returns:
            How many words of ``kept`` were written.

        Raises: CorruptBatch.
        """
        tag_min, tag_max = self._range
        status, row, noted = mark_superseded(
            run.buf, slice_.table, run.first, run.last, self._words, self._shares[share], bitmap, ordinal_base, kept,
            np.uint64(tag_min), np.uint64(tag_max), *self._secret, _OFFSET_END, run.is_unverified,
        )  # fmt: skip
        if status != Status.OK:
            raise slice_.fail(status, row)
        return noted

    def collect(self, bitmap: Words) -> None:
        """Set the bit of every key's greatest ordinal."""
        outside = collect_survivors(self._words, bitmap)
        assert outside < 0, outside

    def hashes(self, first_ordinals: Sequence[int] = ()) -> list[Words]:
        """The low words of all hashes in the map, by the range that their greatest ordinal lies in.

        Args:
            first_ordinals: of every range but the first, ascending.
        """
        bounds = np.array(first_ordinals, np.int64)
        counts, ends = np.zeros((2, bounds.size + 1), np.int64)
        hashes_by_range(self._words, bounds, counts, np.empty(0, np.uint64))
        ends[1:] = np.cumsum(counts)[:-1]
        low_words = np.empty(int(counts.sum()), np.uint64)
        hashes_by_range(self._words, bounds, ends, low_words)
        return np.split(low_words, ends[:-1])

    @contextmanager
    def _entered(self) -> Iterator[tuple[tuple[np.uint64, np.uint64], int]]:
        """Join the users of the map. Return the range, and how often room was made before."""
        with self._gate:
            self._inside += 1
            tags, changes = self._range, self._changes
        try:
            yield (np.uint64(tags[0]), np.uint64(tags[1])), changes
        finally:
            with self._gate:
                self._inside -= 1
                self._gate.notify_all()

    def _make_room(self, changes: int) -> None:
        """Make room, unless another thread has done so since.

        Close the gate, and wait until the threads inside are done.
        """
        with self._gate:
            self._gate.wait_for(lambda: self._inside == 0 or self._changes != changes)
            if self._changes != changes:
                return
            used = self._used()
            if used >= self._limit * _FULL_ENOUGH and not self._has_doubled():
                used = self._narrow(used)
            self._share_out(used)
            self._changes += 1

    def _has_doubled(self) -> bool:
        twice = 2 * self._words.size
        if twice > self._all_words.size or not double_slots(self._all_words[:twice], np.empty(ASIDE_WORDS, np.uint64)):
            return False
        self._use_words(twice)
        return True

    def _use_words(self, count: int) -> None:
        """Begin to use the front part of all slots."""
        self._words = self._all_words[:count]
        slots = count // WORDS_A_SLOT
        is_all = count == self._all_words.size
        self._limit = self._limit_of_all if is_all else int(slots * _FULL_ENOUGH_TO_DOUBLE)

    def _used(self) -> int:
        """Return the number of slots in use."""
        return sum(int(share[USED]) for share in self._shares) + self._settled

    def _narrow(self, used: int) -> int:
        """Halve the range, and forget the keys above it. Return the number of slots in use then."""
        tag_min, tag_max = self._range
        self._range = tag_min, tag_min + (tag_max - tag_min) // 2
        counters = np.array([used, self._limit, 0], np.int64)
        shrink_range(self._words, counters, np.uint64(self._range[1]))
        return int(counters[USED])

    def _share_out(self, used: int) -> None:
        """Give every thread an equal share of the slots that are free to use."""
        self._settled = used
        for share in self._shares:
            share[USED], share[LIMIT] = 0, (self._limit - used) // len(self._shares)


def _log2_slots(dirty_bytes: int, budget: Budget) -> int:
    """Return the number of slots that the dirty section needs if all its keys are distinct, within the budget."""
    wanted = int(dirty_bytes / _BYTES_A_RECORD / budget.fill).bit_length()
    return max(min(wanted, log2_slots_max(budget)), LOG2_SLOTS_MIN)


def log2_slots_max(budget: Budget) -> int:
    """Return the binary logarithm of the most slots that the budget allows."""
    return max((budget.map_bytes // SLOT_BYTES).bit_length() - 1, LOG2_SLOTS_MIN)


def _keys_max(budget: Budget) -> int:
    """Return the number of keys that the largest map within the budget takes."""
    return max(int((1 << log2_slots_max(budget)) * budget.fill), 1)
