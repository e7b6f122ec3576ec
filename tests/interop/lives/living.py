"""Lives one life on both sides, stops at the first difference, and finds the fewest steps that still differ."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.interop.lives.comparing import STUMBLES, answer_differences, checkpoint_differences, file_differences
from tests.interop.lives.drawing import draw
from tests.interop.lives.kafka_side import KafkaLives, KafkaSide
from tests.interop.lives.life import STEPS, Life
from tests.interop.lives.our_side import OurSide
from tests.interop.lives.steps import Step

PARTITION: Final = "lived-0"
_CHECKPOINTED: Final = ("flush", "close")
_TRIES_MAX: Final = 150
_BROKEN: Final = ("to a full index", "to a full time index", "Trying to roll a new log segment")
"""What Kafka says once its log takes no append any more: one had more batches than its indexes have room."""
_AT_ONE_OFFSET: Final = "which was not started"
"""What Kafka says of transactions of which two begin at the same offset, as no leader has them."""


@dataclass(slots=True)
class Lived:
    """How a life went: what was done up to the first difference, and that difference."""

    seed: int
    done: list[tuple[int, Step]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """Steps by kind, and Kafka's errors by name."""
    indexes: tuple[int, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both sides went through the whole life, and never differed."""
        return not self.differences

    @property
    def headline(self) -> str:
        """The kind of the last step and the first difference, without numbers: to sort differences by."""
        kind = self.done[-1][1].kind if self.done else "-"
        first = self.differences[0].splitlines()[0] if self.differences else "nothing"
        if first.startswith("error: "):  # the messages have paths in them
            first = re.sub(r"\(.*?(\), ours |$)", r"\1", first)
        return f"{kind} | " + "".join(letter for letter in first if not letter.isdigit())[:110]

    def story(self, life: Life) -> str:
        """Return the facts that show what happened, and how to repeat it."""
        numbers = ",".join(map(str, sorted({index for index, _ in self.done} & set(self.indexes))))
        lines = [f"seed {self.seed}: python -m tests.interop.lives {self.seed} --steps {numbers}"]
        lines += [f"  {life.config} role={life.role} expiration={life.expiration_ms}"]
        lines += [f"  {index:3} now={life.times_ms[index]} {step}" for index, step in self.done]
        lines += [f"  DIFFERS {difference}" for difference in self.differences]
        return "\n".join(lines)


def live(jvm: KafkaLives, seed: int, scratch: Path, indexes: Sequence[int] = range(STEPS)) -> Lived:
    """Live a life, or the steps of it that are named, up to its end or the first difference."""
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"life-{seed}-") as room:
        life = Life(seed)
        directories = [Path(room, side, PARTITION) for side in ("kafka", "ours")]
        for directory in directories:
            directory.mkdir(parents=True)
        kafka, ours = KafkaSide(jvm, life, directories[0]), OurSide(life, directories[1])
        lived = Lived(seed, indexes=tuple(indexes))
        try:
            _Both(life, kafka, ours, lived).go_through(indexes)
        finally:
            kafka.do(Step("kill"), 0)
            ours.end()
        return lived


class _Both:
    """Both sides of one life."""

    def __init__(self, life: Life, kafka: KafkaSide, ours: OurSide, lived: Lived) -> None:
        self._life, self._kafka, self._ours, self._lived = life, kafka, ours, lived
        self._is_over = False
        self._strays: set[str] = set()
        """The snapshots that a start of Kafka deleted, as no segment begins there, or made, as there was none."""

    def go_through(self, indexes: Iterable[int]) -> None:
        opened, closed = Step("open", {"start": 0}), Step("close")
        for step in (opened, closed, opened):  # Kafka gives the first segment that it makes its full length
            self._do(0, step)
        for index in indexes:
            if self._is_over:
                return
            for step in draw(self._life, index, self._kafka.state):
                if not self._is_over:
                    self._do(index, step)
        for step in (closed, Step("open", {"start": self._kafka.state.log_start_offset})):
            if not self._is_over:
                self._do(STEPS, step)

    def _do(self, index: int, step: Step) -> None:
        self._lived.done.append((index, step))
        self._lived.seen[step.kind] += 1
        now_ms = self._life.times_ms[index]
        snapshots = self._snapshots()
        expected = self._kafka.do(step, now_ms)
        if step.kind == "open":
            self._strays |= snapshots ^ self._snapshots()
        if expected.error:
            self._lived.seen[f"{step.kind}: {expected.error}"] += 1
        if any(words in expected.message for words in (*_BROKEN, _AT_ONE_OFFSET)):
            self._is_over = True
            return
        answer = self._ours.do(step, now_ms)
        if expected.error in STUMBLES and answer.is_refusal:
            self._is_over = True
            return
        recompresses = self._life.recompresses
        self._lived.differences += answer_differences(step, expected, answer)
        directories = self._kafka.directory, self._ours.directory
        if self._ours.is_at_work:
            found = file_differences(*directories, recompresses=recompresses, strays=self._strays)
            self._lived.differences += found
            if step.kind in _CHECKPOINTED:
                self._lived.differences += checkpoint_differences(*directories)
        self._is_over = bool(self._lived.differences)

    def _snapshots(self) -> set[str]:
        return {path.name for path in self._kafka.directory.glob("*.snapshot")}


def shrunk(jvm: KafkaLives, lived: Lived, scratch: Path) -> Lived:
    """Find the fewest steps that still differ in the same way: the end goes first, then ever smaller parts."""
    wanted, tries = lived.headline, 0
    last = lived.done[-1][0]
    best = lived
    indexes = [index for index in lived.indexes if index <= last]
    size = max(1, len(indexes) // 2)
    while size and tries < _TRIES_MAX:
        start, is_smaller = 0, False
        while start < len(indexes) and tries < _TRIES_MAX:
            tries += 1
            fewer = indexes[:start] + indexes[start + size :]
            again = live(jvm, lived.seed, scratch, fewer)
            if again.headline == wanted:
                indexes, best, is_smaller = fewer, again, True
            else:
                start += size
        if not is_smaller or size > 1:
            size //= 2
    return best
