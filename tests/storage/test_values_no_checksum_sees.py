"""Values that are wrong though the file's checksum is right, or where the file has none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from storage.errors import CorruptIndex
from storage.indexes import (
    last_offset_index_entry,
    last_time_index_entry,
    parse_offset_index,
    parse_time_index,
)
from storage.log.producer_state import BatchMetadata, CorruptSnapshot, ProducerEntry, format_snapshot, parse_snapshot

PATH = Path("00000000000000000100.snapshot")
ENTRIES = 3


def a_snapshot(count: int, entries: int = ENTRIES) -> bytes:
    """Return a snapshot that says it has ``count`` entries, with the right checksum."""
    whole = format_snapshot(_producer(id_) for id_ in range(entries))
    body = struct.pack(">i", count) + whole[10:]
    return whole[:2] + struct.pack(">I", crc32c(body)) + body


def _producer(id_: int) -> ProducerEntry:
    entry = ProducerEntry(id_, epoch=1, last_timestamp_ms=5)
    entry.batches.append(BatchMetadata(9, 100 + id_, 9, 5))
    return entry


def test_snapshot_with_the_right_count_is_read():
    assert [entry.producer_id for entry in parse_snapshot(a_snapshot(ENTRIES), PATH)] == [0, 1, 2]


@pytest.mark.parametrize("count", [-(1 << 31), -1, 0, ENTRIES - 1, ENTRIES + 1, (1 << 31) - 1])
def test_snapshot_with_a_wrong_count_under_a_right_checksum_is_corrupt(count):
    with pytest.raises(CorruptSnapshot, match=f"do not hold {count} entries"):
        parse_snapshot(a_snapshot(count), PATH)


def test_empty_snapshot_that_says_it_has_minus_one_entry_is_corrupt():
    with pytest.raises(CorruptSnapshot, match="do not hold -1 entries"):
        parse_snapshot(a_snapshot(-1, entries=0), PATH)


OFFSET_ENTRIES = {
    "offset": [(-1, 0)],
    "position": [(1, -1)],
    "both": [(-1, -1)],
    "a later offset": [(1, 10), (-1, 20)],
    "a later position": [(1, 10), (2, -1)],
}
TIME_ENTRIES = {
    "timestamp": [(-1, 0)],
    "offset": [(1, -1)],
    "both": [(-1, -1)],
    "a later timestamp": [(1, 1), (-1, 2)],
    "a later offset": [(1, 1), (2, -1)],
}


@pytest.mark.parametrize("entries", OFFSET_ENTRIES.values(), ids=OFFSET_ENTRIES)
def test_offset_index_entry_of_minus_one_is_corrupt(tmp_path, entries):
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    path = tmp_path / "00000000000000000100.index"
    path.write_bytes(data)
    with pytest.raises(CorruptIndex):
        parse_offset_index(data, 100, path)
    with pytest.raises(CorruptIndex, match="negative entry"):
        last_offset_index_entry(path, 100)


@pytest.mark.parametrize("entries", TIME_ENTRIES.values(), ids=TIME_ENTRIES)
def test_time_index_entry_of_minus_one_is_corrupt(tmp_path, entries):
    data = b"".join(struct.pack(">qi", *entry) for entry in entries)
    path = tmp_path / "00000000000000000100.timeindex"
    path.write_bytes(data)
    with pytest.raises(CorruptIndex):
        parse_time_index(data, 100, path)
    with pytest.raises(CorruptIndex, match="negative entry"):
        last_time_index_entry(path, 100)


@pytest.mark.parametrize("entry", [(0, 0), (0, 5)])
def test_time_index_entry_of_zero_is_an_entry(tmp_path, entry):
    path = tmp_path / "00000000000000000100.timeindex"
    path.write_bytes(struct.pack(">qi", *entry))
    assert last_time_index_entry(path, 100) == (entry[0], 100 + entry[1])
