"""Lives a life to its end, or to the first law that breaks; finds the shortest life that breaks it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.interop.referee import Referee
from tests.lives.laws import Broken, broken_by, of_doctor
from tests.lives.life import LifeStory
from tests.lives.running import Breaks, Told, load_everything
from tests.lives.seen import Look, SeenLog
from tests.lives.world import Act, May, World, started_by_kafka

TRIES_MAX: Final = 300
SOMETHING_TO_DO: Final = 10


@dataclass(slots=True)
class Verdict:
    """How a life went."""

    story: LifeStory
    broken: list[Broken] = field(default_factory=list)
    at: int | None = None
    """The number of the step that broke a law."""
    told: tuple[Told, ...] = ()
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def law(self) -> str | None:
        """The first law that broke."""
        return self.broken[0].law if self.broken else None

    def __str__(self) -> str:
        steps = (f"  {number:3} {step}" for number, step in enumerate(self.story.happenings))
        said = (f"  SAID {' '.join(one.words[:6])} -> {one.status}\n{one.stderr[-1500:]}" for one in self.told)
        return "\n".join((*steps, *(f"  BROKEN at {self.at}: {broken}" for broken in self.broken), *said))


def lived(
    story: LifeStory,
    scratch: Path,
    breaks: Breaks | None = None,
    referee: Referee | None = None,
    classpath: str | None = None,
) -> Verdict:
    """Live a life, with Kafka's classes, or a whole broker, or neither."""
    load_everything()
    verdict = Verdict(story)
    room = Path(tempfile.mkdtemp(dir=scratch, prefix="life-"))
    world = None
    try:
        world = World(room, breaks, referee, classpath)
        before = Look.at(world.log_dir)
        for number, step in enumerate(story.happenings):
            verdict.seen[step.kind] += 1
            for act in world.acts(step):
                after = Look.at(world.log_dir)
                verdict.seen.update(f"{step.kind} -> {told.status}" for told in act.told)
                verdict.broken = broken_by(world, before, act, after) or _settled(world, before, act, after)
                if verdict.broken:
                    verdict.at, verdict.told = number, act.told
                    break
                world.note(before, act, after)
                before = after
            if verdict.broken:
                break
        else:
            verdict.broken = _at_the_end(world, before, referee)
            verdict.at = len(story.happenings) - 1 if verdict.broken else None
    finally:
        if world is not None:
            world.close()
        shutil.rmtree(room, ignore_errors=True)
    return verdict


def _settled(world: World, before: Look, act: Act, after: Look) -> list[Broken]:
    """A second run has nothing to do.

    What a person set aside, or what tells of missing records, bounds limits and rounds until the log begins above it,
    so the first run may leave something to the second. So does an open transaction whose records a limit lets go, if
    no snapshot names it: nothing tells the second run of it. So does a round that takes the newest records of the
    oldest segment, which then is due, or whose output is larger. And so does a repacking of clean segments, which makes
    the rest a greater part.
    """
    if not (act.settles and act.told[0].status == 0):
        return []
    is_daemon = act.told[0].words[0] == "run"  # which prints no document, and whose guard rails nobody confirms
    both = [(log, after.logs[name]) for name, log in before.logs.items() if name in after.logs]
    is_bounded = (
        before.files.keys() & {*world.by_hand, *world.evidence}
        or '"kept": [{' in act.told[0].stdout  # also a source of a round, if a person removed what the round wrote
        or (is_daemon and before.files.keys() & _kept(world))
        or any(old.stable_end < new.log_start for old, new in both)
        or any(_looks_older(old, new) or _has_grown(old, new) for old, new in both)
        or (
            "--repack" in act.told[0].words
            and any(s.dirty_ratio for name in before.logs for s in world.all_in_force(name))
        )
    )
    if is_bounded:
        return []
    again = world.command("clean", "--dry-run", "--exit-code", *(("--yes",) if "--yes" in act.told[0].words else ()))
    if again.status == SOMETHING_TO_DO or (again.status and not is_daemon):
        return [
            Broken("a second run has nothing to do", f"{again.status}: {again.stdout[-1500:]} {again.stderr[-500:]}")
        ]
    return []


def _kept(world: World) -> set[str]:
    """Return the files, by path below the log dir, that runs kept, as they noted in the journal."""
    journal = world.log_dir / ".logcleaner-journal"
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    whole = (line for line in lines if b'"what":"evidence"' in line and line.endswith(b"}"))
    noted = [json.loads(line.partition(b" ")[2]) for line in whole]
    return {f"{entry['partition']}/{one['name']}" for entry in noted for one in entry["kept"]}


def _has_grown(before: SeenLog, after: SeenLog) -> bool:
    """Return whether a round wrote more bytes than it read."""
    sizes = {piece.base_offset: piece.size_bytes for piece in before.pieces}
    return any(piece.size_bytes > sizes.get(piece.base_offset, piece.size_bytes) for piece in after.pieces)


def _looks_older(before: SeenLog, after: SeenLog) -> bool:
    """Return whether the oldest segment lost its newest records to a round."""
    bases = [piece.base_offset for piece in after.pieces]
    if len(bases) <= 1:
        return False
    merged = [piece.newest_ms for piece in before.pieces if bases[0] <= piece.base_offset < bases[1]]
    return after.pieces[0].newest_ms < max(merged, default=0)


def _at_the_end(world: World, look: Look, referee: Referee | None) -> list[Broken]:
    """The doctor names what is missing, and Kafka reads what is there."""
    found = [*of_doctor(world, world.command("doctor", "--json"), look)]
    if referee is not None:
        (world.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
        started = started_by_kafka(referee, world.log_dir, world.clock.now_ms, world.in_force)
        found += broken_by(world, look, Act(May(is_trusted=True), started=started), look)
    return found


def shrunk(
    verdict: Verdict,
    scratch: Path,
    breaks: Breaks | None = None,
    referee: Referee | None = None,
    classpath: str | None = None,
) -> Verdict:
    """Find the fewest steps that still break the same law: the end goes first, then ever smaller parts."""
    assert verdict.at is not None
    best, tries = verdict, 0
    story = verdict.story.of(list(range(verdict.at + 1)))
    numbers = list(range(len(story.happenings)))
    size = max(1, len(numbers) // 2)
    while size and tries < TRIES_MAX:
        start, is_smaller = 0, False
        while start < len(numbers) and tries < TRIES_MAX:
            fewer = numbers[:start] + numbers[start + size :]
            tries += 1
            again = lived(story.of(fewer), scratch, breaks, referee, classpath)
            if again.law == verdict.law:
                numbers, best, is_smaller = fewer, again, True
            else:
                start += size
        size = size // 2 if size > 1 or not is_smaller else size
    return best
