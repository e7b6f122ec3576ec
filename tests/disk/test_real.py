"""Real ext4 and xfs lose power, and leave nothing that the model does not allow."""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.disk.__main__ import in_memory
from tests.disk.cuts import ORDERED, WRITEBACK, XFS, Disk
from tests.disk.mount import mounted
from tests.disk.real import check_against, lived
from tests.disk.recording import Attributes, Begun, Recording, Wrote
from tests.sampled import day, is_whole

STEPS: Final = 120
IMAGES: Final = 300 if is_whole() else 15


@pytest.mark.parametrize("kind", [ORDERED, WRITEBACK, XFS])
def test_what_a_real_disk_leaves_is_allowed(kind: str) -> None:
    with in_memory() as scratch:
        life = lived(kind, day(), STEPS, scratch / "life")
        different, wrong = check_against(kind, life, scratch / "life", IMAGES, Random(day()))
    assert wrong == []
    assert different > 3


@pytest.mark.parametrize(("is_direct", "reason"), [(True, False), (False, True)])
def test_on_xfs_a_write_past_the_page_cache_brings_a_size_without_what_is_cached_below_it(
    is_direct: bool, reason: bool
) -> None:
    attributes = Attributes(0o100644, 0, 0, 0)
    began = (Begun(".", 1, attributes, None), Begun("a", 2, attributes, b""))
    cached, last = Wrote(2, 0, b"c" * 1024, False, 0), Wrote(2, 8192, b"d" * 512, is_direct, 0)
    disk = Disk(Recording(began, (cached, last), (0, 1)))
    disk.play(2)
    left = bytes(8192) + b"d" * 512
    assert bool(disk.why_not(XFS, {"a": left})) is reason
    assert disk.why_not(ORDERED, {"a": left}) is None


def test_a_write_past_the_page_cache_is_recorded_as_one(tmp_path: Path) -> None:
    (tmp_path / "backing").mkdir()
    with mounted(tmp_path / "backing", tmp_path / "disk", tmp_path / "recording") as disk, mmap(-1, 4096) as data:
        for name, flags in (("cached", 0), ("direct", os.O_DIRECT)):
            descriptor = os.open(disk / name, os.O_WRONLY | os.O_CREAT | flags)
            os.pwrite(descriptor, data, 0)
            os.close(descriptor)
    operations = Recording.read(tmp_path / "recording").operations
    assert [wrote.is_direct for wrote in operations if isinstance(wrote, Wrote)] == [False, True]
