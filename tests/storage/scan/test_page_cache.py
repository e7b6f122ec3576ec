from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from storage.scan.page_cache import absent_ranges, available_bytes, let_go, populate, unmap_pages

PAGE = mmap.PAGESIZE
SIZE = 8 * PAGE + PAGE // 2


@pytest.fixture
def cold(tmp_path: Path) -> int:
    """A descriptor of eight pages and a half, none of them in the page cache."""
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
    os.write(descriptor, b"x" * SIZE)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if not absent_ranges(descriptor, 0, SIZE):
        pytest.skip("NOT RUN: this file system keeps all in memory")
    yield descriptor
    os.close(descriptor)


def test_a_file_that_was_read_whole_has_nothing_absent(cold: int) -> None:
    os.pread(cold, SIZE, 0)
    assert absent_ranges(cold, 0, SIZE) == []
    assert absent_ranges(cold, PAGE + 1, SIZE) == []


def test_pages_that_were_read_are_resident(cold: int) -> None:
    os.pread(cold, 1, 2 * PAGE)
    os.pread(cold, 2 * PAGE, 5 * PAGE)
    assert absent_ranges(cold, 0, SIZE) == [(0, 2 * PAGE), (3 * PAGE, 5 * PAGE), (7 * PAGE, 9 * PAGE)]
    assert absent_ranges(cold, PAGE + 1, 3 * PAGE) == [(PAGE, 2 * PAGE)]


def test_what_was_let_go_is_absent_and_the_rest_is_not(cold: int) -> None:
    os.pread(cold, 8 * PAGE, 0)
    let_go(cold, [(PAGE, 2 * PAGE), (4 * PAGE, 6 * PAGE)])
    assert absent_ranges(cold, 0, 8 * PAGE) == [(PAGE, 2 * PAGE), (4 * PAGE, 6 * PAGE)]


def test_a_file_that_is_shorter_by_now_has_nothing_absent(cold: int) -> None:
    os.truncate(cold, PAGE)
    assert absent_ranges(cold, 0, 8 * PAGE) == []


def test_populating_tells_whether_pages_were_read_from_disk(cold: int) -> None:
    mapped = np.frombuffer(mmap.mmap(cold, SIZE, prot=mmap.PROT_READ), np.uint8)
    os.pread(cold, 2 * PAGE, 0)
    assert not populate(mapped, 0, 2 * PAGE)
    assert populate(mapped, 0, SIZE)
    unmap_pages(mapped, 0, SIZE)
    assert not populate(mapped, 0, SIZE)
    assert bytes(mapped) == b"x" * SIZE


def test_pages_that_were_unmapped_can_be_let_go(cold: int) -> None:
    mapped = np.frombuffer(mmap.mmap(cold, SIZE, prot=mmap.PROT_READ), np.uint8)
    populate(mapped, 0, 8 * PAGE)
    unmap_pages(mapped, 2 * PAGE, 4 * PAGE)
    unmap_pages(mapped, 6 * PAGE, 6 * PAGE)
    let_go(cold, [(0, 8 * PAGE)])
    assert absent_ranges(cold, 2 * PAGE, 4 * PAGE) == [(2 * PAGE, 4 * PAGE)]


def test_some_memory_is_available() -> None:
    assert available_bytes() > 1 << 20
