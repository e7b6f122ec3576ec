"""Enumerate small logs under the real policies, check every step, and let the engine repeat a sample of them.

    python -m tests.models [--depth 5] [--samples 100]

Every log that at most so many operations make of each scenario's beginnings (tests/models/small_logs) is visited once.
Prints states, transitions, reason codes, what the engine was asked, broken twins caught and violations; the exit
status is 1 where there is one. Depth 5 takes minutes, depth 6 six times as long, on a process a CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from policies.reasons import ReasonCode
from tests.models.small_logs.exploration import Sample, Tally, explored
from tests.models.small_logs.invariants import Violation, complaint_of
from tests.models.small_logs.on_disk import check_engine
from tests.models.small_logs.scenarios import SCENARIOS, Scenario
from tests.models.small_logs.twins import TWINS, violation_of

TWIN_DEPTH = 4
"""Enough for each to be caught."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    start_seconds = time.monotonic()
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(SCENARIOS)), get_context("spawn")) as pool:
        found = pool.map(partial(explored, depth=options.depth, samples=options.samples), SCENARIOS)
        total, violations = _told(found)
        caught = _caught(pool.map(partial(violation_of, depth=TWIN_DEPTH), TWINS))
    missing = sorted(set(ReasonCode) - total.codes)
    violations += _engine_violations(total.samples)
    print(f"\nstates {total.states:,}, transitions {total.transitions:,}, rounds {total.rounds:,},", end=" ")
    print(f"deletions {total.deletions:,}, logs settled {total.settled:,} (in {total.rounds_to_settle} rounds at most)")
    print(f"reason codes {len(total.codes)} of {len(ReasonCode)}", *missing)
    print(f"steps repeated by the engine {len(total.samples):,}")
    print(f"broken twins caught {caught} of {len(TWINS)}")
    print(f"violations {len(violations)}, {time.monotonic() - start_seconds:.0f} s")
    return 1 if violations or missing or caught < len(TWINS) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100, help="steps a scenario that the engine repeats")
    return parser


def _told(found: Iterable[tuple[Scenario, Tally, str | None]]) -> tuple[Tally, list[str]]:
    total, violations = Tally(), list[str]()
    for scenario, tally, complaint in found:
        told = f"{scenario.name}: {tally.states:,} states, {tally.transitions:,} transitions"
        print(told, complaint or "", flush=True)
        violations += [complaint] if complaint else []
        total.add(tally)
    return total, violations


def _engine_violations(samples: Sequence[Sample]) -> list[str]:
    complaints = []
    with tempfile.TemporaryDirectory(prefix="logcleaner-models-") as directory:
        for place, sample in enumerate(samples):
            complaint = complaint_of(partial(check_engine, sample, Path(directory) / str(place)))
            if complaint:
                print(complaint)
                complaints.append(complaint)
    return complaints


def _caught(found: Iterable[Violation | None]) -> int:
    count = 0
    for twin, violation in zip(TWINS, found, strict=True):
        print(f"{twin.name}: {violation.args[0] if violation else 'NOT CAUGHT'}", flush=True)
        count += violation is not None
    return count


if __name__ == "__main__":
    sys.exit(main())
