"""Compaction against Kafka's own cleaner, on the same log, on the same machine, in turn.

    python -m tests.benchmarks.compaction [--gib 4] [--value-bytes 100] [--keys 1000000] [--codec none]

Kafka: the time of ``Cleaner.doClean`` alone, in a JVM warmed up by two rounds on copies, with a 256 MiB map
and 1 MiB buffers. Ours: a whole process, from its start to its exit. Both fsync what they write, both leave the
old segments as ``.deleted`` files, both find the log in the page cache, and both must leave the same records, or there
is no result.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks.processes import Cost, memory_bytes, run
from tests.interop.kafka_jars import KafkaUnavailable, kafka_classpath
from tests.interop.referee import Referee
from tests.interop.verdicts import Round

KAFKA_VERSION: Final = "4.3.1"
PARTITION: Final = "bench-0"
SEGMENT_BYTES: Final = 1 << 30
WARMUPS: Final = 2
READ_BYTES: Final = 1 << 24
OUR_COMMAND: Final = (
    f"{shlex.quote(sys.executable)} -m cleaner clean --log-dir {{log_dir}} --kafka-defaults "
    "--set cleanup.policy=compact --assume-committed --yes --only compaction --force-compaction --threads 1"
)
OUR_VERSION_COMMAND: Final = (sys.executable, "-m", "cleaner", "--version")


class DifferentRecords(Exception):
    """The two cleaners did not leave the same records; the times mean nothing."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What the log holds: uniformly drawn keys, values that compress about two to one."""

    gib: float
    value_bytes: int
    keys: int
    codec: str
    batch_bytes: int

    @property
    def name(self) -> str:
        """A directory name that says it all."""
        return f"{self.gib:g}gib-{self.value_bytes}b-{self.keys}keys-{self.codec}-{self.batch_bytes}batch"


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds on one workload; start-up is ours without anything to compact."""

    workload: Workload
    log_bytes: int
    records: int
    records_left: int
    kafka: tuple[Cost, ...]
    ours: tuple[Cost, ...]
    version: Cost
    startup: Cost

    @property
    def ratio(self) -> float:
        """How many times faster than Kafka, by medians."""
        return _median_seconds(self.kafka) / _median_seconds(self.ours)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 0 unless Kafka is missing or the records differ."""
    options = _parser().parse_args(arguments)
    workload = Workload(options.gib, options.value_bytes, options.keys, options.codec, options.batch_bytes)
    try:
        with _scratch(options.scratch) as scratch, Referee(kafka_classpath(KAFKA_VERSION)) as referee:
            result = measure(workload, scratch, referee, options.rounds, options.ours_command)
    except (KafkaUnavailable, DifferentRecords) as reason:
        print(reason, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failure:
        print(f"{shlex.join(failure.cmd)}: exit {failure.returncode}", file=sys.stderr)
        print(failure.output.decode(errors="replace"), file=sys.stderr)
        return 1
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(_report(result), indent=1) + "\n", encoding="utf-8")
    return 0


def measure(
    workload: Workload, scratch: Path, referee: Referee, rounds: int, ours_command: str = OUR_COMMAND
) -> Result:
    """Generate the log unless ``scratch`` has it, then clean fresh copies in turn.

    Raises:
        DifferentRecords: in any round.
        subprocess.CalledProcessError: our command failed.
    """
    source = _generated(workload, scratch, referee)
    kafka: list[Cost] = []
    ours: list[Cost] = []
    for number in range(rounds):
        done, cost, kafka_left = _kafka_round(source, scratch, referee, warmups=0 if number else WARMUPS)
        kafka.append(cost)
        cost, our_left = _our_round(source, scratch, referee, ours_command)
        ours.append(cost)
        print(f"round {number + 1}: Kafka {done.seconds:.2f} s, ours {cost.seconds:.2f} s", file=sys.stderr)
        if our_left != kafka_left:
            raise DifferentRecords(f"Kafka left (records, sha256) {kafka_left}, ours left {our_left}")
    tiny = _generated(replace(workload, gib=0), scratch, referee)
    startup, _ = _our_round(tiny, scratch, referee, ours_command)
    version = run(OUR_VERSION_COMMAND) if ours_command == OUR_COMMAND else startup
    return Result(
        workload=workload,
        log_bytes=done.bytes_read,
        records=done.records_read,
        records_left=kafka_left[0],
        kafka=tuple(kafka),
        ours=tuple(ours),
        version=version,
        startup=startup,
    )


def table(result: Result) -> str:
    """The result for people."""
    columns = f"{'seconds':>9}{'best':>8}{'worst':>8}{'MB/s':>8}{'records/s':>12}{'peak MB':>9}{'anon MB':>9}"
    rows = [
        f"{result.workload.name}: {result.log_bytes / 1e6:,.0f} MB, {result.records:,} records, "
        f"{result.records_left:,} left; medians of {len(result.ours)} rounds",
        f"{'':24}{columns}",
        _row(f"Kafka {KAFKA_VERSION}, warm JVM", result.kafka, result),
        _row("logcleaner, process", result.ours, result),
        _row("  of it: --version", [result.version]),
        _row("  of it: empty run", [result.startup]),
        f"logcleaner is {result.ratio:.2f} times as fast",
    ]
    return "\n".join(rows)


def _row(name: str, costs: Sequence[Cost], result: Result | None = None) -> str:
    seconds = [cost.seconds for cost in costs]
    rates = f"{'':20}"
    if result is not None:
        rates = f"{result.log_bytes / 1e6 / median(seconds):8.0f}{result.records / median(seconds):12,.0f}"
    resident = max(cost.resident_bytes for cost in costs) / 1e6
    anonymous = max(cost.anonymous_bytes for cost in costs) / 1e6
    times = f"{median(seconds):9.2f}{min(seconds):8.2f}{max(seconds):8.2f}"
    return f"{name:24}{times}{rates}{resident:9.0f}{anonymous:9.0f}"


def _kafka_round(source: Path, scratch: Path, referee: Referee, warmups: int) -> tuple[Round, Cost, tuple[int, str]]:
    with _fresh_copy(source, scratch) as log_dir:
        done = referee.bench(log_dir / PARTITION, warmups=warmups, config={"segment.bytes": SEGMENT_BYTES})
        assert referee.pid is not None
        resident, anonymous = (memory_bytes(referee.pid, name) for name in ("VmHWM", "RssAnon"))
        return done, Cost(done.seconds, resident, anonymous), _left(log_dir, referee)


def _our_round(source: Path, scratch: Path, referee: Referee, ours_command: str) -> tuple[Cost, tuple[int, str]]:
    with _fresh_copy(source, scratch) as log_dir:
        cost = run(shlex.split(ours_command.format(log_dir=shlex.quote(str(log_dir)))))
        return cost, _left(log_dir, referee)


def _left(log_dir: Path, referee: Referee) -> tuple[int, str]:
    (digest,) = referee.digest([log_dir / PARTITION])
    return digest.records, digest.sha256


def _generated(workload: Workload, scratch: Path, referee: Referee) -> Path:
    """A log dir with the workload's log; its name appears once it is complete. ``gib`` 0 means one record."""
    log_dir = scratch / workload.name
    if log_dir.is_dir():
        return log_dir
    unfinished = scratch / f"{workload.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    referee.generate(
        unfinished / PARTITION,
        size_bytes=max(1, int(workload.gib * (1 << 30))),
        records=None if workload.gib else 1,
        keys=workload.keys,
        value_bytes=workload.value_bytes,
        codec=workload.codec,
        batch_bytes=workload.batch_bytes,
        segment_bytes=SEGMENT_BYTES,
    )
    return unfinished.rename(log_dir)


@contextmanager
def _fresh_copy(source: Path, scratch: Path) -> Iterator[Path]:
    """A copy, on disk and in the page cache. Not hard links: a cleaner may write into a file it was given."""
    with tempfile.TemporaryDirectory(dir=scratch, prefix="copy-") as holder:
        log_dir = Path(holder, "logs")
        subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(log_dir)], check=True)
        os.sync()  # else the copy is still being written while the first cleaner is timed
        for path in log_dir.rglob("*.log"):
            _read_through(path)
        yield log_dir


def _read_through(path: Path) -> None:
    buffer = bytearray(READ_BYTES)
    with path.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass


@contextmanager
def _scratch(given: Path | None) -> Iterator[Path]:
    """The directory named, which keeps the generated logs, or a temporary one."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="logcleaner-benchmark-") as temporary:
        yield Path(temporary)


def _median_seconds(costs: Sequence[Cost]) -> float:
    return median(cost.seconds for cost in costs)


def _report(result: Result) -> dict[str, object]:
    medians = {"kafka": _median_seconds(result.kafka), "ours": _median_seconds(result.ours)}
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "kernel": platform.release()}
    return asdict(result) | {"median_seconds": medians, "ratio": result.ratio, "machine": machine}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compaction", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--batch-bytes", type=int, default=16_384)
    parser.add_argument("--rounds", type=_at_least_one, default=5)
    parser.add_argument("--scratch", type=Path, help="keeps the generated logs for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--ours-command", default=OUR_COMMAND, help="{log_dir} stands for the copy to clean")
    return parser


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
