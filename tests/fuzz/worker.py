"""One target, fed seed by seed in a process of its own, within the memory that a run may take.

``python -m tests.fuzz.worker TARGET NOTES FIRST EXECUTIONS SECONDS``. ``NOTES`` is a file that holds the seed being
tried: what is left of a process that a signal ended. Findings go to stdout, a JSON object a line; the last line sums
up.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz import kernels, parsers
from tests.fuzz.damage import Damage, Kind, drawn
from tests.fuzz.dumps import Dumper
from tests.fuzz.samples import subjects
from tests.fuzz.seeds import make_log_dir
from tests.fuzz.sight import forget
from tests.fuzz.trial import BUDGET_BYTES, Finding, Subject, try_damages

BEYOND_BUDGET_BYTES: Final = 256 << 20
HANG_SECONDS: Final = 120
LOG_DIR: Final = "log-dir"
SAMPLES: Final = "samples"
PARSE: Final = "parse"
DUMP: Final = "dump"
TARGETS: Final = (LOG_DIR, SAMPLES, PARSE, DUMP, *kernels.TARGETS)

Execution = Callable[[Random], object]


def main(arguments: Sequence[str]) -> None:
    """Run until so many executions, or seconds, are over."""
    target, notes, first, executions, seconds = arguments[0], Path(arguments[1]), *map(int, arguments[2:])
    findings = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        execution = _execution(target, Path(scratch))
        bound_bytes = BUDGET_BYTES + BEYOND_BUDGET_BYTES
        if target != SAMPLES:  # the witness holds their records as objects
            resource.setrlimit(resource.RLIMIT_DATA, (bound_bytes, bound_bytes))
        end, seed = time.monotonic() + seconds, first
        while seed < first + executions and time.monotonic() < end:
            notes.write_text(str(seed))
            signal.alarm(HANG_SECONDS)  # not handled: it ends the process
            findings += not _passes(execution, seed)
            seed += 1
        signal.alarm(0)
    print(json.dumps({"executions": seed - first, "findings": findings}), flush=True)


def _passes(execution: Execution, seed: int) -> bool:
    try:
        execution(Random(seed))
    except Exception as error:
        print(json.dumps({"seed": seed, "finding": f"{type(error).__name__}: {error}"[:2000]}), flush=True)
        return False
    return True


def _execution(target: str, scratch: Path) -> Execution:
    """What one seed does."""
    if target == LOG_DIR:
        subject = Subject.of(make_log_dir(scratch / "undamaged log dir"), scratch)
        return lambda random: _damage(subject, scratch, random)
    if target == SAMPLES:
        samples = list(subjects(scratch))
        return lambda random: _damage_sample(random.choice(samples), scratch, random)
    if target == PARSE:
        corpus = list(parsers.corpus(make_log_dir(scratch / "undamaged log dir")))
        return lambda random: parsers.parse(_mutated(random, corpus))
    if target == DUMP:
        return Dumper(make_log_dir(scratch / "undamaged log dir"), scratch).try_damaged
    bench = kernels.Bench()
    feed: Callable[[bytes, Random], None] = getattr(bench, target)
    return lambda random: feed(kernels.a_log(random), random)


def _damage(subject: Subject, scratch: Path, random: Random) -> None:
    damages = drawn(random, subject.files)
    try:
        try_damages(subject, damages, scratch)
    except Exception as error:
        raise Finding(f"{damages}: {type(error).__name__}: {error}") from error


def _damage_sample(subject: Subject, scratch: Path, random: Random) -> None:
    try:
        _damage(subject, scratch, random)
    finally:
        forget()


def _mutated(random: Random, corpus: Sequence[bytes]) -> bytes:
    data = random.choice(corpus)
    rest = bytearray(data[1:])
    for _ in range(random.randint(1, 4)):
        kind = random.choice(list(Kind))
        rest = bytearray(Damage("", kind, random.randrange(1 << 20), random.randrange(1 << 20)).done_to(rest))
    return data[:1] + bytes(rest)


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    main(sys.argv[1:])
