"""Several compactions at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.compactor import Local
from cleaner.engine.journal import read_journal
from storage.checkpoints import parse_offset_checkpoint
from storage.filesystem import FileSystem, OutOfSpace, Purpose
from storage.names import TopicPartition
from tests.faults import CrashingFileSystem, PowerCut
from tests.partition_dirs import COMPACT, PartitionDir, a_cleaner, committed, configured, keyed, records_in, request

LAYERS = configured(**{f"orders{n}": COMPACT for n in range(12)})
LEFT = [1, 10, 11]


def a_log_dir(path: Path) -> Path:
    path.mkdir()
    made = [
        PartitionDir(path, f"orders{n}-0").segment(0, keyed(0, f"a={n}", "b=1")).segment(10, keyed(10, "a=2"))
        for n in range(12)
    ]
    return committed(path, *(directory.segment(11, keyed(11, "z=1")) for directory in made))


def contents(log_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in log_dir.glob("*/*") if path.is_file()}


def checkpointed(log_dir: Path) -> dict[TopicPartition, int]:
    path = log_dir / "cleaner-offset-checkpoint"
    return dict(parse_offset_checkpoint(path.read_bytes(), path))


def offsets(log_dir: Path, name: str) -> list[int]:
    return [record.offset for record in records_in(log_dir / name)]


def test_threads_leave_what_one_thread_leaves(tmp_path):
    alone, together = a_log_dir(tmp_path / "alone"), a_log_dir(tmp_path / "together")
    for log_dir, threads in ((alone, 1), (together, 3)):
        _, outcome = a_cleaner(log_dir, LAYERS, threads=threads).clean(request())
        assert {result.error for result in outcome.results.values()} == {None}
    assert contents(together) == contents(alone)
    assert checkpointed(together) == checkpointed(alone)
    assert len(checkpointed(together)) == 12
    assert sum(entry["what"] == "compact" for entry in read_journal(together)) == 12


@pytest.mark.parametrize(("threads", "topics", "at_most"), [(2, 12, 4), (5, 12, 10), (9, 12, 12), (2, 3, 3)])
def test_those_at_work_share_the_memory_for_keys(tmp_path, monkeypatch, threads, topics, at_most):
    asked: list[int] = []
    compact = Local.compact
    monkeypatch.setattr(
        Local,
        "compact",
        lambda self, round_, means: (asked.append(means.side_by_side), compact(self, round_, means))[1],
    )
    log_dir = a_log_dir(tmp_path / "data")
    some = request(topics=tuple(f"orders{n}" for n in range(topics)))
    a_cleaner(log_dir, LAYERS, threads=threads).clean(some)
    assert asked == [at_most] * topics


class FullForOthers(FileSystem):
    """One partition finds no space as long as others are at work."""

    def __init__(self) -> None:
        self.refused = 0

    def create(self, path: Path, like: Path, purpose: Purpose):
        if "orders3-0" in str(path) and purpose is Purpose.CLEAN and not self.refused:
            self.refused += 1
            raise OutOfSpace(path, 1)
        return super().create(path, like, purpose)


def test_compaction_without_space_beside_the_others_has_its_turn_alone(tmp_path):
    log_dir, fs = a_log_dir(tmp_path / "data"), FullForOthers()
    _, outcome = a_cleaner(log_dir, LAYERS, fs, threads=3).clean(request())
    assert {result.error for result in outcome.results.values()} == {None}
    assert (fs.refused, offsets(log_dir, "orders3-0")) == (1, LEFT)


def test_one_that_fails_stops_no_other(tmp_path):
    log_dir = a_log_dir(tmp_path / "data")
    damaged = log_dir / "orders5-0" / f"{0:020d}.log"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    _, outcome = a_cleaner(log_dir, LAYERS, threads=3).clean(request())
    failed = [key[1].topic for key, result in outcome.results.items() if result.error]
    assert failed == ["orders5"]
    assert all(offsets(log_dir, f"orders{n}-0") == LEFT for n in range(12) if n != 5)


class LastSteps(CrashingFileSystem):
    """Never ends, and knows how many steps were done."""

    def __init__(self) -> None:
        super().__init__(1 << 30)

    @property
    def done(self) -> int:
        return (1 << 30) - self.left


def test_end_in_the_middle_of_several_swaps_loses_nothing_and_the_next_run_ends_the_same(tmp_path):
    whole, counting = a_log_dir(tmp_path / "whole"), LastSteps()
    a_cleaner(whole, LAYERS, counting, threads=3).clean(request())
    cuts, shared = 0, 2 * 11  # steps that a run saves at most: journal lines that wait together share a write and fsync
    for steps in range(5, counting.done, counting.done // 25):
        log_dir = a_log_dir(tmp_path / f"after-{steps}")
        try:
            a_cleaner(log_dir, LAYERS, CrashingFileSystem(steps), threads=3).clean(request())
        except PowerCut:
            cuts += 1
        else:
            assert steps >= counting.done - shared
        _, outcome = a_cleaner(log_dir, LAYERS, threads=3).clean(request())
        assert {result.error for result in outcome.results.values()} == {None}
        assert {offset for n in range(12) for offset in offsets(log_dir, f"orders{n}-0")} == set(LEFT)
        assert all(offsets(log_dir, f"orders{n}-0") == LEFT for n in range(12)), steps
    assert cuts >= 20
