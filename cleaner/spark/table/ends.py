"""The offsets that a stream can read of each partition. A trigger looks only at partitions in which something changed.

On this machine a directory tells of every new name by its time, and the last ``.log`` of every new batch by its size
and time. A partition in a store is told by its listing, of which a thousand names take one request.

Assumes:    a file system may give two changes within ``_SETTLED_MS`` the same time: a younger one is not trusted. Every
            ``FULL_LOOK_MS`` all partitions are looked at, whatever the times say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from cleaner.engine.clock import Clock
from cleaner.spark.table.planning import for_each
from storage.directory import despite_vanishing, is_stored
from storage.log.listing import list_ends
from storage.names import FileIdentity, TopicPartition
from storage.scan.partitions import FoundPartition, OffsetRange, readable_end
from storage.segment import identity_of

FULL_LOOK_MS: Final = 600_000
"""Ten minutes."""
_SETTLED_MS: Final = 2_000

Marks = tuple[tuple[str, FileIdentity], ...]
"""The paths that tell of a change, and what lay there."""


class _Seen(NamedTuple):
    """A partition when it was looked at."""

    partition: FoundPartition
    marks: Marks
    looked_ms: int
    held: OffsetRange


class Ends:
    """The offsets that partitions hold, as far as they were looked at."""

    def __init__(self, clock: Clock, *, read_committed: bool) -> None:
        """Know nothing yet.

        Args:
            clock: tells when a look is too old.
            read_committed: whether the offsets end at the last stable offset.
        """
        self._clock, self._read_committed = clock, read_committed
        self._seen: dict[TopicPartition, _Seen] = {}

    def of(self, found: Sequence[FoundPartition]) -> dict[TopicPartition, OffsetRange]:
        """Return the offsets that each partition holds now, in the order of the partitions.

        Raises: CorruptBatch, UnreadableFile, UnseenSegment; as of a store.
        """
        now_ms = self._clock.now_ms()
        changed = [one for one in found if not self._is_as_seen(one, now_ms)]
        looked = for_each(changed, lambda one: despite_vanishing(partial(self._look, one, now_ms)))
        self._seen = {(name := one.topic_partition): looked.get(name) or self._seen[name] for one in found}
        return {name: seen.held for name, seen in self._seen.items()}

    def _is_as_seen(self, partition: FoundPartition, now_ms: int) -> bool:
        seen = self._seen.get(partition.topic_partition)
        if seen is None or seen.partition != partition or not 0 <= now_ms - seen.looked_ms < FULL_LOOK_MS:
            return False
        if is_stored(partition.directory):
            return _listed(partition) == seen.marks
        if any(seen.looked_ms - identity.mtime_ms < _SETTLED_MS for _, identity in seen.marks):
            return False
        try:
            return all(identity_of(os.lstat(path)) == identity for path, identity in seen.marks)
        except OSError:
            return False  # whoever looks raises the error

    def _look(self, partition: FoundPartition, now_ms: int) -> _Seen:
        if is_stored(partition.directory):
            marks = _listed(partition)
        else:
            location = str(partition.directory)
            marks = ((location, identity_of(os.lstat(location))),)  # before the names are read: a later one differs
        log = partition.open() if self._read_committed else partition.open_ends()
        end = readable_end(log, read_committed=self._read_committed, now_ms=now_ms)
        if not is_stored(partition.directory):
            marks += tuple((one.log.location, one.log.identity) for one in log.segments[-1:])
        return _Seen(partition, marks, now_ms, OffsetRange(log.log_start_offset, end))


def _listed(partition: FoundPartition) -> Marks:
    return tuple((file.location, file.identity) for file in list_ends(partition.directory).files)
