"""Random batches for the tests of ``dump``: every field that a line shows, and bytes that are no UTF-8."""

from __future__ import annotations

import random
from typing import Final

from storage.codecs.compression import Compression
from storage.records import ControlType, Record, encode_batch
from tests.batches import encode_control_batch

_ODD_BYTES: Final = (*b'A "\\\n\x01\x1f\x7f', *range(0x80, 0x100, 5), 0xC2, 0xE0, 0xED, 0xF0, 0xF4)
_BYTES: Final = [bytes([byte]) for byte in _ODD_BYTES]
_CHARACTERS: Final = [text.encode() for text in ("é", "漢", "\U0001f600")]


def random_text(source: random.Random) -> bytes:
    """Some bytes, of which few are UTF-8."""
    return b"".join(source.choices(_BYTES + _CHARACTERS, k=source.choice((0, 1, 2, 3, 4, 5, 9, 40))))


def random_batch(source: random.Random, offset: int) -> bytes:
    """A batch whose offsets begin behind ``offset``, and end at most 103 behind it."""
    records = []
    for _ in range(source.randint(1, 20)):
        offset += source.choice((1, 1, 1, 5))
        time_ms = source.choice((-1, 0, 1_700_000_000_000, (1 << 63) - 1, -1 << 63))
        key, value = (source.choice((None, random_text(source), b"k")) for _ in range(2))
        header = (random_text(source), source.choice((None, random_text(source))))
        records.append(Record(offset, time_ms, key, value, (header,) * source.choice((0, 0, 1, 3))))
    batch = bytearray(
        encode_batch(
            records,
            last_offset=offset + source.choice((0, 3)),
            compression=source.choice(list(Compression)),
            producer_id=source.choice((-1, 5, 1 << 62)),
            base_sequence=source.choice((-1, 0, (1 << 31) - 3)),
            delete_horizon_ms=source.choice((None, None, 5)),
            log_append_time_ms=source.choice((None, None, 1_700_000_000_001)),
            is_transactional=source.random() < 0.2,
            partition_leader_epoch=source.choice((-1, 7)),
        )
    )
    if source.random() < 0.05:
        batch[17] ^= 1  # the checksum
    return bytes(batch)


def random_log(seed: int, batches: int = 100) -> bytes:
    """A log of random batches and transaction markers."""
    source, out = random.Random(seed), []
    for place in range(batches):
        if source.random() < 0.1:
            kind = source.choice((ControlType.ABORT, ControlType.COMMIT))
            marker = encode_control_batch(
                kind, offset=place * 200, timestamp_ms=7, producer_id=5, producer_epoch=1, coordinator_epoch=3
            )
            out.append(marker)
        else:
            out.append(random_batch(source, place * 200))
    return b"".join(out)
