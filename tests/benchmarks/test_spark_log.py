"""The log on which Spark is measured: both sources hand over the same records of it."""

from __future__ import annotations

from pathlib import Path

from cleaner.arrow.schema import RECORD_COLUMNS
from tests.benchmarks.spark_log import POOL_BATCHES, key_bytes, write_log
from tests.benchmarks.spark_profile import read_in_one_thread
from tests.benchmarks.spark_sources import BARE_TASKS, BareReader
from tests.spark.tables import reader, rows_of


def test_a_log_has_the_records_and_segments_that_it_says(tmp_path: Path) -> None:
    records = write_log(tmp_path, 100_000, 100)
    assert [row["key"] for row in rows_of(reader(tmp_path))] == [key_bytes(number) for number in range(records)]
    assert len(list(tmp_path.glob("bench-0/*.log"))) == 2


def test_a_profile_reads_the_whole_log(tmp_path: Path) -> None:
    records = write_log(tmp_path, 1 << 20, 100)
    found, seconds, kernels = read_in_one_thread(tmp_path)
    assert found == records
    assert 0 < sum(kernels.values()) < seconds


def test_the_bare_source_has_the_columns_and_keys_of_the_log(tmp_path: Path) -> None:
    count = write_log(tmp_path, 1, 100) // 2
    bare = BareReader(RECORD_COLUMNS, BARE_TASKS * POOL_BATCHES * count)
    batches = list(bare.read(bare.partitions()[0]))
    source = reader(tmp_path)
    assert batches[0].schema == next(source.read(source.partitions()[0])).schema
    keys = {key for batch in batches for key in batch.column("key").to_pylist()}
    assert keys == {key_bytes(number) for number in range(POOL_BATCHES * count)}
