"""The files of one log, and how they are opened, rolled, flushed, closed and let go of.

A method that holds the lock of its log runs one at a time.

Steps:      (of a roll) the old segment is sealed, durably; a snapshot; the new ``.log``.
            (of a close) the segment is sealed; a snapshot; the lines in the checkpoints of the log dir.
Source:     Kafka UnifiedLog, LocalLog, LogManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from threading import Lock, RLock
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from storage.checkpoints import (
    LeaderEpochEntry,
    format_leader_epochs,
    format_offset_checkpoint,
    format_partition_metadata,
    parse_offset_checkpoint,
)
from storage.directory import opened
from storage.filesystem import FileSystem, Purpose, give_away
from storage.log import recovery
from storage.log.active import ActiveSegment
from storage.log.config import LogConfig
from storage.log.end import SegmentEnd, ensure_headers_parse, find_end
from storage.log.errors import CannotRoll, OffsetOutOfRange
from storage.log.leader_epochs import LeaderEpochs, ensure_valid_epoch
from storage.log.listing import Listing, list_partition
from storage.log.producer_state import ProducerState, replay_producers
from storage.log.roll import create_segment, write_snapshot
from storage.log_dir import read_file
from storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    TopicPartition,
    parse_topic_partition,
)
from storage.segment import Segment

P = ParamSpec("P")
R = TypeVar("R")

_WRITING: Final = Lock()
"""Logs of one log dir may be flushed by several threads."""


def locked(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Return the method, made to hold ``_lock`` of its object for as long as it runs."""

    @wraps(method)
    def holding(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return holding


class LogFiles:
    """One partition directory, the facts known of it, and the segment that is open for appending, if any."""

    def __init__(
        self, directory: Path, config: LogConfig, fs: FileSystem, listing: Listing, log_start_offset: int
    ) -> None:
        """Take a listing; nothing is changed."""
        self._lock = RLock()
        self.directory = directory
        self.config = config
        self._fs = fs
        self._recovery = recovery.plan_recovery(listing)
        self._segments = list(self._recovery.listing.segments)
        snapshots = self._recovery.listing.snapshots
        self._snapshot_offset = max((snapshot.name.base_offset for snapshot in snapshots), default=None)
        """The offset of the newest producer snapshot; None without one."""
        self._producers_end = 0
        """The offset up to which the producers' state is taken; above the log end after a roll there."""
        first_offset = self._segments[0].base_offset if self._segments else 0
        self.log_start_offset = max(first_offset, log_start_offset)
        end = SegmentEnd(self.log_start_offset, 0)
        if self._segments:
            end = find_end(self._segments[-1], trust_index=True)
        self.log_end_offset, self.torn_bytes = end.next_offset, end.torn_bytes
        self._active: ActiveSegment | None = None
        self._producers: ProducerState | None = None
        self._epochs = LeaderEpochs(fs, directory)
        self._recovery_point = self.log_end_offset
        self._flushed_ms = 0
        self._begun_ms: dict[int, int] = {}
        """The time when this process opened each segment that it opened."""

    @property
    @locked
    def segments(self) -> tuple[Segment, ...]:
        """Ascending; the last one is the active segment."""
        if self._active is None:
            return tuple(self._segments)
        return (*self._segments[:-1], self._active.segment())

    @property
    @locked
    def size_bytes(self) -> int:
        """The size of all ``.log`` files, which ``retention.bytes`` limits."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def recovery_point(self) -> int:
        """The offset up to which everything is flushed: an unclean start of Kafka checks the batches from there on."""
        return self._recovery_point

    @locked
    def roll(self, now_ms: int, at_offset: int | None = None) -> Segment:
        """Seal the active segment and begin a new one at the log end, or at ``at_offset`` if higher.

        The log end stays where it is: behind a segment that begins above it, only ``append_as_is`` can append. If the
        active segment begins there already and has no records, it is the new segment; Kafka would make it anew.

        Returns: the new active segment, empty.
        Raises: CannotRoll below the active segment's base; TornTail, OutOfSpace (the old segment stays the active one),
            UnsafeOwner.
        """
        base_offset = max(self.log_end_offset, at_offset or 0)
        active = self._activated(now_ms)
        if active.base_offset >= base_offset:
            if active.size_bytes or active.base_offset > base_offset:
                raise CannotRoll(
                    self.directory, f"a segment begins at {active.base_offset}, so none can begin at {base_offset}"
                )
            return active.segment()
        try:
            active.seal()
            self._take_snapshot(base_offset, now_ms)
            created = self._create_segment(base_offset)
            begun = ActiveSegment.begin(self._fs, self.directory, base_offset, self.config, now_ms)
        except BaseException:
            self._active = None  # the segment is sealed: the next append opens it again
            raise
        finally:
            active.close()
        self._segments[-1:] = [active.segment(), created]
        self._active, self._begun_ms[base_offset] = begun, now_ms
        self._recovery_point, self._flushed_ms = max(self._recovery_point, base_offset), now_ms
        return created

    @locked
    def increment_log_start(self, offset: int) -> bool:
        """Let the log begin at a higher offset, and return whether the log start moved. No file is deleted.

        The checkpoint of the log dir then has the offset. Raises: OffsetOutOfRange above the log end;
        CorruptCheckpoint,
            OutOfSpace, UnsafeOwner.
        Source: Kafka UnifiedLog.maybeIncrementLogStartOffset.
        """
        if offset > self.log_end_offset:
            cause = f"the log cannot begin at {offset}, above its end at {self.log_end_offset}"
            raise OffsetOutOfRange(self.directory, cause)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._recovery_point = max(self._recovery_point, offset)
        self._epochs.truncate_from_start(offset)
        self._producers_end = max(self._producers_end, self.log_end_offset)
        self._note_offsets()
        return True

    @locked
    def flush(self) -> None:
        """Make what was appended last, and note the recovery point in the checkpoint of the log dir.

        Raises: OutOfSpace, CorruptCheckpoint.
        """
        if self._active:
            self._flush(self._flushed_ms)
            self._note_offsets()

    @locked
    def close(self) -> None:
        """Leave the log as a broker's clean stop does: flushed, indexes exact, a producer snapshot, its checkpoints.

        A log that was only read is left as it was; calling it again does nothing. Raises: OutOfSpace.
        """
        if self._active is None:
            return
        active = self._active
        try:
            active.seal()
            self._take_snapshot(max(self._producers_end, self.log_end_offset), active.opened_ms)
            self._recovery_point = max(self._recovery_point, self.log_end_offset)
            self._note_offsets()
        finally:
            active.close()
            self._segments[-1] = active.segment()
            self._active = None

    @locked
    def settle(self, now_ms: int) -> None:
        """Leave the log as a clean stop does, also if nothing was appended: index files that are missing are made anew.

        Raises: TornTail where bytes that are no batch lie at the log end; as ``close``.
        """
        self._activated(now_ms)
        self.close()

    @locked
    def producer_state(self, now_ms: int) -> ProducerState:
        """Return the producers and their open transactions at the log end. Raises: CorruptBatch, UnreadableFile."""
        if self._producers is None:
            self._producers = self._load_producers(now_ms)
        return self._producers

    def _load_producers(self, now_ms: int) -> ProducerState:
        snapshots, expiration_ms = self._recovery.listing.snapshots, self.config.producer_id_expiration_ms
        start, end = self.log_start_offset, self.log_end_offset
        for active in self.segments[-1:]:  # nothing is appended behind damage
            ensure_headers_parse(active, self.torn_bytes)
        return replay_producers(snapshots, self.segments, start, end, now_ms, expiration_ms)

    def _flush(self, now_ms: int) -> None:
        if self._active and self.log_end_offset >= self._recovery_point:
            self._active.flush()
            self._recovery_point = self.log_end_offset
            self._flushed_ms = now_ms

    def _flush_if_due(self, now_ms: int) -> None:
        """Flush behind ``flush.messages``, and behind ``flush.ms`` by the caller's clock."""
        config = self.config
        is_full = self.log_end_offset - self._recovery_point >= config.flush_messages
        if is_full or now_ms - self._flushed_ms >= config.flush_ms:
            self._flush(now_ms)

    def _note_offsets(self) -> None:
        """Write this partition's lines as a stopping broker does: its log start only where no segment tells it.

        Source: Kafka LogManager.checkpointRecoveryOffsetsInDir, checkpointLogStartOffsetsInDir.
        """
        starts_within = self.log_start_offset > self._segments[0].base_offset
        noted = {
            RECOVERY_POINT_CHECKPOINT: self._recovery_point,
            LOG_START_OFFSET_CHECKPOINT: self.log_start_offset if starts_within else None,
        }
        note_offsets(self._fs, self.directory, noted)

    def _activated(self, now_ms: int) -> ActiveSegment:
        """Open the active segment for appending; the first change of the log begins here. Rest as of its ``open``."""
        if self._active is None:
            self._finish_recovery()
            if not self._segments:
                self._segments.append(create_segment(self._fs, self.directory, self.log_start_offset))
            self._epochs.truncate_from_end(self.log_end_offset)
            self._active = ActiveSegment.open(self._fs, self._segments[-1], self.config, now_ms)
            self._active.opened_ms = self._begun_ms.setdefault(self._active.base_offset, now_ms)
            self._flushed_ms = self._flushed_ms or now_ms
        return self._active

    def _create_segment(self, base_offset: int) -> Segment:
        allocated_bytes = self.config.segment_bytes if self.config.preallocate else 0
        return create_segment(self._fs, self.directory, base_offset, (FileKind.LOG,), allocated_bytes)

    def _finish_recovery(self) -> None:
        if self._recovery.is_needed:
            recovery.recover(self._fs, self._recovery, self.directory)
            self._recovery = recovery.plan_recovery(list_partition(self.directory))
            self._segments = list(self._recovery.listing.segments)

    def _take_snapshot(self, offset: int, now_ms: int) -> None:
        """Write a producer snapshot if the log grew since the newest one.

        Source: Kafka ProducerStateManager.takeSnapshot.
        """
        self._producers_end = offset
        if offset > (self.log_start_offset if self._snapshot_offset is None else self._snapshot_offset):
            write_snapshot(self._fs, self.directory, offset, self.producer_state(now_ms).to_snapshot_bytes())
            self._snapshot_offset = offset


def create_partition(fs: FileSystem, directory: Path, topic_id: str, leader_epoch: int) -> None:
    """Make the directory, owned like its parent, with two metadata files and an empty segment at offset 0.

    Raises: InvalidLeaderEpoch, FileExistsError, OutOfSpace, UnsafeOwner.
    """
    ensure_valid_epoch(directory, leader_epoch)
    directory.mkdir()
    with opened(directory) as descriptor:
        give_away(descriptor, directory, directory.parent.stat())
    metadata = format_partition_metadata(topic_id)
    fs.replace_file(directory / PARTITION_METADATA_FILE, metadata, Purpose.CHECKPOINT)
    epochs = format_leader_epochs([LeaderEpochEntry(leader_epoch, 0)])
    fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, epochs, Purpose.CHECKPOINT)
    create_segment(fs, directory, 0)
    fs.fsync_dir(directory.parent, Purpose.ROLL)


def offset_of(directory: Path, checkpoint: str) -> int | None:
    """Return the offset of a partition in a checkpoint; None without a line. Raises: CorruptCheckpoint."""
    name = parse_topic_partition(directory.name)
    return None if name is None else _read(directory.parent / checkpoint).get(name)


def note_offsets(fs: FileSystem, directory: Path, offsets: Mapping[str, int | None]) -> None:
    """Write a partition's offset into each checkpoint; None takes its line out. An unchanged checkpoint is not written.

    Raises: CorruptCheckpoint, OutOfSpace, UnsafeOwner.
    """
    name = parse_topic_partition(directory.name)
    if name is None:
        return
    with _WRITING:
        for checkpoint, offset in offsets.items():
            path = directory.parent / checkpoint
            found = _read(path)
            noted = {key: known for key, known in found.items() if key != name or offset is not None}
            if offset is not None:
                noted[name] = offset
            if noted != found:
                fs.replace_file(path, format_offset_checkpoint(noted), Purpose.CHECKPOINT)


class Lockable(Protocol):
    """An object with a lock."""

    _lock: RLock


Owner = TypeVar("Owner", bound=Lockable)


def _read(path: Path) -> dict[TopicPartition, int]:
    data = read_file(path)
    return {} if data is None else parse_offset_checkpoint(data, path)
