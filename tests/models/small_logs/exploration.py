"""Breadth first through every log that a scenario's letters can make, each state once, every step checked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from policies.plan import PartitionPlan, Request
from policies.reasons import ReasonCode
from tests.models.small_logs.guards import checked_guards
from tests.models.small_logs.invariants import check_deletion, check_round, check_settled, complaint_of, demand, noted
from tests.models.small_logs.limits import check_limits
from tests.models.small_logs.operations import REQUESTS, forgotten, happened
from tests.models.small_logs.rounds import Rules, executed
from tests.models.small_logs.scenarios import Scenario
from tests.models.small_logs.world import AGE_MAX_MS, World, aged, facts_of, read

SETTLING_ROUNDS_MAX: Final = 6
SETTLED_ONE_IN: Final = 4


class Sample(NamedTuple):
    """A step of ours that changed something: what the engine is to do as well."""

    scenario: Scenario
    before: World
    letter: str
    after: World


@dataclass(slots=True)
class Tally:
    """What an exploration came through."""

    states: int = 0
    transitions: int = 0
    rounds: int = 0
    deletions: int = 0
    settled: int = 0
    rounds_to_settle: int = 0
    codes: set[ReasonCode] = field(default_factory=set)
    fates: set[object] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("states", "transitions", "rounds", "deletions", "settled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rounds_to_settle = max(self.rounds_to_settle, other.rounds_to_settle)
        self.codes |= other.codes
        self.fates |= other.fates
        self.samples += other.samples


class Exploration:
    """One scenario, to a depth."""

    def __init__(self, scenario: Scenario, rules: Rules = Rules(), samples: int = 0) -> None:  # noqa: B008 - a value
        self.tally = Tally()
        self._scenario = scenario
        self._policy = scenario.policy
        self._rules = rules
        self._wanted = samples
        self._changes = 0
        self._random = random.Random(scenario.name)

    def run(self, depth: int) -> Tally:
        """Raises: Violation, with the story that led there."""
        frontier = {self._told(seed): seed for seed in self._scenario.seeds}
        visited = set(frontier)
        for _ in range(depth):
            following: dict[World, str] = {}
            for world, story in frontier.items():
                for letter, after in self._steps(world, story):
                    if after not in visited:
                        visited.add(after)
                        following[after] = story + letter
            frontier = following
        self.tally.states = len(visited)
        return self.tally

    def _told(self, story: str) -> World:
        world = World()
        for place, letter in enumerate(story):
            (world,) = (after for _, after in self._steps(world, story[:place], letter))
        return world

    def _steps(self, world: World, story: str, letters: str = "") -> Iterator[tuple[str, World]]:
        for letter in letters or self._scenario.letters:
            try:
                after = self._step(world, letter)
            except Exception as error:
                error.add_note(f"{self._scenario.name}: {story + letter}")
                raise
            if after is not None:
                self.tally.transitions += 1
                yield letter, after

    def _step(self, world: World, letter: str) -> World | None:
        if letter not in REQUESTS:
            return happened(world, letter, replicates_later=self._scenario.replicates_later)
        self.tally.codes |= checked_guards(facts_of(world, self._policy), self._policy, self.tally.transitions)
        start = forgotten(world) if letter == "!" else world
        after = self._planned(start, REQUESTS[letter])
        if after is None:
            return None
        if letter == "!":
            self._check_repeated(after)
        self._sample(Sample(self._scenario, start, letter, after))
        return after

    def _planned(self, world: World, request: Request) -> World | None:
        """Plan and execute; a plan made right afterwards has nothing left to do. None where there was no work."""
        planned = self._plan(world, request)
        if not planned.has_work:
            check_limits(planned.verdicts, self._policy, forced=request.force_compaction)
            return None
        middle = executed(world, replace(planned, compaction=None, checkpoint_offset=None), self._rules, set())
        check_deletion(world, middle, self._policy)
        after = executed(middle, replace(planned, deletion=None), self._rules, self.tally.fates)
        self.tally.deletions += planned.deletion is not None
        if planned.compaction is not None:
            self.tally.rounds += 1
            check_round(middle, after, planned.compaction.round, self._policy)
            after = noted(middle, after, planned.compaction.round.end_offset)
        check_limits(planned.verdicts, self._policy, forced=request.force_compaction)
        demand(not self._plan(after, request).has_work, "a plan repeated finds work", world, after)
        return after

    def _plan(self, world: World, request: Request) -> PartitionPlan:
        planned = self._rules.plan(facts_of(world, self._policy), self._policy, request)
        self.tally.codes |= {verdict.reason.code for verdict in planned.verdicts}
        return planned

    def _check_repeated(self, once: World) -> None:
        """A round repeated at once on everything loses no record more, and repeated again changes nothing; sometimes
        it is repeated to the end of all limits."""
        end = once.checkpoint or 0
        twice = self._again(once)
        demand(read(twice, end, committed=False) == read(once, end, committed=False), "not idempotent", once, twice)
        demand(self._again(twice) == twice, "not idempotent at last", once, twice)
        if self.tally.rounds % SETTLED_ONE_IN == 0:
            self._check_settles(twice)

    def _again(self, world: World) -> World:
        return self._planned(forgotten(world), REQUESTS["!"]) or world

    def _check_settles(self, world: World) -> None:
        for count in range(SETTLING_ROUNDS_MAX):
            world = aged(world, AGE_MAX_MS)
            after = self._again(world)
            if after == world:
                check_settled(world, world.checkpoint or 0)
                self.tally.settled += 1
                self.tally.rounds_to_settle = max(self.tally.rounds_to_settle, count)
                return
            world = after
        demand(False, "does not converge", world)

    def _sample(self, step: Sample) -> None:
        """Each change has the same chance to be among those wanted."""
        self._changes += 1
        if len(self.tally.samples) < self._wanted:
            self.tally.samples.append(step)
        elif self._wanted and (place := self._random.randrange(self._changes)) < self._wanted:
            self.tally.samples[place] = step


def explored(scenario: Scenario, depth: int, samples: int) -> tuple[Scenario, Tally, str | None]:
    """The tally, and the complaint that ended the exploration, if one did."""
    exploration = Exploration(scenario, samples=samples)
    complaint = complaint_of(lambda: exploration.run(depth))
    return scenario, exploration.tally, complaint
