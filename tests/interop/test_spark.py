"""What a Spark job wrote, Kafka opens as its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from cleaner.arrow.schema import HEADERS, TIMESTAMP
from cleaner.spark.table.sink import KafkaLogWriter
from tests.interop.clients import record_of
from tests.interop.referee import Referee
from tests.partition_dirs import NOW_MS
from tests.spark.tables import read

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
