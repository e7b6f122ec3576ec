"""Index files held against the log: what leads readers right is healthy, however Kafka's versions write it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from storage.anomalies import Anomaly, CheckedSegment
from storage.log.listing import list_partition
from storage.records import Record, encode_batch
from storage.scan.segment_contents import read_segment_contents
from storage.scan.walking import Hand
from tests.partition_dirs import NOW_MS

BASE = 100
BATCHES = tuple(
    encode_batch([Record(BASE + 10 * number + place, NOW_MS + number, b"k", b"v") for place in range(3)])
    for number in range(5)
)
STARTS = tuple(sum(map(len, BATCHES[:number])) for number in range(len(BATCHES) + 1))
LAST_OFFSETS = tuple(10 * number + 2 for number in range(5))
"""Relative to the base."""


class Drawn:
    """A segment whose index files are drawn entry by entry."""

    def __init__(self, directory: Path) -> None:
        self.stem = directory / "orders-0" / f"{BASE:020d}"
        self.stem.parent.mkdir()
        self.stem.with_suffix(".log").write_bytes(b"".join(BATCHES))

    def read(
        self,
        index: tuple[tuple[int, int], ...] = (),
        times: tuple[tuple[int, int], ...] | None = None,
        tail: bytes = b"",
        log: bytes | None = None,
    ) -> CheckedSegment:
        if log is not None:
            self.stem.with_suffix(".log").write_bytes(log)
        times = ((NOW_MS + 4, LAST_OFFSETS[4]),) if times is None else times
        self.stem.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *one) for one in index) + tail)
        self.stem.with_suffix(".timeindex").write_bytes(b"".join(struct.pack(">qi", *one) for one in times) + tail)
        (segment,) = list_partition(self.stem.parent).segments
        return read_segment_contents(segment, None, Hand(), lambda _: None, is_deep=True)

    def anomalies(self, *args: object, **kwargs: object) -> list[Anomaly]:
        return [one.anomaly for one in self.read(*args, **kwargs).seen]  # type: ignore[arg-type]


@pytest.fixture
def drawn(tmp_path: Path) -> Drawn:
    return Drawn(tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param((LAST_OFFSETS[2], STARTS[2]), id="last offset of its batch, as Kafka has it"),
        pytest.param((20, STARTS[2]), id="first offset of its batch, as before 0.10.1"),
        pytest.param((LAST_OFFSETS[3], STARTS[2]), id="last offset of several that were appended together"),
    ],
)
def test_an_entry_that_leads_readers_right_is_healthy(drawn, entry):
    assert drawn.anomalies((entry,)) == []


@pytest.mark.parametrize(
    ("index", "anomaly"),
    [
        (((22, STARTS[2] + 1),), Anomaly.ENTRY_ASTRAY),
        (((22, STARTS[5]),), Anomaly.ENTRY_BEYOND),
        (((22, STARTS[5] + 4000),), Anomaly.ENTRY_BEYOND),
        (((12, STARTS[2]),), Anomaly.ENTRY_SKIPS),
        (((23, STARTS[2]),), Anomaly.ENTRY_OFFSET),
        (((4000, STARTS[2]),), Anomaly.ENTRY_OFFSET),
        (((42, STARTS[1]), (43, STARTS[2])), Anomaly.ENTRY_OFFSET),
        (((32, STARTS[2]), (42, STARTS[3])), Anomaly.ENTRY_OFFSET),
        (((22, STARTS[2]), (12, STARTS[3])), Anomaly.ENTRY_ORDER),
        (((22, STARTS[2]), (32, STARTS[1])), Anomaly.ENTRY_ORDER),
        (((-5, STARTS[2]),), Anomaly.ENTRY_ORDER),
    ],
)
def test_an_entry_that_leads_astray_is_seen(drawn, index, anomaly):
    assert anomaly in drawn.anomalies(index)


@pytest.mark.parametrize(
    ("times", "anomaly"),
    [
        (((NOW_MS + 1, 12), (NOW_MS + 4, 42)), None),
        (((NOW_MS + 1, 11), (NOW_MS + 4, 40)), None),
        (((NOW_MS + 1, 32), (NOW_MS + 4, 42)), Anomaly.TIME_SKIPS),
        (((NOW_MS + 1, 2), (NOW_MS + 4, 42)), Anomaly.TIME_UNKNOWN),
        (((NOW_MS + 4, 42), (NOW_MS + 1, 42)), Anomaly.TIME_ORDER),
        (((NOW_MS + 1, 12), (NOW_MS + 4, 11)), Anomaly.TIME_ORDER),
        (((NOW_MS + 4, 42), (NOW_MS + 9, 50)), Anomaly.TIME_BEYOND),
        (((NOW_MS + 1, 12),), Anomaly.TIME_END),
        ((), Anomaly.TIME_END),
    ],
)
def test_a_time_index_is_exact(drawn, times, anomaly):
    assert drawn.anomalies(times=times) == ([] if anomaly is None else [anomaly])


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (0, f"it has no entry, and the largest timestamp of the segment is {NOW_MS + 4}"),
        (1, f"its last entry has timestamp {NOW_MS}, and the largest timestamp of the segment is {NOW_MS + 4}"),
        (3, f"its last entry has timestamp {NOW_MS + 2}, and the largest timestamp of the segment is {NOW_MS + 4}"),
    ],
)
def test_a_time_index_that_ends_early_is_told_at_its_last_entry(drawn, entries, text):
    times = tuple((NOW_MS + number, LAST_OFFSETS[number]) for number in range(entries))
    (seen,) = [one for one in drawn.read(times=times).seen if one.anomaly is Anomaly.TIME_END]
    assert (seen.position, seen.offset, seen.text) == (12 * max(entries - 1, 0), None, text)


def test_zeros_and_cut_entries_are_seen(drawn):
    assert drawn.anomalies(tail=bytes(24)) == [Anomaly.ENTRIES_ZERO, Anomaly.TIMES_ZERO]
    assert drawn.anomalies(tail=b"12345") == [Anomaly.ENTRY_CUT, Anomaly.TIMES_CUT]


def test_a_preallocated_index_is_read_as_far_as_it_has_data(drawn, tmp_path):
    drawn.read()
    with drawn.stem.with_suffix(".index").open("r+b") as file:
        file.truncate(10 << 20)
    (segment,) = list_partition(drawn.stem.parent).segments
    seen = read_segment_contents(segment, None, Hand(), lambda _: None, is_deep=False).seen
    assert [(one.anomaly, one.position) for one in seen] == [(Anomaly.ENTRIES_ZERO, 0)]


def test_a_segment_whose_largest_timestamp_is_0_has_an_entry_of_zeros(drawn):
    log = encode_batch([Record(BASE, 0, b"k", b"v")])
    assert drawn.anomalies(times=((0, 0),), log=log) == []


def test_an_index_without_entries_for_a_mebibyte_is_sparse(drawn):
    log = b"".join(encode_batch([Record(BASE + number, NOW_MS, b"k", bytes(1 << 18))]) for number in range(8))
    assert drawn.anomalies(times=((NOW_MS, 0),), log=log) == [Anomaly.ENTRIES_FEW]
    assert drawn.anomalies(((4, 4 * len(log) // 8),), times=((NOW_MS, 0),), log=log) == []


def test_an_emptied_index_beside_a_time_index_with_entries_is_seen_however_small_the_log(drawn):
    assert drawn.anomalies((), times=((NOW_MS, 2), (NOW_MS + 1, 12), (NOW_MS + 4, 42))) == [Anomaly.ENTRIES_FEW]
    assert drawn.anomalies((), times=((NOW_MS + 1, 12), (NOW_MS + 4, 42))) == []


def test_entries_of_a_damaged_batch_are_not_judged(drawn):
    log = bytearray(b"".join(BATCHES))
    log[STARTS[2] + 70] ^= 1
    assert drawn.anomalies(((22, STARTS[2]),), log=bytes(log)) == [Anomaly.CRC]


def test_offsets_that_do_not_fit_are_not_held_against_the_indexes(drawn):
    astray = encode_batch([Record(BASE + (1 << 20), NOW_MS + 9, b"k", b"v")])
    log = b"".join([BATCHES[0], astray, *BATCHES[1:]])
    assert drawn.anomalies(((42, STARTS[4] + len(astray)),), log=log) == [Anomaly.OFFSET_BACK]


def test_records_are_read_where_it_is_asked_for(drawn):

    wrong = bytearray(BATCHES[1])
    wrong[61] = 0x7E  # the length of the first record
    wrong[17:21] = struct.pack(">I", crc32c(bytes(wrong[21:])))
    log = b"".join([BATCHES[0], wrong, *BATCHES[2:]])
    assert drawn.anomalies(log=log) == [Anomaly.RECORDS]


def test_absent_index_files_are_told(drawn):
    drawn.read()
    drawn.stem.with_suffix(".index").unlink()
    (segment,) = list_partition(drawn.stem.parent).segments
    found = read_segment_contents(segment, None, Hand(), lambda _: None, is_deep=False)
    assert ([kind.value for kind in found.missing], found.seen) == ([".index"], ())
