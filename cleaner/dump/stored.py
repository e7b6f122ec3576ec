"""Batches, records and entries of an index as they lie in a file, of any version: the material of a dump's lines.

``storage.indexes`` reads entries in order to use them; this module reads them in order to show them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, overload

from storage.codecs.compression import Compression, decompress
from storage.errors import CorruptBatch, CorruptCompressedData, InvalidRecord
from storage.indexes import OffsetIndexEntry, TimeIndexEntry
from storage.records import Batch, BatchHeader, LegacyBatch, LegacyHeader
from storage.records.legacy import iter_messages, parse_legacy_header
from storage.records.v2 import (
    DECOMPRESSED_BYTES_MAX,
    MAGIC_POSITION,
    MAGIC_V2,
    V2_HEADER,
    V2_HEADER_BYTES,
    Record,
    agrees,
    iter_records,
)

_TIMESTAMP_TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
AnyEntry = TypeVar("AnyEntry")


class Checksum(NamedTuple):
    """The CRC-32 that a message of version 0 or 1 states, and whether it agrees."""

    crc: int
    is_valid: bool


class StoredRecord(NamedTuple):
    """A record; one of version 0 or 1 also has a checksum."""

    record: Record
    checksum: Checksum | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch of version 2, or a message of version 0 or 1."""

    header: BatchHeader | LegacyHeader
    data: memoryview
    path: Path
    position: int

    @classmethod
    def parse(cls, data: memoryview, path: Path, position: int) -> Stored:
        """Read the header.

        It need not be sound. Raises: CorruptBatch if the batch is shorter than a header of its version.
        """
        if data[MAGIC_POSITION] < MAGIC_V2:
            return cls(parse_legacy_header(data, 0, path, position), data, path, position)
        if len(data) < V2_HEADER_BYTES:
            raise CorruptBatch(path, position, "fewer bytes than the header of a batch")
        header = BatchHeader._make(V2_HEADER.unpack_from(data))
        if header.attributes & 0x07 > max(Compression):
            raise CorruptBatch(path, position, f"unknown compression codec {header.attributes & 0x07}")
        return cls(header, data, path, position)

    @property
    def is_legacy(self) -> bool:
        """Return whether it is a message of version 0 or 1."""
        return isinstance(self.header, LegacyHeader)

    @property
    def base_offset(self) -> int:
        """The least offset that a record can have, as far as the header says it."""
        return 0 if isinstance(self.header, LegacyHeader) else self.header.base_offset

    @property
    def is_valid(self) -> bool:
        """Return whether the checksum agrees."""
        return agrees(self.data, self.header.magic if self.is_legacy else MAGIC_V2)

    @property
    def timestamp_type(self) -> int:
        """-1 none, 0 CreateTime, 1 LogAppendTime. Source: Kafka TimestampType."""
        return -1 if self.header.magic == 0 else int(self.header.is_log_append_time)

    @property
    def timestamp_type_name(self) -> str:
        """The type of the timestamps, as Kafka names it."""
        return _TIMESTAMP_TYPES[self.timestamp_type]

    def records(self) -> Iterator[StoredRecord]:
        """Read the records one by one. Raises: CorruptBatch at the first record that cannot be read."""
        if isinstance(self.header, BatchHeader) and self.header.record_count < 0:
            raise CorruptBatch(self.path, self.position, f"negative record count {self.header.record_count}")
        try:
            if isinstance(self.header, LegacyHeader):
                batch = LegacyBatch(self.header, self.data, self.path, self.position)
                for record, crc, is_valid, _ in iter_messages(batch):
                    yield StoredRecord(record, Checksum(crc, is_valid))
            elif self.header.record_count:
                payload = Batch(self.header, self.data, self.path, self.position).payload
                plain = decompress(self.header.compression, payload, DECOMPRESSED_BYTES_MAX)
                for record in iter_records(memoryview(plain), self.header):
                    yield StoredRecord(record, None)
        except (InvalidRecord, CorruptCompressedData, struct.error) as error:
            raise CorruptBatch(self.path, self.position, str(error)) from error


class StoredEntries(Sequence[AnyEntry]):
    """Every entry of an index as stored, zeros and impossible entries included, without a torn last entry."""

    def __init__(self, data: bytes, layout: struct.Struct, entry: Callable[[int, int], AnyEntry]) -> None:
        self._data, self._layout, self._entry = data, layout, entry

    def __len__(self) -> int:
        return len(self._data) // self._layout.size

    @overload
    def __getitem__(self, place: int) -> AnyEntry: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[AnyEntry]: ...

    def __getitem__(self, place: int | slice) -> AnyEntry | Sequence[AnyEntry]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        first, second = self._layout.unpack_from(self._data, place % len(self) * self._layout.size)
        return self._entry(first, second)


def stored_offset_entries(data: bytes, base_offset: int) -> StoredEntries[OffsetIndexEntry]:
    """Return the entries of an ``.index`` as they lie there."""
    return StoredEntries(data, _OFFSET_ENTRY, lambda relative, at: OffsetIndexEntry(base_offset + relative, at))


def stored_time_entries(data: bytes, base_offset: int) -> StoredEntries[TimeIndexEntry]:
    """Return the entries of a ``.timeindex`` as they lie there."""
    return StoredEntries(data, _TIME_ENTRY, lambda time_ms, relative: TimeIndexEntry(time_ms, base_offset + relative))
