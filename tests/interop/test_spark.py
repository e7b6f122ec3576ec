"""What a Spark job wrote, Kafka opens as its own."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.arrow.schema import HEADERS, TIMESTAMP
from cleaner.spark.table.sink import KafkaLogWriter
from tests.faults import CrashingFileSystem, PowerCut
from tests.interop.clients import record_of
from tests.interop.referee import Referee
from tests.interop.verdicts import Log
from tests.partition_dirs import NOW_MS
from tests.sampled import some
from tests.spark.tables import read
from tests.spark.test_append_batch import AFTER, CLICKS, NEW, ORDERS, append, drawn, keys, place, steps_of

__all__ = ["place"]

pytestmark = pytest.mark.kafka

COLUMNS = pa.schema({"key": pa.binary(), "value": pa.binary(), "timestamp": TIMESTAMP, "headers": HEADERS})
RECORDS = 3000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("shutdown", ["auto", "unclean"])
def test_kafka_reads_what_was_written(referee: Referee, tmp_path: Path, codec: str, shutdown: str) -> None:
    options = {"path": str(tmp_path), "topic": "written", "compression": codec, "segment.bytes": "20000"}
    writer = KafkaLogWriter(options, from_arrow_schema(COLUMNS), overwrite=False)
    writer.commit([writer.write(iter([_batch(half)])) for half in range(2)])
    rows = [record_of(row) for row in read(tmp_path)]
    (log,) = referee.read([tmp_path / "written-0"], shutdown=shutdown, checkpoints=True)  # type: ignore[arg-type]
    assert list(log.records()) == rows
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, RECORDS, RECORDS)
    assert len(log.segments) > 1
    assert {batch.codec for batch in log.batches()} == {codec}


@pytest.mark.parametrize("shutdown", ["auto", "unclean"])
def test_kafka_reads_what_a_stream_appended(referee: Referee, tmp_path: Path, shutdown: str) -> None:
    log_dir = drawn(tmp_path / "data")
    append(log_dir)
    append(log_dir, {ORDERS: ["o5"], NEW: ["n2"]}, number=8)
    after = AFTER | {ORDERS: [*AFTER[ORDERS], (7, "o5")], NEW: [*AFTER[NEW], (1, "n2")]}
    ends = {ORDERS: 8, CLICKS: 8, NEW: 2}
    logs = referee.read([log_dir / str(name) for name in after], shutdown=shutdown, checkpoints=True)  # type: ignore[arg-type]
    for (name, told), log in zip(after.items(), logs, strict=True):
        assert told_by(log) == told
        assert (log.log_end_offset, log.high_watermark) == (ends[name], ends[name])


@pytest.mark.parametrize("shutdown", ["auto", "unclean"])
def test_kafka_opens_what_a_stopped_commit_left(referee: Referee, place: Path, shutdown: str) -> None:
    """It finds what was there, and of the batch what we find; behind Kafka's start the next commit goes on."""
    for step in some(steps_of(place), 6):
        log_dir = drawn(place)
        with suppress(PowerCut):
            append(log_dir, fs=CrashingFileSystem(step))
        found = keys(log_dir)
        logs = referee.read([log_dir / str(name) for name in found], shutdown=shutdown)  # type: ignore[arg-type]
        for told, log in zip(found.values(), logs, strict=True):
            assert told_by(log) == told
        append(log_dir)
        assert keys(log_dir) == AFTER
        shutil.rmtree(log_dir)


def told_by(log: Log) -> list[tuple[int, str]]:
    return [(record.offset, bytes.fromhex(record.key or "").decode()) for record in log.records()]


def _batch(half: int) -> pa.RecordBatch:
    rows = [
        {
            "key": f"k{place}".encode() if place % 5 else None,
            "value": place.to_bytes(4, "big") * 9 if place % 7 else None,
            "timestamp": (NOW_MS + place) * 1000,
            "headers": [{"key": "h", "value": None}] if place % 3 == 0 else None,
        }
        for place in range(half * RECORDS // 2, (half + 1) * RECORDS // 2)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=COLUMNS)
