"""What happens, and which jobs the worker does then: one story a row, on a real log dir and with a clock set by hand.

A job is told by its kind, with what it did: ``p`` for each plan of everything, ``r`` for each plan that was spent.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cleaner.daemon.due import Schedule
from cleaner.daemon.observer import JobDone
from storage.checkpoints import format_offset_checkpoint
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT
from tests.cleaner.daemon.test_worker import (  # noqa: F401 - fixtures
    EXPIRING_SOON,
    STATE,
    Observed,
    SameProcess,
    World,
    damaged,
    in_this_process,
    log_dir,
)
from tests.partition_dirs import COMPACT, DAY_MS, EXPIRING, NOW_MS, PartitionDir, committed, keyed

Happening = Callable[[World], object]
TICK_MS, RETENTION_MS, DELAY_MS = 15_000, 300_000, 60_000
KEPT = {"cleanup.policy": "delete"}
LAGGING = {**COMPACT, "min.compaction.lag.ms": "100000"}


class Jobs(Observed):
    """Writes down every job that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self._before = 0, 0

    def did(self, job: JobDone) -> None:
        plans, runs = (now - before for now, before in zip((self.plans, self.runs), self._before, strict=True))
        self._before = self.plans, self.runs
        self.told.append(" ".join([job.kind.value, *("p" * plans), *("r" * runs)]))


class Story(NamedTuple):
    """Topics, then steps: milliseconds that go by, what happens meanwhile, and the jobs of the turn that follows."""

    name: str
    topics: dict[str, dict[str, str]]
    steps: list[tuple[int, Happening | None, list[str]]]
    observing: bool = False


def touched(name: str) -> Happening:
    return lambda world: (world.log_dir / name).touch()


def removed(name: str) -> Happening:
    return lambda world: (world.log_dir / name).unlink()


def held(world: World) -> None:
    world.lock = LogDir(world.log_dir).lock(FileSystem())


def freed(world: World) -> None:
    world.lock.release()


def gone(world: World) -> None:
    world.log_dir.rename(world.log_dir.with_name("away"))


def back(world: World) -> None:
    world.log_dir.with_name("away").rename(world.log_dir)


def expiring_orders(world: World) -> None:
    """A partition comes whose only record expired long ago."""
    partition = PartitionDir(world.log_dir, "orders-1")
    committed(world.log_dir, partition.segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - 9 * DAY_MS)))


def unreadable(world: World) -> None:
    world.good, world.layers = world.layers, UnreadableFile(Path("/c"), "no")
    world.worker.want(lambda schedule: schedule.asked_for("reload"))


def readable(world: World) -> None:
    world.layers = world.good
    world.worker.want(lambda schedule: schedule.asked_for("reload"))


def mend_quietly(world: World) -> None:
    """The file is right again, but nobody asks for a reload."""
    world.layers = world.good


def now(world: World) -> None:
    world.worker.want(Schedule.asked_for_everything)


def failing(what: str, times: int = 1) -> Happening:
    return lambda _: setattr(SameProcess, what, times)


def hurt(world: World) -> None:
    world.good = (world.log_dir / "state-0" / f"{0:020d}.log").read_bytes()
    damaged(world.log_dir)


def mended(world: World) -> None:
    (world.log_dir / "state-0" / f"{0:020d}.log").write_bytes(world.good)


def beyond_its_end(world: World) -> None:
    path = world.log_dir / CLEANER_OFFSET_CHECKPOINT
    path.write_bytes(format_offset_checkpoint({STATE: 99}))


STORIES = [
    Story(
        "a first look compacts, and the first retention opens every partition",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, None, ["survey p", "compaction r"]),
            (30_000, None, ["retention p r", "removal r"]),
            (TICK_MS, None, ["survey p"]),
            (TICK_MS, None, ["survey"]),
        ],
    ),
    Story(
        "a look that finds nothing changed plans nothing",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (TICK_MS, None, ["survey p"]),
            (TICK_MS, None, ["survey"]),
            (TICK_MS, touched("state-0/x"), ["survey p"]),
            (TICK_MS, None, ["survey", "removal r"]),
        ],
    ),
    Story(
        "a full survey plans although nothing changed",
        {"orders": KEPT, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (TICK_MS, None, ["survey"]),
            (RETENTION_MS, None, ["retention p"]),
            (RETENTION_MS, None, ["retention p"]),
        ],
    ),
    Story(
        "a removal follows when the delay is over, and the last plan holds still",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (TICK_MS, None, ["survey p"]),
            (DELAY_MS, None, ["survey", "removal r"]),
            (TICK_MS, None, ["survey"]),
            (RETENTION_MS, None, ["retention p"]),
        ],
    ),
    Story(
        "while another process has the log dir, nothing is made due",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, held, ["survey p"]),
            (30_000, None, ["retention p"]),
            (TICK_MS, None, ["survey"]),
            (TICK_MS, freed, ["survey p", "compaction r"]),
            (RETENTION_MS, None, ["retention p r", "removal r"]),
        ],
    ),
    Story(
        "a process that takes the log dir later is met by a look",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (30_000, None, ["retention p r", "compaction r"]),
            (TICK_MS, None, ["survey p", "removal r"]),
            (TICK_MS, held, ["survey p"]),
            (RETENTION_MS, None, ["retention p"]),
            (TICK_MS, freed, ["survey p", "removal r"]),
            (RETENTION_MS, None, ["retention p"]),
        ],
    ),
    Story(
        "time alone makes a log cleanable",
        {"orders": EXPIRING, "state": LAGGING},
        [
            (0, None, ["survey p"]),
            (TICK_MS, None, ["survey"]),
            (90_000, None, ["retention p r", "compaction r"]),
            (TICK_MS, None, ["survey p", "removal r"]),
        ],
    ),
    Story(
        "retention opens only what loses something, once all were opened",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (RETENTION_MS, None, ["retention p", "removal r"]),
            (RETENTION_MS, expiring_orders, ["retention p r"]),
            (RETENTION_MS, None, ["retention p", "removal r"]),
        ],
    ),
    Story(
        "a log dir that was away is opened whole",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (RETENTION_MS, gone, ["retention p"]),
            (RETENTION_MS, None, ["retention p"]),
            (RETENTION_MS, back, ["retention p r", "removal r"]),
            (RETENTION_MS, None, ["retention p"]),
        ],
    ),
    Story(
        "observing, everything is only planned",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (30_000, None, ["survey p"]),
            (TICK_MS, None, ["survey"]),
            (TICK_MS, touched("state-0/x"), ["survey"]),
            (RETENTION_MS, None, ["survey p"]),
            (0, now, ["survey p"]),
        ],
        observing=True,
    ),
    Story(
        "run now does everything at once",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, None, ["survey p", "compaction r"]),
            (1, now, ["retention p r", "removal r"]),
            (1, now, ["retention p"]),
        ],
    ),
    Story(
        "a first dirty offset beyond a log that is not compacted is left as it is",
        {"orders": KEPT, "state": KEPT},
        [
            (0, beyond_its_end, ["survey p"]),
            (TICK_MS, None, ["survey"]),
            (60_000, None, ["retention p r"]),
        ],
    ),
    Story(
        "a first dirty offset beyond a compacted log is corrected",
        {"orders": KEPT, "state": {**COMPACT, "min.cleanable.dirty.ratio": "1.0"}},
        [
            (0, beyond_its_end, ["survey p", "checkpoint"]),
            (TICK_MS, None, ["survey p"]),
            (60_000, None, ["retention p r"]),
        ],
    ),
    Story(
        "a child that dies makes its partition wait",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, failing("dies"), ["survey p", "compaction"]),
            (TICK_MS, None, ["survey"]),
            (60_000, None, ["retention p r", "compaction r"]),
            (TICK_MS, None, ["survey p", "removal r"]),
        ],
    ),
    Story(
        "a child that refuses makes its partition wait twice as long each time",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, failing("refuses", 2), ["survey p", "compaction"]),
            (60_000, None, ["retention p r", "compaction"]),
            (60_000, None, ["survey p", "removal r"]),
            (60_000, None, ["survey", "compaction r"]),
            (TICK_MS, None, ["survey p", "removal r"]),
        ],
    ),
    Story(
        "a child that cannot be started makes all compactions wait",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, failing("unstartable"), ["survey p", "compaction"]),
            (TICK_MS, None, ["survey"]),
            (60_000, None, ["retention p r", "compaction r"]),
        ],
    ),
    Story(
        "run now tries again what failed",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, failing("dies"), ["survey p", "compaction"]),
            (1, now, ["retention p r", "compaction r"]),
        ],
    ),
    Story(
        "damage waits until its files change",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (30_000, hurt, ["retention p r", "compaction r"]),
            (RETENTION_MS, None, ["retention p", "removal r"]),
            (RETENTION_MS, None, ["retention p"]),
            (TICK_MS, mended, ["survey"]),
            (RETENTION_MS, None, ["retention p", "compaction r"]),
        ],
    ),
    Story(
        "while the configuration cannot be read nothing is changed but what is journalled",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (30_000, None, ["retention p r"]),
            (TICK_MS, None, ["survey p"]),
            (DELAY_MS, unreadable, ["reload", "survey", "removal"]),
            (RETENTION_MS, None, ["retention p"]),
            (TICK_MS, readable, ["reload", "retention p"]),
            (RETENTION_MS, None, ["retention p"]),
        ],
    ),
    Story(
        "a broken configuration is read again by each full survey, and a mended one makes retention due",
        {"orders": EXPIRING_SOON, "state": COMPACT},
        [
            (0, unreadable, ["reload", "survey p", "compaction"]),
            (TICK_MS, None, ["survey"]),
            (RETENTION_MS, mend_quietly, ["retention p r", "retention p", "compaction r"]),
            (TICK_MS, None, ["survey p", "removal r"]),
        ],
    ),
    Story(
        "a file that goes from a log dir is a change",
        {"orders": EXPIRING_SOON, "state": KEPT},
        [
            (0, None, ["survey p"]),
            (30_000, None, ["retention p r"]),
            (TICK_MS, removed(".logcleaner-journal"), ["survey p", "removal r"]),
            (TICK_MS, None, ["survey"]),
        ],
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_happens_makes_the_next_jobs(log_dir: Path, story: Story) -> None:  # noqa: F811
    jobs = Jobs()
    world = World(log_dir, observer=jobs, **story.topics)
    world.start(observing=story.observing)
    done = []
    for after_ms, happening, _ in story.steps:
        jobs.told.clear()
        if happening:
            happening(world)
        world.after(after_ms)
        done.append(list(jobs.told))
    assert done == [expected for _, _, expected in story.steps]
