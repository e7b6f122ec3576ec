"""The limits of the machine: memory, checksums and codecs, by one thread, in memory, with no other work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import body_bytes_max, compress_records, open_codecs
from storage.codecs.snappy_compress import LastSeen
from storage.kernels.crc import crc32c
from storage.kernels.layout import CODEC_MASK
from storage.kernels.status import Status
from storage.log.listing import list_partition
from storage.machine.kernel import kernel
from storage.scan.arena import ARENA_BYTES, Arena
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums, Slice

ROUNDS: Final = 3
BUFFER_BYTES: Final = 256 << 20
"""More than any cache."""
_OFFSET_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes a second: copied from memory to memory, and checked by our kernel."""

    memcpy_bytes_per_second: float
    crc32c_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class CodecBound:
    """What a cleaner with these codecs cannot go below: all that is dirty decompressed, what survives compressed."""

    decompress_seconds: float
    compress_seconds: float

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.decompress_seconds + self.compress_seconds


def measure_machine(buffer_bytes: int = BUFFER_BYTES) -> Machine:
    """The best of some rounds."""
    source, target = np.full(buffer_bytes, 1, np.uint8), np.zeros(buffer_bytes, np.uint8)
    copied = _best_seconds(lambda: np.copyto(target, source))
    checked = _best_seconds(lambda: crc32c(source, 0, source.size))
    return Machine(buffer_bytes / copied, buffer_bytes / checked)


def measure_codec(dirty: Path, cleaned: Path) -> CodecBound:
    """Decompress every batch of one partition directory, compress every batch of the other as it is there.

    The functions are those that a compaction calls. The best of some rounds, each side for itself.

    Args:
        dirty: uncleaned, all of it dirty.
        cleaned: the same log compacted. Nobody else may use either: they are mapped.
    """
    decompressions = [_decompression_seconds(dirty) for _ in range(ROUNDS)]
    compressions = [_compression_seconds(cleaned) for _ in range(ROUNDS)]
    return CodecBound(min(decompressions), min(compressions))


def _best_seconds(work: Callable[[], object]) -> float:
    work()  # the first touches the memory, and loads a kernel
    return min(_seconds(work) for _ in range(ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _decompression_seconds(partition_dir: Path) -> float:
    arena, seconds = Arena(), 0.0
    for slice_ in _slices(partition_dir):
        started = time.perf_counter()
        for _ in arena.runs(slice_, 0, slice_.table.size):
            pass
        seconds += time.perf_counter() - started
    return seconds


def _compression_seconds(partition_dir: Path) -> float:
    arena, codecs, seconds = Arena(), open_codecs(), 0.0
    out = np.empty(body_bytes_max(ARENA_BYTES), np.uint8)
    for slice_ in _slices(partition_dir):
        for run in arena.runs(slice_, 0, slice_.table.size):
            started = time.perf_counter()
            done = _compress_rows(run.buf, slice_.table, run.first, run.last, out, codecs.words, codecs.last_seen)
            seconds += time.perf_counter() - started
            assert done == run.last, slice_.position_of(done)
    return seconds


@kernel()
def _compress_rows(
    plain: Bytes, table: Table, first: int, last: int, out: Bytes, calls: Integers, last_seen: LastSeen
) -> int:
    """Compress the records of some rows, each over the one before; gives the first row that could not be."""
    for row in range(first, last):
        codec, start, end = table[row].attributes & CODEC_MASK, table[row].records_start, table[row].records_end
        status, _ = compress_records(codec, plain, start, end, out, 0, calls, last_seen)
        if status != Status.OK:
            return row
    return last


def _slices(partition_dir: Path) -> Iterator[Slice]:
    segments = list_partition(partition_dir).segments
    bases = [segment.base_offset for segment in segments]
    for segment, upper_offset in zip(segments, [*bases[1:], _OFFSET_END], strict=True):
        with open_segment(segment, upper_offset, is_locked=True) as source:
            yield from source.slices(checksums=Checksums.DONE)
