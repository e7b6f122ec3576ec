"""Batches that clients, coordinators and leaders send: sound ones, and those that a log must refuse."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from crc32c import crc32c

from storage.codecs.compression import Compression
from storage.records import ControlType, Record, encode_batch, encode_message, encode_wrapper
from storage.records.v2 import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, V2_HEADER, BatchHeader
from tests.batches import encode_control_batch, encode_empty_batch
from tests.interop.lives.life import Life

Sequenced = tuple[int, int, int]
"""Producer id, epoch, base sequence."""
NOBODY: Final[Sequenced] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
_HEADER_BYTES: Final = 61
_KEYS: Final = tuple(f"k{number}".encode() for number in range(12))


class Maker:
    """Makes batches at one moment of a life."""

    def __init__(self, life: Life, dice: Random, now_ms: int) -> None:
        self._life, self._dice, self._now_ms = life, dice, now_ms
        self._is_compacted = "compact" in life.config["cleanup.policy"]

    def records(self, count: int, *, first_offset: int = 0, has_headers: bool = True) -> list[Record]:
        """Records of all kinds; some without a key, some of times that a topic may refuse."""
        return [
            Record(first_offset + place, self._time_ms(), self._key(), self._value(), self._headers(has_headers))
            for place in range(count)
        ]

    def data(self, producer: Sequenced = NOBODY, *, count: int = 0, is_transactional: bool = False) -> bytes:
        """A batch of version 2."""
        producer_id, epoch, sequence = producer
        log_append_time = self._now_ms - 77 if self._dice.random() < 0.02 else None
        return encode_batch(
            self.records(count or 1 + self._dice.randrange(self._dice.choice((1, 3, 12)))),
            compression=self.codec(),
            log_append_time_ms=log_append_time,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def codec(self) -> Compression:
        """A codec that the log need not change, or any where it may compress itself."""
        if self._dice.random() < 0.4:
            return Compression.NONE
        return self._dice.choice(list(Compression))

    def marker(self, producer_id: int, epoch: int, coordinator_epoch: int, kind: ControlType) -> bytes:
        """The end of a transaction."""
        return encode_control_batch(
            kind,
            offset=0,
            timestamp_ms=self._now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )

    def legacy(self) -> bytes:
        """Messages of version 0 or 1, plain or in a wrapper."""
        magic, count = self._dice.randrange(2), 1 + self._dice.randrange(4)
        records = self.records(count, has_headers=False)
        if self._life.recompresses and self._dice.random() < 0.5:
            codec = self._dice.choice((Compression.GZIP, Compression.SNAPPY, Compression.LZ4))
            return encode_wrapper(records, magic, codec)
        is_log_append_time = self._dice.random() < 0.05
        return b"".join(encode_message(one, magic, is_log_append_time=is_log_append_time) for one in records)

    def spoiled(self, data: bytes) -> tuple[bytes, str]:
        """A batch that is wrong in one way, and the way."""
        spoil = self._dice.choice(_SPOILS)
        return spoil(data, self._dice), spoil.__name__.strip("_")

    def _time_ms(self) -> int:
        die = self._dice.random()
        if die < 0.02:
            return -1
        if die < 0.05:
            return self._now_ms + self._dice.choice((5_000, 3_000_000, 4_000_000))
        if die < 0.10:
            return self._now_ms - self._dice.choice((15_000, 50_000, 200_000))
        return self._now_ms - self._dice.randrange(3_000)

    def _key(self) -> bytes | None:
        if self._dice.random() < (0.01 if self._is_compacted else 0.2):
            return None
        return self._dice.choice(_KEYS)

    def _value(self) -> bytes | None:
        die = self._dice.random()
        if die < 0.1:
            return None
        size = self._dice.randrange(1_500 if die > 0.98 else 120)
        return self._dice.randbytes(size // 2) + bytes(size - size // 2)

    def _headers(self, has_headers: bool) -> tuple[tuple[bytes, bytes | None], ...]:
        if not has_headers or self._dice.random() < 0.8:
            return ()
        return ((b"trace", b"\x01\x02"), (b"none", None))


def with_header(data: bytes, **changes: int) -> bytes:
    """Change fields of the header, and make its CRC right again."""
    header = BatchHeader(*V2_HEADER.unpack_from(data))._replace(**changes)
    changed = bytearray(V2_HEADER.pack(*header) + data[_HEADER_BYTES:])
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def _header(data: bytes) -> BatchHeader:
    return BatchHeader(*V2_HEADER.unpack_from(data))


def _nothing(_data: bytes, _dice: Random) -> bytes:
    return b""


def _few_bytes(data: bytes, dice: Random) -> bytes:
    return data[: dice.randrange(1, 61)]


def _torn(data: bytes, dice: Random) -> bytes:
    return data[: -dice.randrange(1, len(data) - 18)]


def _torn_behind_another(data: bytes, dice: Random) -> bytes:
    return data + data[: dice.randrange(1, len(data))]


def _zeros_behind(data: bytes, dice: Random) -> bytes:
    return data + bytes(dice.randrange(1, 40))


def _two(data: bytes, _dice: Random) -> bytes:
    return data + data


def _crc(data: bytes, dice: Random) -> bytes:
    return data[:17] + dice.randbytes(4) + data[21:]


def _flipped(data: bytes, dice: Random) -> bytes:
    place = dice.randrange(21, len(data))
    return data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :]


def _payload(data: bytes, dice: Random) -> bytes:
    place = dice.randrange(_HEADER_BYTES, len(data))
    return with_header(data[:place] + dice.randbytes(1) + data[place + 1 :])


def _payload_behind(data: bytes, dice: Random) -> bytes:
    more = dice.randbytes(dice.randrange(1, 9))
    return with_header(data + more, batch_length=_header(data).batch_length + len(more))


def _count(data: bytes, dice: Random) -> bytes:
    return with_header(data, record_count=max(0, _header(data).record_count + dice.choice((-1, 1, 5))))


def _count_and_delta(data: bytes, dice: Random) -> bytes:
    change, header = dice.choice((-1, 1)), _header(data)
    count = max(1, header.record_count + change)
    return with_header(data, record_count=count, last_offset_delta=count - 1)


def _delta(data: bytes, dice: Random) -> bytes:
    return with_header(data, last_offset_delta=_header(data).last_offset_delta + dice.choice((-1, 1, 7)))


def _base_offset(data: bytes, dice: Random) -> bytes:
    return with_header(data, base_offset=dice.choice((1, 5, 1 << 40, -1)))


def _max_timestamp(data: bytes, dice: Random) -> bytes:
    return with_header(data, max_timestamp_ms=_header(data).max_timestamp_ms + dice.choice((-500, 500, 9_000_000)))


def _empty(data: bytes, _dice: Random) -> bytes:
    return encode_empty_batch(_header(data))


def _log_append_time(data: bytes, _dice: Random) -> bytes:
    return with_header(data, attributes=_header(data).attributes | 8)


def _control(data: bytes, _dice: Random) -> bytes:
    return with_header(data, attributes=_header(data).attributes | 32)


def _transactional(data: bytes, _dice: Random) -> bytes:
    return with_header(data, attributes=_header(data).attributes | 16)


def _delete_horizon(data: bytes, _dice: Random) -> bytes:
    return with_header(data, attributes=_header(data).attributes | 64)


def _codec(data: bytes, dice: Random) -> bytes:
    return with_header(data, attributes=_header(data).attributes & ~7 | dice.randrange(8))


def _magic(data: bytes, dice: Random) -> bytes:
    return data[:16] + bytes([dice.choice((0, 1, 3, 255))]) + data[17:]


def _length(data: bytes, dice: Random) -> bytes:
    return data[:8] + dice.choice((-1, 0, 13, 48, 49, len(data), 1 << 30)).to_bytes(4, "big", signed=True) + data[12:]


def _producer(data: bytes, dice: Random) -> bytes:
    return with_header(
        data, **{dice.choice(("producer_id", "producer_epoch", "base_sequence")): dice.choice((-1, 3, 9_999))}
    )


_SPOILS: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    _nothing,
    _few_bytes,
    _torn,
    _torn_behind_another,
    _zeros_behind,
    _two,
    _crc,
    _flipped,
    _payload,
    _payload_behind,
    _count,
    _count_and_delta,
    _delta,
    _base_offset,
    _max_timestamp,
    _empty,
    _log_append_time,
    _control,
    _transactional,
    _delete_horizon,
    _codec,
    _magic,
    _length,
    _producer,
)
