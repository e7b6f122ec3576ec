"""A pytest plugin: runs chosen tests in a chosen order, and notes how long each took."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

CHOSEN: Final = "MUTANTS_CHOSEN"
"""Names a file with the node ids of the tests to run, in their order; without it, all run."""
SECONDS: Final = "MUTANTS_SECONDS"
"""Names the file that gets the seconds of every test."""
_seconds: dict[str, float] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests."""
    if path := os.environ.get(CHOSEN):
        places = {node_id: place for place, node_id in enumerate(json.loads(Path(path).read_text()))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in places])
        items[:] = sorted((i for i in items if i.nodeid in places), key=lambda item: places[item.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the seconds of a test's setup, call and teardown."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    if path := os.environ.get(SECONDS):
        Path(path).write_text(json.dumps(_seconds))
