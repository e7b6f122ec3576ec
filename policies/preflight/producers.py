"""Reads, writes and deletes producer snapshots as a start does, on a list of files.

Source: Kafka ``ProducerStateManager``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.preflight.facts import Contents, KafkaFailure
from policies.preflight.files import Files, LoadingStopped, base_offset_of, snapshot_name
from policies.preflight.start import StartStepKind

Replay = Callable[[int, int], KafkaFailure | None]
"""Replays a segment, by its base offset, from an offset on; returns the exception at which that ends."""


class Producers:
    """A ``ProducerStateManager``: the snapshots that it knows of, and up to where its state reaches."""

    def __init__(self, files: Files, contents: Contents, fresh: set[int]) -> None:
        """Look at the snapshots that are there.

        Args:
            files: of the partition directory.
            contents: of its files.
            fresh: offsets of snapshots that this start has written; they are valid.

        Raises: LoadingStopped where a name is no offset.
        """
        self._files, self._contents, self._fresh = files, contents, fresh
        self.map_end = 0
        self._snap_end = 0
        self._snapshots = self._listed()

    def _listed(self) -> set[int]:
        return {base_offset_of(name) for name in self._files.names() if name.endswith(".snapshot")}

    def rebuild(
        self, bases: Sequence[int], log_start: int, end_offset: int, replay: Replay, *, trusts_absence: bool
    ) -> None:
        """Rebuild the state up to an offset.

        Args:
            bases: base offsets of the segments, ascending.
            log_start: snapshots at or below it go.
            end_offset: snapshots above it go; one is written there.
            replay: see ``Replay``.
            trusts_absence: after a clean shutdown, a log without snapshots is not replayed.

        Raises: LoadingStopped.
        """
        to_write = [*bases[-2:], end_offset]
        if not self._snapshots and trusts_absence:
            for offset in to_write:
                self.map_end = offset
                self.write()
            return
        was_empty = self.map_end >= end_offset
        self._truncate(log_start, end_offset)
        if end_offset > self.map_end and not was_empty:
            for base in _in_range(bases, self.map_end, end_offset):
                start = max(base, self.map_end, log_start)
                self.map_end = start
                if base in to_write:
                    self.write()
                failure = replay(base, start)
                if failure:
                    raise LoadingStopped(failure, f"{base:020d}.log")
        self.map_end = end_offset
        self.write()

    def _truncate(self, log_start: int, end_offset: int) -> None:
        for offset in sorted(self._snapshots):
            if offset > end_offset or offset <= log_start:
                self._delete(offset, "lies outside the log, or at its start")
        if end_offset == self.map_end:
            self.map_end = max(self.map_end, log_start)
            self._snap_end = max(self._snapshots, default=log_start)
            return
        while self._snapshots:
            newest = max(self._snapshots)
            if newest in self._fresh or self._contents.snapshot_is_valid(snapshot_name(newest)):
                self.map_end = self._snap_end = newest
                return
            self._delete(newest, "is damaged: the producer state is rebuilt from older ones and the log")
        self.map_end = self._snap_end = log_start

    def write(self) -> None:
        """Write a snapshot of the state, unless there is one."""
        if self.map_end > self._snap_end:
            name = snapshot_name(self.map_end)
            if name not in self._files.sizes:
                self._files.note(StartStepKind.WRITE, name, "the producer state at that offset")
            self._files.sizes[name] = 0
            self._fresh.add(self.map_end)
            self._snapshots.add(self.map_end)
            self._snap_end = self.map_end

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Delete the snapshots at which no segment begins, but for the newest, if that lies behind all segments."""
        kept: int | None = None
        self._snapshots = self._listed()
        for offset in sorted(self._snapshots - set(bases)):
            if kept is not None:
                self._delete(kept, "no segment begins there")
            kept = offset
        if kept is not None and bases and kept < bases[-1]:
            self._delete(kept, "no segment begins there")

    def retire(self, bases: Sequence[int]) -> None:
        """Have the snapshots of segments that go wait for their deletion, too."""
        for base in bases:
            if base in self._snapshots:
                self._snapshots.discard(base)
                self._files.retire(snapshot_name(base), "its segment goes")

    def start_at(self, offset: int) -> None:
        """Forget everything: the log begins anew."""
        for known in sorted(self._snapshots):
            self._delete(known, "the log begins anew")
        self._snap_end, self.map_end = 0, offset

    def _delete(self, offset: int, why: str) -> None:
        self._snapshots.discard(offset)
        self._fresh.discard(offset)
        self._files.delete(snapshot_name(offset), why)


def _in_range(bases: Sequence[int], from_offset: int, to_offset: int) -> list[int]:
    """Return the segments from the one that holds an offset on. Source: Kafka ``LogSegments.values``."""
    floor = max((base for base in bases if base <= from_offset), default=None)
    return [base for base in bases if (floor is None or base >= floor) and base < to_offset]
