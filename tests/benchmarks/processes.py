"""Run a command to its end and say what it cost."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall clock of a process, and its memory at its peak.

    ``anonymous_bytes`` leaves out mapped files, whose pages belong to the page cache; ``resident_bytes`` counts them.
    Both are sampled: of the first a peak shorter than 20 ms may be missed, of the second one in the last 20 ms. (What
    wait4 tells is no less than the parent's own peak, which the child is forked with.)
    """

    seconds: float
    resident_bytes: int
    anonymous_bytes: int
    cpu_seconds: float = 0.0
    """Of the processor, by all threads; 0 where nobody measured it."""


def run(command: Sequence[str]) -> Cost:
    """Run ``command`` from start to exit, as a user's shell would see it: with its modules compiled, as installed.

    Raises:
        subprocess.CalledProcessError: it failed; carries its output.
    """
    started, used_before = time.perf_counter(), _used_by_children()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    peaks = _Peaks(process.pid)
    assert process.stdout is not None
    output = process.stdout.read()
    process.wait()
    seconds = time.perf_counter() - started
    process.stdout.close()
    # Before the check: the thread would watch forever a process that failed, and later another one of its number.
    resident_bytes, anonymous_bytes = peaks.stop()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), output)
    return Cost(seconds, resident_bytes, anonymous_bytes, _used_by_children() - used_before)


def _used_by_children() -> float:
    """Seconds of the processor that the children of this process have used that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory_bytes(pid: int, name: str) -> int:
    """A field of ``/proc/PID/status`` such as VmHWM or RssAnon; 0 when the process has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    values = dict(line.split(":", 1) for line in lines)
    return int(values[name].split()[0]) * 1024 if name in values else 0


class _Peaks:
    """Watches one process from a thread until stopped."""

    def __init__(self, pid: int) -> None:
        self._pid, self._resident_bytes, self._anonymous_bytes = pid, 0, 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """The largest values seen: resident, anonymous, in bytes."""
        self._stopped.set()
        self._thread.join()
        return self._resident_bytes, self._anonymous_bytes

    def _watch(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            self._resident_bytes = max(self._resident_bytes, memory_bytes(self._pid, "VmHWM"))
            self._anonymous_bytes = max(self._anonymous_bytes, memory_bytes(self._pid, "RssAnon"))
