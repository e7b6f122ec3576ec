"""Lives many lives, or one of them again, and tells the shortest life that breaks a law.

    python -m tests.lives --lives 1000 --steps 50 [--first 0] [--notes FILE]
    python -m tests.lives --kafka --lives 100
    python -m tests.lives --broker --lives 20
    python -m tests.lives --seed 7
    python -m tests.lives --replay tests/lives/corpus
    python -m tests.lives --twins

Begun again, it goes on where it ended, until a source changes.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.crash.conftest import MEMORY
from tests.interop.kafka_jars import cache_dir, judging_version, kafka_classpath
from tests.interop.referee import OLD_JVM_OPTIONS, Referee
from tests.lives.life import STEPS, LifeStory, drawn
from tests.lives.living import Verdict, lived, shrunk
from tests.lives.twins import TWINS
from tests.mutants.suite import ROOT, fingerprint

_STATUSES: Final = """exit status:
  0    every life kept every law; with --twins: each twin was caught
  1    a law was broken; with --twins: a twin was missed
  2    a word of the command line is wrong
  130  Ctrl-C"""
_LIVES, _LIVES_OF_TWINS = 30, 200


def main(words: Sequence[str] | None = None) -> int:
    """Live what the command line asks for."""
    options = _options(words)
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(own_scratch(MEMORY if os.access(MEMORY, os.W_OK) else None))
            return live(options, stack.enter_context(_kafka(options)), scratch)
        except KeyboardInterrupt:
            print("stopped by Ctrl-C; the same command goes on where it ended", file=sys.stderr)
            return 130


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    about, _, usage = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        "python -m tests.lives",
        description=f"{about}\n{usage}",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    count = f"how many lives, or the most for a twin; {_LIVES}, or {_LIVES_OF_TWINS} with --twins"
    parser.add_argument("--lives", type=int, help=count)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life; %(default)s")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a life; %(default)s")
    parser.add_argument("--seed", type=int, help="live this one life")
    parser.add_argument("--replay", type=Path, nargs="+", help="live these lives: files, or directories of them")
    twins = "how many lives it takes to catch each broken twin; with names, also the shortest such life"
    parser.add_argument("--twins", nargs="*", metavar="TWIN", help=twins)
    parser.add_argument("--kafka", action="store_true", help="Kafka's own classes take part as the broker")
    parser.add_argument("--broker", action="store_true", help="a whole KRaft broker takes part, and is killed")
    parser.add_argument(
        "--failures", type=Path, default=Path("failed-lives"), help="where lives that fail go; %(default)s"
    )
    parser.add_argument(
        "--notes", type=Path, default=cache_dir() / "whole-lives.json", help="what was lived; %(default)s"
    )
    options = parser.parse_args(words)
    if options.lives is None:
        options.lives = _LIVES if options.twins is None else _LIVES_OF_TWINS
    if options.replay:
        options.replay = [one for path in options.replay for one in _lives_at(parser, path)]
    for name in options.twins or ():
        if name not in TWINS:
            parser.exit(2, f"{parser.prog}: there is no twin {name!r}; there are: {'; '.join(TWINS)}\n")
    return options


def _lives_at(parser: argparse.ArgumentParser, path: Path) -> list[tuple[Path, LifeStory]]:
    try:
        paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
        return [(one, LifeStory.from_json(one.read_text())) for one in paths]
    except (OSError, ValueError, KeyError) as error:
        parser.exit(2, f"{parser.prog}: --replay {path} is no life: {error}\n")


@contextmanager
def own_scratch(parent: Path | None) -> Iterator[Path]:
    """Make a directory for this run, and remove those of runs that were killed: nobody locks them."""
    rooms = Path(parent or tempfile.gettempdir(), f"logcleaner-lives-{os.getuid()}")
    rooms.mkdir(exist_ok=True)
    starting = os.open(rooms, os.O_RDONLY)
    fcntl.flock(starting, fcntl.LOCK_EX)
    for left in rooms.iterdir():
        if not _is_locked(left):
            shutil.rmtree(left, ignore_errors=True)
    room = Path(tempfile.mkdtemp(dir=rooms))
    mine = os.open(room, os.O_RDONLY)
    fcntl.flock(mine, fcntl.LOCK_EX)
    os.close(starting)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
        os.close(mine)


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _kafka(options: argparse.Namespace) -> Iterator[WithKafka]:
    classpath = kafka_classpath(judging_version()) if options.kafka or options.broker else ""
    with ExitStack() as stack:
        referee = stack.enter_context(Referee(classpath, OLD_JVM_OPTIONS)) if options.kafka else None
        yield WithKafka(referee, classpath if options.broker else None)


def live(options: argparse.Namespace, kafka: WithKafka, scratch: Path) -> int:
    """Live what was asked for, and return the exit status."""
    if options.twins is not None:
        return _twins(options.twins, options.first, options.lives, scratch, options.failures)
    if options.replay:
        return _replayed(options.replay, scratch, kafka)
    if options.seed is not None:
        return _told(kafka.lived(kafka.drawn(options.seed, options.steps), scratch), f"seed {options.seed}")
    seeds = range(options.first, options.first + options.lives)
    notes = Notes(options.notes, f"{options.steps} steps{kafka}")
    return _many(seeds, options.steps, scratch, options.failures, notes, kafka)


def _replayed(stories: list[tuple[Path, LifeStory]], scratch: Path, kafka: WithKafka) -> int:
    statuses = [_told(kafka.lived(story, scratch), path) for path, story in stories]
    if len(statuses) > 1:
        print(f"{len(statuses)} lives, {sum(statuses)} broke a law")
    return int(any(statuses))


def _told(verdict: Verdict, what: object) -> int:
    if verdict.broken:
        print(verdict)
    said = f"broke a law at step {verdict.at}: {verdict.law}" if verdict.broken else "kept every law"
    print(f"{what}: {len(verdict.story.happenings)} steps {said}", flush=True)
    return int(bool(verdict.broken))


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

    @property
    def words(self) -> str:
        """The options that make it take part."""
        return f"{' --kafka' if self.referee else ''}{' --broker' if self.classpath else ''}"


def _twins(names: list[str], first: int, lives: int, scratch: Path, failures: Path) -> int:
    caught = {}
    for name in names or TWINS:
        for number, seed in enumerate(range(first, first + lives), 1):
            verdict = lived(drawn(seed), scratch, TWINS[name])
            if verdict.broken:
                caught[name] = number
                print(f"{name}: caught by life {number}, seed {seed}: {verdict.broken[0]}"[:300], flush=True)
                if names:
                    print(f"{_kept_shortest(name.replace(' ', '-'), verdict, scratch, failures, name)}"[:3000])
                break
        else:
            print(f"{name}: not caught by {lives} lives", flush=True)
    print(f"{len(caught)} of {len(names or TWINS)} twins were caught, each by life {max(caught.values(), default=0)}")
    return int(len(caught) < len(names or TWINS))


def _kept_shortest(
    file: str, verdict: Verdict, scratch: Path, failures: Path, twin: str = "", kafka: WithKafka | None = None
) -> Verdict:
    """Write the life at once, and the shortest life that breaks the same law over it."""
    failures.mkdir(parents=True, exist_ok=True)
    (failures / f"{file}.json").write_text(verdict.story.to_json())
    smallest = kafka.shrunk(verdict, scratch) if kafka else shrunk(verdict, scratch, TWINS[twin])
    (failures / f"{file}.json").write_text(smallest.story.to_json())
    return smallest


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
    file = f"seed-{verdict.story.seed}"
    again = f"  python -m tests.lives{kafka.words} --replay {failures / file}.json"
    print(f"{verdict}\n{again}\n  the shortest such life is sought", flush=True)
    print(f"{_kept_shortest(file, verdict, scratch, failures, kafka=kafka)}\n{again}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
