"""Ports of the loopback, for servers that tests start, stop and start again."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_OF_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DRAW: Final = random.SystemRandom()  # the workers of one run, and their seeded tests, draw different ports


def free_port() -> int:
    """Return a port of the loopback that nobody listens on, below those that the system gives to clients.

    A client that connects again and again to a stopped server may get the server's own port, and keep it: the client
    then talks to itself, and the server does not start. Where clients get nearly all ports, one of theirs is returned.
    """
    first_of_clients = int(_OF_CLIENTS.read_text(encoding="ascii").split()[0])
    while True:
        port = _DRAW.randrange(_LOWEST, max(first_of_clients, _LOWEST + 10_000))
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
