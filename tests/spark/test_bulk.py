"""Compactions by real Spark: embedded, and on a standalone cluster that loses a worker (``bulk_on_a_cluster``)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark.bulk.bulk import Bulk
from tests.cleaner.engine.test_unkeyed_guard import mixed
from tests.interop.jvms import QUICK
from tests.partition_dirs import COMPACT, PartitionDir, committed, configured, keyed
from tests.spark.bulk_on_a_cluster import PARTITIONS
from tests.spark.rounds import assert_same_by, cleaned

ROOT = Path(__file__).parents[2]
CLUSTER_MIB = 64
SEGMENT_MIB = 4


@pytest.mark.parametrize("first_dirty", [0, 5])
def test_spark_finds_the_survivors_that_the_local_engine_finds(spark: Any, tmp_path: Path, first_dirty: int) -> None:
    log_dir = tmp_path / "data"
    drawn = []
    for number in range(2):
        made = PartitionDir(log_dir, f"orders-{number}").segment(0, keyed(0, "a=1", "a=2", f"b={number}", "c"))
        made.segment(4, keyed(4, "a=3", "d=1", "b=2")).segment(7, keyed(7, "e=1", "c=2"))
        drawn.append(made.segment(9, keyed(9, "z=1")))
    committed(log_dir, *drawn, mixed(log_dir, "orders-2"))
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 1 {first_dirty}\n")
    layers = configured(orders=COMPACT | {"segment.bytes": "250"})
    assert_same_by(Bulk(spark), log_dir, layers)
    outcome = cleaned(log_dir, layers, Bulk(spark))
    assert [topic_partition.partition for _, topic_partition in outcome.guards] == [2]  # too many without a key


@pytest.mark.slow
def test_worker_that_is_killed_in_mid_job_changes_no_byte(spark: Any, tmp_path: Path) -> None:
    del spark  # asked for since it says where there is no Java
    command = [sys.executable, "-m", "tests.spark.bulk_on_a_cluster", str(CLUSTER_MIB), str(tmp_path / "cluster")]
    quick = os.environ | {"SPARK_SUBMIT_OPTS": " ".join(QUICK)}
    done = subprocess.run(command, cwd=ROOT, env=quick, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"the same bytes, though a worker was killed when (\d+) segments", done.stdout)
    assert found
    units = PARTITIONS * (CLUSTER_MIB // PARTITIONS // SEGMENT_MIB)
    assert 0 < int(found[1]) < units
