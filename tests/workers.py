"""The suite on several processes (pytest-xdist): which tests stay together, and what the workers counted.

The tests of a file run in one process, in their order: some count what the others of their file tried, and module
fixtures are made once. The files in ``tests/spark`` share a process, and so the Spark session.

Not chosen: ``--dist loadgroup``: pytest-xdist 3.8 writes the group into the id of a test, where pytest 9 looks no more.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

SPARK: Final = "tests/spark"
FIRST: Final = (
    SPARK,
    "tests/test_wheel.py",
    "tests/interop/test_preflight.py",
    "tests/cleaner/report/html/test_in_browser.py",
    "tests/interop/test_random_logs.py",
    "tests/test_debian_package.py",
    "tests/interop/test_filtered_logs.py",
    "tests/docs/test_commands.py",
    "tests/interop/test_broker.py",
    "tests/test_bundle.py",
    "tests/disk/test_cuts.py",
    "tests/interop/test_delete_records.py",
    "tests/crash/test_twins.py",
    "tests/crash/test_stops.py",
    "tests/cleaner/test_ends_of_numbers.py",
    "tests/packaging/test_image.py",
    "tests/interop/test_log_lives.py",
    "tests/interop/test_verified_broker.py",
    "tests/interop/test_dump.py",
    "tests/benchmarks/test_command.py",
    "tests/interop/test_doctor.py",
    "tests/interop/test_import.py",
    "tests/interop/test_crash_points.py",
    "tests/storage/machine/test_library.py",
    "tests/interop/test_rounds.py",
    "tests/storage/machine/test_levels.py",
    "tests/test_workers.py",
    "tests/interop/test_configuration.py",
    "tests/test_soak.py",
)
"""Groups that take longest, the longest first: one of these as the last would leave the other processes idle."""


def keep_bytecode() -> None:
    """Have this process and those that tests start keep compiled modules, whatever the environment says.

    Without them each worker compiles every test anew, and each of the thousand commands that tests start compiles the
    program: two fifths of its processor time.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def group_of(nodeid: str) -> str:
    """Return the name of the tests that run in the same process as this one."""
    path = nodeid.partition("::")[0]
    return SPARK if path.startswith(f"{SPARK}/") else path


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the longest groups first, and else in their order."""
    places = {group: place for place, group in enumerate(FIRST)}
    return sorted(items, key=lambda item: places.get(group_of(item.nodeid), len(places)))


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what hands whole groups to the workers, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def counted(tallies: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the tallies of this process, to be sent to the one that writes the summary."""
    return {name: dataclasses.asdict(tally) for name, tally in tallies.items()}


def add_counts(tallies: Mapping[str, Any], counts: Mapping[str, Mapping[str, int]]) -> None:
    """Add what a worker counted."""
    for name, fields in counts.items():
        for field, count in fields.items():
            setattr(tallies[name], field, getattr(tallies[name], field) + count)
