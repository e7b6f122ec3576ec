"""Committed offsets that a copy has otherwise than its original, written once more behind ``__consumer_offsets``.

The newest record of a key counts, so they stand in a segment of their own behind the end of the log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cleaner.engine.as_of.reading import CommittedOffset
from storage.filesystem import FileSystem, Purpose
from storage.indexes import IndexBuilder
from storage.names import FileKind, TopicPartition, segment_file_name
from storage.records import Record, encode_batch
from storage.schemas.coordinator import CoordinatorRecords
from storage.schemas.offsets_topic import OFFSETS_TOPIC

_OFFSET_AT: Final = slice(2, 10)
_EPOCH_AT: Final = slice(10, 14)
_EPOCH_SINCE: Final = 3
"""Behind its version, the value of a committed offset has the offset, and since version 3 its leader epoch."""
_IDS_SINCE: Final = 4
_NO_EPOCH: Final = -1
_BEFORE_TEXT: Final = struct.Struct(">hqih")
"""Version 3 of the value up to the text of the consumer: version, offset, leader epoch, length of the text."""
_TIME: Final = struct.Struct(">q")
_RECORDS_A_BATCH: Final = 1000


def clamped_value(offset: CommittedOffset, ends: Mapping[TopicPartition, int]) -> bytes:
    """Return the value of a committed offset with the end of its partition, and no leader epoch."""
    value = bytearray(offset.value)
    value[_OFFSET_AT] = ends[offset.topic_partition].to_bytes(8, "big")
    if int.from_bytes(value[:2], "big") >= _EPOCH_SINCE:
        value[_EPOCH_AT] = b"\xff" * 4
    return bytes(value)


def value_anew(offset: CommittedOffset, end: int) -> bytes:
    """Return the value for a topic that was created anew: at most the end of its log, no leader epoch, no topic id.

    A consumer waits for an epoch that it committed, and a coordinator passes over the offset of another topic id.

    Source: Kafka OffsetCommitValue; ConsumerCoordinator, Metadata.updateLastSeenEpochIfNewer.
    """
    clamped = clamped_value(offset, {offset.topic_partition: min(end, offset.offset)})
    if int.from_bytes(clamped[:2], "big") < _IDS_SINCE:
        return clamped
    value = CoordinatorRecords(OFFSETS_TOPIC).value("OffsetCommit", clamped)
    text: bytes = value["metadata"].encode()
    head: bytes = _BEFORE_TEXT.pack(_EPOCH_SINCE, value["offset"], _NO_EPOCH, len(text))
    return head + text + _TIME.pack(value["commitTimestamp"])


def is_as_anew(offset: CommittedOffset) -> bool:
    """Return whether a committed offset names neither an epoch nor a topic id."""
    version = int.from_bytes(offset.value[:2], "big")
    return version < _EPOCH_SINCE or (version < _IDS_SINCE and offset.value[_EPOCH_AT] == b"\xff" * 4)


def partition_for(group: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` in which a coordinator looks for a group.

    Source: Kafka GroupCoordinatorService.partitionFor, String.hashCode, Utils.abs.
    """
    units, hashed = group.encode("utf-16-be", "surrogatepass"), 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def write_commits(
    fs: FileSystem, directory: Path, base: int, commits: Sequence[tuple[bytes, bytes]], now_ms: int, epoch: int,
    index_interval_bytes: int,
) -> int:  # fmt: skip
    """Write keys and values as a segment behind a log. Return the log end offset behind them.

    Args:
        fs: writes.
        directory: of the partition.
        base: the log end offset.
        commits: key and value of each; not empty.
        now_ms: the time of the records, epoch ms.
        epoch: the leader epoch at the end of the log; -1 without one.
        index_interval_bytes: as of ``IndexBuilder``.

    Raises: OutOfSpace, FileExistsError.
    """
    log = directory / segment_file_name(base, FileKind.LOG)
    indexes, data = IndexBuilder(base, index_interval_bytes, log), b""
    for records in _batches(base, commits, now_ms):
        batch = encode_batch(records, partition_leader_epoch=epoch)
        indexes.append(len(data), len(batch), records[-1].offset, now_ms)
        data += batch
    index, time_index = indexes.seal()
    files = {FileKind.INDEX: index, FileKind.TIME_INDEX: time_index, FileKind.LOG: data}
    for kind, content in files.items():
        path = directory / segment_file_name(base, kind)
        with fs.create(path, directory, Purpose.COPY) as file:
            file.write(content)
            file.fsync()
    return base + len(commits)


def _batches(base: int, commits: Sequence[tuple[bytes, bytes]], now_ms: int) -> Iterator[list[Record]]:
    for first in range(0, len(commits), _RECORDS_A_BATCH):
        held = commits[first : first + _RECORDS_A_BATCH]
        yield [Record(base + first + number, now_ms, key, value) for number, (key, value) in enumerate(held)]
