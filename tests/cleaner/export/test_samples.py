"""Every record of log dirs that real brokers wrote is exported as the readable reader has it, in every field."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cleaner.arrow.schema import BATCH_COLUMNS, RECORD_COLUMNS, arrow_schema
from tests.cleaner.export.exports import Row, export
from tests.conftest import Samples
from tests.spark.tables import read
from tests.spark.test_samples import readable_rows

FORMATS = ("parquet", "jsonl")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_told(to: str, row: Row) -> Row:
    """The row of a table, as the format has it."""
    return row if to == "parquet" else row | {
        "timestamp": epoch_ms(row["timestamp"]),
        "deleteHorizon": epoch_ms(row["deleteHorizon"]),
        "headers": [header | {"key": header["key"].encode()} for header in row["headers"] or ()],
    }  # fmt: skip


def epoch_ms(moment: Any) -> int | None:
    return None if moment is None else round((moment - EPOCH).total_seconds() * 1000)


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("partition", ["before/orders-0", "after/payments-0", "after2/ledger-0", "before/single-0"])
def test_every_record_of_kafka_4_is_exported_as_the_readable_reader_reads_it(
    samples: Samples, tmp_path: Path, partition: str, to: str
) -> None:
    assert_exported_equal(samples.root / partition, to, tmp_path / "out")


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("partition", ["after/log-v0-gzip-0", "after/log-upgraded-0"])
def test_every_message_of_v0_and_v1_is_exported_as_the_readable_reader_reads_it(
    old_samples: Samples, tmp_path: Path, partition: str, to: str
) -> None:
    assert_exported_equal(old_samples.root / partition, to, tmp_path / "out")


def assert_exported_equal(partition: Path, to: str, file: Path) -> None:
    wanted = [as_told(to, row) for row in readable_rows(partition)]
    assert wanted
    assert export(partition, to, file, "--include-metadata") == wanted


@pytest.mark.parametrize("to", FORMATS)
def test_without_metadata_it_is_the_columns_of_sparks_kafka_source_and_no_control_records(
    samples: Samples, tmp_path: Path, to: str
) -> None:
    partition = samples.root / "before/payments-0"
    rows = export(partition, to, tmp_path / "out")
    assert all(row.keys() == set(RECORD_COLUMNS) for row in rows)
    assert [row["offset"] for row in rows] == [row["offset"] for row in readable_rows(partition) if not row["control"]]


@pytest.mark.parametrize("to", FORMATS)
def test_committed_records_alone_are_those_that_the_spark_source_reads(
    samples: Samples, tmp_path: Path, to: str
) -> None:
    partition = samples.root / "before/payments-0"
    committed = [row["offset"] for row in read(partition, **{"isolation.level": "read_committed"})]
    rows = export(partition, to, tmp_path / "out", "--isolation-level", "read_committed")
    assert [row["offset"] for row in rows] == committed
    assert 0 < len(committed) < len(export(partition, to, tmp_path / "all"))


def test_parquet_has_the_schema_of_the_spark_source(samples: Samples, tmp_path: Path) -> None:
    for options, columns in (((), RECORD_COLUMNS), (("--include-metadata",), RECORD_COLUMNS + BATCH_COLUMNS)):
        file = tmp_path / f"{len(columns)}.parquet"
        export(samples.root / "before/single-0", "parquet", file, *options)
        assert pq.read_schema(file).equals(arrow_schema(columns))


@pytest.mark.parametrize("to", FORMATS)
def test_a_partition_without_records_gives_a_file_without_rows(samples: Samples, tmp_path: Path, to: str) -> None:
    assert export(samples.root / "before/empty-0", to, tmp_path / "out") == []
    assert (tmp_path / "out").exists()
