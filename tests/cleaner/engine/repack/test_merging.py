"""The arrays and kernels of a repacking agree with their readable twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cleaner.engine.repack.merging import runs_of
from policies.repacking import HeaderFacts, RepackBounds, merged
from storage.kernels.layout import BATCH
from storage.kernels.merge import merge_records
from storage.kernels.status import Status
from storage.records import Batch, encode_batch, parse_header
from tests.storage.kernels.calls import scanned, window
from tests.storage.kernels.strategies import compiled

FIELDS = {
    "base_offset": "base_offset",
    "last_offset": "last_offset",
    "size": "size_bytes",
    "record_count": "records",
    "attributes": "attributes",
    "base_timestamp": "base_timestamp_ms",
    "max_timestamp": "max_timestamp_ms",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
    "leader_epoch": "leader_epoch",
}


@st.composite
def neighbours(draw: st.DrawFn) -> list[HeaderFacts]:
    """Headers that mostly agree with the one before."""
    found: list[HeaderFacts] = []
    offset, sequence = 5, draw(st.sampled_from([0, (1 << 31) - 3]))
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 1 << 31]))
        rare = draw(st.sampled_from(["", "", "", "", "producer", "epoch", "leader", "sequence", "time", "flags"]))
        producer = 8 if rare == "producer" else 7
        found.append(
            HeaderFacts(
                offset,
                offset + 1,
                draw(st.sampled_from([61, 80, 400])),
                draw(st.sampled_from([0, 1, 2, 2, 2])),
                draw(st.sampled_from([0, 4, 8, 0x40, 0x48, 0x10, 0x20, 0x80])) if rare == "flags" else 0,
                9 if rare == "time" else 1,
                9 if rare == "time" else 1,
                producer,
                1 if rare == "epoch" else 0,
                -1 if rare == "sequence" else (sequence + offset - 5) % (1 << 31),
                1 if rare == "leader" else 0,
            )
        )
        offset += 2
    return found


@given(
    neighbours(), st.booleans(), st.integers(0, 40), st.sampled_from([61, 300, 1 << 20]), st.sets(st.integers(5, 30))
)
def test_the_arrays_find_the_runs_of_the_policy(
    batches: list[HeaderFacts], any_codec: bool, stable: int, room: int, kept: set[int]
) -> None:
    table = np.zeros(len(batches), BATCH)
    for name, attribute in FIELDS.items():
        table[name] = [getattr(batch, attribute) for batch in batches]
    bounds = RepackBounds(stable, frozenset(kept), room)
    found = list(runs_of(table, bounds, np.array(sorted(kept), np.int64), any_codec=any_codec))
    assert found == merged(batches, bounds, any_codec=any_codec)


def readable(data: bytes) -> list[Batch]:
    batches, at = [], 0
    while at < len(data):
        header = parse_header(memoryview(data), at, Path("here"))
        size = header.batch_length + 12
        batches.append(Batch(header, memoryview(data)[at : at + size], Path("here"), at))
        at += size
    return batches


@compiled
@given(st.lists(st.lists(st.integers(-5, 70_000), min_size=1, max_size=4), min_size=1, max_size=5), st.integers(0, 200))
def test_the_kernel_writes_the_records_of_one_batch(times: list[list[int]], hole: int) -> None:
    from storage.records import Record

    offset, encoded = 100, b""
    for stamps in times:
        records = [Record(offset + n, t, b"k" * (n % 3), b"v" * (t % 90), ()) for n, t in enumerate(stamps)]
        encoded += encode_batch(records)
        offset += len(stamps) + hole
    every = [record for batch in readable(encoded) for record in batch.records()]
    found, out = scanned(encoded), np.zeros(10_000, np.uint8)
    base_ms = every[0].timestamp_ms
    status, _, end = merge_records(window(encoded), found.table, 0, len(times), 100, base_ms, out, 0)
    assert status == Status.OK
    plain = [replace(record, sequence=-1) for record in every]
    assert out[:end].tobytes() == encode_batch(plain)[61:]
    assert merge_records(window(encoded), found.table, 0, len(times), 100, base_ms, out[: end - 1], 0)[0] in (
        Status.OUTPUT_FULL,
    )


def test_records_that_are_not_there_are_refused() -> None:
    from storage.records import Record

    data = encode_batch([Record(3, 5, b"a", b"b", ())])
    found, out = scanned(data), np.zeros(100, np.uint8)
    assert merge_records(window(data), found.table, 0, 1, 4, 0, out, 0)[0] == Status.BAD_OFFSETS
    found.table["records_start"] = -1
    assert merge_records(window(data), found.table, 0, 1, 3, 0, out, 0)[0] == Status.NEEDS_RECORDS
    found.table["records_start"], found.table["records_end"] = 0, len(data) + 1
    assert merge_records(window(data), found.table, 0, 1, 3, 0, out, 0)[0] == Status.BAD_SIZE
