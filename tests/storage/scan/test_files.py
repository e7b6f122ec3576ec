"""A file that is not in the page cache is brought in ahead of the walk over it."""

from __future__ import annotations

import errno
import mmap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import UnreadableFile
from storage.log.listing import list_partition
from storage.scan import files
from storage.scan.files import MappedFile
from tests.partition_dirs import PartitionDir, keyed

PAGES = 64
SIZE = PAGES * mmap.PAGESIZE
AHEAD, STEP, WINDOW = SIZE // 4, SIZE // 16, SIZE // 16


class Disk:
    """Notes what is brought in, by the thread that does it, and what is let go.

    Once the walk has touched a page of a cold file, the system has read all of it.
    """

    def __init__(self, is_cold: bool) -> None:
        self.is_cold = is_cold
        self.ahead: list[tuple[int, int]] = []
        self.by_the_walk: list[tuple[int, int]] = []
        self.breaks_at = SIZE
        self.let_go: list[tuple[int, int]] = []

    def absent_ranges(self, _file: int, start: int, end: int) -> list[tuple[int, int]]:
        return [(start, end)] if self.is_cold and not self.by_the_walk else []

    def populate(self, _mapped: object, start: int, end: int) -> bool:
        is_ahead = threading.current_thread().name == "read-ahead"
        (self.ahead if is_ahead else self.by_the_walk).append((start, end))
        if end > self.breaks_at:
            raise OSError(errno.EFAULT, "bad address")
        return self.is_cold


@pytest.fixture
def made(tmp_path: Path) -> PartitionDir:
    made = PartitionDir(tmp_path).segment(0, keyed(0, "k=v"))
    with made.log(0).open("ab") as log:
        log.truncate(SIZE)
    return made


def opened(made: PartitionDir, monkeypatch: pytest.MonkeyPatch, *, is_cold: bool = True) -> tuple[MappedFile, Disk]:
    disk = Disk(is_cold)
    monkeypatch.setattr(files, "AHEAD_BYTES", AHEAD)
    monkeypatch.setattr(files, "STEP_BYTES", STEP)
    monkeypatch.setattr(files, "READ_AHEAD_BYTES", STEP)
    monkeypatch.setattr(files, "absent_ranges", disk.absent_ranges)
    monkeypatch.setattr(files, "populate", disk.populate)
    monkeypatch.setattr(files, "let_go", lambda _, ranges: disk.let_go.extend(ranges))
    return MappedFile(list_partition(made.path).segments[0]), disk


def readers_ahead() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "read-ahead"]


def test_each_page_ahead_of_a_walk_is_brought_in_once_and_in_order(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, disk = opened(made, monkeypatch)
    for start in range(0, SIZE, WINDOW):
        file.window(start, start + WINDOW)
    for thread in readers_ahead():
        thread.join(60)
    starts, ends = zip(*disk.ahead, strict=True)
    assert starts[0] >= WINDOW
    assert ends[-1] == SIZE
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))
    file.close()


def test_nothing_is_brought_in_far_ahead_of_a_walk_that_stands(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, disk = opened(made, monkeypatch)
    file.window(0, WINDOW)
    (thread,) = readers_ahead()
    thread.join(0.2)
    assert thread.is_alive()
    assert max(end for _, end in disk.ahead) <= WINDOW + AHEAD
    file.close()
    assert readers_ahead() == []


@pytest.mark.parametrize("ends", [MappedFile.let_go, MappedFile.close])
def test_no_thread_outlives_a_file_that_is_let_go(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch, ends: Callable[[MappedFile], None]
) -> None:
    file, _ = opened(made, monkeypatch)
    file.window(0, WINDOW)
    assert len(readers_ahead()) == 1
    ends(file)
    assert readers_ahead() == []
    file.close()
    assert str(made.log(0)) not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_walk_behind_one_that_was_let_go_is_read_ahead_again_from_where_it_begins(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, disk = opened(made, monkeypatch)
    file.window(0, WINDOW)
    file.let_go()
    disk.ahead.clear()
    file.window(SIZE // 2, SIZE // 2 + WINDOW)
    readers_ahead()[0].join(0.2)
    assert min(start for start, _ in disk.ahead) == SIZE // 2 + WINDOW
    file.close()


def test_error_ahead_is_told_by_the_walk_that_comes_to_it(made: PartitionDir, monkeypatch: pytest.MonkeyPatch) -> None:
    file, disk = opened(made, monkeypatch)
    disk.breaks_at = SIZE // 8
    file.window(0, WINDOW)
    for thread in readers_ahead():
        thread.join(60)
    assert readers_ahead() == []
    file.window(WINDOW, disk.breaks_at)
    with pytest.raises(UnreadableFile, match="Input/output error"):
        file.window(disk.breaks_at, SIZE)
    file.close()


def test_file_in_the_page_cache_and_the_last_window_need_no_thread(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot, disk = opened(made, monkeypatch, is_cold=False)
    hot.window(0, WINDOW)
    cold, disk = opened(made, monkeypatch)
    cold.window(0, SIZE)
    assert readers_ahead() == []
    assert disk.ahead == []
    for file in (hot, cold):
        file.close()


def test_all_of_a_cold_file_is_let_go_however_far_the_system_reads_ahead(
    made: PartitionDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, disk = opened(made, monkeypatch)
    for start in range(0, SIZE, WINDOW):
        file.window(start, start + WINDOW)
    file.let_go()
    assert sorted(disk.let_go)[0][0] == 0
    assert sum(end - start for start, end in disk.let_go) == SIZE
    file.close()
