"""A proxy that only takes time: each request waits for a while before the server hears of it.

Nothing of an answer passes through Python: the kernel moves it (``os.splice``), so the proxy is faster than the clients
that are measured behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

_REQUEST_BYTES: Final = 1 << 18
_PIPE_BYTES: Final = 1 << 20


@contextmanager
def delayed(url: str, delay_seconds: float) -> Iterator[str]:
    """Run the proxy in a process of its own, and yield the URL to ask in the place of the server's."""
    command = [sys.executable, "-m", "tests.benchmarks.delays", url, str(delay_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the process is ended; the first line printed is the URL."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.delays", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    options = parser.parse_args(arguments)
    target = urlsplit(options.url)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            client, _ = server.accept()
            upstream = socket.create_connection((target.hostname or "127.0.0.1", target.port or 80))
            _Connection(client, upstream, options.seconds).start()


class _Connection:
    """A connection of a client, and the one to the server that it stands for."""

    def __init__(self, client: socket.socket, upstream: socket.socket, delay_seconds: float) -> None:
        self._client, self._upstream, self._delay_seconds = client, upstream, delay_seconds
        self._is_request_next = True
        """Whether the next byte of the client is the first one of a request: the server sent the last byte."""
        for end in (client, upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for pass_on in (self._requests, self._answers):
            threading.Thread(target=pass_on, daemon=True).start()

    def _requests(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(_REQUEST_BYTES):
                if self._is_request_next:
                    self._is_request_next = False
                    time.sleep(self._delay_seconds)
                self._upstream.sendall(data)
        with contextlib.suppress(OSError):
            self._upstream.shutdown(socket.SHUT_WR)

    def _answers(self) -> None:
        out, into = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            while count := os.splice(self._upstream.fileno(), into, _PIPE_BYTES):
                self._is_request_next = True
                while count:
                    count -= os.splice(out, self._client.fileno(), count)
        os.close(out)
        os.close(into)
        for end in (self._client, self._upstream):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


if __name__ == "__main__":
    sys.exit(main())
