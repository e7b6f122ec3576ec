"""Exit statuses, and the one place that turns an exception into one: one line on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from enum import IntEnum

from cleaner import journald
from cleaner.errors import told
from cleaner.printable import printable
from storage.errors import ErrorKind, InvalidConfigs, LogCleanerError


class ExitStatus(IntEnum):
    """The closed list of exit statuses."""

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
    ExitStatus.FAILED: "some partition failed; the others went on",
    ExitStatus.USAGE: "wrong usage or configuration",
    ExitStatus.LOCKED: "another process holds a log dir",
    ExitStatus.DAMAGED: "damage was found",
    ExitStatus.REFUSED: "a guard rail stopped it; the message names the remedy",
    ExitStatus.NOT_YET: "not there yet: a log dir of --log-dir, or all configured ones, are missing; try later",
    ExitStatus.WORK_TO_DO: "with --dry-run --exit-code: there is something to do",
    ExitStatus.SIGINT: "interrupted cleanly by Ctrl-C",
    ExitStatus.SIGTERM: "interrupted cleanly by SIGTERM",
}

_OF_KIND = {
    ErrorKind.FAILED: ExitStatus.FAILED,
    ErrorKind.USAGE: ExitStatus.USAGE,
    ErrorKind.LOCKED: ExitStatus.LOCKED,
    ErrorKind.REFUSED: ExitStatus.REFUSED,
    ErrorKind.NOT_YET: ExitStatus.NOT_YET,
}


def help_on(*statuses: ExitStatus, also: Mapping[ExitStatus, str] | None = None) -> str:
    """The part of a command's ``--help`` that lists its exit statuses; ``also``: in words of its own."""
    told = {status: _TOLD[status] for status in statuses} | dict(also or {})
    return "\n".join(["exit status:", *(f"  {status:<4} {told[status]}" for status in sorted(told))])


class NotConfirmed(LogCleanerError):
    """A guard rail: nothing was done until the user says that it is meant."""

    kind = ErrorKind.REFUSED

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class Terminated(BaseException):
    """SIGTERM, where nothing has to be finished first."""


def exit_status_of(error: BaseException, *, show_traceback: bool) -> int:
    """Tell an exception on stderr and give the exit status that it means.

    Args:
        error: what a command raised.
        show_traceback: ``-vv``.
    """
    if isinstance(error, KeyboardInterrupt):
        return ExitStatus.SIGINT
    if isinstance(error, Terminated):
        return ExitStatus.SIGTERM
    if isinstance(error, BrokenPipeError):
        return _reader_is_gone()
    if show_traceback:
        traceback.print_exception(error)
    for line in lines_of(error):
        complain(line, journald.ERROR)
    return status_of(error)


def complain(line: str, priority: int = journald.WARNING) -> None:
    """Print one line on stderr; control characters of file names cannot reach the terminal."""
    print(f"{journald.prefix(priority)}logcleaner: {printable(line)}", file=sys.stderr)  # noqa: T201 - the command line


def lines_of(error: BaseException) -> list[str]:
    """Return what an error says, a line for each problem."""
    if isinstance(error, InvalidConfigs):
        return [str(problem) for problem in error.problems]
    if isinstance(error, LogCleanerError):
        return [str(error)]
    if isinstance(error, OSError):
        return [told(error)]
    return [f"bug: {type(error).__name__}: {error}; please report it with the traceback that -vv shows"]


def status_of(error: BaseException) -> int:
    """Return the exit status that an error means."""
    return _OF_KIND[error.kind] if isinstance(error, LogCleanerError) else ExitStatus.FAILED


def _reader_is_gone() -> int:
    """``logcleaner … | head``: what is left in the buffer must not raise again when Python closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitStatus.FAILED
