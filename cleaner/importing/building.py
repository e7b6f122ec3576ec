"""Build a partition in a directory that no broker loads, and rename it once it is whole and durable.

Steps:      a private directory, TOPIC-PARTITION.import-delete; in it the partition's directory, and its files; all is
            fsynced; the journal's line; the checkpoints; the partition's directory moves to its place; the private one
            goes.
Invariant:  under its name the partition is whole, or not there.
A crash:    leaves the private directory. A broker takes it for the empty log of a deleted topic, does not look into
            directories in it, and removes it; the next import removes it, too. Lines of the checkpoints for a partition
            that is not there are nothing to a broker.
Not chosen: a name that a broker does not know: it would not start. The files in the private directory itself: a broker
            opens the log of a deleted topic, and stops at one that a power loss left damaged.

The checkpoints are written before the move, and stale lines of a partition of that name are taken out: a log start
offset above the new log's end would have a broker delete all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cleaner.engine.journal import Journal
from cleaner.engine.means import Means
from cleaner.importing.batching import LEADER_EPOCH, MadeBatch
from cleaner.importing.private import private_name, remove
from policies.config.policy import TopicPolicy
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_partition_metadata
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log import Log, LogConfig
from storage.log.roll import create_segment
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)

_BATCH_BYTES_MAX: Final = (1 << 31) - 1


class NoSpaceToImport(LogCleanerError):
    """The disk has too little space for what is imported. Nothing was imported."""

    path: Path
    needed_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        about = (
            f"needs about {self.needed_bytes} bytes, and {self.free_bytes} are free" if self.needed_bytes else "full"
        )
        return f"{self.path}: no space: {about}; nothing was imported: make some, or choose another log dir (--to-dir)"


class NothingToImport(LogCleanerError):
    """An input without a record, such as a file that was cut short."""

    def __str__(self) -> str:
        return "the input holds no record, so nothing was imported; was it cut short?"


@dataclass(frozen=True, slots=True)
class Built:
    """The partition as it was written."""

    records: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size_bytes: int
    """The size of the ``.log`` files."""


def check_space(log_dir: LogDir, needed_bytes: int) -> None:
    """Refuse what will not fit. Raises: NoSpaceToImport."""
    free_bytes = log_dir.space().free_bytes
    if needed_bytes > free_bytes:
        raise NoSpaceToImport(log_dir.path, needed_bytes, free_bytes)


def rehearse(made: Iterable[MadeBatch]) -> Built:
    """Read everything and write nothing. Raises: NothingToImport; what reading raises."""
    start, end, records, size_bytes = None, 0, 0, 0
    for batch in made:
        start = batch.base_offset if start is None else start
        end, records, size_bytes = batch.next_offset, records + batch.records, size_bytes + len(batch.data)
    if start is None:
        raise NothingToImport
    return Built(records, start, end, 0, size_bytes)


def build(
    log_dir: LogDir,
    wanted: TopicPartition,
    topic_id: str,
    policy: TopicPolicy,
    made: Iterable[MadeBatch],
    means: Means,
    *,
    ensure_absent: Callable[[], None],
) -> Built:
    """Write a partition. The caller holds the lock of the log dir.

    Args:
        log_dir: that gets it.
        wanted: the partition.
        topic_id: of its topic.
        policy: of its topic: how large segments are.
        made: the batches.
        means: disk, clock and listener.
        ensure_absent: raises if the partition is there; asked again just before it gets its name.

    Raises: NothingToImport, NoSpaceToImport, UnsafeOwner; what ``made`` and ``ensure_absent`` raise. The log dir is
        then as it was.
    """
    fs, private = means.fs, log_dir.path / private_name(wanted)
    with _as_no_space(log_dir), _private(fs, private, log_dir.path):
        directory = private / str(wanted)
        built = _write(fs, directory, topic_id, policy, made, means.clock.now_ms())
        ensure_absent()
        with closing(Journal(log_dir.path, fs, means.clock.boot())) as journal:
            journal.record("import", means.clock.now_ms(), **_entry(wanted, topic_id, built))
            try:
                _write_checkpoints(fs, log_dir, wanted, built.log_end_offset)
                fs.move_dir(directory, log_dir.path / str(wanted), Purpose.IMPORT)
            except (LogCleanerError, OSError, KeyboardInterrupt):
                if directory.exists():
                    journal.take_back()
                raise
        fs.fsync_dir(log_dir.path, Purpose.IMPORT)
    means.listener.event("partition_imported", **wanted._asdict(), records=built.records, bytes=built.size_bytes)
    return built


@contextmanager
def _private(fs: FileSystem, private: Path, log_dir: Path) -> Iterator[None]:
    """Make the private directory, and remove it again, with what is still in it."""
    try:
        fs.make_dir(private, log_dir, Purpose.IMPORT)
        fs.fsync_dir(log_dir, Purpose.IMPORT)
        yield
    finally:
        with suppress(LogCleanerError, OSError):  # the next import finds it
            remove(fs, private)


@contextmanager
def _as_no_space(log_dir: LogDir) -> Iterator[None]:
    try:
        yield
    except OutOfSpace as error:
        raise NoSpaceToImport(log_dir.path, 0, 0) from error


def _write(
    fs: FileSystem, directory: Path, topic_id: str, policy: TopicPolicy, made: Iterable[MadeBatch], now_ms: int
) -> Built:
    log: Log | None = None
    records = 0
    try:
        for batch in made:
            if log is None:
                log = _created(fs, directory, topic_id, policy, batch.base_offset)
            elif batch.base_offset > log.log_end_offset:
                log.roll(now_ms, batch.base_offset)
            log.append_as_is(batch.data, now_ms=now_ms)  # with its offsets, and their gaps
            records += batch.records
    except BaseException:
        if log is not None:
            with suppress(LogCleanerError, OSError):
                log.close()
        raise
    if log is None:
        raise NothingToImport
    log.close()
    fs.fsync_dir(directory, Purpose.IMPORT)
    fs.fsync_dir(directory.parent, Purpose.IMPORT)
    return Built(records, log.log_start_offset, log.log_end_offset, len(log.segments), log.size_bytes)


def _created(fs: FileSystem, directory: Path, topic_id: str, policy: TopicPolicy, first_offset: int) -> Log:
    """Make a partition that begins at an offset, as a broker makes a partition that begins at 0."""
    fs.make_dir(directory, directory.parent, Purpose.IMPORT)
    metadata, epochs = format_partition_metadata(topic_id), [LeaderEpochEntry(LEADER_EPOCH, first_offset)]
    fs.replace_file(directory / PARTITION_METADATA_FILE, metadata, Purpose.IMPORT)
    fs.replace_file(directory / LEADER_EPOCH_CHECKPOINT, format_leader_epochs(epochs), Purpose.IMPORT)
    create_segment(fs, directory, first_offset)
    return Log.open(directory, _config(policy), fs)


def _config(policy: TopicPolicy) -> LogConfig:
    """Return how the log is written. A batch may be as large as any: what was exported was once allowed."""
    return LogConfig(
        segment_bytes=policy.segment_bytes,
        segment_ms=policy.segment_ms,
        segment_index_bytes=policy.segment_index_bytes,
        index_interval_bytes=policy.index_interval_bytes,
        max_message_bytes=_BATCH_BYTES_MAX,
    )


def _write_checkpoints(fs: FileSystem, log_dir: LogDir, wanted: TopicPartition, end_offset: int) -> None:
    """State that all is committed and flushed, and take out what an earlier partition of that name left."""
    lines = {
        LOG_START_OFFSET_CHECKPOINT: None,
        CLEANER_OFFSET_CHECKPOINT: None,
        RECOVERY_POINT_CHECKPOINT: end_offset,
        HIGH_WATERMARK_CHECKPOINT: end_offset,
    }
    for name, line in lines.items():
        offsets = {key: offset for key, offset in log_dir.offsets(name).items() if key != wanted}
        log_dir.write_offsets(name, offsets if line is None else {**offsets, wanted: line}, fs)


def _entry(wanted: TopicPartition, topic_id: str, built: Built) -> dict[str, object]:
    return {
        "partition": str(wanted),
        "bytes": built.size_bytes,
        "records": built.records,
        "log_start_offset": built.log_start_offset,
        "log_end_offset": built.log_end_offset,
        "topic_id": topic_id,
    }
