"""Seeded logs in the formats of before Kafka 0.11: versions 0 and 1, every codec, formats that change midway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from storage.codecs.compression import Compression
from storage.kernels.layout import LOG_APPEND_TIME
from storage.records import Record, encode_batch, encode_message, encode_wrapper
from storage.records.legacy import PREFIX, TIMESTAMP
from tests.partition_dirs import DAY_MS, NOW_MS, PartitionDir, committed

NO_TIME: Final = b"\xff" * 8
LEGACY_CODECS: Final = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


@dataclass(frozen=True, slots=True)
class Format:
    """How a batch is written."""

    magic: int
    codec: Compression = Compression.NONE
    is_log_append_time: bool = False

    @property
    def may_be_stamped(self) -> bool:
        """Whether a broker may have stamped the wrapper alone."""
        return self.magic == 1 and self.is_log_append_time and self.codec is not Compression.NONE

    def encode(self, records: list[Record]) -> bytes:
        """One batch, or for plain v0 and v1 as many messages as there are records."""
        time_ms = records[-1].timestamp_ms if self.is_log_append_time else None
        if self.magic == 2:
            return encode_batch(records, compression=self.codec, log_append_time_ms=time_ms)
        if self.codec is not Compression.NONE:
            return encode_wrapper(records, self.magic, self.codec, time_ms)
        return b"".join(encode_message(one, self.magic, is_log_append_time=self.is_log_append_time) for one in records)


FORMATS: Final = [
    *(Format(0, codec) for codec in LEGACY_CODECS),
    *(Format(1, codec, is_log_append_time) for codec in LEGACY_CODECS for is_log_append_time in (False, True)),
    *(Format(2, codec) for codec in Compression),
]


def mixed_versions(records: list[Record], magic: int, inner_magic: int) -> bytes:
    """A gzip wrapper around messages of another version, as some cleaners of old wrote them (KAFKA-4298)."""
    whole = encode_wrapper(records, magic, Compression.GZIP)
    base_offset = records[0].offset if magic == 1 else 0
    inner = b"".join(encode_message(replace(one, offset=one.offset - base_offset), inner_magic) for one in records)
    newest_ms = max(record.timestamp_ms for record in records) if inner_magic == 1 else -1
    wrapper = Record(records[-1].offset, newest_ms, None, _gzipped(inner))
    return with_attributes(encode_message(wrapper, magic), whole[PREFIX.size - 1])


def stamped(records: list[Record], codec: Compression, time_ms: int) -> bytes:
    """A v1 wrapper as a broker leaves it that stamps it with its time: the messages in it are the producer's, of type
    CreateTime and with other times.
    """
    whole = encode_wrapper(records, 1, codec)
    body = PREFIX.size + TIMESTAMP.size
    return with_attributes(whole[: PREFIX.size] + TIMESTAMP.pack(time_ms) + whole[body:], codec | LOG_APPEND_TIME)


def with_attributes(message: bytes, attributes: int) -> bytes:
    """The message with another attributes byte, and the CRC that goes with it."""
    return sealed(message[: PREFIX.size - 1] + bytes([attributes]) + message[PREFIX.size :])


def sealed(message: bytes) -> bytes:
    """The message with the right CRC."""
    from zlib import crc32

    return message[:12] + crc32(message[16:]).to_bytes(4, "big") + message[16:]


def _gzipped(data: bytes) -> bytes:
    from gzip import compress

    return compress(data)


def legacy_log_dir(log_dir: Path, seed: int, name: str = "random-0", segments: int = 6) -> PartitionDir:
    """A partition of small segments whose last-but-one ends with a live record; the active one is empty."""
    random = Random(seed)
    made = PartitionDir(log_dir, name)
    offset = 0
    for place in range(segments):
        batches = list(_batches(random, offset))
        mtime_ms = NOW_MS - (segments - place) * random.choice((1, DAY_MS // 2, DAY_MS))
        segment(made, offset, *batches, mtime_ms=mtime_ms)
        offset = made.end_offset
    last = Record(offset, NOW_MS, b"the last", b"value")
    segment(made, offset, random.choice(FORMATS).encode([last]))
    made.segment(offset + 1)
    committed(log_dir, made)
    return made


def segment(made: PartitionDir, base_offset: int, *batches: bytes, mtime_ms: int = NOW_MS) -> None:
    """Add a segment; one of version 0 alone has no entry in its time index."""
    made.segment(base_offset, *batches, mtime_ms=mtime_ms)
    time_index = made.log(base_offset).with_suffix(".timeindex")
    if time_index.read_bytes().startswith(NO_TIME):
        time_index.write_bytes(b"")


def _batches(random: Random, offset: int) -> Iterator[bytes]:
    form = random.choice(FORMATS)
    for _ in range(random.randint(1, 12)):
        if random.random() < 0.2:
            form = random.choice(FORMATS)
        offset += random.randint(0, 2)
        records = list(_records(random, offset, form.magic))
        offset = records[-1].offset + 1
        if form.magic < 2 and random.random() < 0.1:
            yield mixed_versions(records, form.magic, 1 - form.magic)
        elif form.may_be_stamped and random.random() < 0.5:
            yield stamped(records, form.codec, NOW_MS - random.randrange(DAY_MS))
        else:
            yield form.encode(records)


def _records(random: Random, offset: int, magic: int) -> Iterator[Record]:
    for _ in range(random.randint(1, 8)):
        key = None if random.random() < 0.05 else b"key %d" % random.randrange(25)
        value = None if random.random() < 0.25 else random.randbytes(random.randrange(4)) * random.randrange(30)
        yield Record(offset, NOW_MS - random.randrange(DAY_MS), key, value)
        offset += random.choice((1, 1, 1, 3))
