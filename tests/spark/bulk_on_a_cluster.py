"""Compaction of a skewed log on a standalone cluster of two workers, one of which is killed in mid-job: the same bytes
as by the local engine. A process of its own, since a process has one Spark session.

    python -m tests.spark.bulk_on_a_cluster [MIB [DIR]]

2 GiB by default; DIR is a new directory (a temporary one by default) and gets four times as much.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from cleaner.spark.bulk import bulk as bulk_module
from cleaner.spark.bulk.bulk import Bulk
from cleaner.spark.errors import UnseenLogDir
from cleaner.spark.session import start_session
from tests.spark.cluster import Cluster, standalone
from tests.spark.rounds import assert_same_by, skewed

PARTITIONS = 8
_KILL_SECONDS_MAX = 600


def compact_with_a_worker_less(root: Path, mib: int) -> int:
    """Gives how many files the tasks had written when the worker was killed."""
    layers = skewed(root / "data", PARTITIONS, mib // PARTITIONS)
    (root / "cluster").mkdir()
    with standalone(root / "cluster") as cluster:
        session = start_session(cluster.url, cluster.config)
        try:
            check_that_executors_are_asked(Bulk(lambda: session), root / "data")
            seen: list[int] = []
            killer = threading.Thread(target=kill_in_mid_job, args=(root / "there", cluster, seen))
            killer.start()
            assert_same_by(Bulk(lambda: session), root / "data", layers)
            killer.join()
        finally:
            session.stop()
    return seen[0]


def check_that_executors_are_asked(bulk: Bulk, log_dir: Path) -> None:
    """A file that is there for the driver alone is one that they do not see."""
    bulk.begin([log_dir])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_module, "files_seen_of", lambda path: [(path / "elsewhere.log", 1, 1)])
        with pytest.raises(UnseenLogDir, match="on the Spark executor at"):
            bulk.begin([log_dir])


def kill_in_mid_job(log_dir: Path, cluster: Cluster, seen: list[int]) -> None:
    """Wait for the first files of the last step's tasks."""
    until = time.monotonic() + _KILL_SECONDS_MAX
    while time.monotonic() < until:
        if log_dir.exists() and (found := list(log_dir.rglob("*.log.*.logcleaner"))):
            seen.append(len(found))
            cluster.kill_a_worker()
            return
        time.sleep(0.01)


if __name__ == "__main__":
    size_mib = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    place.mkdir(exist_ok=True)
    try:
        written = compact_with_a_worker_less(place, size_mib)
    finally:
        shutil.rmtree(place)
    print(f"{size_mib} MiB: the same bytes, though a worker was killed when {written} segments had been written")
