"""Many partitions in one log dir: Kafka's log cleaner and ours in turn, each with two threads, and ours with one.

Kafka's side is the log cleaner of a broker: two threads that choose, clean and note one log after the other, with the
map that two threads share by default. Its logs are open, and it is warmed up on copies of some of them. Ours is a whole
process.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from tests.benchmarks.compaction import THREADS, DifferentRecords
from tests.benchmarks.logs import fresh_copy, generated, partitions_of
from tests.benchmarks.processes import Cost, memory_bytes, run
from tests.benchmarks.results import Bus, Many
from tests.benchmarks.sides import our_words
from tests.benchmarks.workloads import Workload
from tests.interop.referee import Referee
from tests.interop.verdicts import Digest

KAFKA_THREADS: Final = 2
WARM_UP_BYTES: Final = 256 << 20
"""What Kafka cleans before it is timed, about."""
READ_BYTES: Final = 128 << 20
"""More than any cache."""
READ_SECONDS: Final = 1.0


def many(workload: Workload, scratch: Path, referee: Referee, our_command: str, *, rounds: int) -> Many:
    """Measure one log dir.

    Raises: DifferentRecords for the first partition in any round; subprocess.CalledProcessError where our command
        failed.
    """
    source = generated(workload, scratch, referee)
    kafka: list[Cost] = []
    ours: dict[int, list[Cost]] = {threads: [] for threads in THREADS}
    for number in range(rounds):
        cost, kafka_left = _kafka_round(workload, source, scratch, referee, is_first=not number)
        kafka.append(cost)
        for threads, costs in ours.items():
            with fresh_copy(source, scratch) as log_dir:
                costs.append(run(our_words(workload, log_dir, our_command, threads)))
                _compare(kafka_left, _left(workload, log_dir, referee))
        told = ", ".join(f"{costs[-1].seconds:.2f} s with {threads}" for threads, costs in ours.items())
        print(f"{workload.name}, round {number + 1}: Kafka {cost.seconds:.2f} s, ours {told}", file=sys.stderr)
    log_bytes = sum(path.stat().st_size for path in source.rglob("*.log"))
    costs_of_ours = {threads: tuple(costs) for threads, costs in ours.items()}
    bus = _bus(workload, source, scratch, our_command)
    return Many(workload.title, workload.partitions, log_bytes, tuple(kafka), costs_of_ours, bus)


def _kafka_round(
    workload: Workload, source: Path, scratch: Path, referee: Referee, *, is_first: bool
) -> tuple[Cost, Sequence[Digest]]:
    warmups = -(-WARM_UP_BYTES * workload.partitions // workload.raw_bytes) if is_first else 0
    with fresh_copy(source, scratch) as log_dir:
        done = referee.clean_all(
            [log_dir / str(partition) for partition in partitions_of(workload)],
            threads=KAFKA_THREADS,
            warmups=min(warmups, workload.partitions),
            config={"segment.bytes": workload.segment_bytes},
        )
        assert referee.pid is not None
        resident, anonymous = (memory_bytes(referee.pid, name) for name in ("VmHWM", "RssAnon"))
        return Cost(done.seconds, resident, anonymous, done.cpu_seconds), _left(workload, log_dir, referee)


def _left(workload: Workload, log_dir: Path, referee: Referee) -> Sequence[Digest]:
    """What is left of each partition, as Kafka reads it."""
    return referee.digest([log_dir / str(partition) for partition in partitions_of(workload)])


def _compare(kafka_left: Sequence[Digest], our_left: Sequence[Digest]) -> None:
    for theirs, ours in zip(kafka_left, our_left, strict=True):
        if (theirs.records, theirs.sha256) != (ours.records, ours.sha256):
            raise DifferentRecords(f"Kafka left {theirs}, ours left {ours}")


def _bus(workload: Workload, source: Path, scratch: Path, our_command: str) -> Bus:
    with _Reading() as alone:
        time.sleep(READ_SECONDS)
    with _Reading() as one, _Reading():
        time.sleep(READ_SECONDS)
    with fresh_copy(source, scratch) as log_dir, _Reading() as beside:
        run(our_words(workload, log_dir, our_command, threads=1))
    return Bus(alone.bytes_per_second, beside.bytes_per_second, one.bytes_per_second)


class _Reading:
    """A thread that reads memory, again and again, and counts the bytes."""

    def __init__(self) -> None:
        self._memory = np.ones(READ_BYTES // 8, np.int64)
        self._bytes, self._seconds = 0, 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def bytes_per_second(self) -> float:
        """Of the whole time."""
        return self._bytes / self._seconds

    def _read(self) -> None:
        started = time.perf_counter()
        while not self._stopped.is_set():
            self._memory.max()  # lets other threads run
            self._bytes += self._memory.nbytes
        self._seconds = time.perf_counter() - started
