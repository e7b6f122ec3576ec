"""The process that acts: the command line at a fixed time, or a broken twin of it.

``python -m tests.disk.process TIME_MS TWIN WORD...`` runs ``logcleaner WORD...``. TWIN is a name of
``tests.disk.twins``, or ``-``. What the command starts by ``sys.executable`` runs the same way.
"""

from __future__ import annotations

import atexit
import os
import runpy
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from cleaner.engine.clock import SystemClock
from storage.log_dir import LogDir

WHOLE: Final = "-"
"""In the place of a twin."""
_MODULE: Final = "-m"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    stdout: str
    stderr: str


def main(time_ms: str, twin: str, *words: str) -> int:
    """Be that process."""
    from cleaner.__main__ import run
    from tests.disk.twins import TWINS

    ourselves = _ourselves(time_ms, twin)
    sys.executable = ourselves
    with at(int(time_ms)):
        if twin != WHOLE:
            TWINS[twin].breaks()
        if words[0] == _MODULE:
            sys.argv = list(words[1:])
            runpy.run_module(words[1], run_name="__main__", alter_sys=False)
            return 0
        sys.argv = ["logcleaner", *words]
        return run()


@cache
def _ourselves(time_ms: str, twin: str) -> str:
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = Path(directory, "python")
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.disk.process {time_ms} {twin} "$@"\n')
    script.chmod(0o755)
    return str(script)


def caching(cache: Path) -> patch.dict:
    return patch.dict(os.environ, XDG_CACHE_HOME=str(cache))


@contextmanager
def at(time_ms: int) -> Iterator[None]:
    """Set every clock of the process to a time, and count a lock that was free as free."""
    with patch.object(SystemClock, "now_ms", lambda _: time_ms), patch("storage.lock.SETTLE_SECONDS", 0.0):
        yield


def told_by(words: Sequence[str], time_ms: int, cache: Path) -> Ended:
    """Run a command within this process, where the disk belongs to the log dir alone.

    Args:
        words: behind ``logcleaner``.
        time_ms: of every clock.
        cache: where key filters may lie.
    """
    from cleaner.cli.main import main as command
    from tests.crash.acts import _space_alone

    space_of = LogDir.space
    alone = patch.object(LogDir, "space", lambda log_dir: _space_alone(space_of, log_dir))
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        patch.object(sys, "executable", _ourselves(str(time_ms), WHOLE)),
    ):
        with at(time_ms), alone, caching(cache), redirect_stdout(out), redirect_stderr(err):
            status = command(list(words))
        out.seek(0), err.seek(0)
        return Ended(status, out.read(), err.read())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
