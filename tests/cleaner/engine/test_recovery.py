"""Kafka's recovery of a segment, walked by the kernels and walked readably: both give the same answer."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from cleaner.engine.preflight.contents import recover
from policies.preflight.facts import RecoveredLog
from storage.codecs.compression import Compression
from storage.records import Record, encode_batch
from storage.records.read_batches import LogBytes
from storage.records.v2 import NO_PRODUCER_ID
from tests.legacy_logs import FORMATS
from tests.partition_dirs import NOW_MS, keyed

BASE = 1_000
DAMAGED = 40
"""Damages of each log."""
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def batch(dice: Random, offset: int) -> bytes:
    """A batch of some kind: plain, compressed, of a producer, of a transaction, or its marker; rarely of v0 or v1."""
    times = NOW_MS + dice.randrange(-5_000, 5_000)
    producer_id = dice.choice((NO_PRODUCER_ID, NO_PRODUCER_ID, 1, 2))
    is_transactional = producer_id >= 0 and dice.random() < 0.5
    if is_transactional and dice.random() < 0.3:
        marker = Record(offset, times, dice.choice((ABORT, COMMIT)), bytes(6))
        return encode_batch([marker], producer_id=producer_id, is_transactional=True, is_control=True)
    records = [
        Record(offset + place, times, b"key", dice.randbytes(dice.choice((3, 90, 900))))
        for place in range(dice.randint(1, 4))
    ]
    if dice.random() < 0.005:
        return dice.choice(FORMATS).encode(records)
    compression = dice.choice((Compression.NONE, Compression.LZ4))
    gap = dice.choice((0, 0, 0, 2))
    return encode_batch(
        records,
        compression=compression,
        last_offset=records[-1].offset + gap,
        producer_id=producer_id,
        is_transactional=is_transactional,
    )


def log_of(dice: Random, count: int) -> bytes:
    """Batches whose offsets ascend, except that two of them sometimes changed places."""
    offset, batches = BASE, []
    for _ in range(count):
        batches.append(batch(dice, offset))
        offset += dice.choice((4, 6, 7))
    if dice.random() < 0.2:
        place = dice.randrange(count - 1)
        batches[place : place + 2] = reversed(batches[place : place + 2])
    if dice.random() < 0.2:
        batches.insert(dice.randrange(count), keyed(BASE + (1 << 31) - dice.choice((1, 2)), "far", "away"))
    return b"".join(batches)


def damaged(dice: Random, data: bytes) -> bytes:
    """The bytes of a log, damaged in some way, or not at all."""
    at = dice.randrange(len(data))
    return dice.choice(
        (
            lambda: data,
            lambda: data[:at],
            lambda: data + bytes(dice.choice((5, 17, 18, 70, 3_000))),
            lambda: data + dice.randbytes(dice.choice((5, 17, 18, 70, 3_000))),
            lambda: data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :],
            lambda: data[:at] + data[at + dice.randrange(50) :],
        )
    )()


def both_ways(path: Path, base_offset: int, interval_bytes: int) -> list[RecoveredLog]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return [
            recover(LogBytes(descriptor), base_offset, interval_bytes, by_kernels=by_kernels)
            for by_kernels in (True, False)
        ]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("seed", range(24))
def test_both_walks_agree_on_damaged_segments(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)
    data = log_of(dice, dice.choice((3, 30, 300)))
    path = tmp_path / "00000000000000001000.log"
    for _ in range(DAMAGED):
        path.write_bytes(damaged(dice, data))
        fast, readable = both_ways(path, dice.choice((BASE, BASE, BASE, 0, BASE + 20)), dice.choice((0, 200, 4096)))
        assert fast == readable


def test_both_walks_agree_on_a_batch_larger_than_a_window(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    large = encode_batch([Record(1, NOW_MS, b"key", bytes(3 << 20))])
    path.write_bytes(keyed(0, "a") + large + keyed(2, "b") + large[:-1])
    fast, readable = both_ways(path, 0, 4096)
    assert fast == readable
    assert fast.next_offset == 3


def test_transaction_that_a_plain_batch_of_its_producer_interrupts_stops_both_walks(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    batches = keyed(0, "a", producer_id=1, is_transactional=True), keyed(1, "b", producer_id=1)
    path.write_bytes(b"".join(batches))
    fast, readable = both_ways(path, 0, 4096)
    assert fast == readable
    assert fast.failure is not None
    assert fast.failure.exception == "InvalidTxnStateException"
