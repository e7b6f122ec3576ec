"""Lives many lives, or one of them again, and tells the shortest life that breaks a law.

    python -m tests.lives --lives 1000 --steps 50 [--first 0] [--notes FILE]
    python -m tests.lives --seed 7
    python -m tests.lives --replay tests/lives/corpus/NAME.json

Begun again, it goes on where it ended, until a source changes. The exit status is 1 if a law was broken.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.crash.conftest import MEMORY
from tests.lives.life import STEPS, LifeStory, drawn
from tests.lives.living import Verdict, lived, shrunk


def main() -> int:
    """Live what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives", description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a life")
    parser.add_argument("--seed", type=int, help="live this one life")
    parser.add_argument("--replay", type=Path, help="live the life of this file")
    parser.add_argument("--failures", type=Path, default=Path("failed-lives"), help="where lives that fail are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
        if options.replay or options.seed is not None:
            story = (
                LifeStory.from_json(options.replay.read_text())
                if options.replay
                else drawn(options.seed, options.steps)
            )
            verdict = lived(story, Path(scratch))
            print(verdict)
            return int(bool(verdict.broken))
        return _many(
            range(options.first, options.first + options.lives), options.steps, Path(scratch), options.failures
        )


def _many(seeds: range, steps: int, scratch: Path, failures: Path) -> int:
    started, seen, failed = time.monotonic(), Counter[str](), 0
    for seed in seeds:
        verdict = lived(drawn(seed, steps), scratch)
        seen += verdict.seen
        if verdict.broken:
            failed += 1
            _tell(verdict, scratch, failures)
        print(f"{time.monotonic() - started:.0f} s, seed {seed}: {verdict.law or 'ok'}; {failed} failed", flush=True)
    print(dict(sorted(seen.items())))
    return int(failed > 0)


def _tell(verdict: Verdict, scratch: Path, failures: Path) -> None:
    smallest = shrunk(verdict, scratch)
    failures.mkdir(exist_ok=True)
    path = failures / f"seed-{verdict.story.seed}.json"
    path.write_text(smallest.story.to_json())
    print(f"{smallest}\n  python -m tests.lives --replay {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
