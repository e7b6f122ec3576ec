"""Broken twins, each an fsync or an order away from the real thing: the crash tests must catch every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine import deletion, restore
from cleaner.engine.compaction import targets
from cleaner.engine.erase import erasing
from cleaner.engine.executor import Executor
from cleaner.engine.repair import repairing
from cleaner.engine.repair.observing import PlannedRepair
from policies.plan import PartitionPlan
from policies.restore import Restoration
from storage.errors import LogCleanerError
from storage.filesystem import FileSystem, Purpose
from storage.names import CLEANER_OFFSET_CHECKPOINT, FileKind, FileState, segment_file_name
from storage.segment import Segment
from tests.crash.power import Inode, RecordingFileSystem
from tests.crash.promises import Expected
from tests.crash.scenes import SCENES
from tests.crash.stops import by_kill
from tests.crash.tally import TALLY
from tests.crash.trials import Thoroughness, try_power_losses, try_stops
from tests.sampled import some

TWINS_TRIED: Final = 4
"""Of each of the two kinds."""


@pytest.fixture(autouse=True)
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a twin loses is no loss."""
    for name in TALLY.__slots__:
        monkeypatch.setattr(TALLY, name, 0)


class WithoutFileFsync(RecordingFileSystem):
    def fsync_file(self, inode: Inode) -> None:
        pass


def without_fsync(left_out: Purpose) -> type[RecordingFileSystem]:
    class WithoutFsync(RecordingFileSystem):
        def fsync_dir(self, path: Path, purpose: Purpose) -> None:
            if purpose is not left_out:
                super().fsync_dir(path, purpose)

    return WithoutFsync


FSYNCS: Final = (
    ("groups", WithoutFileFsync),
    ("groups", without_fsync(Purpose.SWAP_IN)),
    ("groups", without_fsync(Purpose.RETIRE)),
    ("emptied sources", without_fsync(Purpose.RETIRE)),
    ("retention", WithoutFileFsync),
    ("retention", without_fsync(Purpose.RETIRE)),
    ("retention at once", without_fsync(Purpose.REMOVE)),
    ("restore", without_fsync(Purpose.RESTORE)),
    ("restore", WithoutFileFsync),
    ("repair", WithoutFileFsync),
)


@pytest.mark.parametrize(("scene", "twin"), some(FSYNCS, TWINS_TRIED))
def test_a_missing_fsync_is_caught(scene: str, twin: type[RecordingFileSystem], scratch: Path) -> None:
    expected = Expected.of(SCENES[scene], scratch)
    with pytest.raises((AssertionError, LogCleanerError)):
        try_power_losses(expected, scratch / "lost", Thoroughness(states_at_a_step=8), twin)


def retires_before_it_exposes(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap_in(fs: FileSystem, cleaned: Segment, sources: Sequence[Segment]) -> None:
        names = [name for source in sources for name in source.names(FileState.DELETED)]
        for name, target in [*names, *cleaned.names(FileState.SWAP)]:
            fs.rename(name, target, Purpose.SWAP_IN)
        fs.fsync_dir(cleaned.directory, Purpose.SWAP_IN)
        for kind in cleaned.files:
            name = segment_file_name(cleaned.base_offset, kind, FileState.SWAP)
            fs.rename(cleaned.directory / name, cleaned.directory / name.removesuffix(".swap"), Purpose.SWAP_IN)

    monkeypatch.setattr(targets, "swap_in", swap_in)


def indexes_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = deletion._in_order
    monkeypatch.setattr(deletion, "_in_order", lambda *given: in_order(*given)[::-1])


def logs_come_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename_back(fs: FileSystem, directory: Path, planned: Restoration) -> None:
        files = [file for verdict in planned.restorable for file in verdict.segment.files]
        for file in sorted(files, key=lambda file: file.name.kind is not FileKind.LOG):
            fs.rename(directory / str(file.waiting), directory / str(file.name), Purpose.RESTORE)

    monkeypatch.setattr(restore, "_rename_back", rename_back)


def checkpoints_before_it_compacts(monkeypatch: pytest.MonkeyPatch) -> None:
    compact = Executor._compact

    def too_early(self: Executor, partition: PartitionPlan, before: object) -> object:
        assert partition.compaction
        done = {partition.facts.topic_partition: partition.compaction.round.end_offset}
        self._checkpoint(CLEANER_OFFSET_CHECKPOINT, done)
        return compact(self, partition, before)

    monkeypatch.setattr(Executor, "_compact", too_early)


def never_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.engine.cleaner.recover_log_dir", lambda *_: iter(()))


def erases_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    losing = erasing._losing
    monkeypatch.setattr(erasing, "_losing", lambda marked: losing(marked)[::-1])


def takes_the_old_file_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(fs: FileSystem, planned: PlannedRepair, content: bytes, present: bytes | None) -> None:
        if present is not None:
            fs.rename(planned.path, planned.path.with_name(planned.path.name + ".deleted"), Purpose.REPAIR)
        with fs.create(planned.path.with_name("a.logcleaner"), planned.path.parent, Purpose.REPAIR) as file:
            file.write(content)
        fs.rename(file.path, planned.path, Purpose.REPAIR)

    monkeypatch.setattr(repairing, "_replace", replace)


ORDERS: Final = (
    ("groups", retires_before_it_exposes),
    ("groups", checkpoints_before_it_compacts),
    ("groups", never_recovers),
    ("retention", indexes_go_first),
    ("retention at once", indexes_go_first),
    ("free", indexes_go_first),
    ("erase at once", erases_the_newest_first),
    ("restore", logs_come_back_first),
    ("repair", takes_the_old_file_away_first),
)


@pytest.mark.parametrize(("scene", "breaks"), some(ORDERS, TWINS_TRIED))
def test_a_wrong_order_is_caught(
    scene: str, breaks: Callable[[pytest.MonkeyPatch], None], scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Expected.of(SCENES[scene], scratch)
    breaks(monkeypatch)
    with pytest.raises((AssertionError, LogCleanerError)):
        try_stops(expected, scratch / "stopped", by_kill, Thoroughness())
