"""Estimates the time in which a start reads what it recovers, by the speed of this disk, and the space it needs."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from policies.preflight.start import LogDirStart, Start, StartStepKind

_SAMPLE_BYTES_MAX: Final = 64 << 20
_SAMPLE_SECONDS_MAX: Final = 0.5
_PIECE_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 8 + 12
_NEW_PARTITION_FILES: Final = 5


class StartNeed(NamedTuple):
    """The time and the space that a start needs for one log dir."""

    recovered_bytes: int
    """The bytes of the segments that are read batch by batch."""
    bytes_per_second: float | None
    """The speed at which a sample of them was read, past the page cache; None if nothing is recovered."""
    space_bytes: int
    """Free space for what the start writes: rebuilt indexes, producer snapshots, new partitions."""
    free_bytes: int

    @property
    def lacks_space(self) -> bool:
        """Return whether the disk fills up as Kafka starts."""
        return self.space_bytes > self.free_bytes

    @property
    def seconds(self) -> float:
        """The time that reading takes at that speed."""
        return self.recovered_bytes / self.bytes_per_second if self.bytes_per_second else 0.0


def need_of(log_dir: LogDirStart, interval_bytes: int) -> StartNeed:
    """Measure and add up what a start needs of a log dir.

    Args:
        log_dir: what happens to it.
        interval_bytes: of the log between two entries of an index.
    """
    recovered = _recovered(log_dir)
    return StartNeed(
        sum(size_bytes for _, size_bytes in recovered),
        _speed([path for path, size_bytes in recovered if size_bytes]),
        _space_bytes(log_dir, interval_bytes),
        _free_bytes(log_dir.path),
    )


def full_disks(start: Start, interval_bytes: int) -> list[str]:
    """Return the log dirs whose disks fill up as Kafka starts. See ``need_of``."""
    return [one.path for one in start.log_dirs if _space_bytes(one, interval_bytes) > _free_bytes(one.path)]


def _recovered(log_dir: LogDirStart) -> list[tuple[Path, int]]:
    """Return the segments that are read batch by batch, and their sizes in bytes."""
    return [
        (Path(log_dir.path, log.name, step.file), step.size_bytes)
        for log in log_dir.logs
        for step in log.steps
        if step.kind is StartStepKind.RECOVER
    ]


def _space_bytes(log_dir: LogDirStart, interval_bytes: int) -> int:
    recovered = _recovered(log_dir)
    indexes = sum(_blocks(size_bytes // max(interval_bytes, 1) * _ENTRY_BYTES) for _, size_bytes in recovered)
    written = sum(step.kind is StartStepKind.WRITE for log in log_dir.logs for step in log.steps)
    made = sum(step.kind is StartStepKind.CREATE for step in log_dir.steps) * _NEW_PARTITION_FILES
    return indexes + (written + made) * _BLOCK_BYTES


def _free_bytes(path: str) -> int:
    try:
        status = os.statvfs(path)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def _blocks(size_bytes: int) -> int:
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _speed(paths: list[Path]) -> float | None:
    """Read some of the files, past the page cache where the file system can, and return bytes a second."""
    read_bytes, started = 0, time.monotonic()
    with mmap.mmap(-1, _PIECE_BYTES) as buffer:  # page-aligned, as direct reading asks
        for path in paths:
            for piece_bytes in _pieces(path, buffer):
                read_bytes += piece_bytes
                seconds = time.monotonic() - started
                if read_bytes >= _SAMPLE_BYTES_MAX or seconds >= _SAMPLE_SECONDS_MAX:
                    return read_bytes / max(seconds, 1e-6)
    return read_bytes / max(time.monotonic() - started, 1e-6) if read_bytes else None


def _pieces(path: Path, buffer: mmap.mmap) -> Iterator[int]:
    with suppress(OSError):
        descriptor = _opened(path)
        try:
            at = 0
            while piece_bytes := os.preadv(descriptor, [buffer], at):
                yield piece_bytes
                at += piece_bytes
                if piece_bytes % _BLOCK_BYTES:
                    return
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError:
        return os.open(path, flags)
