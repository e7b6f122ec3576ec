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
)
"""Tests that need the default disposition: in this process, and in one that a test starts."""


@pytest.mark.parametrize("test", SENDERS)
def test_tests_that_send_sigint_pass_where_the_shell_has_it_ignored(test: str) -> None:
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider {test}"
    command = ["sh", "-c", f"trap '' INT; exec {pytest_}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
