"""The limits of the machine: memory, checksums, codecs, keys and the disk, each by itself, with no other work."""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import numpy as np

from cleaner.engine.compaction.key_map import Budget, KeyMap
from storage.arrays import Bytes, Integers, Table
from storage.codecs.batches import body_bytes_max, compress_records, open_codecs
from storage.codecs.snappy_compress import LastSeen
from storage.kernels.crc import crc32c
from storage.kernels.layout import CODEC_MASK
from storage.kernels.status import Status
from storage.log.listing import list_partition
from storage.machine.kernel import kernel
from storage.scan.arena import ARENA_BYTES, Arena
from storage.scan.page_cache import populate
from storage.scan.segments import WINDOW_BYTES, open_segment
from storage.scan.slices import Checksums, Slice

ROUNDS: Final = 3
BUFFER_BYTES: Final = 256 << 20
"""More than any cache."""
MAP_BYTES: Final = 256 << 20
"""As Kafka's in the benchmark."""
REQUESTS: Final = 8
REQUEST_BYTES: Final = 1 << 20
_OFFSET_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes a second: copied from memory to memory, and checked by our kernel."""

    memcpy_bytes_per_second: float
    crc32c_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Least:
    """What no cleaner can go below, by one thread: the seconds of each work, done once, over the same bytes."""

    check_seconds: float
    """To read all that is dirty in the page cache, and check it (CRC-32C)."""
    decompress_seconds: float
    """Of all that is dirty."""
    keys_seconds: float
    """To walk over its records, hash each key, and touch its slot in a map."""
    compress_seconds: float
    """Of what stays."""
    write_seconds: float
    """Of what stays, and to make it last."""

    @property
    def codec_seconds(self) -> float:
        """Of the codec alone."""
        return self.decompress_seconds + self.compress_seconds

    @property
    def seconds(self) -> float:
        """Of all."""
        return self.check_seconds + self.codec_seconds + self.keys_seconds + self.write_seconds


def measure_machine(buffer_bytes: int = BUFFER_BYTES) -> Machine:
    """The best of some rounds."""
    source, target = np.full(buffer_bytes, 1, np.uint8), np.zeros(buffer_bytes, np.uint8)
    copied = _best_seconds(lambda: np.copyto(target, source))
    checked = _best_seconds(lambda: crc32c(source, 0, source.size))
    return Machine(buffer_bytes / copied, buffer_bytes / checked)


def measure_least(dirty: Path, cleaned: Path, scratch: Path) -> Least:
    """Do each work of a cleaner once, by the kernels that a compaction calls. The best of some rounds, each for itself.

    Args:
        dirty: a partition directory, uncleaned, all of it dirty.
        cleaned: the same log compacted. Nobody else may use either: they are mapped.
        scratch: a directory on the disk that is measured.
    """
    return Least(
        _best_of_rounds(partial(_checking_seconds, dirty)),
        _best_of_rounds(partial(_decompression_seconds, dirty)),
        _best_of_rounds(partial(_keys_seconds, dirty)),
        _best_of_rounds(partial(_compression_seconds, cleaned)),
        _best_of_rounds(partial(_writing_seconds, cleaned, scratch)),
    )


def _best_of_rounds(seconds_of_one: Callable[[], float]) -> float:
    return min(seconds_of_one() for _ in range(ROUNDS))


def direct_seconds(to_read: Path, to_write: Path, scratch: Path) -> float | None:
    """Read the logs of one partition directory, then write as many bytes as those of another one hold, past the page
    cache, with eight requests in flight, and make them last. None where the file system refuses.

    The last bytes of a file that fill no whole request are left out.
    """
    started = time.perf_counter()
    try:
        for log in _logs(to_read):
            _transfer(log, os.O_RDONLY, log.stat().st_size, os.preadv)
        for log in _logs(to_write):
            target = scratch / f"{log.name}.direct"
            try:
                _transfer(target, os.O_WRONLY | os.O_CREAT, log.stat().st_size, os.pwritev)
            finally:
                target.unlink(missing_ok=True)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    return time.perf_counter() - started


def _transfer(path: Path, flags: int, size_bytes: int, call: Callable[[int, list[mmap.mmap], int], int]) -> None:
    descriptor = os.open(path, flags | os.O_DIRECT)
    buffers: SimpleQueue[mmap.mmap] = SimpleQueue()
    for _ in range(REQUESTS):
        buffers.put(mmap.mmap(-1, REQUEST_BYTES))  # begins on a page, as direct I/O wants it

    def request(position: int) -> None:
        buffer = buffers.get()
        if call(descriptor, [buffer], position) != REQUEST_BYTES:
            raise EOFError(path)
        buffers.put(buffer)

    try:
        if flags & os.O_CREAT:
            os.posix_fallocate(descriptor, 0, size_bytes)  # else each write waits for the one before
        with ThreadPoolExecutor(REQUESTS) as threads:
            list(threads.map(request, range(0, size_bytes - REQUEST_BYTES + 1, REQUEST_BYTES)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _best_seconds(work: Callable[[], object]) -> float:
    work()  # the first touches the memory, and loads a kernel
    return min(_seconds(work) for _ in range(ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _logs(partition_dir: Path) -> list[Path]:
    return [segment.log.path for segment in list_partition(partition_dir).segments if segment.size_bytes]


def _checking_seconds(partition_dir: Path) -> float:
    started = time.perf_counter()
    for log in _logs(partition_dir):
        for window in _windows(log):
            crc32c(window, 0, window.size)
    return time.perf_counter() - started


def _windows(log: Path) -> Iterator[Bytes]:
    """A file in the page cache, window by window, mapped."""
    with log.open("rb") as opened:
        whole = np.frombuffer(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
    for start in range(0, whole.size, WINDOW_BYTES):
        end = min(start + WINDOW_BYTES, whole.size)
        populate(whole, start, end)
        yield whole[start:end]


def _writing_seconds(partition_dir: Path, scratch: Path) -> float:
    seconds = 0.0
    for log in _logs(partition_dir):
        target = scratch / f"{log.name}.written"
        try:
            with target.open("xb", buffering=0) as opened:
                for window in _windows(log):
                    started = time.perf_counter()
                    opened.write(window.data)
                    seconds += time.perf_counter() - started
                started = time.perf_counter()
                os.fsync(opened.fileno())
                seconds += time.perf_counter() - started
        finally:
            target.unlink(missing_ok=True)
    return seconds


def _keys_seconds(partition_dir: Path) -> float:
    arena, seconds = Arena(), 0.0
    dirty_bytes = sum(log.stat().st_size for log in _logs(partition_dir))
    keys = KeyMap(dirty_bytes, Budget(MAP_BYTES, 1.0), threads=1)
    for slice_ in _slices(partition_dir):
        for run in arena.runs(slice_, 0, slice_.table.size):
            started = time.perf_counter()
            keys.add(slice_, run, 0, 0)
            seconds += time.perf_counter() - started
    return seconds


def _decompression_seconds(partition_dir: Path) -> float:
    arena, seconds = Arena(), 0.0
    for slice_ in _slices(partition_dir):
        if slice_.is_plain:
            continue
        started = time.perf_counter()
        for _ in arena.runs(slice_, 0, slice_.table.size):
            pass
        seconds += time.perf_counter() - started
    return seconds


def _compression_seconds(partition_dir: Path) -> float:
    arena, codecs, seconds = Arena(), open_codecs(), 0.0
    out = np.empty(body_bytes_max(ARENA_BYTES), np.uint8)
    for slice_ in _slices(partition_dir):
        for run in () if slice_.is_plain else arena.runs(slice_, 0, slice_.table.size):
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
