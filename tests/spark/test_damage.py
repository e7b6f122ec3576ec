"""Damaged bytes: what is not damaged is read, what is comes as one row each that names its place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from crc32c import crc32c

from storage.codecs.compression import Compression
from storage.records import Record, encode_message, encode_wrapper
from storage.scan import segments
from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import Row, read

CRC_AT, ATTRIBUTES_AT, COUNT_AT, RECORDS_AT = 17, 21, 57, 61


def resealed(batch: bytes, at: int, data: bytes) -> bytes:
    """The batch with other bytes in one place, and the CRC that goes with them."""
    changed = batch[:at] + data + batch[at + len(data) :]
    return changed[:CRC_AT] + crc32c(changed[ATTRIBUTES_AT:]).to_bytes(4, "big") + changed[ATTRIBUTES_AT:]


def written(path: Path, *data: bytes) -> Path:
    """A segment of these bytes, and one behind it: the end of the last one is wherever its bytes end to make sense."""
    directory = PartitionDir(path).segment(0, keyed(0, "z=0")).segment(100, keyed(100, "z=1"))
    directory.log(0).write_bytes(b"".join(data))
    return path


def told(rows: list[Row]) -> list[str]:
    return [row["_corrupt_batch"].partition(": ")[2] for row in rows if row["_corrupt_batch"]]


def found(rows: list[Row]) -> list[bytes]:
    return [row["key"] for row in rows if not row["_corrupt_batch"]]


GZIPPED = keyed(1, "b=1", "c=1", compression=Compression.GZIP)
PLAIN = keyed(1, "b=1", "c=1")
ZSTD = keyed(1, "b=1", "c=1", compression=Compression.ZSTD)


@pytest.mark.parametrize(
    ("batch", "cause"),
    [
        (resealed(GZIPPED, RECORDS_AT, b"\0\0"), ""),
        (resealed(ZSTD, RECORDS_AT, b"\0\0\0\0"), ""),
        (resealed(ZSTD, ATTRIBUTES_AT + 1, b"\x05"), "unknown compression codec 5"),
        (resealed(GZIPPED, COUNT_AT, (1).to_bytes(4, "big")), "a record that does not end where it says"),
        (resealed(PLAIN, RECORDS_AT, b"\x03"), "a record that does not end where it says"),
        (resealed(PLAIN, COUNT_AT, (1).to_bytes(4, "big")), "a record that does not end where it says"),
        (PLAIN[:-1] + b"\x01", "CRC-32C mismatch"),
    ],
    ids=["gzip", "zstd", "codec", "gzip-count", "length", "count", "crc"],
)
def test_a_batch_that_does_not_read_is_told_and_the_next_one_read(tmp_path: Path, batch: bytes, cause: str) -> None:
    rows = read(written(tmp_path, keyed(0, "a=1"), batch, keyed(3, "d=1")), mode="PERMISSIVE")
    assert found(rows) == [b"a", b"d", b"z"]
    (said,) = told(rows)
    assert cause in said
    (damaged,) = (row for row in rows if row["_corrupt_batch"])
    assert (damaged["topic"], damaged["offset"]) == ("orders", 1)


def message(offset: int, key: bytes, magic: int = 1) -> bytes:
    return encode_message(Record(offset, NOW_MS, key, b"v"), magic)


def test_a_damaged_message_of_old_is_told_and_the_next_one_read(tmp_path: Path) -> None:
    broken = message(1, b"b")[:-1] + b"x"
    rows = read(written(tmp_path, message(0, b"a"), broken, message(2, b"c", 0), keyed(3, "d=1")), mode="PERMISSIVE")
    assert found(rows) == [b"a", b"c", b"d", b"z"]
    assert len(told(rows)) == 1


def test_messages_whose_offsets_go_back_are_told(tmp_path: Path) -> None:
    wrapper = encode_wrapper([Record(place, NOW_MS, b"k", b"v") for place in (0, 1)], 0, Compression.GZIP)
    rows = read(written(tmp_path, message(5, b"a"), wrapper, message(6, b"b")), mode="PERMISSIVE")
    assert found(rows) == [b"a", b"b", b"z"]
    assert told(rows) == ["offset 0 below 6"]


def test_old_messages_that_a_window_cuts_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "EXTENT_WINDOW_BYTES", 100)
    keys = [f"key-{place}".encode() for place in range(50)]
    rows = read(written(tmp_path, *(message(place, key) for place, key in enumerate(keys)), keyed(50, "y=1")))
    assert [row["key"] for row in rows] == [*keys, b"y", b"z"]


def test_a_header_that_cannot_be_hides_what_follows_up_to_the_next_segment(tmp_path: Path) -> None:
    lying = resealed(GZIPPED, COUNT_AT, (60).to_bytes(4, "big"))
    rows = read(written(tmp_path, keyed(0, "a=1"), lying, keyed(3, "d=1")), mode="PERMISSIVE")
    assert found(rows) == [b"a", b"z"]
    assert "impossible record count" in told(rows)[0]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_damaged_the_read_ends_and_gives_nothing_that_was_not_there(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    batches = [
        keyed(base, *(f"k{base + place}=v" for place in range(5)), compression=dice.choice(list(Compression)))
        for base in range(0, 50, 5)
    ]
    data = bytearray(b"".join(batches))
    for _ in range(dice.randrange(1, 4)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    rows = read(written(tmp_path, bytes(data)), mode="PERMISSIVE")
    assert set(found(rows)) <= {b"z", *(f"k{offset}".encode() for offset in range(50))}
    dropped = read(tmp_path, mode="DROPMALFORMED")
    assert [row["key"] for row in dropped] == found(rows)
