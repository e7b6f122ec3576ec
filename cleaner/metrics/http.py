"""The HTTP server for ``/metrics``, ``/healthz`` and ``/readyz``. It serves few connections, each for a short time.

``/healthz`` answers 503 while the worker hangs, so that a supervisor restarts it. ``/readyz`` answers 503 until
there is a valid configuration and a first plan, and while a log dir of the configuration cannot be served.
"""

from __future__ import annotations

import errno
import gzip
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from cleaner.config.layers import Settings
from cleaner.daemon.observer import Observer
from cleaner.engine.means import Listener
from cleaner.metrics.registry import Metrics
from storage.errors import ErrorKind, InvalidConfig, LogCleanerError

KEY: Final = "metrics.listen"
_SILENT_SECONDS_MAX: Final = 5
"""Time that a connection may wait for its next byte."""
SECONDS_MAX: Final = 30
"""Time that a connection may take in all, so that a slow reader does not hold a place for ever."""
_CONNECTIONS_MAX: Final = 8
_PLACE_SECONDS: Final = 2.0
"""The time that a connection waits for the place of a connection that is closed for it."""
_PLACE_LOOKS: Final = 4
"""The most connections that are closed for a new one: another new connection may take a place that became free."""
_SMALL_BYTES: Final = 1024
_GZIP_LEVEL: Final = 1
"""The level of compression. 2,000 partitions, a megabyte of text, take 5 ms and shrink to a twentieth."""
_PORT_MAX: Final = 65_535
_PLAIN: Final = "text/plain; charset=utf-8"
_CAUSES: Final = {
    errno.EADDRINUSE: "is in use by another process; choose another port, or stop the other one",
    errno.EACCES: "may not be listened on by this user; choose a port from 1024 on",
    errno.EADDRNOTAVAIL: "is no address of this machine",
}
_NOT_THERE: Final = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, socket.EAI_AGAIN})
"""Errors that may pass: also an interface is not up yet, or a name server does not answer (a negative code)."""
RETRY_SECONDS: Final = 10.0
Answer = tuple[HTTPStatus, str, bytes]


class AddressNotThere(LogCleanerError):
    """The daemon cannot listen on the address now; a later try may work."""

    kind = ErrorKind.NOT_YET

    key: str
    address: str
    cause: str

    def __str__(self) -> str:
        return f"{self.key} = {self.address!r}: {self.cause}"


@contextmanager
def observer_of(settings: Settings, listener: Listener, version: str = "unknown") -> Iterator[Observer]:
    """Yield the daemon's observer. If ``listen`` is set, it is the metrics, which are served until the ``with`` ends.

    If the address is not there yet, log an event and try again later; the daemon works without it.

    Raises: InvalidConfig if the address can never be used.
    """
    if settings.metrics_listen is None:
        yield Observer()
        return
    metrics = Metrics(per_partition=settings.metrics_per_partition, version=version)
    with _Serving(settings.metrics_listen, metrics, listener):
        yield metrics


class _Serving:
    """Serves the metrics while its ``with`` lasts, as soon as the address can be used."""

    def __init__(self, listen: str, metrics: Metrics, listener: Listener) -> None:
        self._listen, self._metrics, self._listener = listen, metrics, listener
        self._server: MetricsServer | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        try:
            self._serve()
        except AddressNotThere as error:
            self._listener.event("metrics_unavailable", listen=self._listen, error=str(error))
            self._thread = threading.Thread(target=self._try_again, name="metrics address", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._server:
            self._server.__exit__()

    def _serve(self) -> None:
        self._server = MetricsServer(self._listen, self._metrics, self._listener).__enter__()

    def _try_again(self) -> None:
        while not self._stop.wait(RETRY_SECONDS):
            with suppress(AddressNotThere, InvalidConfig):
                self._serve()
                self._listener.event("metrics_served", listen=self._listen)
                return


class MetricsServer:
    """The server of the metrics; its own threads serve while its ``with`` lasts."""

    def __init__(self, listen: str, metrics: Metrics, listener: Listener) -> None:
        """Bind the address.

        Args:
            listen: ``HOST:PORT``; port 0 takes any free port.
            metrics: the metrics to serve.
            listener: receives an event if other machines can reach the address.

        Raises: AddressNotThere if a later try may work; InvalidConfig if none can.
        """
        host, _, port = listen.rpartition(":")
        if int(port) > _PORT_MAX:
            raise InvalidConfig(KEY, listen, f"has a port above {_PORT_MAX}")
        try:
            family, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
            self._server = _Server(family, str(address[0]), int(port), metrics)
        except OSError as error:
            if (error.errno or 0) in _NOT_THERE:
                raise AddressNotThere(KEY, listen, _cause(error)) from error
            raise InvalidConfig(KEY, listen, _cause(error)) from error
        if not ipaddress.ip_address(str(address[0])).is_loopback:
            listener.event("metrics_exposed", listen=listen)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _cause(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"is no address to listen on: {error.strerror}"
    return _CAUSES.get(error.errno or 0, f"cannot be listened on: {error.strerror}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, family: socket.AddressFamily, host: str, port: int, metrics: Metrics) -> None:
        self.address_family = family
        self.metrics = metrics
        self._places = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        self._asking: dict[socket.socket, None] = {}
        """Connections whose request is not read yet, oldest first."""
        self._changing = threading.Lock()
        super().__init__((host, port), Handler)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Serve one connection if a place is free or can be made free; else turn it away."""
        for _ in range(_PLACE_LOOKS):
            if self._places.acquire(blocking=False):
                break
            self._close_oldest()
            if self._places.acquire(timeout=_PLACE_SECONDS / _PLACE_LOOKS):  # another may have been faster
                break
        else:
            self.shutdown_request(request)
            return
        with self._changing:
            self._asking[request] = None
        end = threading.Timer(SECONDS_MAX, _cut, [request])
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self.asked(request)
            self._places.release()

    def asked(self, request: socket.socket) -> None:
        """Note that the request of a connection was read.

        From now on the server does not close the connection in favour of a newer one.
        """
        with self._changing:
            self._asking.pop(request, None)

    def _close_oldest(self) -> None:
        """Close the connection that has waited longest without a whole request, for the sake of a new one."""
        with self._changing:
            oldest = next(iter(self._asking), None)
            if oldest:
                del self._asking[oldest]
                _cut(oldest)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a reader may go away at any time."""


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):  # the connection has just ended by itself
        connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: _Server
    timeout = _SILENT_SECONDS_MAX
    server_version = "logcleaner"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one request and end the connection."""
        self.server.asked(self.connection)
        status, content_type, body = self._answer(self.path.partition("?")[0])
        self.send_response(status)
        if len(body) > _SMALL_BYTES and _takes_gzip(self.headers.get("Accept-Encoding", "")):
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    def _answer(self, path: str) -> Answer:
        metrics = self.server.metrics
        match path:
            case "/metrics":
                return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, metrics.text()
            case "/healthz":
                return _healthz(metrics)
            case "/readyz":
                return _readyz(metrics)
        return HTTPStatus.NOT_FOUND, _PLAIN, b"/metrics, /healthz, /readyz\n"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing: a scrape is no event."""


def _takes_gzip(accepted: str) -> bool:
    """Return whether ``Accept-Encoding`` names gzip with a weight other than 0."""
    for coding in accepted.lower().replace(" ", "").split(","):
        name, _, weight = coding.partition(";q=")
        if name == "gzip":
            return not weight or weight.strip("0.") != ""
    return False


def _healthz(metrics: Metrics) -> Answer:
    state = metrics.daemon_state
    if state and state.hung_since_ms is not None:
        body = f"the worker has given no sign of life since {state.hung_since_ms} ms: {state.reason}\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, body.encode()
    return HTTPStatus.OK, _PLAIN, b"ok\n"


def _readyz(metrics: Metrics) -> Answer:
    state = metrics.daemon_state
    reasons = ("starting",) if state is None else (*state.failing, state.reason)
    status = HTTPStatus.OK if state and state.serves else HTTPStatus.SERVICE_UNAVAILABLE
    return status, _PLAIN, "".join(f"{reason}\n" for reason in reasons).encode()
