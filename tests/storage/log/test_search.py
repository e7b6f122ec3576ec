"""Lookups by offset and by timestamp: what is found, what is read, and what a wrong index does."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from storage.errors import CorruptBatch
from storage.log.listing import list_partition
from storage.log.read import read_batches
from storage.log.search import LogSearch, Lookup, LookupOutcome, StepBasis, StepKind
from storage.records import Record, encode_batch
from tests.partition_dirs import NOW_MS, PartitionDir, keyed

SEGMENT_BYTES = 1 << 30
SEGMENTS = 10
STRIDE = 8192
"""Bytes between two batches that the offset index of a large segment knows."""
ENTRIES = SEGMENT_BYTES // STRIDE


def search(directory: Path, log_start_offset: int = 0) -> LogSearch:
    return LogSearch(list_partition(directory).segments, log_start_offset)


def told(found: Lookup) -> tuple[int, int] | None:
    """The offset and the timestamp of the record that was found."""
    return found.record and (found.record.offset, found.record.timestamp_ms)


def kinds(found: Lookup) -> list[StepKind]:
    return [step.look for step in found.steps]


@pytest.fixture
def indexed(tmp_path: Path) -> PartitionDir:
    """Forty batches of two records, of which the indexes know every fourth; the second segment is empty."""
    made = PartitionDir(tmp_path)
    batches = [keyed(2 * n, f"a-{n}=1", f"b-{n}=2", timestamp_ms=NOW_MS + 1000 * n) for n in range(40)]
    positions = [sum(map(len, batches[:n])) for n in range(40)]
    made.segment(0, *batches).segment(80)
    made.log(0).with_suffix(".index").write_bytes(
        b"".join(struct.pack(">ii", 2 * n + 1, positions[n]) for n in range(4, 40, 4))
    )
    made.log(0).with_suffix(".timeindex").write_bytes(
        b"".join(struct.pack(">qi", NOW_MS + 1000 * n, 2 * n + 1) for n in (*range(4, 40, 4), 39))
    )
    return made


def test_offset_is_found_by_segment_map_index_and_scan(indexed: PartitionDir) -> None:
    found = search(indexed.path).by_offset(21)
    assert kinds(found) == [StepKind.SEGMENT_MAP, StepKind.OFFSET_INDEX, StepKind.SCAN]
    assert found.batch is not None
    assert (found.outcome, found.batch.base_offset, found.record and found.record.offset) == ("found", 20, 21)
    _, index, scan = found.steps
    assert (index.entry, index.position, index.offset, index.leads_to) == (1, 8, 17, found.batch.position // 10 * 8)
    assert (scan.looked_at, scan.position) == (3, found.batch.position)


@pytest.mark.parametrize(
    ("offset", "has_index", "source"),
    [(8, True, StepBasis.NO_ENTRY), (9, True, StepBasis.ENTRY), (9, False, StepBasis.NO_INDEX)],
)
def test_offset_below_every_entry_is_scanned_for_from_the_beginning(
    indexed: PartitionDir, offset: int, has_index: bool, source: StepBasis
) -> None:
    if not has_index:
        indexed.log(0).with_suffix(".index").unlink()
    found = search(indexed.path).by_offset(offset)
    _, index, scan = found.steps
    assert (index.source, bool(index.leads_to)) == (source, source is StepBasis.ENTRY)
    assert (scan.looked_at, told(found)) == (1 if index.leads_to else 5, (offset, NOW_MS + 4000))


def test_timestamp_is_found_by_largest_timestamp_time_index_offset_index_and_scan(indexed: PartitionDir) -> None:
    found = search(indexed.path).by_timestamp(NOW_MS + 13_500)
    assert kinds(found) == [StepKind.LARGEST_TIMESTAMP, StepKind.TIME_INDEX, StepKind.OFFSET_INDEX, StepKind.SCAN]
    assert told(found) == (28, NOW_MS + 14_000)
    assert [step.source for step in found.steps] == [StepBasis.ENTRY] * 3 + [StepBasis.BATCHES]


@pytest.mark.parametrize(
    ("look", "outcome"),
    [
        (lambda s: s.by_offset(80), LookupOutcome.LOG_END),
        (lambda s: s.by_offset(81), LookupOutcome.BEYOND_END),
        (lambda s: s.by_offset(5), LookupOutcome.BELOW_START),
        (lambda s: s.by_timestamp(NOW_MS + 10**9), LookupOutcome.NONE_AS_LATE),
        (lambda s: s.start(), LookupOutcome.LOG_START),
        (lambda s: s.end(), LookupOutcome.LOG_END),
    ],
)
def test_what_is_not_there_has_its_answer(
    indexed: PartitionDir, look: Callable[[LogSearch], Lookup], outcome: LookupOutcome
) -> None:
    found = look(search(indexed.path, 7))
    assert (found.outcome, found.batch, found.log_start_offset) == (outcome, None, 7)
    assert found.log_end_offset in (None, 80)


def test_record_below_the_log_start_is_not_found_by_its_time(indexed: PartitionDir) -> None:
    assert told(search(indexed.path, 31).by_timestamp(0)) == (31, NOW_MS + 15_000)


def test_newest_record_is_the_first_with_the_largest_timestamp(indexed: PartitionDir) -> None:
    assert told(search(indexed.path).newest()) == (78, NOW_MS + 39_000)


@pytest.mark.parametrize("unindexed", range(1, 7))
def test_newest_record_is_found_behind_any_number_of_batches_that_no_index_knows(
    tmp_path: Path, unindexed: int
) -> None:
    made = PartitionDir(tmp_path)
    batches = [keyed(n, f"a-{n}=1", timestamp_ms=NOW_MS + 1000 * n) for n in range(7)]
    known = 6 - unindexed
    made.segment(0, *batches)
    made.log(0).with_suffix(".index").write_bytes(struct.pack(">ii", known, sum(map(len, batches[:known]))))
    made.log(0).with_suffix(".timeindex").write_bytes(struct.pack(">qi", NOW_MS + 1000 * known, known))
    assert told(search(tmp_path / made.path.name).newest()) == (6, NOW_MS + 6000)


@pytest.mark.parametrize("end", range(1, 7))
@pytest.mark.parametrize("start", range(6))
def test_batches_of_a_range_are_those_that_reach_into_it(tmp_path: Path, start: int, end: int) -> None:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "a=1"), keyed(1, "a=1", "b=1"), keyed(3, "c=1"))
    made.segment(4, keyed(4, "a=1"), keyed(5, "a=1"))
    found = read_batches(list_partition(made.path).segments, start, end)
    spans = [(0, 0), (1, 2), (3, 3), (4, 4), (5, 5)]
    assert [(batch.base_offset, batch.last_offset) for batch in found] == [
        (first, last) for first, last in spans if first < end and last >= start
    ]


@pytest.mark.parametrize("damage", ["position", "offset", "garbage", "cut", "missing", "zeros"])
def test_wrong_index_costs_a_longer_scan_and_nothing_else(indexed: PartitionDir, damage: str) -> None:
    path = indexed.log(0).with_suffix(".index")
    data = path.read_bytes()
    match damage:
        case "position":
            path.write_bytes(b"".join(struct.pack(">ii", o, p + 1) for o, p in struct.iter_unpack(">ii", data)))
        case "offset":
            path.write_bytes(b"".join(struct.pack(">ii", o - 1, p) for o, p in struct.iter_unpack(">ii", data)))
        case "garbage":
            path.write_bytes(Random(1).randbytes(len(data)))
        case "cut":
            path.write_bytes(data[:11])
        case "missing":
            path.unlink()
        case "zeros":
            path.write_bytes(data + bytes(1 << 16))
    for offset in range(80):
        found = search(indexed.path).by_offset(offset)
        assert found.record is not None
        assert found.record.offset == offset


def test_what_is_torn_at_the_end_is_behind_the_log_end(indexed: PartitionDir) -> None:
    torn = keyed(80, "c=1", "d=2")[:-3]
    indexed.log(80).write_bytes(keyed(80, "a=1") + torn)
    assert search(indexed.path).by_offset(81).outcome is LookupOutcome.LOG_END
    indexed.log(80).write_bytes(keyed(80, "a=1") + bytes(4096))
    assert search(indexed.path).by_offset(82).outcome is LookupOutcome.BEYOND_END


def test_damage_in_a_closed_segment_is_an_error(indexed: PartitionDir) -> None:
    size = indexed.log(0).stat().st_size
    with indexed.log(0).open("r+b") as file:
        file.seek(size // 2 + 8)
        file.write(b"\xff" * 64)
    with pytest.raises(CorruptBatch):
        search(indexed.path).by_offset(42)


def test_record_that_compaction_took_is_followed_by_the_next_one(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path).segment(
        0, encode_batch([Record(3, NOW_MS, b"a", b"1"), Record(9, NOW_MS, b"b", b"2")])
    )
    found = search(made.path).by_offset(5)
    assert told(found) == (9, NOW_MS)


def a_stride(first_offset: int, time_ms: int) -> bytes:
    """A batch of ten records that fills a stride to the byte."""
    for padding in range(STRIDE - 250, STRIDE):
        values = [b"v"] * 9 + [bytes(padding)]
        records = [Record(first_offset + k, time_ms + k, b"key", value) for k, value in enumerate(values)]
        if len(batch := encode_batch(records)) == STRIDE:
            return batch
    raise AssertionError(first_offset)


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """Ten sparse segments of 1 GiB. An index entry leads to every 8 KiB, and two batches lie in the middle."""
    directory = tmp_path / "huge-0"
    directory.mkdir()
    for number in range(SEGMENTS):
        base = number * ENTRIES * 10
        with (directory / f"{base:020d}.log").open("wb") as log:
            for entry in (ENTRIES // 2 - 1, ENTRIES // 2):
                log.seek(entry * STRIDE)
                log.write(a_stride(base + entry * 10, NOW_MS + base + entry * 10))
            log.truncate(SEGMENT_BYTES)
        entries = range(1, ENTRIES)
        offsets = b"".join(struct.pack(">ii", n * 10 + 9, n * STRIDE) for n in entries)
        times = b"".join(struct.pack(">qi", NOW_MS + base + n * 10 + 9, n * 10 + 9) for n in entries)
        (directory / f"{base:020d}.index").write_bytes(offsets)
        (directory / f"{base:020d}.timeindex").write_bytes(times)
    return directory


def test_lookup_in_10_gib_reads_a_few_kilobytes(huge: Path) -> None:
    segments = list_partition(huge).segments
    assert sum(segment.size_bytes for segment in segments) == 10 << 30
    base = 7 * ENTRIES * 10
    wanted = base + ENTRIES // 2 * 10 + 4
    found = search(huge).by_offset(wanted)
    assert told(found) == (wanted, NOW_MS + wanted)
    assert found.bytes_read < 21_000
    found = search(huge).by_timestamp(NOW_MS + wanted)
    assert told(found) == (wanted, NOW_MS + wanted)
    assert found.bytes_read < 22_000


def test_bytes_read_are_those_that_the_system_counts(indexed: PartitionDir, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    pread = os.pread

    def counting(descriptor: int, size: int, position: int) -> bytes:
        nonlocal counted
        data = pread(descriptor, size, position)
        counted += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    for look in (lambda s: s.by_offset(41), lambda s: s.by_timestamp(NOW_MS + 13_500), LogSearch.newest, LogSearch.end):
        counted = 0
        assert look(search(indexed.path)).bytes_read == counted
