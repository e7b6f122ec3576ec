"""A hold and the topic id that it belongs to lie in two files: no step between them, and no power loss, parts them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from storage.checkpoints import parse_hold_ids
from storage.filesystem import FileSystem
from storage.log_dir import LogDir, Offsets, TopicIds
from storage.names import HOLD_IDS_FILE, HOLDS_FILE, TopicPartition
from tests.cleaner.engine.test_topic_ids import (
    CLICKS,
    NEW_ID,
    OLD_ID,
    ORDERS,
    ORDERS_ID,
    a_log_dir,
    a_restorer,
    clean,
    is_held,
    recreated,
    restore,
)
from tests.crash.power import lay_down, power_losses
from tests.faults import CrashingFileSystem, crashes
from tests.partition_dirs import NOW_MS

LATER_MS = NOW_MS + 1


def drawn(path: Path, story: str) -> Path:
    """Orders is on hold throughout. Clicks is about to be held, released, or held anew as another topic."""
    log_dir = a_log_dir(path, others=("orders-0",))
    clean(log_dir)
    a_restorer(log_dir).restore(is_orders)
    if story != "is held":
        restore(log_dir)
    if story == "is held anew":
        clean(recreated(log_dir))
    return log_dir


def is_orders(topic_partition: TopicPartition) -> bool:
    return topic_partition == ORDERS


def act(story: str, log_dir: Path, fs: FileSystem) -> object:
    if story == "is released":
        return a_restorer(log_dir, fs).release(lambda topic_partition: topic_partition == CLICKS)
    return restore(log_dir, fs, LATER_MS)


def check(log_dir: Path, story: str) -> None:
    """Every hold has the id of its topic; but while one is held anew, the lapsed hold may have lost its own."""
    holds = LogDir(log_dir).holds()
    ids = LogDir(log_dir).hold_ids(holds)
    assert ids[ORDERS] == ORDERS_ID
    assert is_held(log_dir, "orders-0")
    if story == "is held anew" and holds[CLICKS] == NOW_MS:
        assert ids.get(CLICKS) in (OLD_ID, None)
    elif CLICKS in holds:
        assert ids[CLICKS] == (NEW_ID if story == "is held anew" else OLD_ID)
        assert is_held(log_dir)
    else:
        assert CLICKS not in ids


STORIES = ("is held", "is released", "is held anew")


@pytest.mark.parametrize("story", STORIES)
def test_stop_before_any_step_leaves_each_hold_its_id(tmp_path: Path, story: str) -> None:
    path = tmp_path / "data"

    def run(disk: CrashingFileSystem) -> None:
        act(story, drawn(path, story), disk)

    steps = 0
    for _ in crashes(run):
        check(path, story)
        steps += 1
    assert steps > 10
    check_end(path, story)


@pytest.mark.parametrize("story", STORIES)
def test_power_loss_at_any_step_leaves_each_hold_its_id(tmp_path: Path, story: str) -> None:
    assert try_power_losses(tmp_path, story) > 10


def try_power_losses(tmp_path: Path, story: str) -> int:
    acted = drawn(tmp_path / "data", story)
    states = power_losses(acted, lambda log_dir, fs: act(story, log_dir, fs), 12, Random(0))
    for _, left in states:
        check(lay_down(left, acted, tmp_path / "lost"), story)
        shutil.rmtree(tmp_path / "lost")
    check_end(acted, story)
    return len(states)


def check_end(log_dir: Path, story: str) -> None:
    """Check that nothing is left of a hold that is over."""
    held = {ORDERS: NOW_MS} if story == "is released" else {ORDERS: NOW_MS, CLICKS: LATER_MS}
    assert LogDir(log_dir).holds() == held
    assert LogDir(log_dir).hold_ids(held).keys() == held.keys()
    assert parse_hold_ids((log_dir / HOLD_IDS_FILE).read_bytes(), log_dir).keys() == held.keys()


def hold_first(self: LogDir, holds: Offsets, fs: FileSystem, ids: TopicIds | None = None) -> None:
    self.write_offsets(HOLDS_FILE, holds, fs)
    WRITE_HOLDS(self, holds, fs, ids)


def ids_only_as_they_end(self: LogDir, holds: Offsets, fs: FileSystem, ids: TopicIds | None = None) -> None:
    WRITE_HOLDS(self, {**self.holds()}, fs, {tp: id_ for tp, id_ in (ids or {}).items() if tp in holds})
    WRITE_HOLDS(self, holds, fs, ids)


WRITE_HOLDS = LogDir.write_holds


@pytest.mark.parametrize(("story", "twin"), [("is held", hold_first), ("is released", ids_only_as_they_end)])
def test_another_order_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str, twin: Callable[..., None]
) -> None:
    monkeypatch.setattr(LogDir, "write_holds", twin)
    with pytest.raises((AssertionError, KeyError)):
        try_power_losses(tmp_path, story)
