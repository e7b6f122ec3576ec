"""The measured cost is the command's own, without its parent's memory, and a failure counts as no success."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.benchmarks.processes import run

MB = 1_000_000


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_memory_is_that_of_the_process_whatever_its_parent_takes() -> None:
    ballast = b"1" * (300 * MB)
    cost = run(python("import time; taken = b'1' * 100_000_000; time.sleep(0.3)"))
    assert 100 * MB < cost.anonymous_bytes <= cost.resident_bytes < len(ballast) * 2 // 3
    assert cost.seconds > 0.3


def test_a_command_that_fails_tells_what_it_said_and_nobody_watches_it_any_more() -> None:
    threads_before = threading.active_count()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(python("print('no space'); raise SystemExit(3)"))
    assert (failed.value.returncode, failed.value.output) == (3, b"no space\n")
    assert threading.active_count() == threads_before
