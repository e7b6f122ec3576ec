"""The suite on several processes: what stays together, and what is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.tally import Tally
from tests.small_disks import Mounted
from tests.workers import FIRST, add_counts, counted

ROOT = Path(__file__).parents[1]
FILES = ("tests/storage/test_names.py", "tests/spark/test_options.py", "tests/spark/test_extents.py")
COUNTED = "tests/test_small_disks.py::test_small_disk_is_filled_to_the_last_byte_and_gone_afterwards"


@pytest.mark.parametrize("path", FIRST)
def test_the_groups_that_start_first_are_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_what_workers_counted_is_added_up() -> None:
    summary = {"comparisons": Tally(logs=1), "disks": Mounted()}
    for tallies in ({"comparisons": Tally(logs=2), "disks": Mounted(ext4=1)}, {"comparisons": Tally(batches=5)}):
        add_counts(summary, counted(tallies))
    assert summary == {"comparisons": Tally(logs=3, batches=5), "disks": Mounted(ext4=1)}


@pytest.fixture(scope="module")
def run_by_two() -> str:
    """What pytest says of two files that are run by two workers."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", "2"]
    ran = subprocess.run(
        [
            *command,
            "tests/storage/test_names.py",
            "tests/spark/test_options.py",
            "tests/spark/test_extents.py",
            COUNTED,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def workers_of(folder: str, said: str) -> set[str]:
    """Return the names of the workers that ran the tests below a folder."""
    lines = (line.split() for line in said.splitlines() if line.startswith("[gw"))
    return {worker for worker, *words in lines if any(word.startswith(folder) for word in words)}


@pytest.mark.parametrize("group", ["tests/spark/", "tests/storage/test_names.py"])
def test_a_group_is_run_by_one_worker(run_by_two: str, group: str) -> None:
    assert len(workers_of(group, run_by_two)) == 1


def test_the_summary_says_what_workers_tried(run_by_two: str) -> None:
    if "NOT RUN" in run_by_two:
        pytest.skip("NOT RUN: no small disk can be mounted here")
    assert "small disks filled or limited: 1 of ext4, 1 of tmpfs" in run_by_two


def test_a_module_is_compiled_once_for_all_processes_of_a_run() -> None:
    code = "import sys, cleaner.cli.main as main; print(sys.dont_write_bytecode, main.__cached__)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert told[0] == "False"
    assert Path(told[1]).exists()
    assert not sys.dont_write_bytecode
