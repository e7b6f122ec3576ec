"""Find out whether a ``.deleted`` log is the only copy of records; all code that unlinks asks here.

A file that a line of our journal names may go, because a policy decided so. ``policies.findings.only_copies`` judges
all other files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.journal import REPLACING, SourceLog, partition_of, read_entries, sources_of
from cleaner.engine.undo_notes import RenameTimes, rename_times, retired_file
from policies.facts import NO_TIMESTAMP, MissingRecords
from policies.findings.only_copies import LogAround, OnlyCopy, RetiredLog, SegmentBelow, is_source, lacking
from storage.directory import status_of
from storage.errors import LogCleanerError, UnreadableFile
from storage.indexes import last_time_index_entry
from storage.log.end import next_offset_of
from storage.log.leader_epochs import read_leader_epochs
from storage.log.listing import Listing
from storage.log.recovery import Recovery, has_entries, plan_recovery
from storage.log_dir import LogDir, Offsets
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    FileIdentity,
    FileKind,
    FileState,
    TopicPartition,
    segment_file_name,
)
from storage.segment import Segment, SegmentFile

_ENDS: Final = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)
_RENAME_TAKES_MS_MAX: Final = 60_000
"""The longest time between a line of the journal and the rename; in fact it is far shorter."""


class OnlyCopyInTheWay(LogCleanerError):
    """A segment would become ``.deleted``, but a ``.deleted`` log of that name waits, and is the only copy."""

    path: Path
    first_offset: int
    last_offset: int

    def __str__(self) -> str:
        return (
            f"{self.path}: may be the only copy of offsets {self.first_offset} to {self.last_offset}, and another file "
            "would take its name; move it to a safe place first"
        )


class Kept(NamedTuple):
    """The ``.deleted`` logs of a partition that nobody may unlink."""

    copies: Mapping[int, OnlyCopy]
    """Base offset -> the only copy with it."""
    unknown_because: str | None = None
    """Why nobody knows what the log lacks. Then only logs that the journal names may go."""

    def by_path(self, directory: Path) -> Iterator[tuple[str, OnlyCopy]]:
        """Yield the logs that are known to be needed, with their paths."""
        if self.unknown_because is None:
            for base_offset, copy in self.copies.items():
                yield f"{directory}/{segment_file_name(base_offset, FileKind.LOG, FileState.DELETED)}", copy


NOTHING_KEPT: Final = Kept({})


class OnlyCopies:
    """Answers for the partitions of one log dir. Checkpoints and journal are read once, and only where it takes them.

    Lives for one look: what a run changes is not seen.
    """

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir

    def of(self, topic_partition: TopicPartition, listing: Listing) -> Kept:
        """Return the logs that nobody may unlink."""
        waiting = [f for f in listing.in_state(FileState.DELETED) if f.name.kind is FileKind.LOG]
        renamed_ms = self.renamed_ms(topic_partition) if waiting else {}
        unnamed = [file for file in waiting if not _is_named(file, renamed_ms)]
        if not unnamed:
            return NOTHING_KEPT
        try:
            recovered = plan_recovery(listing).listing
            copies = _Look(self, topic_partition, listing, recovered, waiting).copies(unnamed)
        except LogCleanerError as error:
            return Kept({file.name.base_offset: _unread(file) for file in unnamed}, str(error))
        return Kept(copies)

    def missing(
        self, topic_partition: TopicPartition, listing: Listing, recovery: Recovery
    ) -> tuple[MissingRecords, ...]:
        """Return the known facts about records that a log lacks. If the journal cannot be read, no line names any file.

        Args:
            topic_partition: the partition.
            listing: of its directory.
            recovery: of the listing. Its evidence tells of missing records, as do index files with entries beside an
                empty ``.log``; the index files that it retires tell of the age of those that wait.
        """
        waiting = listing.in_state(FileState.DELETED)
        evidence = (*recovery.evidence, *_of_empty_logs(recovery.listing))
        names = {file.name.base_offset: file.file_name for file in evidence}
        if any(file.name.kind is FileKind.LOG for file in waiting):
            kept = self.of(topic_partition, listing)
            names |= {base: segment_file_name(base, FileKind.LOG, FileState.DELETED) for base in kept.copies}
        telling = (*evidence, *waiting, *recovery.retired)  # the last named take the others' places
        indexes = {file.name.base_offset: file for file in telling if file.name.kind is FileKind.TIME_INDEX}
        return tuple(MissingRecords(base, names[base], _newest_ms(indexes.get(base))) for base in sorted(names))

    def by_path(self, topic_partition: TopicPartition, listing: Listing) -> Iterator[tuple[str, OnlyCopy]]:
        """Yield the ``.deleted`` logs that are known to be needed, with their paths. Raises: UnreadableFile."""
        yield from self.of(topic_partition, listing).by_path(listing.directory)

    def renamed_ms(self, topic_partition: TopicPartition) -> RenameTimes:
        """Return when the files of a partition's deletions were renamed. An unreadable journal names no file."""
        return self._renamed_ms.get(topic_partition, {})

    @cached_property
    def _renamed_ms(self) -> Mapping[TopicPartition, RenameTimes]:
        with suppress(UnreadableFile):
            return rename_times(self._log_dir.path, {name for name, _ in self._log_dir.partitions()})
        return {}

    def offsets(self, name: str, topic_partition: TopicPartition) -> int:
        """Return an offset by a checkpoint; 0 without a line. Raises: CorruptCheckpoint, UnreadableFile."""
        return self._checkpoints[name].get(topic_partition, 0)

    @cached_property
    def _checkpoints(self) -> Mapping[str, Offsets]:
        names = (*_ENDS, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)
        return {name: self._log_dir.offsets(name) for name in names}

    def sources(self, topic_partition: TopicPartition) -> Mapping[SourceLog, bool]:
        """Return the logs that compactions, erasures and repackings read, as the journal names them, and whether the
        survivors of each came into a segment of another base offset.

        The first source of a group, and each source of an erasure or a repacking, is replaced by a segment of its own
        base offset: a log that lacks this segment was not left so by the line, which may have stopped before.

        Raises: UnreadableFile.
        """
        return self._sources.get(topic_partition, {})

    @cached_property
    def _sources(self) -> Mapping[TopicPartition, Mapping[SourceLog, bool]]:
        found: dict[TopicPartition, dict[SourceLog, bool]] = {}
        path = self._log_dir.path
        for entry in (entry for what in REPLACING for entry in read_entries(path, what)):
            if (topic_partition := partition_of(entry)) is not None:
                with suppress(TypeError, ValueError):
                    later = {int(base) for group in entry.get("groups", ()) for base in group[1:]}
                    sources = found.setdefault(topic_partition, {})
                    sources.update((s, sources.get(s, False) or s.base_offset in later) for s in sources_of(entry))
        return found


def _of_empty_logs(listing: Listing) -> Iterator[SegmentFile]:
    """Yield the index files with entries of closed segments whose ``.log`` is empty. Raises: UnreadableFile.

    A round that drops all records of a segment writes none of these entries.
    """
    for segment in listing.segments[:-1]:
        if not segment.log.size_bytes:
            indexes = (segment.files.get(kind) for kind in (FileKind.INDEX, FileKind.TIME_INDEX))
            yield from (file for file in indexes if file is not None and has_entries(file))


class _Look:
    """A look at the ``.deleted`` logs of one partition."""

    def __init__(
        self,
        rule: OnlyCopies,
        topic_partition: TopicPartition,
        listing: Listing,
        recovered: Listing,
        waiting: Sequence[SegmentFile],
    ) -> None:
        self._rule, self._name, self._listing = rule, topic_partition, listing
        self._segments = recovered.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._next_offsets: dict[int, int] = {}
        self._waiting = waiting
        logs = (*waiting, *(segment.log for segment in self._segments))
        newest_snapshot = max((snapshot.name.base_offset for snapshot in recovered.snapshots), default=0)
        self._log = LogAround(
            rule.offsets(LOG_START_OFFSET_CHECKPOINT, topic_partition),
            max(rule.offsets(name, topic_partition) for name in _ENDS) or newest_snapshot,
            rule.offsets(CLEANER_OFFSET_CHECKPOINT, topic_partition),
            Counter(log.identity.mtime_ms for log in logs),
            changed_ns_of(listing.directory / PARTITION_METADATA_FILE),
        )

    def copies(self, unnamed: Sequence[SegmentFile]) -> dict[int, OnlyCopy]:
        """Return the only copies among logs that no line of the journal names. Raises: UnreadableFile."""
        found = {}
        for file in unnamed:
            copy = self._copy(file)
            if copy is not None:
                found[file.name.base_offset] = copy
        return found

    def _copy(self, file: SegmentFile) -> OnlyCopy | None:
        base = file.name.base_offset
        place = bisect_right(self._bases, base)
        if not place and self._segments and not self._begins_at_or_below(base):
            return None  # below the log, where retention deletes
        above = self._bases[place] if place < len(self._bases) else None
        below = self._below(place - 1) if place else None
        is_gap, is_compacted = below is not None and above is not None, self._is_merged(base, file.identity)
        if is_gap and is_compacted and below and not below.is_untouched:
            return None  # ``is_source`` says the same about a log that was read
        is_named = self._is_named(base, file.identity)
        retired = RetiredLog(base, self._end(file), file.changed_ns, file.identity.mtime_ns, is_compacted, is_named)
        lacks = lacking(retired, below, above, self._log)
        if lacks is None:
            return None
        if below is not None and above is not None:
            following = {f.identity.mtime_ns for f in self._waiting if base <= f.name.base_offset < above}
            if below.is_put_in:  # the kill may have come before the last source was renamed
                following |= {segment.log.identity.mtime_ns for segment in self._segments[place:]}
            if is_source(retired, below, following, self._log):
                return None
        others = tuple(f.file_name for f in self._beside(base) if f.name.kind is not FileKind.LOG)
        return OnlyCopy(lacks[0], lacks[1] - 1, others, file.size_bytes, is_taken=base in self._bases)

    def _begins_at_or_below(self, offset: int) -> bool:
        """Return whether the leader epochs begin at or below an offset, so that nobody moved the log start beyond it.

        A log without leader epochs tells nothing. Source: Kafka UnifiedLog.maybeIncrementLogStartOffset cuts them.
        """
        entries = read_leader_epochs(self._listing.directory)
        return bool(entries) and entries[0].start_offset <= offset

    def _beside(self, base_offset: int) -> list[SegmentFile]:
        return [f for f in self._listing.in_state(FileState.DELETED) if f.name.base_offset == base_offset]

    def _end(self, file: SegmentFile) -> int:
        """Return the offset behind the last batch of a ``.deleted`` log; its index may wait with it."""
        base = file.name.base_offset
        kinds: dict[FileKind, SegmentFile] = {
            f.name.kind: f for f in self._beside(base) if f.name.kind is not FileKind.SNAPSHOT
        }
        return next_offset_of(Segment(file.directory, base, kinds))

    def _below(self, place: int) -> SegmentBelow:
        segment = self._segments[place]
        if place not in self._next_offsets:
            self._next_offsets[place] = next_offset_of(segment)
        log, base = segment.log, segment.base_offset
        is_put_in = log.file_name != segment_file_name(base, FileKind.LOG)
        is_named = self._is_named(base, log.identity)
        return SegmentBelow(base, self._next_offsets[place], log.changed_ns, log.identity.mtime_ns, is_put_in, is_named)

    def _is_merged(self, base_offset: int, log: FileIdentity) -> bool:
        return self._rule.sources(self._name).get(SourceLog(base_offset, log.size_bytes, log.mtime_ns), False)

    def _is_named(self, base_offset: int, log: FileIdentity) -> bool:
        return SourceLog(base_offset, log.size_bytes, log.mtime_ns) in self._rule.sources(self._name)


def _newest_ms(time_index: SegmentFile | None) -> int:
    """Return the timestamp of the last entry, epoch ms; NO_TIMESTAMP without an entry, or if none can be read."""
    if time_index is not None:
        with suppress(LogCleanerError):
            last = last_time_index_entry(time_index.location, time_index.name.base_offset)
            return last.timestamp_ms if last else NO_TIMESTAMP
    return NO_TIMESTAMP


def changed_ns_of(path: Path) -> int | None:
    """Return the change time of a file, epoch ns; None if it cannot be told."""
    with suppress(OSError):
        return status_of(path).st_ctime_ns
    return None


def _is_named(file: SegmentFile, renamed_ms: RenameTimes) -> bool:
    """Return whether a line of the journal tells of the rename that gave a file its name.

    A file that got its name much later was put back by hand and set aside again, which is not the rename of the line.
    """
    told = renamed_ms.get(retired_file(file))
    return told is not None and file.changed_ns // 1_000_000 <= told.time_ms + _RENAME_TAKES_MS_MAX


def _unread(file: SegmentFile) -> OnlyCopy:
    return OnlyCopy(file.name.base_offset, file.name.base_offset, (), file.size_bytes)


def ensure_no_copy_in_the_way(
    log_dir: LogDir, topic_partition: TopicPartition, listing: Listing, base_offsets: Collection[int]
) -> None:
    """Let no segment that leaves the log take the ``.deleted`` name of an only copy.

    Raises: OnlyCopyInTheWay, UnreadableFile.
    """
    waiting = {f.name.base_offset for f in listing.in_state(FileState.DELETED) if f.name.kind is FileKind.LOG}
    if not (met := waiting.intersection(base_offsets)):
        return
    kept = OnlyCopies(log_dir).of(topic_partition, listing)
    for base_offset in sorted(met & kept.copies.keys()):
        copy = kept.copies[base_offset]
        path = listing.directory / segment_file_name(base_offset, FileKind.LOG, FileState.DELETED)
        raise OnlyCopyInTheWay(path, copy.first_offset, copy.last_offset)
