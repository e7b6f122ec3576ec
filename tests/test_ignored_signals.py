"""The suite as a background job of a shell, which has it ignore SIGINT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SENDERS = (
    "tests/cleaner/cli/test_clean.py::TestSignals::test_second_signal_ends_it_at_once",
    "tests/cleaner/cli/test_export.py::test_a_signal_ends_it_and_no_file_is_left",
    "tests/cleaner/daemon/test_daemon.py::test_a_day_in_the_life",
    "tests/cleaner/daemon/test_daemon_threads.py::TestOnce::test_a_signal_has_its_status",
)
"""Tests that need the default disposition: in this process, and in one that a test starts."""


@pytest.fixture(scope="module")
def said() -> str:
    """What pytest says of all these tests in such a job."""
    pytest_ = f"{sys.executable} -m pytest -v -p no:cacheprovider {' '.join(SENDERS)}"
    command = ["sh", "-c", f"trap '' INT; exec {pytest_}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("test", SENDERS)
def test_tests_that_send_sigint_pass_where_the_shell_has_it_ignored(said: str, test: str) -> None:
    results = [line for line in said.splitlines() if line.startswith(test)]
    assert results
    assert [line for line in results if " PASSED " not in line] == [], said
