"""A ``.log`` as Kafka's ``FileRecords`` reads it, exception for exception: its batches, and where an offset lies.

``storage.records.iter_headers`` walks the same way, and refuses more headers than Kafka does, which is right for code
that acts on the records. This module does as Kafka does. It finds an offset by the offset index as it is, right or
wrong.

Source: Kafka ``FileLogInputStream``, ``DefaultRecordBatch``, ``LegacyRecord``, ``LogSegment.recover`` and
``readNextOffset``, ``OffsetIndex``, ``FileRecords.searchForOffsetFromPosition``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from storage.directory import OpenFile, pread, size_of
from storage.errors import InvalidRecord, UnreadableFile, as_unreadable
from storage.indexes import floor_slot
from storage.names import FileKind
from storage.records.read_batches import PREFIX_BYTES, LogBytes, batch_size
from storage.records.v2 import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, MAGIC_V2, V2_HEADER, V2_HEADER_BYTES, agrees
from storage.segment import Segment, reading

_PREFIX: Final = struct.Struct(">qiib")
_LEGACY_TIMESTAMP: Final = struct.Struct(">q")
_LEGACY_TIMESTAMP_POSITION: Final = 18
_LEGACY_ATTRIBUTES_POSITION: Final = 17
_CODEC_MASK: Final = 7
_LENGTH: Final = struct.Struct(">i")
_UNPACKED_BYTES_MAX: Final = (1 << 31) - 1
_ZSTD: Final = 4
_LONG_BITS: Final = 64
CORRUPT: Final = "CorruptRecordException"

_ENTRY: Final = struct.Struct(">ii")


class WalkedBatch(NamedTuple):
    """One batch, as far as its header says."""

    position: int
    size_bytes: int
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    attributes: int

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch is part of a transaction."""
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a marker."""
        return bool(self.attributes & ATTRIBUTE_CONTROL)


class CorruptRecord(Exception):
    """Kafka's ``CorruptRecordException``, or another one that a batch raises as it is read."""

    def __init__(self, position: int, cause: str, exception: str = CORRUPT) -> None:
        super().__init__(position, cause, exception)
        self.position, self.cause, self.exception = position, cause, exception


def walk(log: LogBytes, start: int = 0, end: int | None = None) -> Iterator[WalkedBatch]:
    """Yield the batches from a position on, where a batch must begin.

    Raises: CorruptRecord where a length is less than that of any batch.
    """
    end = log.size_bytes if end is None else end
    position = start
    while position < end:
        head = log.at(position, V2_HEADER_BYTES)
        if len(head) < PREFIX_BYTES:
            return
        offset, length, _, magic = _PREFIX.unpack_from(head)
        try:
            size_bytes = batch_size(head, end - position)
        except InvalidRecord as error:
            raise CorruptRecord(position, f"a batch of {length} bytes") from error
        if size_bytes is None:
            return
        if magic < MAGIC_V2:
            yield _legacy(log, position, size_bytes, magic, offset)
        else:
            if len(head) < V2_HEADER_BYTES:
                raise CorruptRecord(position, "a v2 batch without a header")
            fields = V2_HEADER.unpack(head)
            last_offset = _long(offset + fields[6])
            yield WalkedBatch(
                position, size_bytes, magic, offset, last_offset, fields[8], fields[2], fields[9], fields[5]
            )
        position += size_bytes


def last_of(log: LogBytes, start: int = 0) -> WalkedBatch | None:
    """Return the last batch; None if there is none. Raises: CorruptRecord."""
    return max(walk(log, start), key=attrgetter("position"), default=None)


def check_wrapper(log: LogBytes, batch: WalkedBatch) -> None:
    """Raise Kafka's error about the first message in a batch before v2 that calls itself compressed.

    Kafka takes a batch of v2 for such a batch if the sign of its magic byte is flipped: its CRC lies at the place of
    the codec.

    Raises: CorruptRecord.
    """
    data = log.at(batch.position + _LEGACY_ATTRIBUTES_POSITION, 1)
    codec = data[0] & _CODEC_MASK if len(data) else 0
    if codec > _ZSTD:
        raise CorruptRecord(batch.position, f"unknown compression type {codec}", "IllegalArgumentException")
    if codec and batch.magic not in (0, 1):
        raise CorruptRecord(batch.position, f"a wrapper of version {batch.magic}", "InvalidRecordException")
    if codec == _ZSTD:
        raise CorruptRecord(batch.position, "a wrapper that is compressed with zstd", "InvalidRecordException")
    if codec:
        _check_wrapped(batch, codec, bytes(log.at(batch.position, batch.size_bytes)))


def _check_wrapped(batch: WalkedBatch, codec: int, data: bytes) -> None:
    """Raise Kafka's error where compressed messages cannot be unpacked.

    Source: Kafka ``LegacyRecord.value``, ``Utils.sizeDelimited``, ``AbstractLegacyRecordBatch.DeepRecordsIterator``.
    """
    from storage.codecs.compression import Compression, decompress  # noqa: PLC0415 - few logs have such messages
    from storage.errors import CorruptCompressedData  # noqa: PLC0415 - as above

    def length_at(position: int) -> int:
        if position + _LENGTH.size > len(data):
            cause = "a wrapper that ends within its fields"
            raise CorruptRecord(batch.position, cause, "IndexOutOfBoundsException")
        length: int = _LENGTH.unpack_from(data, position)[0]
        return length

    key = _LEGACY_TIMESTAMP_POSITION + (_LEGACY_TIMESTAMP.size if batch.magic else 0)
    value = key + _LENGTH.size + max(length_at(key), 0)
    start, size_bytes = value + _LENGTH.size, length_at(value)
    if size_bytes < 0:
        raise CorruptRecord(batch.position, "a wrapper without a value", "InvalidRecordException")
    if start + size_bytes > len(data):
        cause = f"the value of a wrapper has {size_bytes} bytes, of which {len(data) - start} are there"
        raise CorruptRecord(batch.position, cause, "IllegalArgumentException")
    try:
        decompress(Compression(codec), data[start : start + size_bytes], _UNPACKED_BYTES_MAX, batch.magic)
    except CorruptCompressedData as error:
        raise CorruptRecord(batch.position, f"a wrapper that cannot be unpacked: {error}", "KafkaException") from error


def invalid(log: LogBytes, batch: WalkedBatch) -> str | None:
    """Read the bytes of a batch, and return what is wrong with them; None if the CRC is right."""
    data = log.at(batch.position, batch.size_bytes)
    if batch.magic >= MAGIC_V2 and batch.size_bytes < V2_HEADER_BYTES:
        return f"a batch of {batch.size_bytes} bytes is smaller than its header"
    if agrees(data, batch.magic):
        return None
    return f"the CRC of the {'batch' if batch.magic >= MAGIC_V2 else 'message'} is wrong"


class StoredIndex:
    """The entries of an offset index, right or wrong; zeros at the end are entries, too, as to Kafka."""

    def __init__(self, descriptor: OpenFile | None, base_offset: int) -> None:
        """Take an open index; None stands for a missing index, which has no entries."""
        self._descriptor, self._base = descriptor, base_offset
        self.count = 0 if descriptor is None else size_of(descriptor) // _ENTRY.size
        self.last_offset = self.entry(self.count - 1)[0] if self.count else base_offset

    @staticmethod
    @contextmanager
    def at(path: Path | None, base_offset: int) -> Iterator[StoredIndex]:
        """Open the index at a path; without a path, an index without entries. Raises: UnreadableFile."""
        if path is None:
            yield StoredIndex(None, base_offset)
            return
        with reading(path) as descriptor, as_unreadable(path):
            yield StoredIndex(descriptor, base_offset)

    def entry(self, place: int) -> tuple[int, int]:
        """Return the offset and the position of an entry."""
        assert self._descriptor is not None
        data = pread(self._descriptor, _ENTRY.size, place * _ENTRY.size)
        if len(data) < _ENTRY.size:
            raise UnreadableFile(Path("index"), "it shrank")
        relative, position = _ENTRY.unpack(data)
        return self._base + relative, position

    def lookup(self, offset: int) -> int:
        """Return the position at which Kafka begins to look for an offset. Source: Kafka ``AbstractIndex``."""
        slot = floor_slot(lambda place: self.entry(place)[0], self.count, offset)
        return 0 if slot is None else self.entry(slot)[1]


def translate(
    log: LogBytes, indexed_at: int, offset: int, end: int | None = None, *, unwraps: bool = False
) -> int | None:
    """Return the position of the batch with an offset; None if there is no such batch. Raises: CorruptRecord.

    Args:
        log: the segment.
        indexed_at: the position at which its offset index has a reader begin.
        offset: the offset to find; if it is gone, the next one is found.
        end: of the batches; default: the file's size.
        unwraps: whether the search looks for the first message of compressed ones, as Kafka 4 does.
    """
    previous: WalkedBatch | None = None
    for batch in walk(log, max(indexed_at, 0), end):
        if unwraps and batch.magic < MAGIC_V2:
            check_wrapper(log, batch)
        if batch.base_offset == offset:
            return batch.position
        if batch.base_offset > offset:
            is_within = previous is not None and previous.last_offset >= offset
            return previous.position if is_within and previous else batch.position
        previous = batch
    return previous.position if previous is not None and previous.last_offset >= offset else None


class CountedEnd(NamedTuple):
    """The end of a log as a start behind a clean stop counts it: such a start does not look for the end."""

    next_offset: int
    """The offset that the next record gets. The base offset if the offset index leads behind the last whole batch."""
    end_bytes: int
    """The bytes behind this byte are not counted."""


def counted_end(log: LogBytes, index: StoredIndex, base_offset: int, *, unwraps: bool = False) -> CountedEnd:
    """Return the end of the last segment, as Kafka finds it. Raises: CorruptRecord."""
    start = translate(log, index.lookup(index.last_offset), index.last_offset, unwraps=unwraps)
    last = None if start is None else last_of(log, start)
    if last is None:
        return CountedEnd(base_offset, start or 0)
    return CountedEnd(last.last_offset + 1, last.position + last.size_bytes)


def counted_end_of(segment: Segment) -> CountedEnd | None:
    """Return the end of the last segment, as Kafka finds it; None if it fails. Raises: UnreadableFile."""
    index = segment.files.get(FileKind.INDEX)
    path = index.path if index else None
    with (
        suppress(CorruptRecord),
        reading(segment.log.path) as descriptor,
        StoredIndex.at(path, segment.base_offset) as entries,
    ):
        return counted_end(LogBytes(descriptor), entries, segment.base_offset, unwraps=True)
    return None


def _long(value: int) -> int:
    """Wrap as Java does."""
    wrapped = value & ((1 << _LONG_BITS) - 1)
    return wrapped - (1 << _LONG_BITS) if wrapped >> (_LONG_BITS - 1) else wrapped


def _legacy(log: LogBytes, position: int, size_bytes: int, magic: int, offset: int) -> WalkedBatch:
    data = log.at(position + _LEGACY_TIMESTAMP_POSITION, _LEGACY_TIMESTAMP.size)
    is_timed = magic == 1 and len(data) == _LEGACY_TIMESTAMP.size
    timestamp_ms = _LEGACY_TIMESTAMP.unpack(data)[0] if is_timed else -1
    return WalkedBatch(position, size_bytes, magic, offset, offset, timestamp_ms, -1, -1, 0)
