"""The exit statuses. This module alone turns an exception into an exit status and a line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import IntEnum

from cleaner.errors import told
from cleaner.journald import Level, prefix
from cleaner.printable import printable
from storage.errors import ErrorKind, InvalidConfigs, LogCleanerError, Stopped, if_unloadable
from storage.stores import ENDING


class ExitStatus(IntEnum):
    """All exit statuses; other values do not occur."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    LOCKED = 3
    DAMAGED = 4
    REFUSED = 5
    NOT_YET = 6
    WORK_TO_DO = 10
    SIGINT = 130
    SIGTERM = 143


_TOLD = {
    ExitStatus.DONE: "done, or nothing to do",
    ExitStatus.FAILED: "a partition failed; the others were processed",
    ExitStatus.USAGE: "wrong usage or configuration",
    ExitStatus.LOCKED: "another process holds a log dir",
    ExitStatus.DAMAGED: "damage was found",
    ExitStatus.REFUSED: "a guard rail stopped the run; the message says what to do",
    ExitStatus.NOT_YET: "a --log-dir, or every configured log dir, is missing; try later",
    ExitStatus.WORK_TO_DO: "with --dry-run --exit-code: there is something to do",
    ExitStatus.SIGINT: "interrupted cleanly by Ctrl-C",
    ExitStatus.SIGTERM: "interrupted cleanly by SIGTERM",
}


def help_on(*statuses: ExitStatus, also: Mapping[ExitStatus, str] | None = None) -> str:
    """Return the list of exit statuses for a command's ``--help``; ``also`` replaces the texts of some statuses."""
    told = {status: _TOLD[status] for status in statuses} | dict(also or {})
    return "\n".join(["exit status:", *(f"  {status:<4} {told[status]}" for status in sorted(told))])


class NotConfirmed(LogCleanerError):
    """The user did not confirm a danger, so nothing was done."""

    kind = ErrorKind.REFUSED

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class Terminated(BaseException):
    """SIGTERM arrived while the command had nothing to finish first."""


def exit_status_of(error: BaseException, *, show_traceback: bool) -> int:
    """Print an exception on stderr and return its exit status.

    Args:
        error: the exception that a command raised.
        show_traceback: print the traceback, too (``-vv``).
    """
    if isinstance(error, KeyboardInterrupt):
        return ExitStatus.SIGINT
    if isinstance(error, Terminated):
        return ExitStatus.SIGTERM
    if isinstance(error, Stopped) and ENDING.by:
        return 128 + ENDING.by
    if isinstance(error, BrokenPipeError):
        return _reader_is_gone()
    if show_traceback:
        import traceback

        traceback.print_exception(error)
    for line in lines_of(error):
        complain(line, Level.ERROR)
    return status_of(error)


def complain(line: str, level: Level = Level.WARNING) -> None:
    """Print one line on stderr, and escape the control characters of file names in it."""
    print(f"{prefix(level)}logcleaner: {printable(line)}", file=sys.stderr)  # noqa: T201 - the command line


def lines_of(error: BaseException) -> list[str]:
    """Return the sentences of an error, one line for each problem."""
    if isinstance(error, InvalidConfigs):
        return [str(problem) for problem in error.problems]
    if isinstance(error, LogCleanerError | OSError):
        return [told(error)]
    if isinstance(error, ImportError) and error.path:
        return [f"{error.path}: cannot be loaded: {error}; {if_unloadable()}"]
    return [f"bug: {type(error).__name__}: {error}; please report it with the traceback that -vv shows"]


def status_of(error: BaseException) -> int:
    """Return the exit status for an error: each kind of error has a status of the same name."""
    return ExitStatus[error.kind.name] if isinstance(error, LogCleanerError) else ExitStatus.FAILED


def _reader_is_gone() -> int:
    """Replace stdout after ``| head`` closed it.

    Otherwise Python would write the rest of the buffer at exit, and raise again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitStatus.FAILED
