"""sd_notify: messages to systemd through ``NOTIFY_SOCKET``. Without the variable the daemon sends none.

Protocol: systemd's sd_notify(3). A datagram that does not get through is lost: telling must not stop the work.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

_PINGS_A_PERIOD = 4


class Notifier:
    """Tells systemd how the service is."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID``."""
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) if self._address else None
        self._ping_seconds = _ping_seconds(environment)
        self._pinged_seconds = 0.0
        self._status = ""

    def ready(self) -> None:
        """Tell that the daemon started, or is done with a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """The configuration is being read again; ``ready`` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The end has begun."""
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
