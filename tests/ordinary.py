"""The command line as an ordinary user has it: also under root a file's mode holds, and nothing overrides it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PR_CAPBSET_DROP = 24
_OVERRIDING = (1, 2)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""
_LIBC = ctypes.CDLL(None)


def _drop() -> None:
    for capability in _OVERRIDING:
        with suppress(OSError):  # who is not root has none
            _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def run_as_ordinary_user(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that may read and write only what modes allow."""
    command = [sys.executable, "-m", "cleaner", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, preexec_fn=_drop)
