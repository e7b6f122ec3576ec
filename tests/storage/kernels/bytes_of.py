"""Records and batches as bytes, said in full, so that tests can make the ones no writer would."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

import crc32c

SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


def varint(value: int) -> bytes:
    bits = (value << 1) ^ (value >> 63)
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes(out) + bytes([bits])


def nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None
    value: bytes | None = b"v"
    offset_delta: int = 0
    timestamp_delta: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    def encode(self) -> bytes:
        body = b"\0" + varint(self.timestamp_delta) + varint(self.offset_delta)
        body += nullable(self.key) + nullable(self.value) + varint(len(self.headers))
        for key, value in self.headers:
            body += nullable(key) + nullable(value)
        return varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class Batch:
    records: tuple[Record, ...]
    base_offset: int = 0
    attributes: int = 0
    base_timestamp: int = 1000
    max_timestamp: int = 1000
    last_offset_delta: int | None = None
    producer: tuple[int, int, int] = field(default=(-1, -1, -1))
    leader_epoch: int = 3

    @property
    def last_delta(self) -> int:
        if self.last_offset_delta is not None:
            return self.last_offset_delta
        return max((record.offset_delta for record in self.records), default=0)

    def encode(self) -> bytes:
        payload = b"".join(record.encode() for record in self.records)
        return sealed(self, payload, len(self.records))

    def at(self, base_offset: int) -> Batch:
        return replace(self, base_offset=base_offset)


def sealed(batch: Batch, payload: bytes, count: int) -> bytes:
    """The batch with any payload and count, and the right CRC."""
    covered = struct.pack(
        ">hiqqqhii",
        batch.attributes,
        batch.last_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        *batch.producer,
        count,
    )
    covered += payload
    head = struct.pack(">qiib", batch.base_offset, len(covered) + 9, batch.leader_epoch, 2)
    return head + struct.pack(">I", crc32c.crc32c(covered)) + covered


def keyed(*keys: str, tombstones: str = "") -> tuple[Record, ...]:
    """Records 0, 1, ... with these keys; those in ``tombstones`` have no value."""
    return tuple(
        Record(key.encode(), None if key in tombstones else b"v" * (3 + i), i, 10 * i) for i, key in enumerate(keys)
    )
