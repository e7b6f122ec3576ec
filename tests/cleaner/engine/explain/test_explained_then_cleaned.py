"""What ``explain`` says of random logs on a disk is what ``clean`` then does, at each moment that it names."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.journal import Journal
from cleaner.engine.outcome import Outcome
from policies.config.config_layers import ConfigLayers
from policies.explain.changes import ChangeCode
from policies.explain.explanation import PartitionExplanation
from policies.plan import PartitionPlan
from policies.reasons import INT64_MAX, Action
from storage.checkpoints import format_offset_checkpoint
from storage.filesystem import FileSystem
from storage.names import CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, TopicPartition
from tests.partition_dirs import (
    NOW_MS,
    FakeClock,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    file_names,
    keyed,
    request,
)

ORDERS: Final = TopicPartition("orders", 0)
LOGS: Final = 120
AROUND_MS: Final = 30
DONE: Final[Counter[str]] = Counter()
"""How often each of what matters happened."""


def a_random_log(log_dir: Path, dice: random.Random) -> ConfigLayers:
    """Write a log whose times and limits lie close together; gives its configuration."""
    drawn = PartitionDir(log_dir)
    count = dice.randint(2, 6)
    for place in range(count):
        base, batches = drawn.end_offset, dice.randint(0 if place == count - 1 else 1, 3)
        data = [
            keyed(base + 2 * number, f"k{dice.randrange(4)}=v", f"k{dice.randrange(4)}={'w' * dice.randrange(99)}",
                  timestamp_ms=NOW_MS + dice.randint(-AROUND_MS, AROUND_MS))
            for number in range(batches)
        ]  # fmt: skip
        drawn.segment(base, *data, mtime_ms=NOW_MS + dice.randint(-AROUND_MS, AROUND_MS))
    committed(log_dir, drawn)
    if dice.random() < 0.3:
        checkpoint(log_dir, HIGH_WATERMARK_CHECKPOINT, dice.randint(0, drawn.end_offset))
    if dice.random() < 0.6:
        checkpoint(log_dir, CLEANER_OFFSET_CHECKPOINT, dice.randint(0, drawn.end_offset + 1))
    least_lag_ms = dice.choice((0, 0, dice.randint(1, AROUND_MS)))
    config = {
        "cleanup.policy": dice.choice(("delete", "compact", "compact,delete")),
        "retention.ms": str(dice.choice((-1, dice.randint(0, 2 * AROUND_MS), dice.randint(0, 2 * AROUND_MS)))),
        "retention.bytes": str(dice.choice((-1, -1, dice.randint(0, 900)))),
        "min.cleanable.dirty.ratio": dice.choice(("0.0", "0.4", "0.8")),
        "min.compaction.lag.ms": str(least_lag_ms),
        "max.compaction.lag.ms": str(least_lag_ms + dice.randint(1, AROUND_MS))
        if dice.random() < 0.4
        else str(INT64_MAX),
        "retention.future.timestamps": dice.choice(("off", "off", "mtime")),
    }
    return configured(orders=config)


def checkpoint(log_dir: Path, name: str, offset: int) -> None:
    (log_dir / name).write_bytes(format_offset_checkpoint({ORDERS: offset}))


def explained_at(
    log_dir: Path, layers: ConfigLayers, now_ms: int = NOW_MS, clock_ms: int = NOW_MS
) -> PartitionExplanation:
    cleaner = a_cleaner(log_dir, layers, clock=FakeClock(clock_ms))
    (explained,) = cleaner.explain(cleaner.plan(request(now_ms, in_place=True)), ORDERS)
    return explained


class Cleaned:
    """A copy of a log dir, cleaned at a moment by the real cleaner."""

    def __init__(self, log_dir: Path, layers: ConfigLayers, now_ms: int) -> None:
        copy = log_dir.with_name(f"at-{now_ms}")
        shutil.copytree(log_dir, copy)
        cleaner: Cleaner = a_cleaner(copy, layers)
        planned, outcome = cleaner.clean(request(now_ms))
        ((self.planned,), self.outcome) = planned.partitions, outcome
        assert isinstance(self.planned, PartitionPlan)
        self.names = file_names(copy / str(ORDERS))
        shutil.rmtree(copy)
        self._check(outcome)

    def _check(self, outcome: Outcome) -> None:
        assert not outcome.errors
        assert all(result.error is None for result in outcome.results.values())
        for base in self.deleted:
            assert f"{base:020d}.log.deleted" in self.names

    @property
    def deleted(self) -> set[int]:
        return {segment.base_offset for segment in self.planned.deletion.segments} if self.planned.deletion else set()

    @property
    def is_compacted(self) -> bool:
        return any(result.compacted_from_bytes for result in self.outcome.results.values())


@pytest.mark.parametrize("seed", range(LOGS))
def test_clean_does_what_explain_said(tmp_path: Path, seed: int) -> None:
    log_dir = tmp_path / "data"
    layers = a_random_log(log_dir, random.Random(seed))
    explained = explained_at(log_dir, layers)
    now = Cleaned(log_dir, layers, NOW_MS)
    by_fate = {
        action: {f.facts.base_offset for f in explained.segments if f.verdict.action is action} for action in Action
    }
    assert now.deleted == by_fate[Action.DELETE]
    assert now.is_compacted == bool(by_fate[Action.COMPACT])
    if not now.is_compacted:  # a compaction may merge what stays
        assert {f"{base:020d}.log" for base in by_fate[Action.KEEP]} <= now.names
    DONE.update({f"{action.value} now": bool(found) for action, found in by_fate.items()})
    if "mtime" in str(explained.planned.policy.stated["retention.future.timestamps"].value):
        return  # who is away at an expiry by file time may find it gone: see the properties
    expiries = {
        fate.facts.base_offset: fate.expires_ms
        for fate in explained.segments
        if fate.expires_ms is not None and fate.expires_ms > NOW_MS
    }
    for at_ms in sorted(set(expiries.values()))[:2]:
        going = {base for base, expires_ms in expiries.items() if expires_ms == at_ms}
        assert not going & Cleaned(log_dir, layers, at_ms - 1).deleted
        assert going <= Cleaned(log_dir, layers, at_ms).deleted
        DONE["expired at its moment"] += 1
    for change in explained.changes:
        if change.code is ChangeCode.COMPACTION:
            assert not Cleaned(log_dir, layers, change.at_ms - 1).is_compacted
            assert Cleaned(log_dir, layers, change.at_ms).is_compacted
            DONE["compacted at its moment"] += 1


def test_all_of_it_was_seen() -> None:
    if not DONE:
        pytest.skip("no log was cleaned")
    assert {*DONE} == {"delete now", "compact now", "keep now", "expired at its moment", "compacted at its moment"}
    assert min(DONE.values()) >= 3, DONE


EXPIRED: Final = {"cleanup.policy": "delete", "retention.ms": "1000", "file.delete.delay.ms": "60000"}


def test_the_delay_of_deleted_files_ends_at_the_moment_that_is_told(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - 2000)).segment(1, keyed(1, "b=1"))
    committed(tmp_path, drawn)
    layers = configured(orders=EXPIRED)
    a_cleaner(tmp_path, layers).clean(request())
    explained = explained_at(tmp_path, layers)
    change = explained.next_change
    assert change is not None
    waiting = next(one for one in explained.changes if one.code is ChangeCode.DELETED_FILES)
    assert waiting.at_ms == NOW_MS + 60_000
    assert explained.seen.waiting is not None
    assert explained.seen.waiting.unknown_files == 0
    for at_ms, is_there in ((waiting.at_ms - 1, True), (waiting.at_ms, False)):
        a_cleaner(tmp_path, layers, clock=FakeClock(at_ms)).clean(request())
        assert any(name.endswith(".deleted") for name in file_names(drawn.path)) == is_there


def test_files_that_a_compaction_of_ours_replaced_are_not_a_broker_s(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    committed(tmp_path, drawn)
    layers = configured(orders={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})
    cleaner = a_cleaner(tmp_path, layers, clock=FakeClock(NOW_MS - 10**12))  # before the files change on the real clock
    cleaner.clean(request())
    waiting = explained_at(tmp_path, layers).seen.waiting
    assert waiting is not None
    assert (waiting.files, waiting.unknown_files) == (3, 0)
    (drawn.path / "00000000000000000007.log.deleted").write_bytes(b"x")
    waiting = explained_at(tmp_path, layers).seen.waiting
    assert waiting is not None
    assert (waiting.files, waiting.unknown_files) == (4, 1)


@pytest.mark.parametrize("what", ["erase", "repack"])
def test_files_that_an_erasure_or_a_repacking_replaced_are_not_a_broker_s(what: str, tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", "a=2")).segment(2, keyed(2, "b=1"))
    committed(tmp_path, drawn)
    (drawn.path / "00000000000000000000.log.deleted").write_bytes(b"x" * 70)
    (drawn.path / "00000000000000000001.log.deleted").write_bytes(b"x" * 70)
    entry = {"partition": drawn.path.name, "sources": [[0, 70, 1]]}
    Journal(tmp_path, FileSystem()).record(what, NOW_MS - 10**12, **entry)
    waiting = explained_at(tmp_path, configured(orders={"cleanup.policy": "delete"})).seen.waiting
    assert waiting is not None
    assert (waiting.files, waiting.unknown_files) == (2, 1)


def test_a_time_index_that_was_cut_short_does_not_make_the_moment_too_early(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - 500)).segment(1, keyed(1, "b=1"))
    committed(tmp_path, drawn)
    index = drawn.log(0).with_suffix(".timeindex")
    index.write_bytes((NOW_MS - 700).to_bytes(8, "big") + index.read_bytes()[8:])
    layers = configured(orders=EXPIRED)
    explained = explained_at(tmp_path, layers)
    expires_ms = explained.segments[0].expires_ms
    assert expires_ms == NOW_MS + 501
    cleaner = a_cleaner(tmp_path, layers)
    plans = [cleaner.plan(request(at_ms)).partitions[0] for at_ms in (expires_ms - 1, expires_ms)]
    assert [bool(planned.deletion) for planned in plans] == [False, True]


def test_damage_is_told_and_the_rest_is_still_explained(tmp_path: Path) -> None:
    drawn = PartitionDir(tmp_path).segment(0, keyed(0, "a=1")).segment(1, keyed(1, "b=1"))
    committed(tmp_path, drawn)
    drawn.log(0).write_bytes(b"\xff" * drawn.log(0).stat().st_size)
    explained = explained_at(tmp_path, configured(orders=EXPIRED))
    assert [fate.facts.base_offset for fate in explained.segments] == [0, 1]
    assert [fate.times.first_ms for fate in explained.segments] == [-1, NOW_MS]
    (problem,) = explained.seen.problems
    assert problem.startswith(str(drawn.log(0)))
    assert explained.seen.transactions == ()
