"""Kafka's own cleaner on the forgetting disk: what a cut takes there is a figure beside ours, and nobody's promise.

It runs in a broker, which has no mark of a clean stop: so a start recovers what it finds.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from storage.names import CLEAN_SHUTDOWN_FILE, CLEANER_OFFSET_CHECKPOINT
from tests.crash import acts as crash_acts
from tests.crash import scenes
from tests.crash.acts import AT_MS, TOPICS
from tests.crash.promises import States, states_of
from tests.crash.scenes import Scene
from tests.crash.trials import state_of
from tests.disk.acts import DATA
from tests.disk.cuts import lay_down
from tests.disk.mount import mounted
from tests.disk.recording import Recording
from tests.disk.trials import copied, cuts_of, opened
from tests.interop.referee import Referee

DRAWS: Final = (scenes.orders, scenes.prices, scenes.payments)
BATCH: Final = 50
ROUNDS: Final = 2


@dataclass(slots=True)
class Lost:
    """What was found in cuts of the peer's runs."""

    cuts: Counter[str] = field(default_factory=Counter)
    """By kind of disk."""
    with_losses: Counter[str] = field(default_factory=Counter)
    records: int = 0
    refused: int = 0
    """Partitions that Kafka did not open."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {self.with_losses[kind]} of {count}" for kind, count in sorted(self.cuts.items()))
        return f"Kafka's cleaner: cuts with losses: {kinds}; records lost: {self.records}; not opened: {self.refused}"


def clean(referee: Referee, log_dir: Path) -> None:
    """Two rounds of Kafka's cleaner over each log."""
    for directory in sorted(log_dir.glob("*-0")):
        config = {**TOPICS[directory.name.rpartition("-")[0]], "segment.index.bytes": "4096"}
        referee.clean([directory], config=config, now_ms=AT_MS, checkpoints=True, rounds=ROUNDS)


def try_peer(referee: Referee, seed: int, count: int, scratch: Path, lost: Lost) -> None:
    """Record Kafka's cleaner on a disk of that seed, and count what cuts of it take."""
    root = scratch / "drawn"
    root.mkdir(parents=True)
    Scene(crash_acts.clean, (*DRAWS, scenes.drawn(seed))).draw(root / DATA)
    for name in (CLEAN_SHUTDOWN_FILE, CLEANER_OFFSET_CHECKPOINT):
        (root / DATA / name).unlink()
    done = copied(root, scratch / "done")
    clean(referee, done / DATA)
    before, after = states_of(root / DATA), states_of(done / DATA)
    with mounted(copied(root, scratch / "backing"), scratch / "mounted", scratch / "recording") as mountpoint:
        clean(referee, mountpoint / DATA)
    left: list[tuple[str, Path]] = []
    for number, (disk, cut) in enumerate(cuts_of(Recording.read(scratch / "recording"), count, Random(seed))):
        left.append((cut.kind, lay_down(disk.left(cut), scratch / f"cut-{number}") / DATA))
        if len(left) == BATCH:
            _count(referee, before, after, left, lost)
            left.clear()
    _count(referee, before, after, left, lost)


def _count(referee: Referee, before: States, after: States, left: list[tuple[str, Path]], lost: Lost) -> None:
    losing = set()
    for name in before:
        for (kind, log_dir), log in zip(left, opened(referee, name, [log_dir for _, log_dir in left]), strict=True):
            try:
                found = state_of(log() if callable(log) else log)
            except Exception:
                lost.refused += 1
                continue
            gone = set(before[name].records) & set(after[name].records) - set(found.records)
            lost.records += len(gone)
            if gone:
                losing.add((kind, log_dir))
    lost.cuts.update(kind for kind, _ in left)
    lost.with_losses.update(kind for kind, _ in losing)
    for _, log_dir in left:
        shutil.rmtree(log_dir.parent)
