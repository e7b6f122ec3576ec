"""Moves between the log dirs of a real KRaft broker, killed at their steps: a start is refused, or serves every record.

``LOGCLEANER_MOVES=30`` tries so many kills; a plain run tries one of each kind.
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree
from typing import Final

import pytest

from cleaner.cli.main import main
from cleaner.engine.means import Means
from cleaner.engine.moving import Mover
from cleaner.engine.repair.topic_ids import ids_of, read_assigned
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import CLEAN_SHUTDOWN_FILE, TopicPartition
from tests.crash.stops import Counting, by_kill
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import Writer, consumed, create_topics
from tests.interop.verdicts import Record

pytestmark = pytest.mark.kafka
TOPICS: Final = ("orders", "payments")
NAMES: Final = tuple(TopicPartition(topic, 0) for topic in TOPICS)
DIRS: Final = ("one", "two")
MOVES: Final = int(os.environ.get("LOGCLEANER_MOVES", "2"))
SECONDS_MAX: Final = 60
POLL_SECONDS: Final = 0.2


class Noting(Counting):
    """Notes the steps before which the old directories are renamed: both log dirs have the partition then."""

    def __init__(self) -> None:
        super().__init__()
        self.both: list[int] = []

    def rename(self, source: Path, target: Path, purpose: Purpose) -> None:
        if purpose is Purpose.MOVE:
            self.both.append(self.steps)
        super().rename(source, target, purpose)


@dataclass(slots=True)
class Life:
    """A broker with two log dirs, and what a consumer reads there."""

    broker: Broker
    place: Path
    records: dict[str, list[Record]]
    capsys: pytest.CaptureFixture[str]

    def holders(self, name: TopicPartition) -> list[str]:
        return [one for one in DIRS if (self.place / one / str(name)).is_dir()]

    def starts(self) -> bool:
        """What ``preflight`` says of the next start."""
        self.capsys.readouterr()
        main(["preflight", "--log-dir", *(str(self.place / one) for one in DIRS), "--json"])
        return bool(json.loads(self.capsys.readouterr().out)["starts"])

    def serves_every_record(self) -> None:
        """Start, read all, wait until the controller knows the log dirs, and stop."""
        with self.broker:
            for topic in TOPICS:
                assert consumed(self.broker.bootstrap, topic, 0, "read_committed") == self.records[topic]
            deadline = time.monotonic() + SECONDS_MAX
            while self.assigned() != {name: self.holders(name)[0] for name in NAMES}:
                assert time.monotonic() < deadline, self.assigned()
                time.sleep(POLL_SECONDS)
            assert "Stopping serving logs" not in self.broker.output.read_text(errors="replace")

    def assigned(self) -> dict[TopicPartition, str | None]:
        """The log dir in which the controller has each partition."""
        found = read_assigned([LogDir(self.place / "one")], None)
        assert found is not None
        dirs = {ids_of(LogDir(self.place / one))[1]: one for one in DIRS}
        keys = {name: (found.topic_ids[name.topic], 0) for name in NAMES}
        return {name: dirs.get(found.partitions[key].directory_of(1)) for name, key in keys.items()}


def move(place: Path, fs: FileSystem, to: str) -> None:
    """Move both partitions; those that are there already stay."""
    log_dirs = tuple(LogDir(place / one) for one in DIRS)
    moves = Mover(log_dirs, LogDir(place / to), Means(fs)).move(NAMES)
    assert [one.error for one in moves] == [None, None]


@pytest.fixture
def life(kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Life:
    place = tmp_path / "place"
    place.mkdir()
    dirs = ",".join(str(place / one) for one in DIRS)
    settings = QUIET | {"log.dirs": dirs, "metadata.log.dir": str(place / "one")}
    broker = Broker(kafka, place / "one", settings)
    records = {}
    with broker:
        create_topics(broker.bootstrap, {topic: {"segment.bytes": "1048576"} for topic in TOPICS})
        writer = Writer(broker.bootstrap, random.Random(1))
        writer.send(writer.producer(enable_idempotence=True), "orders", 60)
        writer.transactions("payments", "payer", [True, False, True])
        for topic in TOPICS:
            records[topic] = consumed(broker.bootstrap, topic, 0, "read_committed")
            assert records[topic]
    return Life(broker, place, records, capsys)


def test_a_start_between_any_two_steps_of_a_move_is_refused_or_serves_every_record(life: Life) -> None:
    dice, refused = random.Random(3), 0
    for number in range(MOVES):
        to = DIRS[DIRS[0] in life.holders(NAMES[0])]
        step = drawn_step(life.place, to, dice, is_both=number % 2 == 0)
        assert by_kill(lambda place, fs, to=to: move(place, fs, to), life.place, step)  # type: ignore[misc]
        assert all(life.holders(name) for name in NAMES), (number, step, "in neither log dir")
        if life.starts():
            life.serves_every_record()
        else:
            refused += 1
            life.broker.launch()
            assert "Duplicate log directories" in life.broker.wait_for_refusal()
        move(life.place, FileSystem(), to)
        assert [life.holders(name) for name in NAMES] == [[to], [to]]
        assert life.starts()
    assert refused
    life.serves_every_record()


def test_indexes_that_a_start_would_trust_in_the_other_log_dir_are_made_anew(life: Life) -> None:
    source = life.holders(NAMES[0])[0]
    to = DIRS[source == DIRS[0]]
    (life.place / source / CLEAN_SHUTDOWN_FILE).unlink()
    index = max((life.place / source / "orders-0").glob("*.index"))
    move(life.place, FileSystem(), to)
    moved = life.place / to / "orders-0" / index.name
    assert not moved.exists()
    life.serves_every_record()
    assert moved.exists()


def drawn_step(place: Path, to: str, dice: random.Random, *, is_both: bool) -> int:
    """Return the number of a step before which to kill: one at which both log dirs have a partition, or any."""
    disk, copy = Noting(), place.with_name("copy")
    copytree(place, copy)
    move(copy, disk, to)
    rmtree(copy)
    return dice.choice(disk.both) if is_both else dice.randrange(disk.steps)
