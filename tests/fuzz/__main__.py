"""Fuzz for some minutes: ``python -m tests.fuzz --minutes 10 [--target log-dir|samples|parse|...] [--first-seed N]``.

Every target gets its share of the time in a process with bounded memory. A crash, a hang and a finding are printed with
their seed, and the target goes on with the next one. Where atheris is installed (dependency group ``fuzz``), it fuzzes
the parsers as well, guided by coverage. Exit status 1: there was a finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.parsers import corpus
from tests.fuzz.seeds import make_log_dir
from tests.fuzz.worker import TARGETS

UNBOUNDED = 1 << 40


@dataclass(slots=True)
class Ran:
    """What became of a target."""

    executions: int = 0
    findings: int = 0


def run(target: str, first_seed: int, executions: int, seconds: int) -> Ran:
    """Feed a target; a process that a signal ended is followed by another, from the next seed on."""
    ran, end, seed = Ran(), time.monotonic() + seconds, first_seed
    with tempfile.TemporaryDirectory() as scratch:
        notes = Path(scratch) / "seed"
        while ran.executions < executions and (left := end - time.monotonic()) > 0:
            bounds = (str(seed), str(executions - ran.executions), str(max(round(left), 1)))
            command = [sys.executable, "-m", "tests.fuzz.worker", target, str(notes), *bounds]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            for line in lines:
                if "seed" in line:
                    print(f"{target}, seed {line['seed']}: {line['finding']}", flush=True)
            if done.returncode == 0:
                ran.executions += lines[-1]["executions"]
                ran.findings += lines[-1]["findings"]
                break
            if not notes.exists():
                raise RuntimeError(f"{target} did not start: status {done.returncode}")
            stopped = int(notes.read_text())
            print(f"{target}, seed {stopped}: {_ending(done.returncode)}", flush=True)
            ran.executions += stopped + 1 - seed
            ran.findings += 1 + sum("seed" in line for line in lines)
            seed = stopped + 1
    return ran


def run_guided(seconds: int) -> Ran:
    """Have atheris fuzz the parsers, from the files of a log dir on."""
    with tempfile.TemporaryDirectory() as scratch:
        seeds = Path(scratch) / "corpus"
        seeds.mkdir()
        for place, data in enumerate(corpus(make_log_dir(Path(scratch) / "log dir"))):
            (seeds / str(place)).write_bytes(data)
        options = [f"-max_total_time={seconds}", "-print_final_stats=1", "-max_len=8192", "-rss_limit_mb=1024"]
        command = [sys.executable, "-m", "tests.fuzz.guided", str(seeds), *options]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    found = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode:
        print(done.stderr[-3000:])
    return Ran(int(found[1]) if found else 0, int(done.returncode != 0))


def _ending(returncode: int) -> str:
    if returncode == -signal.SIGALRM:
        return "a hang"
    return f"ended by {signal.Signals(-returncode).name}" if returncode < 0 else f"ended with status {returncode}"


def main(argv: Sequence[str] | None = None) -> int:
    """Share the time out among the targets; half of it is for whole log dirs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="damage everything, see what happens")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--executions", type=int, default=UNBOUNDED, help="of each target, at most")
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all of them")
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args(argv)
    targets = args.target or TARGETS
    weights = {target: len(TARGETS) if target == "log-dir" else 1 for target in targets}
    is_guided = not args.target and importlib.util.find_spec("atheris") is not None
    share = args.minutes * 60 / (sum(weights.values()) + is_guided)
    findings = 0
    for target in targets:
        ran = run(target, args.first_seed, args.executions, round(share * weights[target]))
        print(f"{target}: {ran.executions} executions, {ran.findings} findings", flush=True)
        findings += ran.findings
    if is_guided:
        ran = run_guided(round(share))
        print(f"parse, guided: {ran.executions} executions, {ran.findings} findings", flush=True)
        findings += ran.findings
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
