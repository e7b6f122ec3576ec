"""A progress bar on stderr for work that takes over a second; it appears only on a terminal."""

from __future__ import annotations

import sys
from contextlib import suppress
from time import monotonic as stopwatch
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_SECONDS: Final = 1.0


class ProgressBar:
    """A bar with the bytes that were read, their speed and the elapsed time."""

    def __init__(self, doing: str = "compacting") -> None:
        self._doing = doing
        self._start_seconds = stopwatch()
        self._progress: Progress | None = None
        self._done_bytes = 0
        self._is_wanted = sys.stderr.isatty()

    def advance(self, done_bytes: int) -> None:
        """Move the bar by the bytes that are done since the last call."""
        self._done_bytes += done_bytes
        took_seconds = stopwatch() - self._start_seconds
        if self._progress is None and self._is_wanted and took_seconds > SHOWN_AFTER_SECONDS:
            self._progress = _started(self._doing)
        if self._progress:
            self._progress.update(self._progress.task_ids[0], completed=self._done_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away; further bytes bring another one."""
        if self._progress:
            with suppress(OSError):  # the terminal may be gone, but the work is done
                self._progress.stop()
        self._progress, self._done_bytes, self._start_seconds = None, 0, stopwatch()


def _started(doing: str) -> Progress:
    from rich.console import Console
    from rich.progress import (
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn(doing),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(doing, total=None)
    progress.start()
    return progress
