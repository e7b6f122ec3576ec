"""What tests of the engine ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_disks import KINDS, a_small_disk


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with a_small_disk(request.param, tmp_path) as mounted:
        yield mounted
