"""A standalone Spark cluster on loopback, from the pip package: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.interop.jvms import QUICK

ROOT = Path(__file__).parents[2]
_SPARK_HOME = Path(pyspark.__file__).parent
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_SECONDS_MAX = 120


@dataclass
class Cluster:
    """Its processes, and how to reach it."""

    logs: Path
    master: subprocess.Popen[bytes]
    url: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kill_a_worker(self) -> None:
        """With all that it started: the executor and its Python workers."""
        worker = self.workers.pop()
        kill_all([*descendants(worker.pid), worker.pid])
        worker.wait()

    def executors(self) -> list[int]:
        """The process ids of the executors' JVMs."""
        return [pid for worker in self.workers for pid in children_of(worker.pid)]

    @property
    def config(self) -> dict[str, str]:
        """For a session on it."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.executor.extraJavaOptions": " ".join(QUICK),
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
        }


@contextmanager
def standalone(logs: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and its workers, one core each; all end with the ``with``."""
    cluster = Cluster(logs, _started(logs / "master", "master.Master", "--port", "0", "--webui-port", "0"))
    try:
        cluster.url = _awaited(logs / "master", _MASTER_URL.pattern)
        for number in range(workers):
            options = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(logs / f"work-{number}"),
            ]
            cluster.workers.append(_started(logs / f"worker-{number}", "worker.Worker", *options, cluster.url))
        for number in range(workers):
            _awaited(logs / f"worker-{number}", "(Successfully registered) with master")
        yield cluster
    finally:
        while cluster.workers:
            cluster.kill_a_worker()
        cluster.master.kill()
        cluster.master.wait()


def _started(log: Path, kind: str, *options: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK),
    }
    command = [str(_SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *options]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)


def _awaited(log: Path, pattern: str) -> str:
    """The first group of a line that comes in a process's log."""
    until = time.monotonic() + _SECONDS_MAX
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{pattern!r} never came:\n{log.read_text(errors='replace')}")


def kill_all(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send processes a signal; some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    return _children().get(pid, [])


def descendants(pid: int) -> list[int]:
    """The process ids of children and their children, parents first."""
    children = _children()
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    return children
