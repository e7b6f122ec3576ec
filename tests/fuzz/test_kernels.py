"""Kernels and parsers on damaged bytes, in processes that end where one of them touches what is not its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzz.__main__ import run
from tests.fuzz.kernels import TARGETS

READS_BESIDE = "from tests.fuzz.guarded import Guarded; a = Guarded(9).of(b'ab', at_end={0}); print(a.ctypes.data)"
TOUCH = "; import ctypes; ctypes.string_at(a.ctypes.data + ({1}), 1)"


@pytest.mark.parametrize("target", ["parse", "dump", *TARGETS])
def test_damaged_bytes_end_in_a_status_and_nothing_beside_them_is_touched(target: str) -> None:
    ran = run(target, 0, 150, 60)
    assert (ran.executions > 0, ran.findings) == (True, 0)


@pytest.mark.parametrize(("at_end", "beside"), [(True, 2), (False, -1)])
def test_a_byte_beside_a_guarded_array_cannot_be_read(at_end: bool, beside: int) -> None:
    program = (READS_BESIDE + TOUCH).format(at_end, beside)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -11
