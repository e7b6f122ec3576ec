"""A proxy before a server of a store that does to an answer what networks and servers do, and counts what passes."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote, urlsplit

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
FULL = b"<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its capacity.</Message></Error>"
EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_QUOTED = re.compile(b'<ETag>(?:&quot;|&#34;|")(.*?)(?:&quot;|&#34;|")</ETag>')
_HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "server", "date", "content-length"}


class Fault(Enum):
    """What becomes of an answer."""

    NONE = auto()
    CUT = auto()
    """The connection ends in the middle of the body."""
    RESET = auto()
    """The connection is reset before the answer."""
    SLOW_DOWN = auto()
    """503."""
    FAILED = auto()
    """500."""
    REPLACED = auto()
    """Another version: another ETag, other bytes, whatever the request named."""
    STALL = auto()
    """Nothing comes for longer than a client waits."""
    DELAY = auto()
    DENIED = auto()
    EXPIRED = auto()
    GONE = auto()
    """404."""
    UNKNOWN_USER = auto()
    """404, as versitygw answers to an unknown access key."""
    FULL = auto()
    """507."""
    LOST = auto()
    """The server does what it is asked to, and the connection is reset before the answer."""


_ANSWERS = {
    Fault.SLOW_DOWN: (503, SLOW_DOWN),
    Fault.FAILED: (500, b""),
    Fault.DENIED: (403, DENIED),
    Fault.EXPIRED: (400, EXPIRED),
    Fault.FULL: (507, FULL),
    Fault.GONE: (404, b"<Error><Code>NoSuchKey</Code></Error>"),
    Fault.UNKNOWN_USER: (404, b"<Error><Code>XAdminUserNotFound</Code></Error>"),
}


@dataclass
class Traffic:
    """What passed since it was last cleared."""

    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path with its query, and the range that was asked for."""
    body_bytes: int = 0

    def clear(self) -> None:
        self.requests.clear()
        self.body_bytes = 0


@dataclass
class Proxy:
    """A running proxy."""

    url: str
    traffic: Traffic
    fault: Callable[[str, str], Fault]
    """Chooses, by method and path, what becomes of the next answer. A test may set another one."""
    delay_seconds: float = 0.03
    stall_seconds: float = 1.0
    lists_quotes: bool = True
    """Whether a listing has the quotes of ETags, which Azure leaves out."""
    unsupported: frozenset[str] = frozenset()
    """Headers, in small letters, that a server passes over."""


@contextmanager
def proxying(upstream: str) -> Iterator[Proxy]:
    """Run a proxy on the loopback."""
    target = urlsplit(upstream)
    proxy = Proxy("", Traffic(), lambda _method, _path: Fault.NONE)

    class Handler(_Handler):
        address = (target.hostname or "127.0.0.1", target.port or 80)
        settings = proxy

    with serving(Handler) as proxy.url:
        yield proxy


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run an HTTP server on the loopback, and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that gives up is no error
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    address: ClassVar[tuple[str, int]]
    settings: ClassVar[Proxy]

    def do_GET(self) -> None:
        self._pass_on()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names of http.server

    def _pass_on(self) -> None:
        proxy = self.settings
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, query = self.path.partition("?")[::2]
        told = f"{unquote(path)}?{query}" if query else unquote(path)  # a client of Google's quotes slashes and dashes
        proxy.traffic.requests.append((self.command, told, self.headers.get("range") or ""))
        fault = proxy.fault(self.command, told)
        if fault is Fault.RESET:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault in _ANSWERS:
            status, body = _ANSWERS[fault]
            self._answer(status, [], body, fault)
            return
        if fault is Fault.STALL:
            time.sleep(proxy.stall_seconds)
        elif fault is Fault.DELAY:
            time.sleep(proxy.delay_seconds)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in proxy.unsupported}
        upstream = http.client.HTTPConnection(*self.address, timeout=30)
        upstream.request(self.command, self.path, sent, headers)
        answer = upstream.getresponse()
        body = answer.read()
        upstream.close()
        if not proxy.lists_quotes:
            body = _QUOTED.sub(rb"<ETag>\1</ETag>", body)
        if fault is Fault.LOST:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._answer(answer.status, answer.getheaders(), body, fault)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: Fault) -> None:
        is_replaced = fault is Fault.REPLACED and any(name.lower() == "etag" for name, _ in headers)
        if is_replaced:
            body = bytes(byte ^ 0x55 for byte in body[:64]) + body[64:]
        self.send_response(status)
        size = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, '"another"' if is_replaced and name.lower() == "etag" else value)
        self.send_header("Content-Length", size if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is Fault.CUT:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.settings.traffic.body_bytes += len(body)
        try:
            self.wfile.write(body)
        except OSError:  # the client waits no longer
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""
