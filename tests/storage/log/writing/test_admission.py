"""The kernel that admits batches, beside its readable twin."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs.compression import Compression
from storage.log.config import LogConfig, TimestampType
from storage.log.errors import BatchTooLarge, LogRefusal
from storage.log.writing.admission import Admission
from storage.log.writing.validation import AppendOrigin, Stamp
from storage.machine import library
from storage.machine.library import KernelsUnusable
from storage.records import Batch, Record, encode_batch
from storage.records.v2 import CRC_POSITION, CRC_START
from tests.batches import iter_batches
from tests.storage.kernels.strategies import compiled
from tests.storage.log.logs import NOW_MS

HERE: Final = Path("orders-0")
_keys = st.none() | st.binary(max_size=5)
_times = st.sampled_from([-1, 0, NOW_MS - 50, NOW_MS, NOW_MS + 50, NOW_MS + 3_600_001, -(1 << 63), (1 << 63) - 1])
_headers = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
_contents = st.tuples(_times, _keys, st.none() | st.binary(max_size=300), _headers)
_configs = st.builds(
    LogConfig,
    timestamp_type=st.sampled_from(TimestampType),
    is_compacted=st.booleans(),
    timestamp_before_max_ms=st.sampled_from([10, 100, (1 << 63) - 1]),
    timestamp_after_max_ms=st.sampled_from([0, 100, (1 << 63) - 1]),
    max_message_bytes=st.sampled_from([100, 1 << 20]),
    compression_type=st.sampled_from(["producer", "uncompressed", "lz4"]),
)
_stamps = st.builds(
    Stamp, st.sampled_from([0, 5, (1 << 62)]), st.sampled_from([0, 7, (1 << 31) - 1]), st.sampled_from([0, NOW_MS])
)


def sealed(data: bytes) -> bytes:
    """The bytes with the CRC that they should have."""
    import crc32c

    return data[:CRC_POSITION] + crc32c.crc32c(data[CRC_START:]).to_bytes(4, "big") + data[CRC_START:]


@st.composite
def _batches(draw: st.DrawFn) -> bytes:
    """What a producer sends: one batch, records one offset apart."""
    contents = draw(st.lists(_contents, min_size=1, max_size=6))
    producer = draw(st.sampled_from([(-1, -1, -1), (7, 2, 0), (7, 0, (1 << 31) - 2), (9, 1, -1)]))
    return encode_batch(
        [Record(place, *content) for place, content in enumerate(contents)],
        compression=draw(st.sampled_from([Compression.NONE, Compression.NONE, *Compression])),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=draw(st.booleans()),
    )


@st.composite
def _uneven(draw: st.DrawFn) -> bytes:
    """One whose records are not one offset apart, under a header that says nothing of it."""
    offsets = sorted(draw(st.lists(st.integers(0, 4), min_size=2, max_size=4)))
    records = [Record(offset, NOW_MS, b"k", b"v") for offset in offsets]
    codec = draw(st.sampled_from(Compression))
    return encode_batch(records, base_offset=0, last_offset=len(records) - 1, compression=codec)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """One with some bytes changed, and a CRC that agrees in most."""
    data = bytearray(draw(_batches()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, 70) | st.integers(0, len(data) - 1)) % len(data)
        data[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    return sealed(bytes(data)) if draw(st.booleans()) else bytes(data)


@compiled
@given(
    _batches() | _uneven() | _damaged(),
    _configs,
    st.sampled_from([AppendOrigin.CLIENT, AppendOrigin.COORDINATOR]),
    _stamps,
)
def test_what_the_kernel_admits_the_twin_admits_as_the_same_bytes(
    data: bytes, config: LogConfig, origin: AppendOrigin, stamp: Stamp
) -> None:
    admission = Admission(HERE, config)
    by_kernel = admission.by_kernel(data, origin, stamp)
    if by_kernel is None:
        return
    by_twin = admission.by_twin(data, origin, stamp)
    assert by_twin is not None
    assert bytes(by_kernel.data) == bytes(by_twin.data)
    assert by_kernel._replace(data=by_twin.data, batches=()) == by_twin._replace(batches=())
    assert list(by_kernel.batches) == list(by_twin.batches)


@compiled
@given(_batches(), _configs, _stamps)
def test_what_producers_send_is_left_to_the_twin_for_a_reason_alone(
    data: bytes, config: LogConfig, stamp: Stamp
) -> None:
    admission = Admission(HERE, config)
    if admission.by_kernel(data, AppendOrigin.CLIENT, stamp) is not None:
        return
    with suppress(LogRefusal, BatchTooLarge):
        by_twin = admission.by_twin(data, AppendOrigin.CLIENT, stamp)
        assert by_twin is not None
        sent, written = only_batch(data), only_batch(bytes(by_twin.data))
        assert sent.header.compression != written.header.compression, "it had to be compressed anew"


def only_batch(data: bytes) -> Batch:
    (batch,) = iter_batches(data, HERE)
    assert isinstance(batch, Batch)
    batch.ensure_valid()
    return batch


def test_a_batch_larger_than_any_before_finds_room() -> None:
    admission = Admission(HERE, LogConfig())
    for size in (10, 200_000, 10):
        data = encode_batch([Record(0, NOW_MS, b"k", b"v" * size)])
        packed = encode_batch([Record(0, NOW_MS, b"k", b"v" * size)], compression=Compression.LZ4)
        for sent in (data, packed):
            admitted = admission.by_kernel(sent, AppendOrigin.CLIENT, Stamp(3, 1, NOW_MS))
            assert admitted is not None
            assert only_batch(bytes(admitted.data)).records()[0].value == b"v" * size


def test_without_kernels_the_twin_admits_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable() -> None:
        raise KernelsUnusable(HERE, "the kernels are not compiled", "install logcleaner again")

    monkeypatch.setattr(library, "check", unusable)
    admission = Admission(HERE, LogConfig())
    data = encode_batch([Record(0, NOW_MS, b"k", b"v")])
    assert admission.by_kernel(data, AppendOrigin.CLIENT, Stamp(3, 1, NOW_MS)) is None
    admitted = admission.admit(data, AppendOrigin.CLIENT, Stamp(3, 1, NOW_MS))
    assert admitted is not None
    assert admitted.last_offset == 3
    with pytest.raises(LogRefusal):
        admission.admit(encode_batch([Record(1, NOW_MS, b"k", b"v")]), AppendOrigin.CLIENT, Stamp(3, 1, NOW_MS))
