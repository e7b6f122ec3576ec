"""Small segments are read at once: the same batches, and the same answer about keys, as by the other reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cleaner.engine.explain.contents import located_in
from storage.codecs.compression import Compression
from storage.kernels.layout import KEY_BYTES
from storage.log.listing import list_partition
from storage.records import ControlType, Record, encode_batch
from storage.records.v2 import OFFSET_MAX
from storage.scan.segments import open_segment
from storage.scan.slices import Checksums
from storage.scan.small_segments import BYTES_MAX, SmallSegments
from storage.segment import Segment
from tests.batches import encode_control_batch
from tests.partition_dirs import PartitionDir, keyed

MARKER = encode_control_batch(
    ControlType.ABORT, offset=0, timestamp_ms=1, producer_id=7, producer_epoch=0, coordinator_epoch=0
)
LOGS = {
    "one batch": keyed(0, "a=1"),
    "many batches": b"".join(keyed(number, f"k{number}=v") for number in range(300)),
    "a gap": keyed(0, "a=1") + keyed(9, "b=2"),
    "no key": encode_batch([Record(0, 1, b"k", b"v"), Record(1, 1, None, b"v")]),
    "compressed": encode_batch([Record(0, 1, None, b"v" * 99)], compression=Compression.GZIP),
    "a marker": MARKER,
    "an empty value": encode_batch([Record(0, 1, b"", None)]),
}
UNSOUND = {
    "nothing": b"",
    "a torn end": keyed(0, "a=1") + b"\1" * 40,
    "zeros behind": keyed(0, "a=1") + bytes(500),
    "offsets that go back": keyed(5, "a=1") + keyed(3, "b=2"),
}


FIELDS = (
    *("position", "size", "base_offset", "last_offset", "max_timestamp", "attributes", "record_count"),
    *("producer_id", "producer_epoch", "base_sequence", "leader_epoch", "base_timestamp"),
)


def made(tmp_path: Path, data: bytes) -> Segment:
    partition = PartitionDir(tmp_path).segment(0)
    partition.log(0).write_bytes(data)
    (segment,) = list_partition(partition.path).segments
    return segment


@pytest.mark.parametrize("data", LOGS.values(), ids=LOGS)
def test_the_batches_are_those_of_the_reader_of_any_segment(tmp_path: Path, data: bytes) -> None:
    segment, small = made(tmp_path, data), SmallSegments()
    for _ in range(2):  # buffers serve again
        found = small.sound(segment)
        assert found is not None
        with open_segment(segment, OFFSET_MAX, is_locked=False) as reader:
            (expected,) = reader.slices(checksums=Checksums.DONE)
            for field in FIELDS:
                assert found.table[field].tolist() == expected.table[field].tolist()
            assert (found.path, found.file_position) == (expected.path, expected.file_position)


@pytest.mark.parametrize("data", UNSOUND.values(), ids=UNSOUND)
def test_what_is_not_sound_is_left_to_that_reader(tmp_path: Path, data: bytes) -> None:
    assert SmallSegments().sound(made(tmp_path, data)) is None


def test_so_is_a_segment_that_is_large_or_shrank(tmp_path: Path) -> None:
    segment = made(tmp_path, keyed(0, "a=" + "v" * BYTES_MAX))
    assert SmallSegments().sound(segment) is None
    segment = made(tmp_path / "other", keyed(0, "a=1") + keyed(1, "b=2"))
    os.truncate(segment.log.path, len(keyed(0, "a=1")))
    assert SmallSegments().sound(segment) is None


@pytest.mark.parametrize("data", LOGS.values(), ids=LOGS)
def test_a_record_without_a_key_is_found_as_that_reader_finds_it(tmp_path: Path, data: bytes) -> None:
    segment, small = made(tmp_path, data), SmallSegments()
    size_bytes = 12 + int.from_bytes(data[8:12], "big")
    located = located_in(segment, 0, size_bytes, with_control=False)
    expected = any((one[KEY_BYTES] < 0).any() for one in located)
    found = small.lacks_a_key(segment, size_bytes)
    assert found is (None if data is LOGS["compressed"] else expected)


def test_a_batch_with_a_wrong_checksum_says_nothing_of_keys(tmp_path: Path) -> None:
    data = bytearray(LOGS["no key"])
    data[-3] ^= 1
    assert SmallSegments().lacks_a_key(made(tmp_path, bytes(data)), len(data)) is None
