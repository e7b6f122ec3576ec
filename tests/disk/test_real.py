"""Real ext4 and xfs lose power, and leave nothing that the model does not allow."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.disk.__main__ import in_memory
from tests.disk.cuts import ORDERED, WRITEBACK, XFS
from tests.disk.real import check_against, lived
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
