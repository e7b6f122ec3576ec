"""Compactions by real Spark: embedded, and on a standalone cluster that loses a worker (``bulk_on_a_cluster``)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark.bulk.bulk import Bulk
from tests.cleaner.engine.test_unkeyed_guard import mixed
from tests.interop.jvms import QUICK
from tests.partition_dirs import COMPACT, PartitionDir, committed, configured, keyed
from tests.spark.bulk_on_a_cluster import PARTITIONS
from tests.spark.rounds import assert_same_by, cleaned, skewed, write_config

ROOT = Path(__file__).parents[2]
CLUSTER_MIB = 64
SEGMENT_MIB = 4
WAVES = 5
KILL_SECONDS_MAX = 300
_A_PARTITION_A_WAVE = """\
import sys
from cleaner.cli.main import main
from cleaner.spark.bulk import bulk
bulk.BYTES_A_SLOT = 1
sys.exit(main(sys.argv[1:]))
"""


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
    assert_same_by(Bulk(lambda: spark), log_dir, layers)
    outcome = cleaned(log_dir, layers, Bulk(lambda: spark))
    assert [topic_partition.partition for _, topic_partition in outcome.guards] == [2]  # too many without a key


@pytest.mark.slow
def test_a_driver_that_is_killed_loses_one_wave_and_the_next_run_goes_on_without_spark(
    spark: Any, tmp_path: Path
) -> None:
    del spark  # asked for since it says where there is no Java
    log_dir, expected = tmp_path / "data", tmp_path / "expected"
    skewed(log_dir, WAVES, 4)
    shutil.copytree(log_dir, expected)
    config = tmp_path / "config.toml"
    write_config(config)
    arguments = ["clean", "--yes", "--config", str(config), "--log-dir"]
    driver = subprocess.Popen(
        [sys.executable, "-c", _A_PARTITION_A_WAVE, *arguments, str(log_dir), "--engine", "spark"],
        cwd=ROOT,
        env=os.environ | {"SPARK_SUBMIT_OPTS": " ".join(QUICK)},
        start_new_session=True,
    )
    done = killed_in_mid_wave(driver, log_dir)
    assert 0 < done < WAVES
    assert list(log_dir.rglob("*.logcleaner"))
    for path in (log_dir, expected):
        subprocess.run([sys.executable, "-m", "cleaner", *arguments, str(path)], cwd=ROOT, check=True)
    assert not list(log_dir.rglob("*.logcleaner"))
    assert contents_of_logs(log_dir) == contents_of_logs(expected)


def killed_in_mid_wave(driver: subprocess.Popen[bytes], log_dir: Path) -> int:
    """Kill a driver and its executors once a wave is swapped in and the next one has written a segment.

    Returns: the number of partitions that were swapped in.
    """
    until = time.monotonic() + KILL_SECONDS_MAX
    while time.monotonic() < until and driver.poll() is None:
        swapped = {path.parent for path in log_dir.rglob("*.log.deleted")}
        if swapped and any(path.parent not in swapped for path in log_dir.rglob("*.log.*.logcleaner")):
            break
        time.sleep(0.005)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    return len({path.parent for path in log_dir.rglob("*.log.deleted")})


def contents_of_logs(log_dir: Path) -> dict[str, bytes]:
    return {path.relative_to(log_dir).as_posix(): path.read_bytes() for path in sorted(log_dir.rglob("*.log"))}


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
