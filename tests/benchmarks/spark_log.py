"""The log that Spark reads: one partition of uncompressed 16 KiB batches, each key again and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage.indexes import IndexBuilder
from storage.names import FileKind, segment_file_name
from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.partition_dirs import PartitionDir, committed

SEGMENT_BYTES: Final = 256 << 20
BATCH_BYTES: Final = 16_384
POOL_BATCHES: Final = 1024
INDEX_INTERVAL_BYTES: Final = 4096
NOW_MS: Final = 1_800_000_000_000


def write_log(log_dir: Path, size_bytes: int, record_bytes: int) -> int:
    """Partition ``bench-0``, made of a pool of batches over and over: a batch's offset is not under its CRC.

    The last segment, which no compaction touches, is one batch.

    Returns: how many records it holds.
    """
    partition = PartitionDir(log_dir, "bench-0")
    pool = [bytearray(batch) for batch in _pool(record_bytes)]
    count = next(iter_batches(bytes(pool[0]), log_dir)).header.record_count
    offset, left = 0, size_bytes
    while left > 0:
        offset, written = _write_segment(partition.path, offset, min(SEGMENT_BYTES, left), pool, count)
        left -= written
    partition.end_offset, _ = _write_segment(partition.path, offset, 1, pool, count)
    committed(log_dir, partition)
    return partition.end_offset


def _write_segment(
    directory: Path, base_offset: int, size_bytes: int, pool: list[bytearray], count: int
) -> tuple[int, int]:
    """The offset behind it, and its length."""
    offset, position = base_offset, 0
    index = IndexBuilder(base_offset, INDEX_INTERVAL_BYTES, directory)
    with (directory / segment_file_name(base_offset, FileKind.LOG)).open("wb") as log:
        while position < size_bytes:
            batch = pool[offset // count % len(pool)]
            batch[:8] = offset.to_bytes(8, "big")
            log.write(batch)
            index.append(position, len(batch), offset + count - 1, NOW_MS)
            offset, position = offset + count, position + len(batch)
    offset_index, time_index = index.seal()
    (directory / segment_file_name(base_offset, FileKind.INDEX)).write_bytes(offset_index)
    (directory / segment_file_name(base_offset, FileKind.TIME_INDEX)).write_bytes(time_index)
    return offset, position


def _pool(record_bytes: int) -> Iterator[bytes]:
    """Batches of equally many records, each about ``record_bytes`` on disk, a key of 16 bytes in it."""
    value = bytes(range(97, 123)) * (record_bytes // 26 + 1)
    value = value[: record_bytes - 16 - 9]  # length, attributes, deltas, lengths, header count
    count = BATCH_BYTES // record_bytes
    for batch in range(POOL_BATCHES):
        keys = (key_bytes(batch * count + place) for place in range(count))
        yield encode_batch([Record(place, NOW_MS, key, value) for place, key in enumerate(keys)])


def key_bytes(number: int) -> bytes:
    """Of the record of that number in the pool."""
    return f"key-{number:012d}".encode()
