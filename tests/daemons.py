"""The daemon as a real process, seen from outside: notify messages, log lines, files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT_SECONDS = 240.0


class RunningDaemon:
    """``logcleaner run`` under a notify socket; its log goes to a file, a JSON object a line."""

    def __init__(self, place: Path, *arguments: str, number: int = 0) -> None:
        self._log = place / f"daemon-{number}.log"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(place / f"notify-{number}"))
        self._messages: list[str] = []
        threading.Thread(target=self._hear, daemon=True).start()  # systemd reads at once; a full queue loses messages
        environment = {**os.environ, "NOTIFY_SOCKET": str(place / f"notify-{number}"), "WATCHDOG_USEC": "2000000"}
        environment.pop("WATCHDOG_PID", None)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cleaner", "run", "-v", "--log-format", "json", *arguments],
                stderr=log,
                env=environment,
            )

    def notified(self) -> list[str]:
        """Every message so far."""
        return list(self._messages)

    def _hear(self) -> None:
        while message := self._socket.recv(4096):
            self._messages.append(message.decode())

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """Log lines so far, of one event or all; other output is in ``text``."""
        lines = [json.loads(line) for line in self.text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if name in (None, line["event"])]

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_until(self, condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s; the log:\n{self.text[-4000:]}"
            assert self.process.poll() is None, f"ended by itself:\n{self.text[-4000:]}"
            time.sleep(0.05)

    def wait_for_ready(self) -> None:
        self.wait_until(lambda: "READY=1" in self.notified())

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, and see that it does end."""
        self.process.send_signal(number)
        self.process.wait(WAIT_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        time.sleep(0.05)
        self._socket.shutdown(socket.SHUT_RD)


@contextmanager
def running(place: Path, *arguments: str, number: int = 0) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(place, *arguments, number=number)
    try:
        yield daemon
    finally:
        daemon.close()
