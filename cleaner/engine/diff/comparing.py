"""The partitions of two places, paired by name, with their checkpoints.

A place is a log dir, a copy of one, or a single partition directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cleaner.engine.copy.manifest import Manifest, change_since, damaged_files, read_manifest
from cleaner.engine.copy.moment import CHECKPOINTS
from cleaner.engine.journal import GUARDED, partition_of, read_journal
from cleaner.errors import told
from storage.checkpoints import CorruptCheckpoint
from storage.directory import followed
from storage.errors import ErrorKind, LogCleanerError, NotALogDir
from storage.log.leader_epochs import topic_id_if_readable
from storage.log.listing import list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import IncompleteCopy, LogDir, Offsets
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
    is_named,
    parse_topic_partition,
)
from storage.stores.paths import StoredPath, path_of_text

if TYPE_CHECKING:
    from cleaner.engine.diff.record_diff import Difference
    from cleaner.engine.diff.two_states import Between, State


RetentionOf = Callable[[TopicPartition], int | None]


class UnlikePlaces(LogCleanerError):
    """Two places that are not two states of one log, so that no comparison can tell what is gone."""

    kind = ErrorKind.USAGE

    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.cause}; {self.remedy}"


class OtherTopicId(LogCleanerError):
    """Two partition directories of one name whose topics have different ids: the topic was deleted and made again."""

    before: Path
    before_id: str
    after: Path
    after_id: str

    def __str__(self) -> str:
        return (
            f"not the same log: {self.before} belongs to topic id {self.before_id}, {self.after} to {self.after_id}: "
            f"the topic was deleted and made again in between, and its records are gone"
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """The result for one partition."""

    name: str
    difference: Difference | None
    error: str | None = None
    """Why the partition could not be compared, which may be damage."""
    delete_retention_ms: int | None = None
    """The limit by which the comparison judged tombstones that expired in between; None if it is not known."""
    since_ms: int | None = None
    """When the earlier state was written to for the last time, epoch ms."""
    is_left_out: bool = False
    """Whether the later place is a copy that leaves out this partition, as its manifest says."""

    @property
    def is_damaged(self) -> bool:
        """Return whether a record is gone or changed that no cleaning accounts for."""
        if self.is_left_out:
            return False
        return self.difference is None or self.difference.damage is not None


@dataclass(frozen=True)
class ComparedDir:
    """A log dir, or one partition of it."""

    log_dir: LogDir
    partitions: Mapping[TopicPartition, Path]
    is_whole: bool
    """Whether the log dir was named; else a partition directory was."""

    @classmethod
    def open(cls, path: Path, topics: Sequence[str] = ()) -> ComparedDir:
        """Open a log dir or a partition directory for the comparison.

        Args:
            path: a log dir, or a partition directory.
            topics: globs over topic or partition names; empty means all.

        Raises: NotALogDir, UnreadableFile.
        """
        path = followed(path.absolute())
        one = parse_topic_partition(path.name)
        if one and path.is_dir() and list_partition(path).segments:
            return cls(LogDir(path.parent), {one: path}, is_whole=False)
        try:
            log_dir = LogDir.open(path)
        except NotALogDir as error:
            raise NotALogDir(path, f"{error.cause}, and is no partition directory with segments either") from error
        found = {tp: directory for tp, directory in log_dir.partitions() if is_named(tp, topics)}
        return cls(log_dir, found, is_whole=True)

    def all_partitions(self) -> Iterable[TopicPartition]:
        """Return all partitions of the place, also partitions that no glob names. Raises: UnreadableFile."""
        return [found for found, _ in self.log_dir.partitions()] if self.is_whole else self.partitions

    @cached_property
    def manifest(self) -> Manifest | None:
        """Return the manifest if this is a whole copy of a log dir. Raises: CorruptManifest, UnreadableFile."""
        with suppress(IncompleteCopy):  # told by ``damaged_files``
            return read_manifest(self.log_dir.path)
        return None

    def is_copy_of(self, other: ComparedDir) -> bool:
        """Return whether this is a copy of the other place's log dir, made of it at its present path."""
        if self.manifest is None or change_since(self.log_dir.path, self.manifest):
            return False
        original = path_of_text(self.manifest.original)
        if isinstance(other.log_dir.path, StoredPath) or isinstance(original, StoredPath):
            return original == other.log_dir.path
        return original.exists() and original.samefile(other.log_dir.path)

    def damaged_files(self) -> Iterator[str]:
        """Yield a line for each file of a copy that differs from its manifest; none for a log dir without a manifest,
        and none if a broker or a run worked in it since.

        Raises: CorruptManifest, IncompleteCopy, UnreadableFile.
        """
        manifest = read_manifest(self.log_dir.path) if self.is_whole else None
        if manifest is None or change_since(self.log_dir.path, manifest):
            return
        for name, how in damaged_files(self.log_dir.path, manifest.files):
            yield f"{self.log_dir.path / name}: {how}"

    def state(self, topic_partition: TopicPartition, since_ms: int | None = None) -> State:
        """Return the state of a partition. The leftovers of a crash count as recovered.

        Args:
            topic_partition: which.
            since_ms: epoch ms. A compaction that began at or behind this time, by the journal, may have done a part of
                its groups without writing a checkpoint. So the log counts as compacted up to the planned end.

        Raises: CorruptCheckpoint, UnreadableFile; CorruptBatch of a swap that was interrupted.
        """
        from cleaner.engine.diff.two_states import State  # noqa: PLC0415 - loads the kernels

        listing = plan_recovery(list_partition(self.partitions[topic_partition])).listing
        start = self.log_dir.offsets(LOG_START_OFFSET_CHECKPOINT).get(topic_partition, 0)
        first_base = listing.segments[0].base_offset if listing.segments else start
        begun = self._begun_compactions.get(topic_partition, ()) if since_ms is not None else ()
        ends = [end_offset for time_ms, end_offset in begun if since_ms is not None and time_ms >= since_ms]
        return State(listing, max(start, first_base), max(self._compacted_to(topic_partition), *ends, 0))

    @cached_property
    def _begun_compactions(self) -> Mapping[TopicPartition, Sequence[tuple[int, int]]]:
        """Return the begin, epoch ms, and the end offset of each compaction in the journal, without compactions held
        back.

        Raises: UnreadableFile.
        """
        found: dict[TopicPartition, list[tuple[int, int]]] = {}
        for entry in read_journal(self.log_dir.path):
            topic_partition, end_offset, time_ms = partition_of(entry), entry.get("end_offset"), entry.get("time_ms")
            if entry.get("what") == "compact" and topic_partition and type(end_offset) is type(time_ms) is int:
                found.setdefault(topic_partition, []).append((time_ms, end_offset))
            elif entry.get("what") == GUARDED and topic_partition in found:
                del found[topic_partition][-1:]
        return found

    def _compacted_to(self, topic_partition: TopicPartition) -> int:
        """Return the offset up to which a log may be compacted. Without a checkpoint, that is the log end."""
        from cleaner.engine.diff.two_states import OFFSET_END  # noqa: PLC0415 - loads the kernels

        cleaned: Offsets = self.log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
        is_told = self.is_whole or (self.log_dir.path / CLEANER_OFFSET_CHECKPOINT).exists()
        return cleaned.get(topic_partition, 0) if is_told else OFFSET_END


def check_alike(before: ComparedDir, after: ComparedDir) -> None:
    """Refuse two places if the second cannot be a later state of the first.

    Raises: UnlikePlaces; UnreadableFile, CorruptManifest.
    """
    if before.is_whole != after.is_whole:
        raise _unlike_kinds(before, after)
    if not before.is_whole:
        return
    had = {topic_partition for topic_partition, _ in before.log_dir.partitions()}
    if had and not had & _known(after):
        cause = (
            f"{before.log_dir.path} and {after.log_dir.path} have no partition in common ({_some(had)} in the first)"
        )
        raise UnlikePlaces(cause, "name two states of one log dir, or two partition directories")


def _unlike_kinds(before: ComparedDir, after: ComparedDir) -> UnlikePlaces:
    whole, single = (before, after) if before.is_whole else (after, before)
    ((topic_partition, directory),) = single.partitions.items()
    remedy = "name two log dirs, or two partition directories"
    if topic_partition in whole.partitions:
        remedy = f"name {whole.partitions[topic_partition]} in place of the log dir"
    return UnlikePlaces(f"{whole.log_dir.path} is a log dir, and {directory} a partition directory", remedy)


def _known(place: ComparedDir) -> set[TopicPartition]:
    """Return the partitions that a log dir has or names.

    A lost partition is still in its checkpoints, or is left out.
    """
    known = {topic_partition for topic_partition, _ in place.log_dir.partitions()}
    for name in CHECKPOINTS:
        with suppress(CorruptCheckpoint):  # reported when the partitions are compared
            known |= set(place.log_dir.offsets(name))
    left_out = place.manifest.left_out if place.manifest else ()
    return known | {parsed for name in left_out if (parsed := parse_topic_partition(name))}


def _some(partitions: set[TopicPartition]) -> str:
    first, *others = sorted(map(str, partitions))
    return f"{first} and {len(others)} more" if others else first


def pairs(before: ComparedDir, after: ComparedDir) -> Iterator[tuple[str, TopicPartition, TopicPartition | None]]:
    """Yield the pairs of partitions to compare; with None if the later place has no partition of that name.

    Two partition directories are compared whatever their names.
    """
    if not before.is_whole and not after.is_whole:
        (one,), (other,) = before.partitions, after.partitions
        yield str(one), one, other
        return
    for topic_partition in sorted(before.partitions):
        yield str(topic_partition), topic_partition, topic_partition if topic_partition in after.partitions else None


def compared(
    before: ComparedDir, after: ComparedDir, now_ms: int, retention_ms_of: RetentionOf = lambda _: None
) -> Iterator[Compared]:
    """Compare the partitions of the earlier place, one after the other; a failure is a fact of its partition.

    Args:
        before: the earlier place.
        after: the later one.
        now_ms: delete horizons up to it have come, epoch ms.
        retention_ms_of: returns the ``delete.retention.ms`` of a partition of the earlier place; None if it is not
            known.

    Raises: CorruptManifest, UnreadableFile of the later place's manifest.
    """
    from cleaner.engine.diff.two_states import Between  # noqa: PLC0415 - loads the kernels

    is_copy_of_it = after.is_copy_of(before)
    left_out = after.manifest.left_out if after.manifest and after.is_whole else frozenset()
    for name, one, other in pairs(before, after):
        if other is not None:
            yield _compared(name, (before, one), (after, other), now_ms, Between(retention_ms_of(one), is_copy_of_it))
        elif name in left_out:
            yield Compared(name, None, is_left_out=True)
        else:
            yield Compared(name, None, f"{after.log_dir.path} has no such partition")


def _compared(
    name: str,
    before: tuple[ComparedDir, TopicPartition],
    after: tuple[ComparedDir, TopicPartition],
    now_ms: int,
    between: Between,
) -> Compared:
    from cleaner.engine.diff.record_diff import compare  # noqa: PLC0415 - loads the kernels

    try:
        _check_topic_ids(before[0].partitions[before[1]], after[0].partitions[after[1]])
        earlier = before[0].state(before[1])
        difference = compare(earlier, after[0].state(after[1], earlier.newest_write_ms), now_ms, between)
    except (LogCleanerError, OSError) as error:
        return Compared(name, None, str(error) if isinstance(error, LogCleanerError) else told(error))
    return Compared(name, difference, None, between.delete_retention_ms, earlier.newest_write_ms)


def _check_topic_ids(before: Path, after: Path) -> None:
    """Refuse the directories of two topics, if both have a topic id. Raises: OtherTopicId."""
    ids = topic_id_if_readable(before), topic_id_if_readable(after)
    if None not in ids and ids[0] != ids[1]:
        raise OtherTopicId(before, str(ids[0]), after, str(ids[1]))
