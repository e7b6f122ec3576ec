"""The kernels once more, in plain Python; shared are only the enums."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import crc32c

from storage.kernels.status import BatchFate, Status
from tests.storage.kernels.bytes_of import varint

_HEADER = struct.Struct(">qiibIhiqqqhii")


class BadBytesError(Exception):
    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


@dataclass(slots=True)
class Row:
    position: int
    size: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    first_ordinal: int
    fate: int = BatchFate.DELETE_EMPTY

    @property
    def horizon(self) -> int | None:
        return self.base_timestamp if self.attributes & 0x40 else None


@dataclass(frozen=True, slots=True)
class Parsed:
    ordinal: int
    offset: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    attributes: int
    tail: bytes  # from the offset delta on


def scan(data: bytes, next_offset: int = 0) -> tuple[Status, list[Row], int]:
    rows: list[Row] = []
    position, ordinal = 0, 0
    while position < len(data):
        try:
            row = _row(data, position, next_offset, ordinal)
        except BadBytesError as bad:
            return bad.status, rows, position
        rows.append(row)
        position, next_offset, ordinal = position + row.size, row.last_offset + 1, ordinal + row.record_count
    return Status.OK, rows, position


def _row(data: bytes, position: int, next_offset: int, ordinal: int) -> Row:
    rest = data[position:]
    if len(rest) < 17:
        raise BadBytesError(Status.END_OF_BUFFER)
    length, magic = struct.unpack(">i", rest[8:12])[0], rest[16]
    if length < 14 or (magic == 2 and length < 49):
        raise BadBytesError(Status.BAD_MAGIC if magic > 2 and length >= 14 else Status.BAD_SIZE)
    if magic > 2:
        raise BadBytesError(Status.BAD_MAGIC)
    if length + 12 > len(rest):
        raise BadBytesError(Status.END_OF_BUFFER)
    if magic < 2:
        raise BadBytesError(Status.LEGACY_MAGIC)
    base, _, epoch, _, crc, attributes, delta, *times_and_producer, count = _HEADER.unpack(rest[:61])
    if base < next_offset or base > 2**63 - 1 - 2**31 or delta < 0:
        raise BadBytesError(Status.BAD_OFFSETS)
    if count < 0 or count > delta + 1 or (attributes & 7 == 0 and 7 * count > length - 49):
        raise BadBytesError(Status.BAD_COUNT)
    row = Row(position, length + 12, base, epoch, crc, attributes, base + delta, *times_and_producer, count, ordinal)
    if attributes & 0x20:
        row.fate = BatchFate.KEEP
    return row


def crc_is_right(data: bytes, row: Row) -> bool:
    return crc32c.crc32c(data[row.position + 21 : row.position + row.size]) == row.crc


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, 35 if bits == 32 else 70, 7):
            if self.at >= len(self.data):
                raise BadBytesError(Status.BAD_VARINT)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1
                return (value >> 1) ^ -(value & 1)
        raise BadBytesError(Status.BAD_VARINT)

    def bytes(self, length: int) -> bytes:
        if length > len(self.data) - self.at:
            raise BadBytesError(Status.BAD_LENGTH)
        self.at += length
        return self.data[self.at - length : self.at]

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length < 0 else self.bytes(length)


def _skip_headers(reader: Reader) -> None:
    try:
        count = reader.varint()
        ok = count >= 0
        for _ in range(count):
            ok = ok and reader.nullable() is not None
            reader.nullable()
    except BadBytesError:
        ok = False
    if not ok or reader.at != len(reader.data):
        raise BadBytesError(Status.BAD_HEADERS)


def records(data: bytes, row: Row) -> Iterator[Parsed]:
    if row.attributes & 7:  # of a codec: nobody decompressed it
        raise BadBytesError(Status.NEEDS_RECORDS)
    reader = Reader(data[row.position + 61 : row.position + row.size])
    previous = row.base_offset - 1
    for i in range(row.record_count):
        length = reader.varint()
        if length < 1:
            raise BadBytesError(Status.BAD_LENGTH)
        body = Reader(reader.bytes(length))
        attributes = body.bytes(1)[0]
        timestamp_delta, offset_at = body.varint(64), body.at
        offset = row.base_offset + body.varint()
        key, value = body.nullable(), body.nullable()
        if not previous < offset <= row.last_offset:
            raise BadBytesError(Status.BAD_OFFSETS)
        _skip_headers(body)
        previous = offset
        yield Parsed(row.first_ordinal + i, offset, timestamp_delta, key, value, attributes, body.data[offset_at:])
    if reader.at != len(reader.data):
        raise BadBytesError(Status.BAD_LENGTH)


def survivors(data: bytes, rows: list[Row], first_dirty: int) -> tuple[set[int], int]:
    """Ordinals that stay, and how many records have no key: as the kernels find them in all their passes."""
    latest: dict[bytes, int] = {}
    parsed = [record for row in rows if row.fate <= 1 for record in records(data, row)]
    for record in parsed:
        if record.key is not None and record.offset >= first_dirty:
            latest[record.key] = record.ordinal
    clean = {r.ordinal for r in parsed if r.offset < first_dirty and r.key is not None and r.key not in latest}
    return clean | set(latest.values()), sum(record.key is None for record in parsed)


def rewrite(data: bytes, rows: list[Row], kept: set[int], now: int, horizon: int) -> bytes:
    return b"".join(_rewritten(data, row, kept, now, horizon) for row in rows)


def _rewritten(data: bytes, row: Row, kept: set[int], now: int, horizon: int) -> bytes:
    verbatim = data[row.position : row.position + row.size]
    if row.fate == BatchFate.KEEP:
        return verbatim
    everything = list(records(data, row)) if row.fate not in (2, 3) else []
    expired = row.horizon is not None and row.horizon <= now
    stays = [r for r in everything if r.ordinal in kept and not (expired and r.value is None)]
    if row.fate == BatchFate.KEEP_STAMPED:
        stays = everything
    if not stays:
        return _empty(row) if row.fate in (1, 3, 5) else b""
    stamp = row.fate == BatchFate.KEEP_STAMPED or (
        row.horizon is None and any(record.value is None for record in stays)
    )
    if len(stays) == row.record_count and not stamp:
        return verbatim
    return _rebuilt(row, stays, horizon if stamp and horizon >= 0 else row.horizon)


def _rebuilt(row: Row, stays: list[Parsed], horizon: int | None) -> bytes:
    def timestamp(record: Parsed) -> int:
        return row.max_timestamp if row.attributes & 8 else _int64(row.base_timestamp + record.timestamp_delta)

    base = timestamp(stays[0]) if horizon is None else horizon
    latest = row.max_timestamp if row.attributes & 8 else max(-1, *map(timestamp, stays))
    payload = b""
    for record in stays:
        body = bytes([record.attributes]) + varint(_int64(timestamp(record) - base)) + record.tail
        payload += varint(len(body)) + body
    attributes = row.attributes & 0x3F | (0 if horizon is None else 0x40)
    return _sealed(row, attributes, base, latest, len(stays), payload)


def _int64(number: int) -> int:
    """Sums and differences of timestamps wrap, as Java's do."""
    return (number + 2**63) % 2**64 - 2**63


def _empty(row: Row) -> bytes:
    return _sealed(row, row.attributes & 0x38, -1, row.max_timestamp, 0, b"")


def _sealed(row: Row, attributes: int, base: int, latest: int, count: int, payload: bytes) -> bytes:
    producer = (row.producer_id, row.producer_epoch, row.base_sequence)
    delta = row.last_offset - row.base_offset
    covered = struct.pack(">hiqqqhii", attributes, delta, base, latest, *producer, count) + payload
    head = struct.pack(">qiib", row.base_offset, len(covered) + 9, row.leader_epoch, 2)
    return head + struct.pack(">I", crc32c.crc32c(covered)) + covered


def sip_hash(key: bytes, secret: tuple[int, int]) -> tuple[int, int]:
    """SipHash-1-3-128 as its authors write it."""
    mask = 2**64 - 1
    v = [
        secret[0] ^ 0x736F6D6570736575,
        secret[1] ^ 0x646F72616E646F6D ^ 0xEE,
        secret[0] ^ 0x6C7967656E657261,
        secret[1] ^ 0x7465646279746573,
    ]

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0], v[2] = v[0] + v[1] & mask, v[2] + v[3] & mask
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2], v[0] = v[2] + v[1] & mask, v[0] + v[3] & mask
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(3)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(3)
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def index_entries(
    batches: list[tuple[int, int, int, int]], base_offset: int, interval: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Offset and time entries for ``(position, size, last offset, max timestamp)`` batches."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    unindexed, latest = 0, (-1, base_offset)
    for position, size, last_offset, max_timestamp in batches:
        if max_timestamp > latest[0]:
            latest = max_timestamp, last_offset
        if unindexed > interval:
            offsets.append((last_offset - base_offset, position))
            if latest[0] > (times[-1][0] if times else -1):
                times.append((latest[0], latest[1] - base_offset))
            unindexed = 0
        unindexed += size
    return offsets, times
