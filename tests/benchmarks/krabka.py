"""Compaction by a second peer, ``krabka-log`` (Rust), beside Kafka's cleaner and ours, on the same logs in turn.

    python -m tests.benchmarks.krabka --scratch DIR [--mib 256] [--rounds 3] [--only NAME ...]

cargo builds the peer's small program once into ``DIR``. Its time is that of ``Log::compact`` alone, as Kafka's is that
of ``Cleaner.doClean`` alone; ours is a whole process with one thread. Each must leave the records that Kafka leaves.

Handicaps: the peer decodes the batches of a segment into memory, writes no checkpoint, and reads no log of v0 or v1. It
is built without codecs, so only uncompressed logs are compared.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks.compaction import DifferentRecords
from tests.benchmarks.logs import PARTITION, fresh_copy, generated
from tests.benchmarks.processes import Cost, run
from tests.benchmarks.results import median_seconds, peak_anonymous_bytes
from tests.benchmarks.sides import OUR_COMMAND, WARMUPS, Left, kafka_round, left, our_round
from tests.benchmarks.workloads import Workload, workloads
from tests.interop.kafka_jars import KafkaUnavailable, judging_version, kafka_classpath
from tests.interop.referee import Referee

SOURCE: Final = Path(__file__).parent / "krabka_peer"
_V2: Final = 2
_WRITTEN: Final = "seconds"


class NoPeer(Exception):
    """cargo is missing, or could not build the peer; says which."""


@dataclass(slots=True)
class Rounds:
    """What each side cost, and what Kafka left."""

    kafka: list[Cost]
    krabka: list[Cost]
    ours: list[Cost]
    records: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; 1 where a peer is missing or the records differ."""
    known = [one for one in workloads(1) if one.codec == "none" and one.magic == _V2 and not one.is_first_part_clean]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR")
    parser.add_argument("--mib", type=float, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    names = [workload.name for workload in known]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    options = parser.parse_args(arguments)
    options.scratch.mkdir(parents=True, exist_ok=True)
    wanted = [workload for workload in workloads(options.mib / 1024) if workload.name in options.only]
    try:
        peer = built(options.scratch)
        with Referee(kafka_classpath(judging_version())) as referee:
            print("| data | Kafka | krabka | ours | ours to krabka | memory: Kafka, krabka, ours |")
            print("|---|---|---|---|---|---|")
            for workload in wanted:
                smaller = replace(workload, segment_bytes=max(1 << 20, int(options.mib * (1 << 20)) // 4))
                print(row(smaller.title, compared(smaller, options.scratch, referee, peer, options.rounds)), flush=True)
    except (KafkaUnavailable, DifferentRecords, NoPeer) as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


def built(scratch: Path) -> Path:
    """Build the peer's program, and return its path. Raises: NoPeer."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NoPeer("cargo is not here: install Rust")
    target = scratch / "krabka-target"
    words = [cargo, "build", "--release", "--locked", "--quiet", "--ignore-rust-version", "--target-dir", str(target)]
    if subprocess.run(words, cwd=SOURCE, check=False).returncode:
        raise NoPeer(f"{SOURCE}: cargo could not build it; its messages stand above")
    return target / "release" / "krabka-peer"


def compared(workload: Workload, scratch: Path, referee: Referee, peer: Path, rounds: int) -> Rounds:
    """Run each side ``rounds`` times in turn. Raises: DifferentRecords, subprocess.CalledProcessError."""
    source = generated(workload, scratch, referee)
    found = Rounds([], [], [])
    for number in range(rounds):
        cost, kafka_left, _ = kafka_round(workload, source, scratch, referee, warmups=0 if number else WARMUPS)
        found.kafka.append(cost)
        found.records = kafka_left.records
        for name, costs, (cost, other_left) in (
            ("krabka", found.krabka, krabka_round(workload, source, scratch, referee, peer)),
            ("ours", found.ours, our_round(workload, source, scratch, referee, OUR_COMMAND, 1)),
        ):
            costs.append(cost)
            if other_left != kafka_left:
                raise DifferentRecords(f"{workload.name}: Kafka left {kafka_left}, {name} left {other_left}")
    return found


def krabka_round(workload: Workload, source: Path, scratch: Path, referee: Referee, peer: Path) -> tuple[Cost, Left]:
    """Compact a fresh copy with the peer. Return the time of the compaction alone, and what is left."""
    with fresh_copy(source, scratch) as log_dir:
        written = log_dir.parent / _WRITTEN
        whole = run([str(peer), str(log_dir / str(PARTITION)), str(workload.segment_bytes), str(written)])
        return replace(whole, seconds=float(written.read_text(encoding="ascii"))), left(log_dir, referee)


def row(title: str, found: Rounds) -> str:
    """Return a line of the table."""
    sides = (found.kafka, found.krabka, found.ours)
    seconds = " | ".join(f"{median_seconds(costs):.2f} s" for costs in sides)
    ratio = median(theirs.seconds / ours.seconds for theirs, ours in zip(found.krabka, found.ours, strict=True))
    memory = ", ".join(f"{peak_anonymous_bytes(costs) / 1e6:,.0f} MB" for costs in sides)
    return f"| {title} | {seconds} | {ratio:.1f}x | {memory} |"


if __name__ == "__main__":
    raise SystemExit(main())
