"""Lives one life on both sides, stops at the first difference, and finds the fewest steps that still differ."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.interop.lives.comparing import STUMBLES, answer_differences, checkpoint_differences, file_differences
from tests.interop.lives.damage import do_damage
from tests.interop.lives.drawing import draw
from tests.interop.lives.kafka_side import KafkaLives, KafkaSide
from tests.interop.lives.life import STEPS, Life
from tests.interop.lives.our_side import OurSide, Unable
from tests.interop.lives.steps import LOOKS, Step

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
    unable: Counter[str] = field(default_factory=Counter)
    """What our log has no call for: looks are left out, anything else ends the life."""
    seen: Counter[str] = field(default_factory=Counter)
    """Steps by kind, and Kafka's errors by name."""
    indexes: tuple[int, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both sides went through the whole life, and never differed."""
        return not self.differences and not self.unable

    @property
    def headline(self) -> str:
        """The kind of the last step and the first difference, without numbers: to sort differences by."""
        kind = self.done[-1][1].kind if self.done else "-"
        first = self.differences[0].splitlines()[0] if self.differences else f"unable {dict(self.unable)}"
        if first.startswith("error: "):  # the messages have paths in them
            first = re.sub(r"\(.*?(\), ours |$)", r"\1", first)
        return f"{kind} | " + "".join(letter for letter in first if not letter.isdigit())[:110]

    def story(self, life: Life) -> str:
        """All that one needs to see what happened, and to see it again."""
        numbers = ",".join(map(str, sorted({index for index, _ in self.done} & set(self.indexes))))
        lines = [f"seed {self.seed}: python -m tests.interop.lives {self.seed} --steps {numbers}"]
        lines += [f"  {life.config} role={life.role} expiration={life.expiration_ms}"]
        lines += [f"  {index:3} now={life.times_ms[index]} {step}" for index, step in self.done]
        lines += [f"  DIFFERS {difference}" for difference in self.differences]
        lines += [f"  UNABLE {what} x{times}" for what, times in self.unable.items()]
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
        self._opens, self._may_not_know_times = 0, False
        self._lost_times = False

    def go_through(self, indexes: Iterable[int]) -> None:
        opened = Step("open", {"clean": "true", "start": 0, "recovery": "0"})
        self._do(0, opened)
        for index in indexes:
            if self._is_over:
                return
            for step in draw(self._life, index, self._kafka.state):
                if not self._is_over:
                    self._do(index, step)
        if not self._is_over:
            self._do(STEPS, Step("close"))
            self._do(STEPS, self._resolved(opened))

    def _do(self, index: int, step: Step) -> None:
        step = self._resolved(step)
        self._lived.done.append((index, step))
        self._lived.seen[step.kind] += 1
        if step.kind == "damage":
            for side in (self._kafka, self._ours):
                do_damage(side.directory, step.options["of"], step.options["number"])
            return
        self._opens += step.kind == "open"
        if step.kind == "open" and any(done.options.get("of") == "remove-index" for _, done in self._lived.done):
            # A start that does not read the segment makes an empty time index: Kafka goes by the time of the file.
            self._lost_times = self._lost_times or step.options["clean"] == "true" or step.options["recovery"] != "0"
        if step.kind in ("open", "truncate"):
            # Kafka forgets the largest timestamp of a segment that it cuts before anything asked for it since the
            # start. From then on a lookup goes by the time of the file.
            self._may_not_know_times = step.kind == "truncate" and self._opens > 1
        if step.kind == "lookup" and (self._may_not_know_times or self._lost_times):
            return
        if step.kind == "truncate" and self._lost_times:
            self._is_over = True
            return
        now_ms = self._life.times_ms[index]
        expected = self._kafka.do(step, now_ms)
        if expected.error:
            self._lived.seen[f"{step.kind}: {expected.error}"] += 1
        if any(words in expected.message for words in (*_BROKEN, _AT_ONE_OFFSET)):
            self._is_over = True
            return
        try:
            answer = self._ours.do(step, now_ms)
        except Unable as unable:
            self._lived.unable[str(unable)] += 1
            self._is_over = step.kind not in LOOKS
            return
        is_split = step.kind == "open" and "does not fit a segment" in answer.message  # Kafka makes several of it
        is_no_start = step.kind == "open" and expected.error == answer.error is not None  # Kafka leaves half an index
        if (expected.error in STUMBLES and answer.is_refusal) or is_no_start or is_split:
            self._is_over = True
            return
        recompresses = self._life.recompresses
        self._lived.differences += answer_differences(step, expected, answer, recompresses=recompresses)
        directories = self._kafka.directory, self._ours.directory
        self._lived.differences += file_differences(*directories, recompresses=recompresses)
        if step.kind in _CHECKPOINTED:
            self._lived.differences += checkpoint_differences(*directories)
        self._is_over = bool(self._lived.differences) or (step.kind == "open" and expected.error is not None)

    def _resolved(self, step: Step) -> Step:
        """Take the recovery point that Kafka's checkpoint has."""
        if step.kind != "open" or step.options["recovery"] != "checkpoint":
            return step
        path = self._kafka.directory.parent / "recovery-point-offset-checkpoint"
        line = path.read_text().splitlines()[-1] if path.exists() else "0"
        return replace(step, options={**step.options, "recovery": line.split()[-1]})


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
