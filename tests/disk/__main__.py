"""Trials on a disk that forgets, each one command with a seed.

    python -m tests.disk --cuts 10000                     # drawn from recorded runs of all acts; goes on where it ended
    python -m tests.disk --kills 300                      # whole processes, killed with the power
    python -m tests.disk --faults 200                     # whole processes on a dying disk
    python -m tests.disk --peer 10000                     # cuts of Kafka's own cleaner: what it loses is a figure
    python -m tests.disk --act clean --seed 7 --cuts 100  # one run alone; what breaks is shrunk
    python -m tests.disk --act copy --seed 3 --faults 1   # the faults of one seed, or its kill, again
    python -m tests.disk --act clean --seed 7 --cuts 100 --twin no-fsync  # a broken twin

A cut that breaks a promise is told: what the disk did not keep, and the fewest losses that still break it. With an odd
seed, ``--cuts`` are of a second run, on what a cut of the first one left. Needs root, FUSE and a JDK 17+.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from tests.crash.conftest import MEMORY
from tests.disk.acts import ACTS
from tests.disk.dying import FAULTS, moments, try_fault
from tests.disk.peer import Lost, try_peer
from tests.disk.process import WHOLE
from tests.disk.trials import Case, Failure, case_of, cut_again, cuts_of, judged, killed, last_cuts, recorded, shrunk
from tests.disk.twins import TWINS
from tests.interop.kafka_jars import cache_dir, judging_version, kafka_classpath
from tests.interop.referee import Referee
from tests.notes import Notes

CUTS_OF_A_RUN: Final = 100
CUTS_OF_A_KILL: Final = 3
CUTS_OF_A_PEER: Final = 250
SHORT_RUN: Final = 10
"""So many operations have nothing to lose: what the first run began was nearly done."""
FAILURES_MAX: Final = 3
GOES_ON_EVERY: Final = 4
"""Acting again takes most of the time of a judgement."""


OF_ACTS: Final = ", ".join(f"{name} (of {twin.act})" for name, twin in TWINS.items())


def try_cuts(referee: Referee, name: str, seed: int, count: int, scratch: Path, twin: str = WHOLE) -> list[Failure]:
    """Record an act, and judge cuts of it; with an odd seed, of its second run on what a cut of the first one left."""
    dice = Random(f"{name} {seed}")
    case = case_of(name, seed, scratch)
    recording = recorded(case, scratch, twin)
    first: list[str] = []
    if seed % 2 and twin == WHOLE:
        told, again = cut_again(case, recording, scratch, dice)
        if len(again.operations) > SHORT_RUN:
            recording, first = (
                again,
                ["the second run, on what a cut of the first one left:", *told, "and of that run:"],
            )
    end = len(recording.operations)
    cuts = cuts_of(recording, count, dice)
    failures = judged(case, referee, cuts, scratch / "cuts", goes_on_every=GOES_ON_EVERY, ends_at=end)
    smallest = [shrunk(case, recording, found, referee, scratch / "shrunk", end) for found in failures[:1]]
    return [replace(found, told=(*first, *found.told)) for found in smallest]


def try_kill(referee: Referee, name: str, seed: int, scratch: Path) -> tuple[int, list[Failure]]:
    """Kill the process of an act with the power, and judge some of what may be left.

    Returns: 1 if a process was killed, 0 if all came to their end before; and what broke.
    """
    dice = Random(f"kill {name} {seed}")
    case = case_of(name, seed, scratch)
    recording, is_killed = killed(case, scratch, operations_of(name, case, scratch), dice)
    failures = judged(case, referee, last_cuts(recording, CUTS_OF_A_KILL, dice), scratch / "cuts")
    return int(is_killed), [shrunk(case, recording, failure, referee, scratch / "shrunk") for failure in failures[:1]]


_OPERATIONS: Final[dict[str, int]] = {}


def operations_of(name: str, case: Case, scratch: Path) -> int:
    """Return about how many operations an act has: as many as its first run in this process."""
    if name not in _OPERATIONS:
        _OPERATIONS[name] = len(recorded(case, scratch).operations)
    return _OPERATIONS[name]


def in_turn(acts: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Each act with seed 0, then each with seed 1, and so on."""
    return ((act, seed) for seed in count() for act in acts)


class Trials:
    """Those that were asked for."""

    def __init__(self, acts: Sequence[str], notes: Notes, referee: Referee) -> None:
        self._acts, self._notes, self._referee = acts, notes, referee
        self._failed = 0
        self._start_seconds = time.monotonic()

    def until(self, kind: str, wanted: int, attempt: Callable[[str, int, Path], tuple[int, Sequence[object]]]) -> None:
        """Try acts and seeds in turn, until so many trials of a kind have passed, or some have failed."""
        for act, seed in in_turn(self._acts) if wanted else ():
            if self._notes.total(kind) >= wanted or self._failed >= FAILURES_MAX:
                break
            trial = f"{kind} {act} {seed}"
            if trial not in self._notes:
                with in_memory() as scratch:
                    done, failures = attempt(act, seed, scratch)
                tell(trial, failures)
                self._failed += len(failures)
                if not failures:
                    self._notes.note(trial, done)
        seconds = time.monotonic() - self._start_seconds
        if wanted:
            print(f"{kind}: {self._notes.total(kind)} tried, {self._failed} failures, {seconds:.0f} s", flush=True)

    def cuts(self, act: str, seed: int, scratch: Path) -> tuple[int, list[Failure]]:
        return CUTS_OF_A_RUN, try_cuts(self._referee, act, seed, CUTS_OF_A_RUN, scratch)

    def kill(self, act: str, seed: int, scratch: Path) -> tuple[int, list[Failure]]:
        return try_kill(self._referee, act, seed, scratch)

    def faults(self, act: str, seed: int, scratch: Path) -> tuple[int, list[str]]:
        """Try each fault once, at a call of the seed's."""
        dice = Random(f"fault {act} {seed}")
        case = case_of(act, seed, scratch)
        operations = operations_of(act, case, scratch)
        told = [try_fault(case, fault, moments(fault, operations, 1, dice)[0], scratch, dice) for fault in FAULTS]
        return len(told), [line for lines in told for line in lines]

    def alone(self, options: argparse.Namespace, act: str, seed: int) -> Iterator[int]:
        """Try one act with one seed in each way that was asked for, note nothing, and yield an exit status for each."""

        def cuts(act: str, seed: int, scratch: Path) -> tuple[int, list[Failure]]:
            return options.cuts, try_cuts(self._referee, act, seed, options.cuts, scratch, options.twin)

        for kind, wanted, attempt in (
            ("cuts", options.cuts, cuts),
            ("kills", options.kills, self.kill),
            ("faults", options.faults, self.faults),
        ):
            if wanted:
                with in_memory() as scratch:
                    done, failures = attempt(act, seed, scratch)
                tell(f"{kind} {act} {seed}", failures)
                print(f"{kind} {act} {seed}: {done} tried, {len(failures)} failures", flush=True)
                yield int(bool(failures))

    @property
    def status(self) -> int:
        return int(self._failed > 0)


@contextmanager
def in_memory() -> Iterator[Path]:
    """An empty directory."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as directory:
        yield Path(directory)


def tell(trial: str, failures: Sequence[object]) -> None:
    """What the disk did not keep, and what broke."""
    for failure in failures:
        told = (*failure.told, failure.error) if isinstance(failure, Failure) else (failure,)
        print(f"{trial}: BROKEN", *told, sep="\n", flush=True)


def try_peers(referee: Referee, wanted: int) -> None:
    """Count what cuts of Kafka's cleaner take."""
    lost = Lost()
    for seed in range(wanted // CUTS_OF_A_PEER):
        with in_memory() as scratch:
            try_peer(referee, seed, CUTS_OF_A_PEER, scratch, lost)
        print(lost, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, and print the counts."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.disk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuts", type=int, default=0, metavar="N", help="cuts of recorded runs")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="processes killed with the power")
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="processes on a dying disk")
    parser.add_argument("--peer", type=int, default=0, metavar="N", help="cuts of runs of Kafka's own cleaner")
    parser.add_argument("--act", choices=ACTS, nargs="+", default=list(ACTS), help="these alone")
    parser.add_argument("--seed", type=int, help="one run of one act, noted nowhere: its cuts, its kill, its faults")
    parser.add_argument(
        "--twin", choices=TWINS, default=WHOLE, help=f"with --seed and --cuts, a broken twin: {OF_ACTS}"
    )
    parser.add_argument("--notes", type=Path, default=cache_dir() / "disk.json", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if not (options.cuts or options.kills or options.faults or options.peer):
        parser.error("say how many: --cuts, --kills, --faults or --peer")
    if options.seed is not None and (len(options.act) > 1 or options.peer):
        parser.error("--seed is of one --act, without --peer")
    if options.twin != WHOLE and (options.seed is None or options.kills or options.faults):
        parser.error("--twin is for --cuts of one --seed")
    with Referee(kafka_classpath(judging_version())) as referee:
        trials = Trials(options.act, Notes(options.notes), referee)
        if options.seed is not None:
            return max(trials.alone(options, options.act[0], options.seed))
        trials.until("cuts", options.cuts, trials.cuts)
        trials.until("kills", options.kills, trials.kill)
        trials.until("faults", options.faults, trials.faults)
        try_peers(referee, options.peer)
    return trials.status


if __name__ == "__main__":
    sys.exit(main())
