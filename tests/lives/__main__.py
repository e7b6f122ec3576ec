"""Lives many lives, or one of them again, and tells the shortest life that breaks a law.

    python -m tests.lives --lives 1000 --steps 50 [--first 0] [--notes FILE]
    python -m tests.lives --kafka --lives 100
    python -m tests.lives --broker --lives 20
    python -m tests.lives --seed 7
    python -m tests.lives --replay tests/lives/corpus/NAME.json
    python -m tests.lives --twins --lives 200

Begun again, it goes on where it ended, until a source changes. The exit status is 1 if a law was broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.crash.conftest import MEMORY
from tests.interop.kafka_jars import cache_dir, judging_version, kafka_classpath
from tests.interop.referee import OLD_JVM_OPTIONS, Referee
from tests.lives.life import STEPS, LifeStory, drawn
from tests.lives.living import Verdict, lived, shrunk
from tests.lives.twins import TWINS
from tests.mutants.suite import ROOT, fingerprint


def main() -> int:
    """Live what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives", description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a life")
    parser.add_argument("--seed", type=int, help="live this one life")
    parser.add_argument("--replay", type=Path, help="live the life of this file")
    parser.add_argument("--twins", nargs="*", metavar="TWIN", help="how many lives it takes to catch each broken twin")
    parser.add_argument("--kafka", action="store_true", help="Kafka's own classes take part as the broker")
    parser.add_argument("--broker", action="store_true", help="a whole KRaft broker takes part, and is killed")
    parser.add_argument(
        "--failures", type=Path, default=Path("failed-lives"), help="where the shortest lives that fail go"
    )
    parser.add_argument("--notes", type=Path, default=cache_dir() / "whole-lives.json", help="what was lived")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
        referee = Referee(kafka_classpath(judging_version()), OLD_JVM_OPTIONS) if options.kafka else None
        kafka = WithKafka(referee, kafka_classpath(judging_version()) if options.broker else None)
        if options.twins is not None:
            return _twins(options.twins or list(TWINS), options.first, options.lives, Path(scratch), options.failures)
        if options.replay or options.seed is not None:
            story = (
                LifeStory.from_json(options.replay.read_text())
                if options.replay
                else kafka.drawn(options.seed, options.steps)
            )
            verdict = kafka.lived(story, Path(scratch))
            print(verdict)
            return int(bool(verdict.broken))
        seeds = range(options.first, options.first + options.lives)
        notes = Notes(options.notes, f"{options.steps} steps{kafka}")
        return _many(seeds, options.steps, Path(scratch), options.failures, notes, kafka)


class WithKafka(NamedTuple):
    """What of Kafka takes part in lives."""

    referee: Referee | None = None
    """Its own classes."""
    classpath: str | None = None
    """Of a whole broker."""

    def drawn(self, seed: int, steps: int) -> LifeStory:
        return drawn(seed, steps, has_broker=self.referee is not None, is_whole=self.classpath is not None)

    def lived(self, story: LifeStory, scratch: Path) -> Verdict:
        return lived(story, scratch, None, self.referee, self.classpath)

    def shrunk(self, verdict: Verdict, scratch: Path) -> Verdict:
        return shrunk(verdict, scratch, None, self.referee, self.classpath)

    def __str__(self) -> str:
        return f"{', Kafka' if self.referee else ''}{', a broker' if self.classpath else ''}"


def _twins(names: list[str], first: int, lives: int, scratch: Path, failures: Path) -> int:
    missed = 0
    for name in names:
        for number, seed in enumerate(range(first, first + lives), 1):
            verdict = lived(drawn(seed), scratch, TWINS[name])
            if verdict.broken:
                print(f"{name}: caught by life {number}, seed {seed}: {verdict.broken[0]}"[:300], flush=True)
                shortest = shrunk(verdict, scratch, TWINS[name])
                failures.mkdir(parents=True, exist_ok=True)
                (failures / f"{name.replace(' ', '-')}.json").write_text(shortest.story.to_json())
                print(f"{shortest}"[:3000], flush=True)
                break
        else:
            missed += 1
            print(f"{name}: not caught by {lives} lives", flush=True)
    return int(missed > 0)


def _many(seeds: range, steps: int, scratch: Path, failures: Path, notes: Notes, kafka: WithKafka) -> int:
    started, failed = time.monotonic(), 0
    for seed in seeds:
        if seed in notes.done:
            continue
        verdict = kafka.lived(kafka.drawn(seed, steps), scratch)
        if verdict.broken:
            failed += 1
            _tell(verdict, scratch, failures, kafka)
        else:
            notes.add(seed, verdict.seen)
        told = f"{time.monotonic() - started:.0f} s, seed {seed}: {verdict.law or 'ok'}"
        print(f"{told}; {len(notes.done)} lives ok, {failed} failed", flush=True)
    print(dict(sorted(notes.seen.items())))
    return int(failed > 0)


class Notes:
    """The lives that were lived to their end, on these sources."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind, self._sources = path, kind, fingerprint(ROOT)
        noted = json.loads(path.read_text()) if path.exists() else {}
        same = noted.get(kind, {}) if noted.get("sources") == self._sources else {}
        self.done: list[int] = same.get("done", [])
        self.seen = Counter[str](same.get("seen", {}))

    def add(self, seed: int, seen: Counter[str]) -> None:
        """Note one more."""
        self.done.append(seed)
        self.seen += seen
        noted = json.loads(self._path.read_text()) if self._path.exists() else {}
        others = noted if noted.get("sources") == self._sources else {}
        mine = {self._kind: {"done": self.done, "seen": dict(self.seen)}, "sources": self._sources}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({**others, **mine}))


def _tell(verdict: Verdict, scratch: Path, failures: Path, kafka: WithKafka) -> None:
    smallest = kafka.shrunk(verdict, scratch)
    failures.mkdir(parents=True, exist_ok=True)
    path = failures / f"seed-{verdict.story.seed}.json"
    path.write_text(smallest.story.to_json())
    print(f"{smallest}\n  python -m tests.lives --replay {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
