"""The first record of a batch that is as late: the kernel's answer, its readable twin's, and damaged records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs import finding
from storage.codecs.compression import Compression
from storage.errors import CorruptBatch
from storage.records import Batch, Record, encode_batch, iter_batches
from storage.records.as_late import first_as_late, read_as_late
from storage.records.encode import encode_empty_batch

NOW_MS = 1_700_000_000_000


def batch_of(data: bytes) -> Batch:
    (batch,) = iter_batches(data, Path("a.log"))
    assert isinstance(batch, Batch)
    return batch


drawn_records = st.lists(
    st.tuples(st.integers(0, 50), st.none() | st.binary(max_size=200), st.integers(1, 3)), min_size=1, max_size=40
)


@given(drawn_records, st.sampled_from(Compression), st.booleans(), st.data())
def test_it_is_the_one_that_reading_all_records_finds(
    drawn: list[tuple[int, bytes | None, int]], codec: Compression, is_log_append_time: bool, data: st.DataObject
) -> None:
    records, offset = [], 90
    for delta_ms, value, step in drawn:
        offset += step
        records.append(Record(offset, NOW_MS + delta_ms, b"k", value, ((b"h", value),)))
    at_ms = NOW_MS + 25 if is_log_append_time else None
    batch = batch_of(encode_batch(records, compression=codec, log_append_time_ms=at_ms))
    wanted_ms = NOW_MS + data.draw(st.integers(-1, 51))
    start_offset = data.draw(st.integers(80, offset + 2))
    expected = [(r.timestamp_ms, r.offset) for r in batch.records()]
    expected = [one for one in expected if one[0] >= wanted_ms and one[1] >= start_offset]
    assert first_as_late(batch, wanted_ms, start_offset) == (expected[0] if expected else None)


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 20))
def test_on_any_bytes_the_kernel_finds_what_its_twin_finds_or_nothing(payload: bytes, at: int, wanted: int) -> None:
    """It may refuse what the twin takes: then the twin has the last word."""
    records = [Record(n, NOW_MS + n, b"k", b"v" * 9) for n in range(20)]
    data = bytearray(encode_batch(records))
    at = 61 + min(at, len(data) - 62)
    data[at : at + len(payload)] = payload[: len(data) - at]
    batch = batch_of(bytes(data))
    header = batch.header
    found = finding.find_as_late(
        batch.payload, 20, header.last_offset_delta, header.base_timestamp_ms, NOW_MS + wanted, 0
    )
    if found is None:
        return
    from storage.records.v2 import iter_records

    twin = read_as_late(iter_records(batch.payload, header), NOW_MS + wanted, 0)
    delta, found_ms = found
    assert twin == ((found_ms, header.base_offset + delta) if delta >= 0 else None)


def test_without_kernels_the_twin_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_finding", lambda: None)
    batch = batch_of(encode_batch([Record(n, NOW_MS + n, None, b"v") for n in range(50)]))
    assert first_as_late(batch, NOW_MS + 33, 0) == (NOW_MS + 33, 33)
    assert first_as_late(batch, NOW_MS, 7) == (NOW_MS + 7, 7)
    assert first_as_late(batch, NOW_MS + 50, 0) is None


def test_damage_behind_the_record_is_not_looked_at_and_in_front_of_it_is_an_error() -> None:
    whole = encode_batch([Record(n, NOW_MS + n, None, b"v" * 20) for n in range(30)])
    batch = batch_of(whole[:-300] + b"\xff" * 300)
    assert first_as_late(batch, NOW_MS + 5, 0) == (NOW_MS + 5, 5)
    with pytest.raises(CorruptBatch):
        first_as_late(batch, NOW_MS + 29, 0)


def test_a_batch_without_records_has_none() -> None:
    emptied = batch_of(encode_empty_batch(batch_of(encode_batch([Record(0, NOW_MS, None, b"v")])).header))
    assert first_as_late(emptied, 0, 0) is None
