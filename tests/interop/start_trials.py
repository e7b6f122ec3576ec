"""Trials of the prediction: damage copies of made log dirs, predict, start a real broker, compare.

A log dir is the unit. A broker has several, which do not depend on each other: so each is damaged in ways of its own,
and one start tells of all of them. A log dir that is predicted to stop the broker gets a start of its own, beside sound
ones. Damages that concern several log dirs, or the metadata log, get one start each.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.preflight.preflight import Node, predict_start
from policies.preflight.facts import Release
from policies.preflight.start import Dirs, LogDirStart, LogStart, PartitionFate, Start
from tests.interop.damages import PARTITION_DAMAGES
from tests.interop.dir_damages import DIR_DAMAGES, OF_ONE_LOG_DIR, WITH_CLEANER
from tests.interop.predicted import (
    LogAfter,
    differences,
    logs_after,
    offline_differences,
    outcome_differences,
    recovery_differences,
)
from tests.interop.starts import NODE_ID, Kafka2, Kafka4, Outcome, RealStart, copied, removed, start

UNCLEAN_SHARE: Final = 0.6
OF_A_LOG_DIR_SHARE: Final = 0.2
"""Of the log dirs: those with a damage to a file of the log dir itself."""
DAMAGES_MAX: Final = 2
"""To partitions of one log dir."""
FUTURE: Final = "-future directory"
"""In the log dir of the partition itself, where no move leaves one; Kafka 2.8 takes the log dir offline later on."""
UNDAMAGED: Final = "no damage"
"""The kind of what differed at a partition that was left as it was: counted as wrong, never as right."""
CLEANER_SETTINGS: Final = {"log.cleaner.enable": "true", "log.cleaner.min.cleanable.ratio": "1"}
"""The log cleaner runs, and finds nothing that is dirty enough."""
_OLD_MAJOR: Final = 2
_PROPERTIES: Final = "meta.properties"
_MARKER: Final = ".kafka_cleanshutdown"
_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"


class Damaged(NamedTuple):
    """One damage to a log dir."""

    kind: str
    subject: str
    """The name of the partition directory; empty for a damage to the log dir itself."""
    damage: str


class Trial(NamedTuple):
    """One damaged log dir, and what differed from its prediction: for each damage, and at what was not damaged."""

    log_dir: str
    damages: tuple[tuple[Damaged, tuple[str, ...]], ...]
    differences: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether the broker did what was predicted."""
        return not self.differences and not any(differences for _, differences in self.damages)


@dataclass(slots=True)
class Tried:
    """All trials of a run, for the table."""

    starts: Counter[str] = field(default_factory=Counter)
    log_dirs: Counter[tuple[str, bool]] = field(default_factory=Counter)
    right: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, kafka: str, trial: Trial) -> None:
        """Count a trial."""
        self.log_dirs[kafka, trial.is_right] += 1
        if not trial.is_right:
            print(f"Kafka {kafka}: {trial}")
        for damaged, found in trial.damages:
            (self.wrong if found else self.right)[kafka, damaged.kind] += 1
        if trial.differences:
            self.wrong[kafka, UNDAMAGED] += 1

    @property
    def wrong_log_dirs(self) -> int:
        """How many log dirs a start left otherwise than was predicted."""
        return sum(count for (_, is_right), count in self.log_dirs.items() if not is_right)

    def table(self) -> str:
        """Return the table for people, in Markdown: kinds of damage, and how many predictions were right and wrong."""
        kafkas = sorted(self.starts)
        heads = "".join(f" {kafka} right | {kafka} wrong |" for kafka in kafkas)
        lines = [f"| Log dirs with |{heads}", "|---|" + "--:|" * (2 * len(kafkas))]
        for kind in (*PARTITION_DAMAGES, *DIR_DAMAGES, UNDAMAGED):
            counts = [(self.right[kafka, kind], self.wrong[kafka, kind]) for kafka in kafkas]
            if any(right + wrong for right, wrong in counts):
                lines.append(f"| {kind} |" + "".join(f" {right} | {wrong} |" for right, wrong in counts))
        sums = "".join(f" **{self.log_dirs[kafka, True]}** | **{self.log_dirs[kafka, False]}** |" for kafka in kafkas)
        starts = ", ".join(f"{self.starts[kafka]} of Kafka {kafka}" for kafka in kafkas)
        return "\n".join([*lines, f"| **all, each log dir once** |{sums}", "", f"Whole starts of brokers: {starts}."])


@dataclass(frozen=True, slots=True)
class Bench:
    """A Kafka, the log dirs that it made, and where copies of them are damaged."""

    name: str
    release: Release
    kafka: Kafka4 | Kafka2
    made: Path
    """Holds the log dirs; that of the metadata log is the first by name."""
    scratch: Path
    tried: Tried
    intervals: Callable[[str], int] | None = None
    """``index.interval.bytes`` by topic, where no metadata log states it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the broker, over the usual ones."""
    deletes_soon: bool = True
    """Whether ``-delete`` directories go while a start is watched."""

    def log_dirs(self, seed: int, *, alone_max: int) -> Iterator[Trial]:
        """Damage each log dir of a copy in some ways, and start; then those that stop the broker, one by one."""
        dice = random.Random(f"{self.name}/{self.made.name}/{seed}")
        copies = self.copied()
        damaged = {path.name: list(self._damages(dice, path)) for path in copies}
        alone = self._taken_out(copies)
        yield from self._tried(copies, {name: found for name, found in damaged.items() if found and name not in alone})
        for name, kept in list(alone.items())[:alone_max]:
            again = self.copied()
            place = next(path for path in again if path.name == name)
            removed(place)
            kept.rename(place)
            yield from self._tried(again, {name: damaged[name]})
        for kept in alone.values():
            removed(kept)

    def whole(self, kind: str, seed: int) -> Trial | None:
        """Damage a copy of the log dirs in one way, and start."""
        dice = random.Random(f"{kind}/{seed}")
        copies = self.copied()
        damage = DIR_DAMAGES[kind](dice, copies)
        if damage is None:
            return None
        is_cleaning = kind in WITH_CLEANER
        (trial,) = self._tried(copies, {"": [Damaged(kind, "", damage)]}, is_cleaning=is_cleaning)
        return trial

    def copied(self) -> list[Path]:
        """Copy the log dirs as they were made."""
        copy = self.scratch / "copy"
        removed(copy)
        copied(self.made, copy)
        return sorted(copy.iterdir())

    def predict(self, log_dirs: Sequence[Path], *, is_cleaning: bool = False) -> Start:
        """Predict a start."""
        node = Node(self.release, NODE_ID, log_dirs[0], intervals=self.intervals, cleans=is_cleaning)
        return predict_start(log_dirs, node)

    def _damages(self, dice: random.Random, log_dir: Path) -> Iterator[Damaged]:
        if dice.random() < UNCLEAN_SHARE:
            _make_unclean(dice, log_dir)
        if dice.random() < OF_A_LOG_DIR_SHARE and (log_dir / _PROPERTIES).exists():
            kind = dice.choice(OF_ONE_LOG_DIR)
            damage = DIR_DAMAGES[kind](dice, [log_dir])
            if damage is not None:
                yield Damaged(kind, "", damage)
        kinds = [kind for kind in PARTITION_DAMAGES if self.release.major > _OLD_MAJOR or kind != FUTURE]
        partitions = [path for path in sorted(log_dir.iterdir()) if path.is_dir() and not path.name.startswith("__")]
        count = dice.randint(1, DAMAGES_MAX)
        for path in dice.sample(partitions, len(partitions)):
            kind = dice.choice(kinds)
            damage = PARTITION_DAMAGES[kind](dice, path) if count else None
            if damage is not None:
                yield Damaged(kind, path.name, damage)
                count -= 1

    def _taken_out(self, copies: Sequence[Path]) -> dict[str, Path]:
        """Put sound log dirs in the place of those that stop the broker; gives where these are kept."""
        taken: dict[str, Path] = {}
        while True:
            predicted = self.predict(copies)
            refusals = predicted.refusals + predicted.uncertain
            named = {path.name for path in copies for one in refusals if f"{one.path}/".startswith(f"{path}/")}
            if not named:
                return taken
            assert not named & taken.keys(), f"sound log dirs are predicted to stop the broker: {refusals}"
            for path in (path for path in copies if path.name in named):
                kept = self.scratch / f"alone-{path.name}"
                removed(kept)
                path.rename(kept)
                copied(self.made / path.name, path)
                taken[path.name] = kept

    def _tried(
        self, copies: Sequence[Path], damaged: Mapping[str, Sequence[Damaged]], *, is_cleaning: bool = False
    ) -> Iterator[Trial]:
        """Start, and compare each log dir; the name "" stands for all of them."""
        before = {path: [one.name for one in path.iterdir()] if path.is_dir() else [] for path in copies}
        predicted = self.predict(copies, is_cleaning=is_cleaning)

        def compared(real: RealStart) -> dict[str, dict[str, list[str]]]:
            found = {path.name: self._of_log_dir(path, predicted, real, before) for path in copies}
            if "" in damaged:
                return {"": {name: texts for one in found.values() for name, texts in one.items() if texts}}
            return found

        def is_as_predicted(real: RealStart) -> bool:
            return not any(texts for one in compared(real).values() for texts in one.values())

        self.tried.starts[self.name] += 1
        settings = {**self.settings, **(CLEANER_SETTINGS if is_cleaning else {})}
        real = start(self.kafka, copies, settings, is_as_predicted)
        for name, by_partition in compared(real).items():
            found = _shared_out(name, damaged.get(name, ()), by_partition)
            if found.damages or found.differences:
                self.tried.take(self.name, found)
                yield found

    def _of_log_dir(
        self, log_dir: Path, predicted: Start, real: RealStart, before: Mapping[Path, Sequence[str]]
    ) -> dict[str, list[str]]:
        """Return the differences of each partition of a log dir; under "" those of the log dir, and of all."""
        of_all = list(outcome_differences(predicted, real))
        if of_all or real.outcome is not Outcome.STARTED:
            return {"": of_all}
        found = {"": list(offline_differences(str(log_dir), predicted, real))}
        moving = _moving(predicted)
        one = next(one for one in predicted.log_dirs if one.path == str(log_dir))
        if not found[""] and one.state is not Dirs.OFFLINE:
            by_name = self._of_partitions(one, real, log_dir, before[log_dir], set(map(str, predicted.unplaced)))
            found |= {name: texts for name, texts in by_name.items() if name.partition(".")[0] not in moving}
        return found

    def _of_partitions(
        self, predicted: LogDirStart, real: RealStart, log_dir: Path, there: Sequence[str], unplaced: set[str]
    ) -> dict[str, list[str]]:
        """Return the differences of each partition; those of one that the start makes anew count as its own."""
        after = logs_after(log_dir, real, there)
        found = {log.name: list(self._differences(log, real, log_dir, there, after)) for log in predicted.logs}
        new = {step.file for step in predicted.steps}
        known = {*there, *new, *unplaced, *(str(log.topic_partition) for log in predicted.logs)}
        for name in after.keys() - known:
            if self.release.major > _OLD_MAJOR:
                found.setdefault(name, []).append("was made, and not predicted")
        for name in new - after.keys():
            found.setdefault(name, []).append("was not made, as was predicted")
        return found

    def _differences(
        self, log: LogStart, real: RealStart, log_dir: Path, before: Sequence[str], after: dict[str, list[LogAfter]]
    ) -> Iterator[str]:
        if log.name.startswith("__"):
            return
        there = [*after.get(log.name, []), *after.get(str(log.topic_partition), [])]
        yield from differences(log, before, there, deletes_soon=self.deletes_soon)
        yield from recovery_differences(log, real, log_dir)


def _shared_out(log_dir: str, damaged: Sequence[Damaged], by_partition: Mapping[str, Sequence[str]]) -> Trial:
    """Give each difference to the damage that it belongs to."""
    left = {name: tuple(texts) for name, texts in by_partition.items() if texts}
    of_all = left.pop("", ())
    shared = []
    for one in damaged:
        mine = [name for name in left if name in (one.subject, one.damage) or name.startswith(f"{one.subject}.")]
        mine = list(left) if not one.subject else mine
        shared.append((one, (*of_all, *(text for name in mine for text in (name, *left.pop(name))))))
    return Trial(log_dir, tuple(shared), tuple(text for name, texts in left.items() for text in (name, *texts)))


def _moving(predicted: Start) -> set[str]:
    """The names of partitions whose move goes on as soon as the broker serves: when it ends is not predicted."""
    logs = [log for log_dir in predicted.log_dirs for log in log_dir.logs]
    moving = {log.topic_partition for log in logs if log.fate is PartitionFate.FUTURE}
    return set(map(str, moving))


def _make_unclean(dice: random.Random, log_dir: Path) -> None:
    """Take the marker away, and move recovery points back."""
    (log_dir / _MARKER).unlink()
    lines = []
    for line in (log_dir / _RECOVERY_POINTS).read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        lines.append(f"{topic} {partition} {dice.choice((0, int(offset) // 2, int(offset)))}\n")
    (log_dir / _RECOVERY_POINTS).write_text(f"0\n{len(lines)}\n{''.join(lines)}")
