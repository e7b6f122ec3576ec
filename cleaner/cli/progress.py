"""A progress bar on stderr for work that takes over a second; it appears only on a terminal."""

from __future__ import annotations

import sys
from contextlib import suppress
from math import ceil
from time import monotonic as stopwatch
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER_SECONDS: Final = 1.0


class ProgressBar:
    """A bar with the bytes that are done, their total, their rate and the time that is left."""

    def __init__(self, doing: str = "compacting", *, passes: int = 1) -> None:
        """Show nothing yet.

        Args:
            doing: what is done.
            passes: how often the work reads each byte.
        """
        self._doing = doing
        self._passes = passes
        self._start_seconds = stopwatch()
        self._progress: Progress | None = None
        self._done_bytes = 0
        self._expected_bytes = 0
        self._is_wanted = sys.stderr.isatty()

    def expect(self, size_bytes: int) -> None:
        """Add the bytes that are about to be read to the total, each byte once."""
        self._expected_bytes += size_bytes

    def advance(self, done_bytes: int) -> None:
        """Move the bar by the bytes that were read since the last call."""
        self._done_bytes += done_bytes
        took_seconds = stopwatch() - self._start_seconds
        if self._progress is None and self._is_wanted and took_seconds > SHOWN_AFTER_SECONDS:
            self._progress = _started(self._doing)
        if self._progress:
            done_bytes = self._done_bytes // self._passes
            if self._expected_bytes:  # a partition that changed meanwhile is compacted from its beginning once more
                done_bytes = min(done_bytes, self._expected_bytes)
            self._progress.update(
                self._progress.task_ids[0],
                completed=done_bytes,
                total=self._expected_bytes or None,
                told=told(done_bytes, self._expected_bytes, took_seconds),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._progress:
            with suppress(OSError):  # the terminal may be gone, but the work is done
                self._progress.stop()

    def begin_again(self) -> None:
        """Start another bar at zero, for another run."""
        self.__exit__()
        self._progress, self._start_seconds = None, stopwatch()
        self._done_bytes = self._expected_bytes = 0


class BarListener:
    """A listener that moves a progress bar, and ignores events."""

    def __init__(self, bar: ProgressBar) -> None:
        """Listen for a bar."""
        self._bar = bar

    def event(self, name: str, **fields: object) -> None:
        """Ignore the event."""

    def expect(self, size_bytes: int) -> None:
        """Add to the total."""
        self._bar.expect(size_bytes)

    def progress(self, done_bytes: int) -> None:
        """Move the bar."""
        self._bar.advance(done_bytes)


def told(done_bytes: int, all_bytes: int, took_seconds: float) -> str:
    """Return the words beside the bar: bytes done, their total, their rate, and the time that the rest takes.

    Args:
        done_bytes: the bytes that are done, not more than all.
        all_bytes: their total; 0 if nobody knows it.
        took_seconds: the time that they took.
    """
    from policies.reasons import duration, size

    rate = done_bytes / took_seconds if took_seconds else 0.0
    words = f"{size(done_bytes)} of {size(all_bytes)}" if all_bytes else size(done_bytes)
    words += f", {size(int(rate))}/s"
    if all_bytes and rate:
        left_seconds = ceil((all_bytes - done_bytes) / rate)
        words += f", {duration(left_seconds * 1000) if left_seconds else '0s'} left"
    return words


def _started(doing: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn(doing), BarColumn(bar_width=None), TextColumn("{task.fields[told]}"))
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(doing, total=None, told="")
    progress.start()
    return progress
