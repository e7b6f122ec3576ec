"""Random lives of a log over several rounds: any two moments of it compare without damage, and one lost record is told.

What two states cannot show is left out: a tombstone that was written, took older records and expired in between.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pytest

from cleaner.engine.diff.comparing import ComparedDir, compared
from cleaner.engine.diff.record_diff import Cause
from storage.records import Record, encode_batch
from tests.batches import iter_batches
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    records_in,
    records_of,
    request,
)

LIVES = 4
ROUNDS = 4
KEYS = "abcdef"
RETENTIONS_MS = (0, 1, DAY_MS, 3 * DAY_MS)


@dataclass
class Life:
    """A log that is written to, and cleaned, again and again; a copy of each moment stays."""

    root: Path
    dice: random.Random
    retention_ms: int
    moments: list[Path] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    tombstones: dict[int, bytes] = field(default_factory=dict)
    """Offset to key, of all that were ever written."""

    def live(self) -> None:
        log = PartitionDir(self.root / "data")
        now_ms, offset = NOW_MS, 0
        for _ in range(ROUNDS):
            for _ in range(self.dice.randrange(1, 4)):
                base, batches = offset, []
                for _ in range(self.dice.randrange(1, 4)):
                    records = self._drawn(offset, now_ms)
                    batches.append(encode_batch(records))
                    offset += len(records)
                log.segment(base, *batches, mtime_ms=now_ms)
            committed(log.path.parent, log)
            self._keep(offset)
            now_ms += self.dice.choice((1, DAY_MS // 2, 2 * DAY_MS))
            config = {**COMPACT, "delete.retention.ms": str(self.retention_ms)}
            cleaner = a_cleaner(log.path.parent, configured(orders=config), clock=FakeClock(now_ms))
            cleaner.clean(request(now_ms, delete_delay_ms=0))
            self._keep(offset)
        self.now_ms = now_ms

    def _drawn(self, offset: int, now_ms: int) -> list[Record]:
        drawn = []
        for at in range(offset, offset + self.dice.randrange(1, 5)):
            key = self.dice.choice(KEYS).encode() if self.dice.random() < 0.9 else None
            value = None if key and self.dice.random() < 0.3 else b"%d" % at
            if key and value is None:
                self.tombstones[at] = key
            drawn.append(Record(at, now_ms, key, value))
        return drawn

    def _keep(self, end: int) -> None:
        self.moments.append(Path(shutil.copytree(self.root / "data", self.root / f"{len(self.moments):02d}")))
        self.ends.append(end)

    def between(self, earlier: int, later: int):
        places = ComparedDir.open(self.moments[earlier]), ComparedDir.open(self.moments[later])
        (found,) = compared(*places, self.now_ms, lambda _: self.retention_ms)
        assert found.error is None
        return found.difference

    def passed_by(self, earlier: int, later: int) -> set[bytes]:
        """Keys of which a tombstone came and went between two moments."""
        there = {record.offset for record in records_in(self.moments[later] / "orders-0")}
        return {key for at, key in self.tombstones.items() if self.ends[earlier] <= at and at not in there}


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    found = []
    for seed in range(LIVES):
        dice = random.Random(seed)
        found.append(Life(tmp_path_factory.mktemp("life"), dice, RETENTIONS_MS[seed % len(RETENTIONS_MS)]))
        found[-1].live()
    return found


def last_of_its_key(directory):
    """The segment and the offset of each live record that nothing below the active segment supersedes."""
    *sealed, _ = sorted(directory.glob("*.log"))
    last = {record.key: (path, record) for path in sealed for record in records_of(path) if record.key}
    return [(path, record.offset) for path, record in last.values() if record.value is not None]


def test_any_two_moments_compare_without_damage_and_every_cause_of_a_compaction_is_met(lives):
    seen: set[Cause] = set()
    for life in lives:
        for earlier, later in combinations(range(len(life.moments)), 2):
            difference = life.between(earlier, later)
            keys = {record.offset: record.key for record in records_in(life.moments[earlier] / "orders-0")}
            assert difference.damage is None or keys[difference.damage.offset] in life.passed_by(earlier, later)
            seen |= {cause for cause, count in difference.gone.items() if count}
    assert seen == {Cause.SUPERSEDED, Cause.UNKEYED, Cause.EXPIRED, Cause.EXPIRED_BETWEEN}


def test_one_record_that_is_really_lost_is_told(lives):
    told = 0
    for life in lives:
        for earlier, later in life.dice.sample(list(combinations(range(len(life.moments)), 2)), 5):
            live = last_of_its_key(life.moments[later] / "orders-0")
            lost = [(path, offset) for path, offset in live if offset < life.ends[earlier]]
            if lost:
                before, after = with_one_lost(life, (earlier, later), *life.dice.choice(lost))
                assert (after.damaged, after.kept) == (before.damaged + 1, before.kept - 1)
                told += 1
    assert told > LIVES


def with_one_lost(life, moments, path, offset):
    """The difference as it is, and without one record of the later state."""
    whole = path.read_bytes()
    before = life.between(*moments)
    kept = [[record for record in batch if record.offset != offset] for batch in batches_of(path)]
    path.write_bytes(b"".join(encode_batch(records) for records in kept if records))
    after = life.between(*moments)
    path.write_bytes(whole)
    return before, after


def batches_of(path):
    return [list(batch.records()) for batch in iter_batches(path.read_bytes(), path)]
