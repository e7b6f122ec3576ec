"""Every record of log dirs that real brokers wrote is read as the readable reader has it, in every field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.log.listing import list_partition
from storage.names import parse_topic_partition
from storage.records import Batch, LegacyBatch, Record
from tests.batches import iter_batches
from tests.conftest import Samples
from tests.spark.tables import read

WHOLE = ("orders-0", "payments-0", "ledger-0", "empty-0", "single-0")
"""Partitions whose records are all in the archive."""


def moment(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)


def readable_rows(partition: Path) -> Iterator[dict[str, Any]]:
    for segment in list_partition(partition).segments:
        for batch in iter_batches(segment.log.path.read_bytes(), segment.log.path):
            batch.ensure_valid()
            for record in batch.records():
                yield row_of(partition, batch, record)


def row_of(partition: Path, batch: Batch | LegacyBatch, record: Record) -> dict[str, Any]:
    name, header = parse_topic_partition(partition.name), batch.header
    assert name is not None
    is_v0 = isinstance(batch, LegacyBatch) and batch.header.magic == 0
    return {
        "key": record.key,
        "value": record.value,
        "topic": name.topic,
        "partition": name.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_ms),
        "timestampType": -1 if is_v0 else int(header.is_log_append_time),
        "headers": [{"key": key.decode(), "value": value} for key, value in record.headers] or None,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "sequence": record.sequence,
        "leaderEpoch": header.partition_leader_epoch,
        "codec": header.compression.name.lower(),
        "control": header.is_control,
        "deleteHorizon": moment(header.delete_horizon_ms),
        "segment": str(batch.path),
        "position": batch.position,
    }


def assert_read_equal(rows: list[dict[str, Any]], partitions: list[Path]) -> None:
    by_partition: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    for partition in partitions:
        found = by_partition.pop(tuple(parse_topic_partition(partition.name)), [])
        assert sorted(found, key=lambda row: row["offset"]) == list(readable_rows(partition)), partition
    assert by_partition == {}


def kafka_4(samples: Samples, stage: str) -> list[Path]:
    return [samples.root / stage / name for name in WHOLE if (samples.root / stage / name).is_dir()]


def kafka_2(samples: Samples, stage: str) -> list[Path]:
    return sorted(path for path in (samples.root / stage).iterdir() if path.is_dir())


@pytest.mark.parametrize("stage", ["before", "after", "before2", "after2"])
def test_every_record_of_kafka_4_is_read_as_the_readable_reader_reads_it(samples: Samples, stage: str) -> None:
    partitions = kafka_4(samples, stage)
    assert_read_equal(read(",".join(map(str, partitions)), includeMetadata="true"), partitions)


@pytest.mark.parametrize("stage", ["before", "after"])
def test_every_message_of_v0_and_v1_is_read_as_the_readable_reader_reads_it(old_samples: Samples, stage: str) -> None:
    partitions = kafka_2(old_samples, stage)
    assert_read_equal(read(",".join(map(str, partitions)), includeMetadata="true"), partitions)


def test_spark_gives_both_archives_as_the_readable_reader_reads_them(
    spark: Any, samples: Samples, old_samples: Samples
) -> None:
    for partitions in (kafka_4(samples, "before"), kafka_2(old_samples, "before")):
        frame = (
            spark.read.format("kafka-log").option("includeMetadata", "true").load([str(path) for path in partitions])
        )
        assert_read_equal(frame.toArrow().to_pylist(), partitions)
