"""The entrance of a log: a kernel admits regular batches, its readable twin looks at all others.

The kernel takes 3 microseconds for a producer's batch, the twin 20 for each record. The twin judges every append that
the kernel does not admit, from the beginning, and has the last word.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptCompressedData
from storage.log.config import LogConfig, TimestampType
from storage.log.errors import UnexpectedAppendOffset
from storage.log.writing.validation import (
    Admitted,
    AppendAnalysis,
    AppendOrigin,
    NewBatch,
    Stamp,
    analyze,
    new_batch,
    target_codec,
    validate,
)
from storage.records import DECOMPRESSED_BYTES_MAX
from storage.records.v2 import (
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_TRANSACTIONAL,
    NO_TIMESTAMP,
    V2_HEADER_BYTES,
    sequence_after,
)

_ATTRIBUTES_LOW: Final = 22
_GIVEN: Final = struct.Struct("9q")
_FOUND: Final = struct.Struct("6q")
_ROOM_BYTES_MIN: Final = 64 << 10
_NOTHING: Final = memoryview(b"")


class _Room:
    """The arrays that the kernel works in, made for the largest batch so far."""

    def __init__(self, batch_bytes: int, plain_bytes: int) -> None:
        import numpy as np  # noqa: PLC0415 (a log that is only read needs neither)

        from storage.kernels.admit import FACTS, admit  # noqa: PLC0415

        batch = np.zeros(max(batch_bytes, _ROOM_BYTES_MIN), np.uint8)
        plain = np.zeros(max(plain_bytes, _ROOM_BYTES_MIN), np.uint8)
        facts = np.zeros(FACTS, np.int64)
        kernel: Any = admit
        self.batch, self.plain, self.facts = batch.data, plain.data, facts.data.cast("B")
        self.admit: Callable[[], int] = kernel.bound(batch, plain, facts)


class Admission:
    """Checks the appends of one log, and stamps them."""

    def __init__(self, path: Path, config: LogConfig) -> None:
        self._path, self._config = path, config
        self._room: _Room | None = None
        self._has_kernel: bool | None = None
        self._takes_log_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._rules = 2 * config.is_compacted + 4 * self._takes_log_time

    def admit(self, data: bytes | memoryview, origin: AppendOrigin, stamp: Stamp) -> Admitted | None:
        """Check an append of a leader, and stamp it with offsets and leader epoch, unless a quorum's leader did so.

        Returns: None if there is no whole batch. The result lasts until the next call.
        Raises: as ``analyze``, ``validate`` and ``as_given``.
        """
        if origin is AppendOrigin.RAFT_LEADER:
            return self._as_given(data, origin, stamp, self._config.max_message_bytes)
        return self.by_kernel(data, origin, stamp) or self.by_twin(data, origin, stamp)

    def admit_as_is(self, data: bytes | memoryview, stamp: Stamp) -> Admitted | None:
        """Check batches that keep their offsets and epochs. Returns and raises as ``admit``."""
        return self._as_given(data, AppendOrigin.REPLICATION, stamp, None)

    def _as_given(
        self, data: bytes | memoryview, origin: AppendOrigin, stamp: Stamp, limit: int | None
    ) -> Admitted | None:
        analysis = analyze(data, self._path, origin, stamp.leader_epoch, limit, needs_rising_offsets=True)
        return as_given(analysis, data, self._path, stamp.next_offset) if analysis.batches else None

    def by_twin(self, data: bytes | memoryview, origin: AppendOrigin, stamp: Stamp) -> Admitted | None:
        """Return the append as the readable code admits it. Returns and raises as ``admit``."""
        analysis = analyze(data, self._path, origin, stamp.leader_epoch, self._config.max_message_bytes)
        return validate(analysis, self._path, self._config, origin, stamp) if analysis.batches else None

    def by_kernel(self, data: bytes | memoryview, origin: AppendOrigin, stamp: Stamp) -> Admitted | None:
        """Return the stamped batch; None if the kernel does not admit it, or does not run here."""
        size_bytes = len(data)
        if size_bytes < V2_HEADER_BYTES or not self._is_usable():
            return None
        codec = data[_ATTRIBUTES_LOW] & ATTRIBUTE_COMPRESSION
        if codec or self._config.compression_type != "producer":
            plain = self._plain(data, codec)
            if plain is None:
                return None
        else:
            plain = _NOTHING
        room = self._room
        if room is None or len(room.batch) < size_bytes or len(room.plain) < len(plain):
            room = self._room = _Room(size_bytes, len(plain))
        room.batch[:size_bytes] = data
        room.plain[: len(plain)] = plain
        _GIVEN.pack_into(
            room.facts,
            0,
            size_bytes,
            len(plain) if codec else -1,
            *stamp,
            self._config.timestamp_before_max_ms,
            self._config.timestamp_after_max_ms,
            self._config.max_message_bytes,
            self._rules | (origin is AppendOrigin.CLIENT),
        )
        if not room.admit():
            return None
        last_offset, newest_ms, producer_id, epoch, sequence, attributes = _FOUND.unpack_from(room.facts, _GIVEN.size)
        batch = NewBatch(
            size_bytes,
            stamp.next_offset,
            last_offset,
            newest_ms,
            stamp.leader_epoch,
            producer_id,
            epoch,
            sequence,
            sequence_after(sequence, last_offset - stamp.next_offset),
            bool(attributes & ATTRIBUTE_TRANSACTIONAL),
            False,
        )
        log_time_ms = newest_ms if self._takes_log_time else NO_TIMESTAMP
        return Admitted(room.batch[:size_bytes], (batch,), newest_ms, last_offset, log_time_ms, stamp.next_offset)

    def _plain(self, data: bytes | memoryview, codec: int) -> memoryview | None:
        """Return the decompressed records; None if the batch gets another codec, or does not decompress."""
        if codec > max(Compression) or target_codec(self._config, Compression(codec)) != codec:
            return None
        if not codec:
            return _NOTHING
        try:
            payload = memoryview(data)[V2_HEADER_BYTES:]
            return memoryview(decompress(Compression(codec), payload, DECOMPRESSED_BYTES_MAX))
        except CorruptCompressedData:
            return None

    def _is_usable(self) -> bool:
        if self._has_kernel is None:
            from storage.kernels import why_unusable  # noqa: PLC0415

            self._has_kernel = why_unusable() is None
        return self._has_kernel


def as_given(analysis: AppendAnalysis, data: bytes | memoryview, path: Path, log_end_offset: int) -> Admitted:
    """Return the bytes to write of an append, of which at least one batch was analyzed.

    Args:
        analysis: of ``data``.
        data: begins with the batches.
        path: of the partition.
        log_end_offset: no batch may begin below it; a batch that does not state its beginning may not end below it.

    Raises: UnexpectedAppendOffset.
    """
    first, last = analysis.batches[0], analysis.batches[-1]
    first_offset = analysis.first_offset
    begins = first.last_offset if first_offset is None else first_offset
    if begins < log_end_offset:
        cause = f"the batches begin at offset {begins}, below the log end at {log_end_offset}"
        raise UnexpectedAppendOffset(path, cause, first.base_offset, last.last_offset)
    size_bytes = sum(batch.header.size_bytes for batch in analysis.batches)
    batches = tuple(map(new_batch, analysis.batches))
    return Admitted(memoryview(data)[:size_bytes], batches, analysis.max_timestamp_ms, last.last_offset)
