"""The cuts of all logs as of a moment: random clusters, whose transactions are whole or absent behind every cut."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from policies.as_of import (
    Cut,
    CutReason,
    Cuts,
    MomentLog,
    StateRecord,
    TransactionPart,
    TransactionState,
    cuts_as_of,
    cuts_given,
)
from storage.names import TopicPartition

DATA = [TopicPartition("orders", partition) for partition in range(3)]
STATES = [TopicPartition("__transaction_state", partition) for partition in range(2)]
ENDS = {
    True: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    False: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
}


@dataclass
class Part:
    """What a partition truly has of a transaction."""

    number: int
    commits: bool
    producer_id: int
    epoch: int
    batches: list[tuple[int, int]] = field(default_factory=list)
    marker: tuple[int, int] | None = None


@dataclass
class Cluster:
    """The logs of a cluster that runs: each append takes its time from one clock."""

    random: random.Random
    lag_ms: int
    bumps: bool = True
    """Whether each transaction has an epoch of its own."""
    now_ms: int = 1_000
    logs: dict[TopicPartition, list[int]] = field(default_factory=lambda: {name: [] for name in [*DATA, *STATES]})
    records: dict[TopicPartition, list[StateRecord]] = field(default_factory=lambda: {name: [] for name in STATES})
    parts: dict[TopicPartition, list[Part]] = field(default_factory=lambda: {name: [] for name in DATA})

    def append(self, name: TopicPartition, lag_ms: int = 0) -> tuple[int, int]:
        self.now_ms += 1
        log, time_ms = self.logs[name], self.now_ms - lag_ms
        log.append(time_ms)
        return len(log) - 1, time_ms

    def note(self, id_: int, state: TransactionState, partitions: set[TopicPartition]) -> None:
        log = STATES[id_ % len(STATES)]
        offset, time_ms = self.append(log)
        self.records[log].append(StateRecord(f"t{id_}", offset, offset + 1, time_ms, id_, state, frozenset(partitions)))

    def producer(self, id_: int) -> Iterator[None]:
        """Run transactions, a step at a time."""
        for count in range(self.random.randint(1, 6)):
            commits, parts, registered = self.random.random() < 0.7, dict[TopicPartition, Part](), set[TopicPartition]()
            for _ in range(self.random.randint(1, 5)):
                name = self.random.choice(DATA)
                if name not in registered:
                    registered.add(name)
                    self.note(id_, TransactionState.ONGOING, registered)
                    yield
                    if self.random.random() < 0.1:
                        continue  # registered, and never written to
                    part = parts[name] = Part(id_ * 100 + count, commits, id_, count * self.bumps)
                    self.parts[name].append(part)
                if name in parts:
                    lag_ms = self.random.choice((0, self.random.randint(-self.lag_ms, self.lag_ms)))
                    parts[name].batches.append(self.append(name, lag_ms))
                    yield
            prepare, complete = ENDS[commits]
            self.note(id_, prepare, registered)
            yield
            for name in self.random.sample(sorted(registered), len(registered)):
                marker = self.append(name)
                if name in parts:
                    parts[name].marker = marker
                yield
            self.note(id_, complete, set())
            yield

    def run(self, producers: int) -> Cluster:
        running = [self.producer(id_) for id_ in range(1, producers + 1)]
        steps = self.random.randint(5, 200)
        while running and steps:
            steps -= 1
            chosen = self.random.choice(running)
            if self.random.random() < 0.2:
                self.append(self.random.choice(DATA), self.random.randint(-self.lag_ms, self.lag_ms))
            if next(chosen, 0) == 0:
                running.remove(chosen)
        return self

    def as_of(self, time_ms: int, *, with_states: bool = True) -> list[MomentLog]:
        logs = []
        for name, times in self.logs.items():
            newer = next((offset for offset, found in enumerate(times) if found > time_ms), None)
            parts = [part_of(part, bumps=self.bumps) for part in self.parts.get(name, ()) if part.batches]
            parts.sort(key=lambda part: part.marker_ms)
            states = tuple(self.records.get(name, ()))
            if with_states or name in DATA:
                logs.append(MomentLog(name, 0, len(times), newer, tuple(parts), states))
        return logs


def part_of(part: Part, *, bumps: bool) -> TransactionPart:
    (first, first_ms), (last, _) = part.batches[0], part.batches[-1]
    if part.marker is None:
        return TransactionPart(part.producer_id, part.epoch, first, first_ms, last + 1)
    return TransactionPart(
        part.producer_id, part.epoch, first, first_ms, last + 1, *part.marker, part.commits, ends_epoch=bumps
    )


def problems(cluster: Cluster, cuts: Cuts) -> Iterator[str]:
    """Yield what is wrong with cuts, by what truly happened."""
    fates = {(one.name, one.part.first_offset): one.commits for one in cuts.open_parts}
    seen: dict[int, set[bool]] = {}
    for name, parts in cluster.parts.items():
        cut = cuts[name].offset
        for part in (part for part in parts if part.batches):
            inside = [offset < cut for offset, _ in part.batches]
            is_ended = part.marker is not None and part.marker[0] < cut
            fate = part.commits if is_ended else fates.get((name, part.batches[0][0]))
            if any(inside) and fate is None:
                yield f"transaction {part.number} hangs in {name}"
            visible = any(inside) and bool(fate)
            if visible and not all(inside):
                yield f"transaction {part.number} lost records in {name}"
            seen.setdefault(part.number, set()).add(visible)
    for number, found in seen.items():
        if len(found) > 1:
            yield f"transaction {number} is in one partition, and not in another"


def clusters(count: int, lag_ms: int, *, bumps: bool = False) -> Iterator[tuple[Cluster, int]]:
    for seed in range(count):
        cluster = Cluster(random.Random(seed), lag_ms, bumps).run(producers=1 + seed % 4)
        for _ in range(10):
            yield cluster, cluster.random.randint(999, cluster.now_ms + 3)


@pytest.mark.parametrize(
    ("lag_ms", "with_states", "bumps"),
    [(0, True, False), (3, True, False), (50, True, False), (50, True, True), (0, False, False), (50, False, True)],
)
def test_every_transaction_is_whole_or_absent(lag_ms: int, *, with_states: bool, bumps: bool) -> None:
    reasons: Counter[CutReason] = Counter()
    for cluster, time_ms in clusters(300, lag_ms, bumps=bumps):
        logs = cluster.as_of(time_ms, with_states=with_states)
        cuts = cuts_as_of(logs)
        assert [*problems(cluster, cuts)] == [], (cluster, time_ms)
        for log in logs:
            newest = log.end_offset if log.newer_offset is None else log.newer_offset
            assert cuts[log.name].offset <= newest
            reasons[cuts[log.name].reason] += 1
    assert {CutReason.END, CutReason.NEWER} <= reasons.keys()
    assert (CutReason.TRANSACTION in reasons) is (lag_ms > 0 or not with_states)


def test_with_one_clock_nothing_older_than_the_moment_is_left_out() -> None:
    for cluster, time_ms in clusters(200, 0):
        cuts = cuts_as_of(cluster.as_of(time_ms))
        for name, times in cluster.logs.items():
            assert cuts[name].offset == sum(found <= time_ms for found in times)


def by_time_alone(logs: list[MomentLog]) -> Cuts:
    """Cut as a broken twin does: without a look at transactions."""
    ends = {log.name: log.end_offset if log.newer_offset is None else log.newer_offset for log in logs}
    return cuts_given(logs, ends)


def a_batch_lower(logs: list[MomentLog]) -> Cuts:
    """Cut one log a batch lower than the others allow."""
    cuts = cuts_as_of(logs)
    return cuts_given(logs, {log.name: max(0, cuts[log.name].offset - (log.name == STATES[0])) for log in logs})


@pytest.mark.parametrize("broken", [by_time_alone, a_batch_lower])
def test_a_broken_twin_is_caught(broken: Callable[[list[MomentLog]], Cuts]) -> None:
    assert any([*problems(cluster, broken(cluster.as_of(time_ms)))] for cluster, time_ms in clusters(50, 50))


def test_given_offsets_cut_as_they_say_and_never_behind_the_end() -> None:
    log = MomentLog(DATA[0], 0, 10, None)
    assert cuts_given([log], {DATA[0]: 7})[DATA[0]] == Cut(DATA[0], 7, CutReason.GIVEN)
    assert cuts_given([log], {DATA[0]: 12})[DATA[0]] == Cut(DATA[0], 10, CutReason.END)


def test_a_marker_of_another_broker_finds_its_transaction_though_the_clocks_differ() -> None:
    states = (
        StateRecord("t", 0, 1, 100, 7, TransactionState.ONGOING, frozenset({DATA[0]})),
        StateRecord("t", 1, 2, 200, 7, TransactionState.PREPARE_COMMIT, frozenset({DATA[0]})),
        StateRecord("t", 2, 3, 250, 7, TransactionState.COMPLETE_COMMIT, frozenset()),
    )
    part = TransactionPart(7, 0, 0, 90, 1, marker_offset=1, marker_ms=150, commits=True)
    logs = [MomentLog(DATA[0], 0, 2, None, (part,)), MomentLog(STATES[0], 0, 3, 1, (), states)]
    cuts = cuts_as_of(logs)
    assert (cuts[DATA[0]], cuts[STATES[0]].offset) == (Cut(DATA[0], 1, CutReason.TRANSACTION, 7), 1)
    assert [one.commits for one in cuts.open_parts] == [False]
