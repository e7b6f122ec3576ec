"""Show Spark's progress: on a terminal a line for each stage, with its tasks done and to do; elsewhere nothing."""

from __future__ import annotations

import sys
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from rich.progress import Progress, TaskID

LOOK_SECONDS: Final = 0.2


class StageLines:
    """Polls Spark's status tracker in a background thread until the context exits."""

    def __init__(self, tracker: StatusTracker) -> None:
        self._tracker = tracker
        self._step = ""
        self._left = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._lines: dict[int, TaskID] = {}
        self._progress: Progress | None = None

    def tell(self, step: str) -> None:
        """Set the purpose of the next stages, for their lines."""
        self._step = step

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._progress = _progress()
            self._progress.start()
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._progress:
            self._left.set()
            self._thread.join()
            self._progress.stop()

    def _look(self) -> None:
        assert self._progress is not None
        while not self._left.wait(LOOK_SECONDS):
            for stage in self._tracker.getActiveStageIds():
                if info := self._tracker.getStageInfo(stage):
                    self._show(self._progress, stage, info)

    def _show(self, progress: Progress, stage: int, info: Any) -> None:
        if stage not in self._lines:
            self._lines[stage] = progress.add_task(f"{self._step} (stage {stage})", total=info.numTasks)
        progress.update(self._lines[stage], completed=info.numCompletedTasks)


def _progress() -> Progress:
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
