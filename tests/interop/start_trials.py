"""Trials of the prediction: damage copies of a made log dir, predict, start a real broker, compare.

Damages to partitions are independent of each other, so many share one start; a partition that is predicted to stop
the broker, or to take its log dir offline, gets a start of its own. Damages to a whole log dir get one start each.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.starting.preflight import Node, predict_start
from policies.starting.facts import Release
from policies.starting.start import Dirs, LogDirStart, LogStart, PartitionFate, Start
from tests.interop.damages import PARTITION_DAMAGES
from tests.interop.dir_damages import DIR_DAMAGES, WITH_CLEANER
from tests.interop.predicted import LogAfter, differences, logs_after, outcome_differences, recovery_differences
from tests.interop.starts import NODE_ID, Kafka2, Kafka4, RealStart, copied, removed, start

UNCLEAN_SHARE: Final = 0.6
FUTURE: Final = "-future directory"
"""In the log dir of the partition itself, where no move leaves one; Kafka 2.8 takes the log dir offline later on."""
UNDAMAGED: Final = "no damage"
"""The kind of what differed at a partition that was left as it was: counted as wrong, never as right."""
CLEANER_SETTINGS: Final = {"log.cleaner.enable": "true", "log.cleaner.min.cleanable.ratio": "1"}
"""The log cleaner runs, and finds nothing that is dirty enough."""
_MARKER: Final = ".kafka_cleanshutdown"
_RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"


class Trial(NamedTuple):
    """One damage, and what differed from its prediction."""

    kind: str
    subject: str
    damage: str
    differences: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the broker did what was predicted."""
        return not self.differences


@dataclass(slots=True)
class Tried:
    """All trials of a run, for the table."""

    starts: Counter[str] = field(default_factory=Counter)
    right: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, kafka: str, trial: Trial) -> None:
        """Count a trial."""
        (self.right if trial.is_right else self.wrong)[kafka, trial.kind] += 1

    def table(self) -> str:
        """Return the table for people, in Markdown: kinds of damage, and how many predictions were right and wrong."""
        kafkas = sorted(self.starts)
        heads = "".join(f" {kafka} right | {kafka} wrong |" for kafka in kafkas)
        lines = [f"| Damage |{heads}", "|---|" + "--:|" * (2 * len(kafkas))]
        for kind in (*PARTITION_DAMAGES, *DIR_DAMAGES, UNDAMAGED):
            counts = [(self.right[kafka, kind], self.wrong[kafka, kind]) for kafka in kafkas]
            if any(right + wrong for right, wrong in counts):
                lines.append(f"| {kind} |" + "".join(f" {right} | {wrong} |" for right, wrong in counts))
        sums = "".join(
            f" **{sum(n for (k, _), n in self.right.items() if k == kafka)}** |"
            f" **{sum(n for (k, _), n in self.wrong.items() if k == kafka)}** |"
            for kafka in kafkas
        )
        starts = ", ".join(f"{self.starts[kafka]} of Kafka {kafka}" for kafka in kafkas)
        return "\n".join([*lines, f"| **all** |{sums}", "", f"Whole starts of brokers: {starts}."])


@dataclass(frozen=True, slots=True)
class Bench:
    """A Kafka, the log dirs that it made, and where copies of them are damaged."""

    name: str
    release: Release
    kafka: Kafka4 | Kafka2
    made: Path
    """Holds the log dirs ``a`` and ``b``."""
    scratch: Path
    tried: Tried

    def partitions(self, seed: int, *, alone_max: int) -> Iterator[Trial]:
        """Damage each partition of a copy of log dir ``a`` in some way, and start; then those that stop it alone."""
        dice = random.Random(f"{self.name}/{seed}")
        copy = self._copy()
        if dice.random() < UNCLEAN_SHARE:
            _make_unclean(dice, copy)
        points, is_clean = (copy / _RECOVERY_POINTS).read_bytes(), (copy / _MARKER).exists()
        kinds = [kind for kind in PARTITION_DAMAGES if self.release.major > 2 or kind != FUTURE]
        damaged = dict(_damaged(dice, copy, kinds))
        alone = self._taken_out(copy, damaged, seed)
        yield from self._tried(copy, damaged)
        for name, (kept, trial) in list(alone.items())[:alone_max]:
            again = self._copy()
            if not is_clean:
                (again / _MARKER).unlink()
            (again / _RECOVERY_POINTS).write_bytes(points)
            removed(again / name)
            kept.rename(again / name)
            yield from self._tried(again, {name: (trial.kind, trial.damage)})
        for kept, _ in alone.values():
            removed(kept)

    def whole(self, kind: str, seed: int) -> Trial | None:
        """Damage copies of both log dirs in one way, and start."""
        dice = random.Random(f"{kind}/{seed}")
        both = self.scratch / "copy"
        removed(both)
        copied(self.made, both)
        log_dirs = [both / "a", both / "b"]
        damage = DIR_DAMAGES[kind](dice, log_dirs)
        if damage is None:
            return None
        before = [[path.name for path in log_dir.iterdir()] if log_dir.is_dir() else [] for log_dir in log_dirs]
        cleans = kind in WITH_CLEANER
        predicted = predict_start(log_dirs, Node(self.release, NODE_ID, log_dirs[0], cleans=cleans))
        real = self._start(log_dirs, CLEANER_SETTINGS if cleans else {})
        found = list(outcome_differences(predicted, real))
        if not found and predicted.is_started:
            moving = _moving(predicted)
            for log_dir, names, one in zip(log_dirs, before, predicted.log_dirs, strict=True):
                compared = self._compared(one, real, log_dir, names)
                found += [text for name, texts in compared.items() if name not in moving for text in texts]
        return self._taken(Trial(kind, "both", damage, tuple(found)))

    def _copy(self) -> Path:
        both = self.scratch / "copy"
        removed(both)
        both.mkdir()
        return copied(self.made / "a", both / "a")

    def _start(self, log_dirs: Sequence[Path], settings: Mapping[str, str] | None = None) -> RealStart:
        self.tried.starts[self.name] += 1
        return start(self.kafka, log_dirs, settings)

    def _predict(self, log_dir: Path) -> Start:
        return predict_start([log_dir], Node(self.release, NODE_ID, cleans=False))

    def _taken_out(self, copy: Path, damaged: dict[str, tuple[str, str]], seed: int) -> dict[str, tuple[Path, Trial]]:
        """Put sound partitions in the place of those that stop the broker; gives where these are kept."""
        (log_dir,) = self._predict(copy).log_dirs
        taken = {}
        for log in log_dir.logs:
            if log.fate in (PartitionFate.REFUSES, PartitionFate.TAKES_OFFLINE) and log.name in damaged:
                kept = self.scratch / f"alone-{seed}-{log.name}"
                removed(kept)
                (copy / log.name).rename(kept)
                copied(self.made / "a" / log.name, copy / log.name)
                kind, damage = damaged.pop(log.name)
                taken[log.name] = kept, Trial(kind, log.name, damage, ())
        return taken

    def _tried(self, copy: Path, damaged: dict[str, tuple[str, str]]) -> Iterator[Trial]:
        before = [path.name for path in copy.iterdir()]
        predicted = self._predict(copy)
        real = self._start([copy])
        of_all = tuple(outcome_differences(predicted, real))
        by_name = {}
        if not of_all and predicted.is_started:
            by_name = self._compared(predicted.log_dirs[0], real, copy, before)
        for name, (kind, damage) in damaged.items():
            mine = [one for one in by_name if one in (name, damage) or one.startswith(f"{name}.")]
            yield self._taken(
                Trial(kind, name, damage, of_all or tuple(text for one in mine for text in by_name.pop(one)))
            )
        for name, texts in by_name.items():
            if texts:
                yield self._taken(Trial(UNDAMAGED, name, "", tuple(texts)))

    def _taken(self, trial: Trial) -> Trial:
        self.tried.take(self.name, trial)
        return trial

    def _compared(
        self, predicted: LogDirStart, real: RealStart, log_dir: Path, before: Sequence[str]
    ) -> dict[str, list[str]]:
        """Return the differences of each partition; those of one that the start makes anew count as its own."""
        if predicted.state is Dirs.OFFLINE:
            return {}
        after = logs_after(log_dir, real, before)
        found = {log.name: list(self._differences(log, real, log_dir, before, after)) for log in predicted.logs}
        for name in after.keys() - set(before) - {str(log.topic_partition) for log in predicted.logs}:
            if name not in {step.file for step in predicted.steps} and self.release.major > 2:
                found.setdefault(name, []).append("was made, and not predicted")
        return found

    def _differences(
        self, log: LogStart, real: RealStart, log_dir: Path, before: Sequence[str], after: dict[str, list[LogAfter]]
    ) -> Iterator[str]:
        if log.name.startswith("__"):
            return
        there = [*after.get(log.name, []), *after.get(str(log.topic_partition), [])]
        yield from differences(log, before, there, deletes_soon=self.release.major > 2)
        yield from recovery_differences(log, real, log_dir)


def _moving(predicted: Start) -> set[str]:
    """The directories of partitions whose move goes on as soon as the broker serves: when it ends is not predicted."""
    logs = [log for log_dir in predicted.log_dirs for log in log_dir.logs]
    moving = {log.topic_partition for log in logs if log.fate is PartitionFate.FUTURE}
    return {name for log in logs if log.topic_partition in moving for name in (log.name, str(log.topic_partition))}


def _make_unclean(dice: random.Random, log_dir: Path) -> None:
    """Take the marker away, and move recovery points back."""
    (log_dir / _MARKER).unlink()
    lines = []
    for line in (log_dir / _RECOVERY_POINTS).read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        lines.append(f"{topic} {partition} {dice.choice((0, int(offset) // 2, int(offset)))}\n")
    (log_dir / _RECOVERY_POINTS).write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def _damaged(dice: random.Random, log_dir: Path, kinds: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    dealt = cycle(dice.sample(kinds, len(kinds)))
    for path in sorted(log_dir.iterdir()):
        if path.is_dir() and not path.name.startswith("__"):
            kind = next(dealt)
            damage = PARTITION_DAMAGES[kind](dice, path)
            if damage is not None:
                yield path.name, (kind, damage)
