from __future__ import annotations

import numpy as np
import pytest

from storage.kernels import decide, rebuild
from storage.kernels.status import Status
from tests.storage.kernels.bytes_of import Batch, Record, keyed, sealed
from tests.storage.kernels.calls import bits_of, scanned, window


def test_a_decompressed_batch_is_encoded_and_sealed_with_its_codec() -> None:
    arena = b"".join(record.encode() for record in keyed("a", "b", "c"))
    data = sealed(Batch((), attributes=4, last_offset_delta=2), b"zstd", 3)
    found, bits, out = scanned(data), bits_of({1, 2}, 3), np.zeros(500, np.uint8)
    found.table["records_start"], found.table["records_end"] = 0, len(arena)
    decide.decide_batches(window(arena), found.table, 0, 1, bits, 0)
    status, end, kept, base, latest = rebuild.encode_records(window(arena), found.table, 0, bits, 0, 0, out, 61)
    assert (status, kept, base, latest) == (Status.OK, 2, 1010, 1020)
    assert rebuild.write_header(out, 0, end, found.table, 0, kept, base, latest) == Status.OK
    moved = (Record(b"b", b"vvvv", 1, 0), Record(b"c", b"vvvvv", 2, 10))
    payload = b"".join(record.encode() for record in moved)
    assert out[:end].tobytes() == sealed(
        Batch(moved, attributes=4, base_timestamp=1010, max_timestamp=1020), payload, 2
    )


@pytest.mark.parametrize("room", range(40))
def test_encoding_into_too_little_room_is_refused(room: int) -> None:
    data = Batch(keyed("a", "b")).encode()
    found, bits, out = scanned(data), bits_of({0, 1}, 2), np.full(60, 0xEE, np.uint8)
    status, end, *_ = rebuild.encode_records(window(data), found.table, 0, bits, 0, 0, out[:room], 0)
    assert status == (Status.OK if room >= 36 else Status.OUTPUT_FULL)
    assert end <= room
    assert (out[room:] == 0xEE).all()


@pytest.mark.parametrize(
    ("position", "size", "row", "status"),
    [
        (0, 60, 0, Status.BAD_SIZE),
        (0, 2**31 + 12, 0, Status.BAD_SIZE),
        (0, 61, 1, Status.BAD_SIZE),
        (0, 61, -1, Status.BAD_SIZE),
        (40, 61, 0, Status.OUTPUT_FULL),
        (-1, 61, 0, Status.OUTPUT_FULL),
        (39, 61, 0, Status.OK),
    ],
)
def test_a_header_is_only_written_where_it_fits(position: int, size: int, row: int, status: Status) -> None:
    found, out = scanned(Batch(keyed("a")).encode()), np.zeros(100, np.uint8)
    assert rebuild.write_header(out, position, size, found.table, row, 0, -1, -1) == status


def test_a_bitmap_too_short_for_a_batch_is_refused() -> None:
    data = Batch(keyed("a", "b")).encode()
    found = scanned(data)
    found.table["first_ordinal"] = 63
    assert decide.decide_batches(window(data), found.table, 0, 1, bits_of(set(), 64), 0) == (
        Status.BITMAP_SHORT,
        0,
    )
    out = np.zeros(100, np.uint8)
    result = rebuild.encode_records(window(data), found.table, 0, bits_of(set(), 64), 0, 0, out, 0)
    assert result[0] == Status.BITMAP_SHORT
