from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.kernels.crc import first_bad_crc
from storage.records import Record, encode_batch, encode_message
from storage.records.v2 import MAGIC_POSITION, V2_HEADER_BYTES, agrees, seal
from tests.storage.kernels.calls import scanned, window
from tests.storage.kernels.strategies import compiled

RECORD = Record(7, 1_700_000_000_000, b"key", b"a value")
BATCHES = [encode_message(RECORD, 0), encode_message(RECORD, 1), encode_batch([RECORD])]
EACH_VERSION = pytest.mark.parametrize("batch", BATCHES, ids=["v0", "v1", "v2"])


@EACH_VERSION
def test_a_batch_agrees_whole_and_in_pieces(batch):
    magic, head = batch[MAGIC_POSITION], batch[: V2_HEADER_BYTES // 2]
    rest = batch[len(head) :]
    assert agrees(batch, magic)
    assert agrees(head, magic, [rest[:1], rest[1:]])
    assert not agrees(head, magic, [rest[1:], rest[:1]])


@EACH_VERSION
def test_a_batch_with_another_byte_does_not_agree(batch):
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    assert not agrees(damaged, batch[MAGIC_POSITION])
    assert not agrees(damaged[:40], batch[MAGIC_POSITION], [damaged[40:]])


def test_a_version_with_another_sign_is_read_as_a_message_as_kafka_reads_it():
    assert not agrees(BATCHES[2], -2)
    assert agrees(BATCHES[1], -1)


@compiled
@given(st.integers(0, len(BATCHES[2]) - 1), st.integers(0, 255))
def test_the_kernel_says_the_same_of_a_batch_with_any_byte_changed(at: int, byte: int) -> None:
    batch = bytearray(BATCHES[2])
    batch[at] = byte
    found = scanned(bytes(batch))
    if found.table.size:
        whole = batch[: int(found.table["size"][0])]  # its length is no part of the checksum
        assert agrees(whole, 2) == (first_bad_crc(window(bytes(batch)), found.table, 0, 1) < 0)


def test_a_sealed_batch_agrees():
    batch = bytearray(BATCHES[2])
    batch[-1] ^= 1
    seal(batch)
    assert agrees(batch, 2)
