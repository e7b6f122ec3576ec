"""Columns whose values are the slice's, not the record's; what a worker imports for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.partition_dirs import NOW_MS, PartitionDir, keyed
from tests.spark.tables import read


@pytest.mark.parametrize("counts", [(1, 2, 5), (7, 1, 64)])
def test_chunks_of_any_length_repeat_what_is_their_own_slices(tmp_path: Path, counts: tuple[int, ...]) -> None:
    for partition, count in enumerate(counts):
        batch = keyed(0, *(f"k{number}=v" for number in range(count)), timestamp_ms=NOW_MS)
        PartitionDir(tmp_path, f"t{count}-{partition}").segment(0, batch)
    rows = read(tmp_path)
    expected = [(f"t{count}", partition, 0) for partition, count in enumerate(counts) for _ in range(count)]
    assert sorted((row["topic"], row["partition"], row["timestampType"]) for row in rows) == sorted(expected)


def test_a_worker_starts_without_pandas() -> None:
    told = "import sys, cleaner.arrow.columns, storage.scan.chunks; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
