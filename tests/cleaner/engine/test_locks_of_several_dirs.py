"""Several log dirs: if the lock of one is refused, the locks taken before are released."""

from __future__ import annotations

import pytest

from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means, Silent
from cleaner.engine.restore import Restorer
from policies.config.config_layers import Configured
from policies.rescue import SpaceTarget
from storage.filesystem import FileSystem
from storage.lock import LogDirLocked, holder_of
from storage.log_dir import LogDir
from tests.partition_dirs import EXPIRING, FakeClock, PartitionDir, committed, configured, keyed, request

LAYERS = configured(orders=EXPIRING)


@pytest.fixture
def log_dirs(tmp_path):
    """Three; another process has the lock of the second."""
    made = [
        committed(tmp_path / name, PartitionDir(tmp_path / name, f"orders-{number}").segment(0, keyed(0, "a=1")))
        for number, name in enumerate(("first", "second", "third"))
    ]
    with LogDir.open(made[1]).lock(FileSystem()):
        yield made


def restorer(log_dirs):
    return Restorer([LogDir.open(path) for path in log_dirs], Means(FileSystem(), FakeClock(), Silent()))


def cleaner(log_dirs):
    return Cleaner(Configured(tuple(log_dirs), LAYERS), Means(clock=FakeClock()))


ACTS = {
    "restore": lambda log_dirs: restorer(log_dirs).restore(lambda _: True),
    "release": lambda log_dirs: restorer(log_dirs).release(lambda _: True),
    "clean": lambda log_dirs: cleaner(log_dirs).clean(request()),
    "free": lambda log_dirs: cleaner(log_dirs).free(request(), SpaceTarget(1)),
    "correct_checkpoints": lambda log_dirs: cleaner(log_dirs).correct_checkpoints(request()),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_first_lock_is_let_go_when_the_second_is_refused(log_dirs, act):
    with pytest.raises(LogDirLocked, match="second"):
        act(log_dirs)
    assert [holder_of(path) is None for path in log_dirs] == [True, False, True]
    LogDir.open(log_dirs[0]).lock(FileSystem()).release()
