"""The daemon: a worker thread woken by a scheduler, signals, a watch over the files, and systemd told about it.

    main thread       takes signals, and sees that the worker lives: a dead one is started again, and counted
    scheduler         APScheduler: wakes the worker every second; it decides nothing
    worker            does what is due, one job after another, and pings the watchdog: one that hangs does not
    watch             asks for a reload, tells what others do to the files

SIGTERM and SIGINT end a job between two steps. A job that does not end within two seconds is abandoned, as in a crash:
every step is safe to crash behind. SIGHUP reloads, SIGUSR1 runs everything now.

Messages reach systemd through ``NOTIFY_SOCKET``; without the variable the daemon sends none. A datagram that systemd
does not take is lost, because a message must not stop the work.

Source: sd_notify(3).
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from cleaner.daemon.configuration import Configuration
from cleaner.daemon.due import Schedule
from cleaner.daemon.observer import DaemonState, JobKind, Observer
from cleaner.daemon.telling import Teller
from cleaner.daemon.watch import Seen, Watch
from cleaner.daemon.worker import Worker
from cleaner.engine.clock import Clock
from cleaner.events import Event, EventLog

_PINGS_A_PERIOD = 4

TICK_SECONDS: Final = 1.0
STOP_SECONDS: Final = 1.3
"""The time that the worker has to end, in seconds; with the steps that follow it is less than two."""
HUNG_SECONDS: Final = 60.0
_TICKS_MISSED_MAX: Final = 10
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Daemon:
    """``run`` until a signal ends it, or ``once``."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock,
        log: EventLog,
        observer: Observer,
        environment: Mapping[str, str],
        *,
        observing: bool,
    ) -> None:
        """Prepare the daemon, without starting it.

        Args:
            configuration: in force.
            clock: the machine's.
            log: hears events.
            observer: receives the results, as values.
            environment: of the process: systemd's variables.
            observing: change nothing, take no lock.
        """
        self._configuration = configuration
        self._clock = clock
        self._observer = observer
        self._notifier = Notifier(environment)
        self._teller = Teller(log, observer)
        self._observing = observing
        self._seen: SimpleQueue[Seen] = SimpleQueue()
        self._watch = Watch(self._on_config, self._seen.put, self._on_polling)
        self._worker = Worker(configuration, clock, self._teller, self, observing=observing)
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._alive_seconds = time.monotonic()
        self._state = DaemonState(False, "starting", observing=observing)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT. Return the number of the signal."""
        with self._signals_taken(), self._scheduler():
            self._tell_started()
            self._rewatch()
            self._start_worker(self._work)
            ended_by = self._supervise()
            self._notifier.stopping()
            self.tell("stopping")
            self._end_worker()
        self._watch.close()
        self._teller.event(Event.DAEMON_STOPPED, signal=signal.Signals(ended_by).name)
        self._notifier.close()
        return ended_by

    def once(self) -> tuple[Teller, int]:
        """Do one turn of all jobs.

        Return the teller, which knows the result, and the signal that ended the turn, or 0.
        """
        self._worker.want(Schedule.asked_for_everything)
        with self._signals_taken():
            self._tell_started()
            self._start_worker(partial(self._worker.tick, is_once=True))
            ended_by = self._supervise(until_idle=True)
            self._end_worker()
        return self._teller, ended_by

    def alive(self) -> None:
        """Take a sign of life of the worker."""
        self._alive_seconds = time.monotonic()
        self._notifier.ping()

    def tell(self, text: str) -> None:
        """Tell systemd and the observer what the worker does now."""
        self._notifier.status(text)
        is_first = self._teller.newest is not None and not self._state.ready
        self._say(replace(self._state, ready=self._state.ready or is_first, reason=text, hung_since_ms=None))
        if is_first:  # as soon as there is a plan: the rest of the first turn may take long
            self._notifier.ready()

    def stopping(self) -> bool:
        """Return whether a signal asked for the end."""
        return self._stop.is_set()

    def reloading(self) -> None:
        """Tell systemd of the reload, unless systemd still waits for the start."""
        if self._state.ready:
            self._notifier.reloading()

    def reloaded(self) -> None:
        """Tell systemd that the reload ended, and watch the files of the new configuration."""
        self._rewatch()
        if self._state.ready:
            self._notifier.ready()

    def _tell_started(self) -> None:
        log_dirs = [str(path) for path in self._configuration.loaded.log_dirs]
        self._teller.event(Event.DAEMON_STARTED, log_dirs=log_dirs, observing=self._observing)
        self._notifier.status("starting")
        self._observer.state(self._state)
        self._teller.configured(self._clock.now_ms(), self._configuration.loaded.log_dirs)

    @contextmanager
    def _signals_taken(self) -> Iterator[None]:
        def take(number: int, _frame: FrameType | None) -> None:
            self._signals.put(number)  # safe within a handler: a SimpleQueue can be entered again

        previous = {number: signal.signal(number, take) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def _scheduler(self) -> Iterator[None]:
        """Run APScheduler with settings that neither drop a job whose worker is busy, nor run one twice."""
        scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        scheduler.add_job(self._wake.set, "interval", seconds=TICK_SECONDS)
        scheduler.start()
        try:
            yield
        finally:
            scheduler.shutdown(wait=False)

    def _supervise(self, *, until_idle: bool = False) -> int:
        """Take signals and look after the worker. Return the signal that ends the daemon, else 0."""
        while not until_idle or (self._thread and self._thread.is_alive()):
            with suppress(Empty):
                match self._signals.get(timeout=0.1 if until_idle else TICK_SECONDS):
                    case signal.SIGHUP:
                        self._want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
                    case signal.SIGUSR1:
                        self._teller.event(Event.ROUND_ASKED, signal="SIGUSR1")
                        self._want(Schedule.asked_for_everything)
                    case number:
                        return number
            if not until_idle:
                self._look_after_worker()
        return 0

    def _want(self, change: Callable[[Schedule], Schedule]) -> None:
        self._worker.want(change)
        self._wake.set()

    def _look_after_worker(self) -> None:
        if self._thread and not self._thread.is_alive():
            self._teller.worker_died("the worker thread ended by an error, see its traceback above")
            self._start_worker(self._work)
        silent_seconds = time.monotonic() - self._alive_seconds
        if silent_seconds > HUNG_SECONDS and self._state.hung_since_ms is None:
            self._say(replace(self._state, hung_since_ms=self._clock.now_ms() - int(silent_seconds * 1000)))

    def _start_worker(self, target: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=target, name="worker", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        """Run the loop of the worker thread."""
        while not self._stop.is_set():
            self.alive()
            self._tell_seen()
            if self._worker.tick() or not self._state.ready:
                self._rest()
            # the scheduler alone is not enough: it goes by the wall clock, which may be set back
            self._wake.wait(_TICKS_MISSED_MAX * TICK_SECONDS)
            self._wake.clear()

    def _rest(self) -> None:
        """Tell systemd and the observer the state after a turn."""
        newest, held = self._teller.newest, self._teller.held
        partitions = newest.partitions if newest else 0
        by = "; ".join(f"{path} is held by {holder}" for path, holder in sorted(held.items()))
        text = f"observing {partitions} partitions" if by or self._observing else f"serving {partitions} partitions"
        failing = self._teller.failing
        self._say(replace(self._state, observing=self._observing or bool(held), failing=failing))
        self.tell("; ".join((f"{text}: {by}" if by else text, *failing)))

    def _say(self, state: DaemonState) -> None:
        if state != self._state:
            self._state = state
            self._observer.state(state)

    def _end_worker(self) -> None:
        self._stop.set()
        self._worker.stop()
        self._wake.set()
        if self._thread:
            self._thread.join(STOP_SECONDS)

    def _rewatch(self) -> None:
        dirs = self._configuration.loaded.log_dirs
        self._watch.start(self._configuration.files, [path for path in dirs if path.is_dir()])

    def _on_config(self) -> None:
        if self._configuration.is_stale():  # a survey may have seen it before
            self._want(lambda schedule: schedule.asked_for(JobKind.RELOAD))

    def _tell_seen(self) -> None:
        """Tell what other processes did since the last tick. If a partition vanished, its files are not listed."""
        seen: Counter[Seen] = Counter()
        with suppress(Empty):
            while True:
                seen[self._seen.get_nowait()] += 1
        vanished = {(s.log_dir, s.topic_partition) for s in seen if s.event is Event.PARTITION_VANISHED}
        for s, count in seen.items():
            place = {**s.topic_partition._asdict(), "log_dir": str(s.log_dir)}
            if s.event is not Event.FILES_VANISHED:
                self._teller.event(s.event, **place)
            elif (s.log_dir, s.topic_partition) not in vanished:
                self._teller.event(s.event, **place, files=count)

    def _on_polling(self, error: str) -> None:
        self._teller.event(Event.WATCH_POLLS, error=error)


class Notifier:
    """The connection to systemd, for the state of the service."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID``."""
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) if self._address else None
        self._ping_seconds = _ping_seconds(environment)
        self._pinged_seconds = 0.0
        self._status = ""

    def ready(self) -> None:
        """Tell systemd that the daemon started, or finished a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Tell systemd that a reload began; ``ready`` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Tell systemd that the daemon is ending."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Send one line about what is done now, unless it is the same as before."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def ping(self) -> None:
        """Send a sign of life, as often as the watchdog asks for."""
        if self._ping_seconds is not None and time.monotonic() - self._pinged_seconds >= self._ping_seconds:
            self._pinged_seconds = time.monotonic()
            self._send("WATCHDOG=1")

    def close(self) -> None:
        """Send nothing any more."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket:
            with suppress(OSError):
                self._socket.sendto(message.encode(), socket.MSG_DONTWAIT, self._address)


def _address(name: str) -> str:
    """Return the address: a path, or with ``@`` a name in the abstract namespace."""
    return "\0" + name[1:] if name.startswith("@") else name


def _ping_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the watchdog's interval; None if there is no watchdog, or it is for another process."""
    period, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
    return int(period) / 1e6 / _PINGS_A_PERIOD if period.isdecimal() and pid == str(os.getpid()) else None
