"""One workload: Kafka's cleaner and ours in turn, and what the machine allows.

Kafka: the time of ``Cleaner.doClean`` alone, in a JVM warmed up by two rounds on copies, with a 256 MiB map
and 1 MiB buffers. Ours: a whole process, from its start to its exit. Both fsync what they write, both leave the
old segments as ``.deleted`` files, both find the log in the page cache (or neither, in a cold row), and must leave
the same records, or there is no result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Final

from storage.checkpoints import parse_offset_checkpoint
from storage.names import CLEANER_OFFSET_CHECKPOINT
from tests.benchmarks.limits import Least, direct_seconds, measure_least, measure_machine
from tests.benchmarks.logs import PARTITION, fresh_copy, generated
from tests.benchmarks.processes import Cost, memory_bytes, run
from tests.benchmarks.results import Cold, Comparison, ManyKeys, Startup
from tests.benchmarks.sides import OUR_VERSION_COMMAND, WARMUPS, Left, kafka_round, left, our_round, our_words
from tests.benchmarks.workloads import Part, Workload
from tests.interop.referee import Referee

THREADS: Final = (1, 2)
MAP_BYTES: Final = 128 << 20
KAFKA_SLOT_BYTES: Final = 24
KAFKA_LOAD_FACTOR: Final = 0.9


class DifferentRecords(Exception):
    """The two cleaners did not leave the same records; the times mean nothing."""


class Bench:
    """Measures workloads, one after the other.

    Args:
        scratch: has room for three copies of a log: generated, to be cleaned, cleaned.
        referee: Kafka's side.
        old_referee: Kafka's side of logs in v0 and v1.
        our_command: ``{log_dir}``, ``{segment_bytes}`` and ``{threads}`` are filled in.
    """

    def __init__(self, scratch: Path, referee: Referee, old_referee: Referee, our_command: str) -> None:
        self._scratch, self._our_command = scratch, our_command
        self._referee, self._old_referee = referee, old_referee

    def compare(self, workload: Workload, rounds: int) -> Comparison:
        """Raises: DifferentRecords in any round; subprocess.CalledProcessError where our command failed."""
        referee = self._referee_of(workload)
        source = generated(workload, self._scratch, referee)
        startup = self._startup(workload, rounds)
        if workload.is_cleaned_by_us:  # what the small logs of the start-up do not need has to be compiled, too
            our_round(workload, source, self._scratch, referee, self._our_command, 1)
        kafka: list[Cost] = []
        ours: dict[int, list[Cost]] = {threads: [] for threads in THREADS}
        for number in range(rounds):
            cost, kafka_left, log_bytes = kafka_round(
                workload, source, self._scratch, referee, warmups=0 if number else WARMUPS
            )
            kafka.append(cost)
            for threads in THREADS:
                ours[threads].append(self._our_round(workload, source, threads, kafka_left))
            _tell(workload, number, kafka, ours)
        return Comparison(
            title=workload.title,
            raw_bytes=workload.raw_bytes,
            log_bytes=log_bytes,
            records=workload.records,
            records_left=kafka_left.records,
            kafka=tuple(kafka),
            ours={threads: tuple(costs) for threads, costs in ours.items()},
            startup=startup,
            machine=measure_machine(),
            least=self._least(workload, source),
        )

    def cold(self, workload: Workload, rounds: int) -> Cold:
        """Rounds on a log that is not in the page cache, and ours on one that is, in turn.

        Raises: StaysWarm; as ``compare``.
        """
        referee = self._referee_of(workload)
        source = generated(workload, self._scratch, referee)
        kafka: list[Cost] = []
        ours: dict[bool, list[Cost]] = {True: [], False: []}
        for number in range(rounds):
            warmups = 0 if number else WARMUPS
            cost, kafka_left, _ = kafka_round(workload, source, self._scratch, referee, warmups=warmups)
            kafka.append(cost)
            for is_cold, costs in ours.items():
                costs.append(self._our_round(replace(workload, is_cold=is_cold), source, 1, kafka_left))
            _tell(workload, number, kafka, {1: ours[True]})
        direct = tuple(self._direct_seconds(workload, source, rounds))
        return Cold(workload.title, tuple(kafka), tuple(ours[True]), tuple(ours[False]), direct)

    def many_keys(self, workload: Workload, *, with_kafka: bool) -> ManyKeys:
        """Ours in one round with a map that holds a part of the keys; Kafka's rounds if they are wanted.

        Raises: DifferentRecords, subprocess.CalledProcessError.
        """
        source = generated(workload, self._scratch, self._referee)
        kafka, kafka_left = self._kafka_rounds(source) if with_kafka else ((), None)
        command = f"{self._our_command} --set log.cleaner.dedupe.buffer.size={MAP_BYTES}"
        with fresh_copy(source, self._scratch) as log_dir:
            log_bytes = sum(path.stat().st_size for path in log_dir.rglob("*.log"))
            cost = run(our_words(workload, log_dir, command, threads=1))
            _check_is_clean(log_dir, workload.records)
            our_left = left(log_dir, self._referee)
        keys = workload.parts[0].keys
        if our_left.records != keys or our_left != (kafka_left or our_left):
            raise DifferentRecords(f"{keys} keys, Kafka left {kafka_left}, ours left {our_left}")
        slots = int(MAP_BYTES // KAFKA_SLOT_BYTES * KAFKA_LOAD_FACTOR)
        return ManyKeys(
            keys, workload.records, log_bytes, MAP_BYTES, cost, our_left.records, ceil(keys / slots), tuple(kafka)
        )

    def _our_round(self, workload: Workload, source: Path, threads: int, kafka_left: Left) -> Cost:
        referee = self._referee_of(workload)
        cost, our_left = our_round(workload, source, self._scratch, referee, self._our_command, threads)
        if our_left != kafka_left:
            raise DifferentRecords(f"{workload.name}: Kafka left {kafka_left}, {threads} threads left {our_left}")
        return cost

    def _startup(self, workload: Workload, rounds: int) -> Startup:
        """Measured behind a run that has every kernel compiled, as all but the first are."""
        warm_up, empty = (
            replace(workload, name=f"v{workload.magic}-{workload.codec}-{workload.value_bytes}-{name}", parts=(part,))
            for name, part in (("warm-up", Part(20_000, 5_000)), ("empty", Part(1, 1)))
        )
        for threads in THREADS:
            self._without_check(warm_up, threads)
        version = tuple(run(OUR_VERSION_COMMAND) for _ in range(rounds))
        return Startup(version, tuple(self._without_check(empty, 1) for _ in range(rounds)))

    def _without_check(self, workload: Workload, threads: int) -> Cost:
        whole = replace(workload, is_first_part_clean=False, is_cleaned_by_us=False)
        referee = self._referee_of(workload)
        source = generated(whole, self._scratch, referee)
        return our_round(whole, source, self._scratch, referee, self._our_command, threads)[0]

    def _referee_of(self, workload: Workload) -> Referee:
        return self._old_referee if workload.magic < 2 else self._referee

    def _least(self, workload: Workload, source: Path) -> Least | None:
        if workload.magic < 2:  # no kernel decompresses v0 and v1 and does no more
            return None
        with fresh_copy(source, self._scratch) as log_dir:
            run(our_words(workload, log_dir, self._our_command, threads=1))
            return measure_least(source / str(PARTITION), log_dir / str(PARTITION), self._scratch)

    def _direct_seconds(self, workload: Workload, source: Path, rounds: int) -> Iterator[float]:
        with fresh_copy(source, self._scratch) as log_dir:
            run(our_words(workload, log_dir, self._our_command, threads=1))
            for _ in range(rounds):
                seconds = direct_seconds(source / str(PARTITION), log_dir / str(PARTITION), self._scratch)
                if seconds is not None:
                    yield seconds

    def _kafka_rounds(self, source: Path) -> tuple[list[Cost], Left]:
        """Not warmed up: the first of so many rounds are warm-up enough."""
        costs: list[Cost] = []
        with fresh_copy(source, self._scratch) as log_dir:
            while True:
                (done,) = self._referee.clean([log_dir / str(PARTITION)], map_bytes=MAP_BYTES)
                if done.end_offset is None:
                    return costs, left(log_dir, self._referee)
                assert self._referee.pid is not None
                resident, anonymous = (memory_bytes(self._referee.pid, name) for name in ("VmHWM", "RssAnon"))
                costs.append(Cost(done.seconds, resident, anonymous))
                print(f"many keys: Kafka's round {len(costs)}: {done.seconds:.1f} s", file=sys.stderr)


def _check_is_clean(log_dir: Path, records: int) -> None:
    """Check that one run was enough."""
    path = log_dir / CLEANER_OFFSET_CHECKPOINT
    cleaned_to = parse_offset_checkpoint(path.read_bytes(), path)[PARTITION]
    if cleaned_to != records:
        raise DifferentRecords(f"{path} says {cleaned_to}, the log ends at {records}")


def _tell(workload: Workload, number: int, kafka: list[Cost], ours: dict[int, list[Cost]]) -> None:
    told = ", ".join(f"{costs[-1].seconds:.2f} s with {threads}" for threads, costs in ours.items())
    print(f"{workload.name}, round {number + 1}: Kafka {kafka[-1].seconds:.2f} s, ours {told}", file=sys.stderr)
