"""Which partitions of two places are compared with each other, and what their checkpoints say of them.

A place is a log dir, a copy of one, or a single partition directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.engine.inventory import is_named
from cleaner.engine.manifest import damaged_files, read_manifest
from storage.errors import LogCleanerError, NotALogDir
from storage.log.listing import list_partition
from storage.log_dir import LogDir, Offsets
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
    parse_topic_partition,
)
from storage.recovery import plan_recovery

if TYPE_CHECKING:
    from cleaner.engine.diff import Difference
    from cleaner.engine.two_states import State


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found out about one partition."""

    name: str
    difference: Difference | None
    error: str | None = None
    """Why it could not be compared: damage as well."""

    @property
    def is_damaged(self) -> bool:
        """Whether something is gone, or not as it was, that no cleaning accounts for."""
        return self.difference is None or self.difference.damage is not None


@dataclass(frozen=True, slots=True)
class Place:
    """A log dir, or one partition of it."""

    log_dir: LogDir
    partitions: Mapping[TopicPartition, Path]
    is_whole: bool
    """Whether the log dir was named; else a partition directory was."""

    @classmethod
    def open(cls, path: Path, topics: Sequence[str] = ()) -> Place:
        """See what lies at a path.

        Args:
            path: a log dir, or a partition directory.
            topics: globs over topic or partition names; empty means all.

        Raises: NotALogDir, UnreadableFile.
        """
        path = path.absolute()
        one = parse_topic_partition(path.name)
        if one and path.is_dir() and list_partition(path).segments:
            return cls(LogDir(path.parent), {one: path}, is_whole=False)
        try:
            log_dir = LogDir.open(path)
        except NotALogDir as error:
            raise NotALogDir(path, f"{error.cause}, and is no partition directory with segments either") from error
        found = {tp: directory for tp, directory in log_dir.partitions() if is_named(tp, topics)}
        return cls(log_dir, found, is_whole=True)

    def damaged_files(self) -> Iterator[str]:
        """A line for each file of a copy that is not what its manifest says; of a log dir without one, none.

        Raises: CorruptManifest, IncompleteCopy, UnreadableFile.
        """
        files = read_manifest(self.log_dir.path) if self.is_whole else None
        for name, how in damaged_files(self.log_dir.path, files or ()):
            yield f"{self.log_dir.path / name}: {how}"

    def state(self, topic_partition: TopicPartition) -> State:
        """A partition as it is, what a crash left counted as recovered.

        Raises: CorruptCheckpoint, UnreadableFile; CorruptBatch of a swap that was interrupted.
        """
        from cleaner.engine.two_states import State  # noqa: PLC0415 - loads the kernels

        listing = plan_recovery(list_partition(self.partitions[topic_partition])).listing
        start = self.log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(topic_partition, 0)
        first_base = listing.segments[0].base_offset if listing.segments else start
        return State(listing, max(start, first_base), self._compacted_to(topic_partition))

    def _compacted_to(self, topic_partition: TopicPartition) -> int:
        """Of a single partition directory without a checkpoint beside it nothing is known: then all may be."""
        from cleaner.engine.two_states import OFFSET_END  # noqa: PLC0415 - loads the kernels

        cleaned: Offsets = self.log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
        is_told = self.is_whole or (self.log_dir.path / CLEANER_OFFSET_CHECKPOINT).exists()
        return cleaned.get(topic_partition, 0) if is_told else OFFSET_END


def pairs(before: Place, after: Place) -> Iterator[tuple[str, TopicPartition, TopicPartition | None]]:
    """Names of the partitions to compare; None where the later place has none for it.

    Two partition directories are compared whatever their names.
    """
    if not before.is_whole and not after.is_whole:
        (one,), (other,) = before.partitions, after.partitions
        yield str(one), one, other
        return
    for topic_partition in sorted(before.partitions):
        yield str(topic_partition), topic_partition, topic_partition if topic_partition in after.partitions else None


def compared(before: Place, after: Place, now_ms: int) -> Iterator[Compared]:
    """Compare the partitions of the earlier place, one after the other; a failure is a fact of its partition.

    Args:
        before: the earlier place.
        after: the later one.
        now_ms: delete horizons up to it have come, epoch ms.
    """
    from cleaner.engine.diff import compare  # noqa: PLC0415 - loads the kernels

    for name, one, other in pairs(before, after):
        if other is None:
            yield Compared(name, None, f"{after.log_dir.path} has no such partition")
            continue
        try:
            yield Compared(name, compare(before.state(one), after.state(other), now_ms))
        except (LogCleanerError, OSError) as error:
            yield Compared(name, None, str(error))
