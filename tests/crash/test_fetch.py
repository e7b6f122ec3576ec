"""A power loss at any step of ``fetch``: a directory of that name is there whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from random import Random

from cleaner.engine.fetch import Fetch
from cleaner.engine.means import Means
from cleaner.engine.verify.checked import Checked
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.crash.power import power_losses
from tests.partition_dirs import PartitionDir, committed, keyed
from tests.storage.stores.test_copies import local_files

STATES_AT_A_STEP = 12


def test_power_loss_at_any_step_leaves_the_whole_directory_or_none(tmp_path: Path) -> None:
    source, place = tmp_path / "source", tmp_path / "place"
    partitions = [PartitionDir(source, f"orders-{number}").segment(0, keyed(0, "a=1", "b=1")) for number in range(2)]
    committed(source, *partitions)
    place.mkdir()
    states = power_losses(place, lambda to, fs: fetch(source, to / "logs", fs), STATES_AT_A_STEP, Random(0))
    whole = local_files(source)
    assert local_files(place / "logs") == whole
    named = [left for _, left in states if any(place / "logs" in path.parents for path in left)]
    assert 0 < len(named) < len(states)
    for left in named:
        there = {
            path.relative_to(place / "logs").as_posix(): kept.content
            for path, kept in left.items()
            if place / "logs" in path.parents
        }
        assert there == whole


def fetch(source: Path, to: Path, fs: FileSystem) -> None:
    Fetch(source, to, Means(fs=fs), threads=1).bring(sound, with_damage=False)


def sound(log_dir: LogDir) -> Checked:
    del log_dir
    return Checked()
