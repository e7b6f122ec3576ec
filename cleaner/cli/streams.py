"""Preparation of the three standard streams: one may be closed, or may not take every character."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.cli.exit_status import ExitStatus, complain

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STREAMS: Final = 3
_SEE_HISTORY: Final = "the run is done, only its report is missing: logcleaner history tells what was changed"


class _Unread(io.RawIOBase):
    """A replacement for a closed stdout: it takes everything, keeps nothing, and counts the bytes that were lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Count the bytes, and keep none."""
        size_bytes = memoryview(data).nbytes
        self.lost_bytes += size_bytes
        return size_bytes


def prepare_streams() -> None:
    """Escape what the locale cannot show, and replace closed streams.

    The next file that is opened would get the number of a closed stream. That file could be a log, and a child
    process would write its messages into it.
    """
    for number in range(_STREAMS):
        _occupy(number)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Unread()), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):  # an undecodable file name must not end the program
            reconfigure(errors="backslashreplace")


def is_of_stdout(error: BaseException) -> bool:
    """Return whether the error is that stdout cannot be written; if so, its buffer still holds what it did not take."""
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError) or error.filename is not None:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def status_if_shown(status: int, *, has_acted: bool = False) -> int:
    """Return the exit status; FAILED instead of DONE if stdout does not take the result.

    Args:
        status: of the command.
        has_acted: whether the command may have changed log dirs, which nobody reads on stdout now.
    """
    instead = f"; {_SEE_HISTORY}" if has_acted else ""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        if not isinstance(error, BrokenPipeError):
            complain(f"stdout: cannot be written: {error.strerror}{instead}")
        return status or ExitStatus.FAILED
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", None)
    if not isinstance(raw, _Unread):
        return status
    if not raw.lost_bytes:
        return status
    complain(f"stdout is closed, so nobody got the result{instead}; add >/dev/null if nobody needs it")
    return status or ExitStatus.FAILED


def _occupy(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:  # a lower number is closed, too, and is left closed
            os.dup2(descriptor, number)
            os.close(descriptor)
