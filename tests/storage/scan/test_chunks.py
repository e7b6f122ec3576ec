"""Extents read in bulk: of damaged files, the records and damages that the readable code finds batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.kernels.layout import HEADER_BYTES, KEY_AT, KEY_BYTES, OFFSET, RECORD_BYTES_MIN, VALUE_AT, VALUE_BYTES
from storage.names import TopicPartition
from storage.records import (
    Batch,
    ControlType,
    LegacyBatch,
    Record,
    encode_batch,
    encode_message,
    encode_wrapper,
    parse_header,
)
from storage.records.legacy import parse_legacy_header
from storage.scan import segments
from storage.scan.chunks import Chunk, chunks
from storage.scan.extents import Extent
from storage.scan.partitions import OffsetRange
from storage.scan.segments import open_extent
from storage.scan.slices import Damage
from storage.txn_index import AbortedTxn
from tests.batches import encode_control_batch
from tests.fuzz.damage import Damage as Harm
from tests.fuzz.damage import Kind
from tests.partition_dirs import keyed

TIME_MS = 1_700_000_000_000
ALL = OffsetRange(0, (1 << 63) - 1)
Found = tuple[int, bytes | None, bytes | None] | int
"""Offset, key and value of a record, or the position of a damage."""
SIZE_MIN = {0: 26, 1: 34, 2: 61}


def whole(path: Path, offsets: OffsetRange) -> Extent:
    file = path.parent, path.name, path.stat().st_ino
    return Extent(TopicPartition("orders", 0), *file, 0, 0, path.stat().st_size, offsets, None, ())


def read(path: Path, offsets: OffsetRange = ALL) -> list[Found]:
    extent = whole(path, offsets)
    with open_extent(extent) as reader:
        return [told for found in chunks(reader, extent, with_control=True) for told in tell(found)]


@pytest.mark.parametrize("offsets", [OffsetRange(2, 2), OffsetRange(2, 9)])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_without_a_wanted_record_are_no_chunk(tmp_path: Path, magic: int, offsets: OffsetRange) -> None:
    records = [Record(offset, TIME_MS, b"k", b"v") for offset in range(2)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(encode_batch(records) if magic == 2 else b"".join(encode_message(r, magic) for r in records))
    assert (len(read(path)), read(path, offsets)) == (2, [])
    extent = whole(path, offsets)
    with open_extent(extent) as reader:
        assert list(chunks(reader, extent, with_control=True)) == []


def offsets_outside(path: Path, aborted: tuple[AbortedTxn, ...], *, with_control: bool = False) -> list[int]:
    extent = whole(path, ALL)._replace(aborted=aborted)
    with open_extent(extent) as reader:
        found = list(chunks(reader, extent, with_control=with_control))
    return [offset for chunk in found if isinstance(chunk, Chunk) for offset in chunk.located[OFFSET].tolist()]


def test_of_an_aborted_transaction_only_its_own_batches_are_left_out(tmp_path: Path) -> None:
    mine = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    plain = {"producer_id": 7, "producer_epoch": 0}
    another = {"producer_id": 8, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    marker = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp_ms": TIME_MS}
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(
        keyed(0, "a=1", base_sequence=0, **mine)  # of a transaction before, which was committed
        + encode_control_batch(ControlType.COMMIT, offset=1, **marker)
        + keyed(2, "b=1", base_sequence=1, **mine)
        + keyed(3, "c=1")
        + keyed(4, "d=1", **another)
        + keyed(5, "e=1", base_sequence=2, **plain)
        + keyed(6, "f=1", base_sequence=3, **mine)
        + encode_control_batch(ControlType.ABORT, offset=7, **marker)
        + keyed(8, "g=1", base_sequence=4, **mine)  # of a transaction behind it
    )
    assert offsets_outside(path, ()) == [0, 2, 3, 4, 5, 6, 8]
    assert offsets_outside(path, (AbortedTxn(7, 2, 7, 8),)) == [0, 3, 4, 5, 8]
    assert offsets_outside(path, (AbortedTxn(7, 2, 7, 8),), with_control=True) == [0, 1, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("compression", Compression)
def test_records_without_key_value_and_headers_are_the_smallest_there_are(
    tmp_path: Path, compression: Compression
) -> None:
    path = tmp_path / f"{0:020d}.log"
    records = [Record(offset, TIME_MS, None, None) for offset in range(5)]
    path.write_bytes(encode_batch(records, compression=compression))
    assert read(path) == [(offset, None, None) for offset in range(5)]


def tell(found: Chunk | Damage) -> Iterator[Found]:
    if isinstance(found, Damage):
        yield found.error.position
        return
    for field in found.located.T.tolist():
        key, value = (
            None if field[size] < 0 else bytes(found.buf[field[at] : field[at] + field[size]])
            for at, size in ((KEY_AT, KEY_BYTES), (VALUE_AT, VALUE_BYTES))
        )
        yield field[OFFSET], key, value


@dataclass
class Reference:
    """One batch at a time, by ``storage.records``; starts are batch starts that the offset index knows."""

    path: Path
    data: bytes
    starts: list[int]

    def found(self) -> Iterator[Found]:
        position = next_offset = 0
        while position < len(self.data):
            size = self._size_at(position)
            batch = self._batch(position, size) if size else None
            if batch is None or (isinstance(batch, Batch) and batch.base_offset < next_offset):
                yield position
                position = next((start for start in self.starts if start > position), len(self.data))
                continue
            if self._is_sound(batch, next_offset):
                next_offset = batch.last_offset + 1
                yield from self._records(batch, position)
            else:
                yield position
            position += size

    def _is_sound(self, batch: Batch | LegacyBatch, next_offset: int) -> bool:
        try:
            batch.ensure_valid()
            base_offset = batch.base_offset
        except CorruptBatch:
            return False
        return base_offset >= next_offset

    def _records(self, batch: Batch | LegacyBatch, position: int) -> Iterator[Found]:
        try:
            records = batch.records()
        except CorruptBatch:
            yield position
            return
        yield from ((record.offset, record.key, record.value) for record in records)

    def _size_at(self, position: int) -> int:
        """Return the size of a batch that lies in the file in full; 0 if none does."""
        if len(self.data) - position < 17 or self.data[position + 16] > 2:
            return 0
        size = int.from_bytes(self.data[position + 8 : position + 12], "big", signed=True) + 12
        return size if SIZE_MIN[self.data[position + 16]] <= size <= len(self.data) - position else 0

    def _batch(self, position: int, size: int) -> Batch | LegacyBatch | None:
        """Return the batch at a position; None if its header cannot be."""
        data = memoryview(self.data)[position : position + size]
        try:
            if self.data[position + 16] < 2:
                return LegacyBatch(parse_legacy_header(data, 0, self.path, position), data, self.path, position)
            header = parse_header(data, 0, self.path, position)
        except CorruptBatch:
            return None
        records_max = header.last_offset - header.base_offset + 1
        if header.compression is Compression.NONE:
            records_max = min(records_max, (size - HEADER_BYTES) // RECORD_BYTES_MIN)
        return Batch(header, data, self.path, position) if header.record_count <= records_max else None


def drawn(dice: Random) -> tuple[bytes, list[int], int]:
    """Batches of one format or of all, where they start, and the offset behind them."""
    versions = dice.choice([(2,), (1,), (0,), (0, 1, 2)])
    batches: list[bytes] = []
    starts, offset = [0], 0
    for _ in range(dice.randrange(1, 25)):
        records = [
            Record(
                offset + place, 1_700_000_000_000, dice.choice((None, b"", b"key")), dice.choice((None, b"", b"v" * 30))
            )
            for place in range(dice.randrange(1, 6))
        ]
        version = dice.choice(versions)
        if version == 2:
            batches.append(encode_batch(records, compression=dice.choice(list(Compression))))
        elif dice.random() < 0.5:
            codec = dice.choice((Compression.GZIP, Compression.SNAPPY, Compression.LZ4))
            batches.append(encode_wrapper(records, version, codec))
        else:
            batches.append(b"".join(encode_message(record, version) for record in records))
        starts.append(starts[-1] + len(batches[-1]))
        offset = records[-1].offset + 1 + dice.choice((0, 0, 3))
    return b"".join(batches), starts[1:-1], offset


def write(path: Path, data: bytes, starts: list[int]) -> Path:
    """A segment whose offset index knows some batch starts."""
    path.write_bytes(data)
    entries = (place.to_bytes(4, "big") + start.to_bytes(4, "big") for place, start in enumerate(starts, 1))
    path.with_suffix(".index").write_bytes(b"".join(entries))
    return path


@pytest.mark.parametrize("window_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("seed", range(150))
def test_records_and_damages_are_those_of_the_readable_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, window_bytes: int
) -> None:
    monkeypatch.setattr(segments, "EXTENT_WINDOW_BYTES", window_bytes)
    dice = Random(seed)
    data, starts, end = drawn(dice)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
        number = dice.choice((dice.randrange(1 << 20), 0, 0x7F, 0x80, 0xFF))
        data = Harm("", dice.choice(list(Kind)), dice.randrange(1 << 20), number).done_to(bytearray(data))
    known = [start for start in starts if dice.random() < 0.3]
    path = write(tmp_path / f"{0:020d}.log", data, known)
    found = read(path, ALL)
    assert found == list(Reference(path, data, known).found())
    part = OffsetRange(dice.randrange(end), dice.randrange(end) + 1)
    expected = [one for one in found if not isinstance(one, int) and part.start <= one[0] < part.end]
    assert [one for one in read(path, part) if not isinstance(one, int)] == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_the_smallest_message_is_read_at_the_end_of_an_extent(tmp_path: Path, magic: int) -> None:
    records = [Record(offset, TIME_MS, b"k", None) for offset in range(2)]
    data = b"".join(encode_message(record, magic) for record in records)
    assert read(write(tmp_path / f"{0:020d}.log", data, [])) == [(0, b"k", None), (1, b"k", None)]
