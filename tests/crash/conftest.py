"""Says at the end of a run what was tried."""

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
from tests.crash.stops import cleaning
from tests.crash.tally import TALLY

MEMORY: Final = Path("/dev/shm")


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """In memory where that can be: what lasts is not what is tested by thousands of small files."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as directory:
        yield Path(directory)


@pytest.fixture
def scratch(memory: Path) -> Iterator[Path]:
    """A path at which nothing is yet."""
    yield memory / "scratch"
    shutil.rmtree(memory / "scratch", ignore_errors=True)


def an_expected(name: str, directory: Path) -> Expected:
    """A scene drawn in a directory that holds no other of its name."""
    scene = SCENES[name]
    return Expected.of(scene.draw(directory / name / "data"), cleaning(scene))


@pytest.fixture(scope="session", params=SCENES)
def expected(request: pytest.FixtureRequest, memory: Path) -> Expected:
    """Each scene, with what an uninterrupted clean makes of it."""
    return an_expected(request.param, memory)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Nothing tried must be seen."""
    terminalreporter.write_line(
        f"crash points: {TALLY.steps}; stopped by {TALLY.errors} errors, {TALLY.kills} kills, "
        f"{TALLY.power_losses} power losses; {TALLY.opened_by_kafka} of them opened by Kafka; "
        f"records lost: {TALLY.records_lost}"
    )
