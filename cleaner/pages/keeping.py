"""Keeps a page of the daemon's last plan: made beside the daemon's work, and written as a whole.

A thread takes the newest plan, leaves older plans out, and makes the document. Another process makes the page of it.
Neither holds a lock, and a failure here fails nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cleaner.config.layers import LoadedLayers
from cleaner.daemon.observer import Observer
from cleaner.engine.clock import SystemClock
from cleaner.engine.inventory import volumes_of
from cleaner.engine.means import Listener
from cleaner.engine.outcome import Outcome
from cleaner.engine.rehearsal.rehearsal import expected_result
from cleaner.errors import told
from cleaner.pages.writing import check_page, provenance_of
from cleaner.report.cleaning import CleaningReport
from cleaner.report.overview.making import overview_of
from policies.forecast.runway import runway
from policies.plan import Plan
from storage.errors import LogCleanerError
from storage.log_dir import LogDir
from storage.stores.paths import path_of_text

KEY: Final = "report.html"
_SECONDS_MAX: Final = 120.0
"""The most seconds for a page. A page that takes longer is given up; the next plan gets another."""
_END_SECONDS: Final = 1.0
"""The time, in seconds, that an ending daemon waits for its page; after it the page of an earlier plan stays."""


class PageFailed(LogCleanerError):
    """The process that makes the page could not write it."""

    cause: str

    def __str__(self) -> str:
        return self.cause


@contextmanager
def page_keeper(
    loaded: Callable[[], LoadedLayers], command: Sequence[str], listener: Listener, *, is_once: bool
) -> Iterator[Observer]:
    """Yield an observer that keeps the page of ``[report] html``, which must be set.

    Args:
        loaded: gives the configuration in force.
        command: the words of the command line.
        listener: hears of a page that could not be written.
        is_once: whether the daemon does one round: then the page is written before it ends.

    Raises: InvalidConfig if the page could not be written at all.
    """
    path = loaded().settings.report_html
    assert path is not None
    check_page(KEY, path, loaded().log_dirs)
    keeper = PageKeeper(path, lambda plan: _document(plan, loaded(), command), listener)
    try:
        yield keeper
    finally:
        keeper.close(_SECONDS_MAX if is_once else _END_SECONDS)


class PageKeeper(Observer):
    """An observer that has a page written of each plan of everything, one at a time."""

    def __init__(self, path: Path, document: Callable[[Plan], dict[str, Any]], listener: Listener) -> None:
        """Start the thread. ``document``: makes the document of a plan."""
        self._path, self._document, self._listener = path, document, listener
        self._changed = threading.Condition()
        self._next: Plan | None = None
        self._is_ending = False
        self._child: subprocess.Popen[str] | None = None
        self._told: str | None = None
        self._thread = threading.Thread(target=self._work, name="page of the last plan", daemon=True)
        self._thread.start()

    def planned(self, plan: Plan, now_ms: int) -> None:
        """Take a plan; return at once."""
        del now_ms
        with self._changed:
            self._next = plan
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """End the thread. A page under way gets the given seconds."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(seconds)
        if self._child:
            self._child.kill()

    def _work(self) -> None:
        while (plan := self._taken()) is not None:
            try:
                self._write(self._document(plan))
            except (LogCleanerError, OSError, subprocess.SubprocessError) as error:
                self._tell(told(error))
            else:
                self._told = None

    def _taken(self) -> Plan | None:
        """Wait for a plan, and return the newest one; None once the daemon ends and no plan is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or self._is_ending)
            plan, self._next = self._next, None
            return plan

    def _write(self, document: dict[str, Any]) -> None:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "cleaner.pages", str(self._path)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8",
            errors="backslashreplace", env=_environment(), process_group=0,
        )  # fmt: skip
        self._child = child
        try:
            _, said = child.communicate(json.dumps(document), timeout=_SECONDS_MAX)
        finally:
            child.kill()
            child.wait()
            self._child = None
        if child.returncode:
            last = said.strip().splitlines()[-1:] or [f"the process that makes it ended with status {child.returncode}"]
            raise PageFailed(last[0])

    def _tell(self, error: str) -> None:
        """Log an error, once while it lasts."""
        if error != self._told:
            self._listener.event("page_failed", path=str(self._path), error=error)
        self._told = error


def _document(plan: Plan, loaded: LoadedLayers, command: Sequence[str]) -> dict[str, Any]:
    """Return the document of a plan, as a dry run prints it."""
    at_once = plan.request.is_at_once
    results = {p.key: expected_result(p, at_once=at_once) for p in plan.partitions if p.has_work}
    volumes = volumes_of([LogDir(path_of_text(log_dir.facts.path)) for log_dir in plan.log_dirs])
    runways = tuple(runway(volume, plan) for volume in volumes)
    outcome = Outcome(True, results, runways=runways)
    provenance = provenance_of(loaded, command, SystemClock().now_ms())
    broker = loaded.layers.broker_policy()
    overview = overview_of(plan, outcome, provenance, runways=runways, broker=broker)
    return CleaningReport(plan, outcome, overview=overview).document()


def _environment() -> dict[str, str]:
    """Return our environment without the variables for the service's main process."""
    return {name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
