"""Build a partition in a directory that no broker loads, and rename it once it is whole and durable.

Steps:      a private directory, TOPIC-PARTITION.import-delete; in it the partition's directory, and its files; all is
            fsynced; the journal's line; the checkpoints; the partition's directory moves to its place; the private one
            goes. The checkpoints come before the move, and stale lines of a partition of that name are taken out: a log
            start offset above the new log's end would have a broker delete all of it.
Invariant:  under its name the partition is whole, or not there. Files that import did not write stay, whatever their
names. A crash:    leaves the private directory. A broker takes it for the empty log of a deleted topic, does not look
into
            directories in it, and removes it; the next import removes it, too. A broker ignores lines of the
            checkpoints for a missing partition.
Not chosen: a name that a broker does not know: it would not start. The files in the private directory itself: a broker
            opens the log of a deleted topic, and stops at one that a power loss left damaged.

Batches are made in the order in which records come. A batch has records of one timestamp type; with LogAppendTime, of
one time, which its header states for all. If offsets are missing between two batches, the later batch begins right
behind the earlier one, as after compaction.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.journal import Journal
from cleaner.engine.means import Means
from cleaner.engine.private import is_of_a_start, name_of_private, names_in, private_directory, remove_private
from cleaner.importing.records import LOG_APPEND_TIME, ImportedRecord
from policies.config.policy import TopicPolicy
from storage.checkpoints import LeaderEpochEntry, format_leader_epochs, format_partition_metadata
from storage.codecs.compression import Compression
from storage.errors import ErrorKind, LogCleanerError
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.log import Log, LogConfig
from storage.log.roll import create_segment
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    IMPORT_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_segment_file_name,
    parse_topic_partition,
)
from storage.records import Record, encode_batch

LEADER_EPOCH: Final = 0
"""The leader epoch of all imported records. No leader has a lower epoch, and a broker forgets epochs above its own."""
BATCH_BYTES: Final = 256 << 10
"""The bytes of records at which a batch is closed: well below the 1 MiB of ``max.message.bytes``."""
_RECORDS_MAX: Final = 4096
_OFFSETS_MAX: Final = 1 << 30
"""The most offsets of a batch, which counts them from its first one with 31 bits."""
_RECORD_BYTES: Final = 24
"""The bytes, about, that a record takes besides its key, value and headers."""

_BATCH_BYTES_MAX: Final = (1 << 31) - 1


class NoSpaceToImport(LogCleanerError):
    """The disk has too little space for the import. Nothing was imported."""

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


class NotOurs(LogCleanerError):
    """A directory with the name of a private directory, but with entries that import does not write."""

    kind = ErrorKind.USAGE

    path: Path
    found: str

    def __str__(self) -> str:
        return f"{self.path}: holds {self.found}, which import did not write: move it away; nothing was imported"


@dataclass(frozen=True, slots=True)
class Built:
    """The partition as it was written."""

    records: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size_bytes: int
    """The size of the ``.log`` files."""


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
        policy: of its topic; it states the size of segments.
        made: the batches.
        means: disk, clock and listener.
        ensure_absent: raises if the partition is there. It is called again just before the directory gets its name.

    Raises: NothingToImport, NoSpaceToImport, UnsafeOwner; what ``made`` and ``ensure_absent`` raise. The log dir is
        then as it was.
    """
    fs, private = means.fs, log_dir.path / private_name(wanted)
    with _as_no_space(log_dir), private_directory(fs, private, Purpose.IMPORT):
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


def rehearse(made: Iterable[MadeBatch]) -> Built:
    """Read everything and write nothing. Raises: NothingToImport; what reading raises."""
    start, end, records, size_bytes = None, 0, 0, 0
    for batch in made:
        start = batch.base_offset if start is None else start
        end, records, size_bytes = batch.next_offset, records + batch.records, size_bytes + len(batch.data)
    if start is None:
        raise NothingToImport
    return Built(records, start, end, 0, size_bytes)


def check_space(log_dir: LogDir, needed_bytes: int) -> None:
    """Refuse an import that will not fit on the disk. Raises: NoSpaceToImport."""
    free_bytes = log_dir.space().free_bytes
    if needed_bytes > free_bytes:
        raise NoSpaceToImport(log_dir.path, needed_bytes, free_bytes)


class MadeBatch(NamedTuple):
    """A batch, encoded."""

    base_offset: int
    """The first offset of the batch: the log end before it, unless more offsets are missing than a batch can span."""
    next_offset: int
    """The offset behind its last record."""
    records: int
    data: bytes


def batches(records: Iterable[ImportedRecord], compression: Compression) -> Iterator[MadeBatch]:
    """Yield batches of records.

    Args:
        records: data records, by rising offsets.
        compression: the codec of every batch.
    """
    held: list[ImportedRecord] = []
    held_bytes, log_end = 0, None
    for one in records:
        if held and not _may_join(held, one, held_bytes):
            made = _made(held, log_end, compression)
            yield made
            held, held_bytes, log_end = [], 0, made.next_offset
        held.append(one)
        held_bytes += _size_of(one.record)
    if held:
        yield _made(held, log_end, compression)


def remove_leftovers(fs: FileSystem, log_dir: LogDir) -> Iterator[tuple[Path, str]]:
    """Remove what a killed import left in a log dir.

    Yields:
        Each directory with the reason why it stays: entries that import did not write. The text is empty if the
        directory was removed.

    Raises: UnreadableFile, OSError.
    """
    for name in sorted(os.listdir(log_dir.path)):  # noqa: PTH208 - names alone
        if not name.endswith(IMPORT_SUFFIX):
            continue
        path = log_dir.path / name
        strange = _strange(path)
        if not strange:
            remove_private(fs, path, Purpose.IMPORT)
        yield path, strange


def check_private(log_dir: LogDir, wanted: TopicPartition) -> None:
    """Refuse to write into a directory with files that import did not write. Raises: NotOurs, UnreadableFile."""
    path = log_dir.path / private_name(wanted)
    if os.path.lexists(path) and (strange := _strange(path)):
        raise NotOurs(path, strange)


def private_name(wanted: TopicPartition) -> str:
    """Return the name of the private directory of an import."""
    return name_of_private(wanted, IMPORT_SUFFIX)


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
    """Return the configuration of the log. Batches may have any size, because each exported record was once allowed."""
    return LogConfig(
        segment_bytes=policy.segment_bytes,
        segment_ms=policy.segment_ms,
        segment_index_bytes=policy.segment_index_bytes,
        index_interval_bytes=policy.index_interval_bytes,
        max_message_bytes=_BATCH_BYTES_MAX,
    )


def _write_checkpoints(fs: FileSystem, log_dir: LogDir, wanted: TopicPartition, end_offset: int) -> None:
    """Write that all records are committed and flushed, and remove the lines of an earlier partition of that name."""
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


def _size_of(record: Record) -> int:
    fields = [record.key, record.value, *(field for header in record.headers for field in header)]
    return _RECORD_BYTES + sum(len(field) for field in fields if field)


def _made(held: list[ImportedRecord], log_end: int | None, compression: Compression) -> MadeBatch:
    first, last = held[0].record, held[-1].record
    is_near = log_end is not None and last.offset - log_end <= 2 * _OFFSETS_MAX - 1
    base_offset = log_end if log_end is not None and is_near else first.offset
    data = encode_batch(
        [one.record for one in held],
        base_offset=base_offset,
        partition_leader_epoch=LEADER_EPOCH,
        compression=compression,
        log_append_time_ms=first.timestamp_ms if _is_append_time(held[0]) else None,
    )
    return MadeBatch(base_offset, last.offset + 1, len(held), data)


def _is_append_time(one: ImportedRecord) -> bool:
    return one.timestamp_type == LOG_APPEND_TIME


def _may_join(held: list[ImportedRecord], one: ImportedRecord, held_bytes: int) -> bool:
    first = held[0]
    is_full = len(held) >= _RECORDS_MAX or held_bytes + _size_of(one.record) > BATCH_BYTES
    is_same = _is_append_time(first) == _is_append_time(one)
    if is_same and _is_append_time(one):
        is_same = first.record.timestamp_ms == one.record.timestamp_ms
    return not is_full and is_same and one.record.offset - first.record.offset < _OFFSETS_MAX


def _strange(private: Path) -> str:
    """Return the first thing in a private directory that import does not write; empty if there is none."""
    if private.is_symlink() or not private.is_dir():
        return "a symlink" if private.is_symlink() else "no directory"
    stem = private.name.removesuffix(IMPORT_SUFFIX)
    if parse_topic_partition(stem) is None:
        return "no partition, as its name says"
    unknown = [name for name in names_in(private) if not _is_file(private, name, _PRIVATE_FILES)]
    inner = [name for name in unknown if not is_of_a_start(private / name)]
    if not inner:
        return ""
    directory = private / inner[0]
    if len(inner) > 1 or directory.is_symlink() or not directory.is_dir() or not _is_of(inner[0], stem):
        return min((name for name in inner if name != stem), default=stem)
    return next((f"{inner[0]}/{n}" for n in sorted(names_in(directory)) if not _is_segment_file(directory, n)), "")


def _is_of(name: str, stem: str) -> bool:
    """Return whether a directory is the partition of a private directory, whose name may be cut."""
    found, cut = parse_topic_partition(name), parse_topic_partition(stem)
    if found is None or cut is None:
        return False
    return found.partition == cut.partition and found.topic.startswith(cut.topic)


def _is_file(directory: Path, name: str, known: Collection[str]) -> bool:
    return name in known and stat.S_ISREG((directory / name).lstat().st_mode)


def _is_segment_file(directory: Path, name: str) -> bool:
    is_known = parse_segment_file_name(name.removesuffix(".tmp")) is not None
    return _is_file(directory, name, {name} if is_known else _METADATA_FILES)


def _and_next(*names: str) -> frozenset[str]:
    """Return names of files, and of their next contents before they get their names."""
    return frozenset({*names, *(f"{name}.tmp" for name in names)})


_PRIVATE_FILES: Final = _and_next(RECOVERY_POINT_CHECKPOINT)
"""The files that a flushed log leaves in the directory above its own."""
_METADATA_FILES: Final = _and_next(PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT)
