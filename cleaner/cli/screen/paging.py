"""A pager for reports on a terminal, as git has one: ``$LOGCLEANER_PAGER``, ``$PAGER``, else ``less``.

Only commands that read, and dry runs, show their report through it, when all else is done. So leaving it early stops
nothing. A run that changes things never has a pager.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_DEFAULT: Final = "less"
_NONE: Final = ("", "cat")
_SETTINGS: Final = {"LESS": "FRX", "LV": "-c"}
"""What git sets, too: less quits if all fits the screen, shows colours, and leaves the text on the screen."""
_PLAIN: Final = re.compile(r"[\w@%+=:,./ -]+")
"""A command in which the shell sees nothing but words."""
_NOT_STARTED: Final = (126, 127)
"""The exit statuses of a shell that cannot start a command."""


def pager_of(environment: Mapping[str, str]) -> str | None:
    """Return the command of the pager; None if the user wants none, or it is not installed."""
    command = environment.get("LOGCLEANER_PAGER", environment.get("PAGER", _DEFAULT)).strip()
    if command in _NONE:
        return None
    is_missing = _PLAIN.fullmatch(command) and not shutil.which(shlex.split(command)[0], path=environment.get("PATH"))
    return None if is_missing else command


def page(text: str, command: str) -> bool:
    """Show a text through a pager until the user leaves it. Return False if the pager could not start.

    Args:
        text: with the colours of the terminal.
        command: of the pager; a shell runs it.
    """
    with _interrupts_left_to_the_pager():
        process = subprocess.Popen(  # noqa: S602 - the user's own command, as in git and man
            command,
            shell=True,
            stdin=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=_SETTINGS | dict(os.environ),
        )
        try:
            process.communicate(text)  # a pager that was left early closes the pipe, which is no error
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode not in _NOT_STARTED


@contextmanager
def _interrupts_left_to_the_pager() -> Iterator[None]:
    """Ignore Ctrl-C, which stops a search in the pager. The pager itself inherits no ignored signal."""
    previous = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
