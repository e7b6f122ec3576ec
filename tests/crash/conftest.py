"""Scenes, and where they are acted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.promises import Expected
from tests.crash.scenes import SCENES
from tests.sampled import some

MEMORY: Final = Path("/dev/shm")


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A directory in memory, if possible: thousands of small files do not test whether bytes last."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as directory:
        yield Path(directory)


@pytest.fixture
def scratch(memory: Path) -> Iterator[Path]:
    """A path at which nothing is yet."""
    yield memory / "scratch"
    shutil.rmtree(memory / "scratch", ignore_errors=True)


SCENES_TRIED: Final = 9


@pytest.fixture(scope="session", params=some(list(SCENES), SCENES_TRIED, always=("groups", "retention")))
def expected(request: pytest.FixtureRequest, memory: Path) -> Expected:
    """A scene, with its result if nothing interrupts it."""
    return Expected.of(SCENES[request.param], memory / request.param)
