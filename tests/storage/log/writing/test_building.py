"""Batches of records in columns: those that the readable twin makes of the same records, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from storage.codecs.compression import Compression
from storage.errors import InvalidRecord
from storage.kernels.layout import NEW_HEADER, NEW_RECORD
from storage.log.writing.building import BatchBuilder, Encoder, RecordColumns
from storage.log.writing.validation import build_batch
from storage.records import Batch, BatchHeader, Record
from storage.records.v2 import V2_HEADER, V2_HEADER_BYTES

NOW_MS = 1_700_000_000_000
BATCH_BYTES = 2000
WHOLE = 1 << 40
LAST_MS = (1 << 63) // 1000
"""The last time that a timestamp in microseconds has."""


def a_record(random: Random) -> Record:
    key = None if random.random() < 0.2 else random.randbytes(random.choice((0, 1, 16, 63, 64, 300)))
    value = None if random.random() < 0.2 else random.randbytes(random.choice((0, 1, 100, 100, 8191, 8192)))
    pairs = ((random.randbytes(random.randrange(3)), random.choice((None, b"", b"x" * 70))) for _ in range(70))
    count = random.choice((0, 0, 0, 1, 2, 64))
    times = (NOW_MS, NOW_MS - random.randrange(1 << 40), NOW_MS + random.randrange(1 << 20), -1, -(1 << 62), 0, LAST_MS)
    return Record(
        0, random.choice(times), key, value, tuple(pair for pair, _ in zip(pairs, range(count), strict=False))
    )


def columns_of(records: Sequence[Record]) -> RecordColumns:
    """Lay the records down in columns, with bytes in between that are nobody's."""
    table = np.zeros(len(records), NEW_RECORD)
    headers = np.zeros(sum(len(one.headers) for one in records), NEW_HEADER)
    keys, values, header_keys, header_values = (bytearray(b"?") for _ in range(4))
    first = 0
    for row, one in zip(table, records, strict=True):
        row["timestamp"], row["first_header"], row["header_count"] = one.timestamp_ms, first, len(one.headers)
        row["key_at"], row["key_bytes"] = put(keys, one.key)
        row["value_at"], row["value_bytes"] = put(values, one.value)
        for header, (key, value) in zip(headers[first:], one.headers, strict=False):
            header["key_at"], header["key_bytes"] = put(header_keys, key)
            header["value_at"], header["value_bytes"] = put(header_values, value)
        first += len(one.headers)
    in_bytes = (np.frombuffer(column, np.uint8) for column in (keys, values, header_keys, header_values))
    key_bytes, value_bytes, *of_headers = in_bytes
    return RecordColumns(table, key_bytes, value_bytes, headers, *of_headers)


def put(column: bytearray, field: bytes | None) -> tuple[int, int]:
    if field is None:
        return -7, -1
    at = len(column)
    column += field + b"?"
    return at, len(field)


def made(
    records: Sequence[Record], codec: Compression, *pieces: Sequence[int], encoder: Encoder | None = None
) -> list[bytes]:
    """Build the batches of rows that come in pieces; default: all at once."""
    builder, columns = BatchBuilder(encoder or Encoder(), codec, BATCH_BYTES, NOW_MS), columns_of(records)
    found = bytearray()
    for piece in pieces or (range(len(records)),):
        for batches in builder.add(columns, np.array(piece, np.int64)):
            found += batches
    for batches in builder.finish():
        found += batches
    return list(split(bytes(found)))


def split(data: bytes) -> Iterator[bytes]:
    while data:
        size_bytes = V2_HEADER.unpack_from(data)[1] + 12
        yield data[:size_bytes]
        data = data[size_bytes:]


def by_twin(records: Sequence[Record], codec: Compression) -> list[bytes]:
    """Close a batch as soon as its records take enough bytes."""
    closed, held = [], list[Record]()
    for one in records:
        held.append(one)
        if len(build_batch(held, NOW_MS, Compression.NONE, None)) - V2_HEADER_BYTES >= BATCH_BYTES:
            closed.append(build_batch(held, NOW_MS, codec, None))
            held = []
    return [*closed, build_batch(held, NOW_MS, codec, None)] if held else closed


def told(data: bytes) -> tuple[object, ...]:
    """Return what a batch says, but for its codec's bytes, which libraries make in more than one way."""
    header = BatchHeader._make(V2_HEADER.unpack_from(data))
    batch = Batch(header._replace(batch_length=0, crc=0), memoryview(data), "batch", 0)  # type: ignore[arg-type]
    return batch.header, batch.records(), batch._replace(header=header).is_valid_crc()


@pytest.mark.parametrize("seed", range(60))
def test_batches_are_those_of_the_twin(seed: int) -> None:
    random = Random(seed)
    records = [a_record(random) for _ in range(random.randrange(60))]
    assert b"".join(made(records, Compression.NONE)) == b"".join(by_twin(records, Compression.NONE))


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_say_what_those_of_the_twin_say(codec: Compression) -> None:
    random = Random(7)
    records = [a_record(random) for _ in range(80)]
    assert list(map(told, made(records, codec))) == list(map(told, by_twin(records, codec)))


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("seed", range(3))
def test_batches_do_not_depend_on_how_many_rows_come_at_a_time(codec: Compression, seed: int) -> None:
    random = Random(seed)
    records = [a_record(random) for _ in range(200)]
    cuts = sorted(random.randrange(len(records)) for _ in range(9))
    pieces = [range(first, end) for first, end in zip((0, *cuts), (*cuts, len(records)), strict=True)]
    shared = Encoder()
    made(records[::-1], codec, encoder=shared)  # what the codec did before leaves no trace
    whole = made(records, codec)
    assert len(whole) > 5
    assert made(records, codec, *pieces, encoder=shared) == whole


@pytest.mark.parametrize("codec", list(Compression))
def test_record_beyond_every_room_is_a_part_of_its_batch(codec: Compression) -> None:
    random = Random(1)
    records = [Record(0, NOW_MS, b"k", random.randbytes(size)) for size in (10, 3_000_000, 10, 400_000, 5)]
    found = made(records, codec)
    assert list(map(told, found)) == list(map(told, by_twin(records, codec)))
    assert len(found) == 3


def test_rows_are_taken_in_the_order_that_is_asked_for() -> None:
    records = [Record(0, NOW_MS, b"%d" % place, None) for place in range(9)]
    asked = [7, 2, 2, 0]
    assert made(records, Compression.NONE, asked) == by_twin([records[place] for place in asked], Compression.NONE)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_codec_whose_functions_were_not_found_is_done_by_the_readable_code(codec: Compression) -> None:
    random, encoder = Random(3), Encoder()
    records = [a_record(random) for _ in range(80)]
    encoder.calls.words[:16] = 0
    assert list(map(told, made(records, codec, encoder=encoder))) == list(map(told, by_twin(records, codec)))


def test_record_that_no_batch_can_hold_is_refused_before_a_byte_of_it_is_read() -> None:
    columns = columns_of([Record(0, NOW_MS, None, None)])
    columns.records["value_at"], columns.records["value_bytes"] = 0, (1 << 31) - 61
    nothing_read = np.zeros(1 << 31, np.uint8)  # the pages of an array of zeros come when they are touched
    builder = BatchBuilder(Encoder(), Compression.NONE, BATCH_BYTES, NOW_MS)
    with pytest.raises(InvalidRecord, match="more than 2147483647 bytes"):
        list(builder.add(columns._replace(values=nothing_read), np.zeros(1, np.int64)))


def test_compressed_batch_beyond_what_readers_decompress_is_refused() -> None:
    columns = columns_of([Record(0, NOW_MS, None, None)])
    columns.records["value_at"], columns.records["value_bytes"] = 0, 128 << 20
    builder = BatchBuilder(Encoder(), Compression.LZ4, BATCH_BYTES, NOW_MS)
    with pytest.raises(InvalidRecord, match="beyond 134217728 bytes"):
        list(builder.add(columns._replace(values=np.zeros(128 << 20, np.uint8)), np.zeros(1, np.int64)))


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("key_at", -1), ("key_at", WHOLE), ("key_bytes", WHOLE), ("value_at", -1), ("value_bytes", 12),
        ("value_bytes", (1 << 63) - 1), ("first_header", -1), ("first_header", 2), ("header_count", 3),
        ("header_count", -1), ("header_count", (1 << 63) - 1),
    ],
)  # fmt: skip
def test_fields_that_are_not_in_their_columns_are_not_read(field: str, number: int) -> None:
    columns = columns_of([Record(0, NOW_MS, b"k", b"value", ((b"h", b"x"),) * 2)])
    columns.records[field] = number
    with pytest.raises(AssertionError, match="columns that cannot be"):
        list(BatchBuilder(Encoder(), Compression.NONE, BATCH_BYTES, NOW_MS).add(columns, np.zeros(1, np.int64)))


@pytest.mark.parametrize("row", [-1, 1, 1 << 62])
def test_rows_that_are_not_there_are_not_read(row: int) -> None:
    columns = columns_of([Record(0, NOW_MS, b"k", b"value")])
    with pytest.raises(AssertionError, match="columns that cannot be"):
        list(BatchBuilder(Encoder(), Compression.NONE, BATCH_BYTES, NOW_MS).add(columns, np.array([row])))
