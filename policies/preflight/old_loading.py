"""The loader before Kafka 3.0, where it differs: it recovers each swapped segment, and replaces the sources by it.

Source: Kafka 2.8 ``Log.loadSegments``, ``removeTempFilesAndCollectSwapFiles``, ``completeSwapOperations``.
"""

from __future__ import annotations

from typing import Final

from policies.preflight.facts import Release
from policies.preflight.files import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    OFFSET_MAX,
    SWAP,
    LoadingStopped,
    base_offset_of,
    names_of,
)
from policies.preflight.loading import Loading
from policies.preflight.start import StartStepKind

SWAPS_RENAMED_SINCE: Final = Release(3, 0)


class OldLoading(Loading):
    """The loading of one partition by Kafka 2.8."""

    _swaps: tuple[str, ...] = ()

    def _clear_leftovers(self) -> None:
        self._check_readable()
        names = self.files.names()
        swaps = []
        for name in names:
            if name.endswith(DELETED):
                self.files.delete(name, "was to be deleted before the broker stopped")
            elif name.endswith(SWAP) and name.removesuffix(SWAP).endswith((".log", *INDEX_SUFFIXES)):
                base = base_offset_of(name)
                for index in names_of(base)[1:]:
                    self.files.delete(index, "a swap of its segment was interrupted")
                if name.endswith(".log" + SWAP):
                    swaps.append(name)
        cleaned = [name for name in names if name.endswith(CLEANED)]
        undone_from = min(map(base_offset_of, cleaned), default=OFFSET_MAX)
        for name in [name for name in swaps if base_offset_of(name) >= undone_from]:
            swaps.remove(name)
            base = base_offset_of(name)
            for one in names_of(base):
                self.files.delete(one + SWAP, "of a swap that had not begun: a .cleaned file is there")
        for name in cleaned:
            self.files.delete(name, "an unfinished compaction wrote it")
        self._swaps = tuple(swaps)

    def _complete_swaps(self) -> None:
        for name in self._swaps:
            self._complete_swap(name, base_offset_of(name))

    def _complete_swap(self, swap: str, base: int) -> None:
        producers = self._new_producers()
        producers.rebuild(self.bases, self._checkpointed_start, base, self._replay, trusts_absence=False)
        size_bytes = self.files.sizes[swap]
        if not size_bytes:
            self._note_empty_swap(swap, base)
        self.files.note(StartStepKind.RECOVER, swap, "a swap that was interrupted", size_bytes=size_bytes)
        found = self._contents.recovered(swap, base)
        if found.failure:  # nobody splits a swap
            raise LoadingStopped(found.failure, swap)
        if found.producers_end is not None:
            producers.map_end = found.producers_end
        producers.write()
        end = base if found.next_offset is None else found.next_offset
        replaced = [old for old in self.bases if base <= old < end or old == self._floor(base)] if end > base else []
        replaced = [old for old in replaced if self._end_of(old) > base]
        for old in replaced:
            self.bases.remove(old)
            for name in names_of(old):
                self.files.retire(name, "a finished compaction replaced it")
        self._producers.retire([old for old in replaced if old != base])
        self._take_name(swap, base, found.valid_bytes)
        if found.aborts:
            self.files.sizes[names_of(base).txn_index] = 0
        self._recovered[base] = found
        self._add(base)

    def _floor(self, offset: int) -> int | None:
        return max((base for base in self.bases if base <= offset), default=None)

    def _take_name(self, swap: str, base: int, valid_bytes: int) -> None:
        if valid_bytes < self.files.sizes[swap]:
            self._cut(swap, valid_bytes, base, "the swap is damaged")
        for name in names_of(base):
            if name + SWAP in self.files.sizes:
                self.files.rename(name + SWAP, name, "finishes a compaction that was interrupted")
            elif not name.endswith((".log", ".txnindex")):
                self.files.sizes[name] = 0
                self.files.note(StartStepKind.REBUILD, name, "a swap of its segment was interrupted")
