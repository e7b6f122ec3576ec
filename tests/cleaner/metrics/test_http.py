from __future__ import annotations

import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from cleaner.config.layers import Settings
from cleaner.daemon.observer import DaemonState, Observer
from cleaner.engine.means import Silent
from cleaner.metrics.http import AddressNotThere, MetricsServer, observer_of
from cleaner.metrics.registry import Metrics
from storage.errors import InvalidConfig
from tests.cleaner.report.plans import NOW_MS, a_partition, a_plan


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics()
    metrics.planned(a_plan(a_partition("clicks-0", 9, 1)), NOW_MS)
    return metrics


@pytest.fixture
def server(metrics: Metrics) -> Iterator[MetricsServer]:
    with MetricsServer("127.0.0.1:0", metrics, Silent()) as server:
        yield server


def get(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.getheader("Content-Type", ""), body


def test_metrics_are_served(server: MetricsServer) -> None:
    status, content_type, body = get(server, "/metrics?x=1")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'logcleaner_partition_segments{log_dir="/data",topic="clicks",partition="0"} 2\n' in body


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=1.0, *;q=0.5", True),
        ("gzip; q=0.3", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_metrics_are_packed_for_who_takes_that(server: MetricsServer, accepted: str, is_packed: bool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": accepted})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert (response.getheader("Content-Encoding") == "gzip") == is_packed
    assert int(response.getheader("Content-Length") or 0) == len(body)
    assert b"logcleaner_partition_segments" in (gzip.decompress(body) if is_packed else body)


def test_what_is_short_is_not_packed(server: MetricsServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/healthz", headers={"Accept-Encoding": "gzip"})
    assert connection.getresponse().read() == b"ok\n"
    connection.close()


def test_head_gives_no_body(server: MetricsServer) -> None:
    assert get(server, "/metrics", "HEAD")[::2] == (200, "")


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 501)])
def test_other_requests_are_refused(server: MetricsServer, path: str, method: str, status: int) -> None:
    assert get(server, path, method)[0] == status


@pytest.mark.parametrize(
    ("state", "healthy", "ready"),
    [
        (None, 200, 503),
        (DaemonState(False, "reading the log dirs"), 200, 503),
        (DaemonState(True, "idle"), 200, 200),
        (DaemonState(True, "idle", failing=("/d: does not exist",)), 200, 503),
        (DaemonState(True, "compacting orders-0", hung_since_ms=NOW_MS), 503, 200),
    ],
)
def test_health(server: MetricsServer, metrics: Metrics, state: DaemonState | None, healthy: int, ready: int) -> None:
    if state:
        metrics.state(state)
    assert (get(server, "/healthz")[0], get(server, "/readyz")[0]) == (healthy, ready)


def test_readyz_says_why(server: MetricsServer, metrics: Metrics) -> None:
    metrics.state(DaemonState(False, "waiting for the lock of /data"))
    assert get(server, "/readyz")[2] == "waiting for the lock of /data\n"


def test_port_in_use_is_one_line_and_a_later_try_may_work(server: MetricsServer, metrics: Metrics) -> None:
    with pytest.raises(AddressNotThere, match="in use by another process") as raised:
        MetricsServer(f"127.0.0.1:{server.port}", metrics, Silent())
    assert "metrics.listen" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_address_that_the_machine_has_not_got_yet(metrics: Metrics) -> None:
    with pytest.raises(AddressNotThere, match="no address of this machine"):
        MetricsServer("192.0.2.1:9", metrics, Silent())


@pytest.mark.parametrize(("code", "kind"), [(socket.EAI_NONAME, InvalidConfig), (socket.EAI_AGAIN, AddressNotThere)])
def test_a_name_that_nobody_knows_is_wrong_and_one_that_nobody_answers_for_is_not_there(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def unknown(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(code, "no")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(kind, match=r"metrics\.listen"):
        MetricsServer("nowhere.invalid:1", metrics, Silent())


def test_a_port_that_cannot_be_is_wrong() -> None:
    with (
        pytest.raises(InvalidConfig, match="above 65535"),
        observer_of(Settings(metrics_listen="127.0.0.1:70000"), Silent()),
    ):
        pass


class Hears(Silent):
    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.heard.append((name, fields))


def test_a_port_in_use_is_told_once_and_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.metrics.http.RETRY_SECONDS", 0.01)
    listener = Hears()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with observer_of(Settings(metrics_listen=listen), listener) as observer:
            assert isinstance(observer, Metrics)
            time.sleep(0.1)
            ((name, fields),) = listener.heard
            assert name == "metrics_unavailable"
            assert "in use by another process" in str(fields["error"])
            taken.close()
            deadline = time.monotonic() + 120
            while len(listener.heard) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert listener.heard[1:] == [("metrics_served", {"listen": listen})]
            socket.create_connection(("127.0.0.1", int(listen.rpartition(":")[2])), timeout=60).close()


def test_nothing_is_tried_any_more_when_the_daemon_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.metrics.http.RETRY_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with observer_of(Settings(metrics_listen=f"127.0.0.1:{port}"), Silent()):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)


@pytest.mark.parametrize(("listen", "warned"), [("127.0.0.1:0", False), ("[::1]:0", False), ("0.0.0.0:0", True)])
def test_what_others_can_reach_is_warned_of(metrics: Metrics, listen: str, warned: bool) -> None:
    listener = Hears()
    with MetricsServer(listen, metrics, listener):
        assert [name for name, _ in listener.heard] == (["metrics_exposed"] if warned else [])


def test_silent_connections_take_a_few_places_only_and_the_oldest_makes_way(server: MetricsServer) -> None:
    for _ in range(3):
        get(server, "/healthz")  # these had their answer, and are not the oldest ones
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(10)]
    for path in ("/readyz", "/healthz", "/metrics"):
        assert get(server, path)[0] in (200, 503)
    assert idle[0].recv(1) == b""
    for connection in idle:
        connection.close()


def test_silent_connection_is_closed_after_a_while(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.metrics.http.Handler.timeout", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle:
        idle.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert idle.recv(1) == b""


def test_the_daemon_is_observed_only_where_somebody_listens() -> None:
    with observer_of(Settings(), Silent()) as observer:
        assert type(observer) is Observer
    with observer_of(Settings(metrics_listen="127.0.0.1:0"), Silent()) as observer:
        assert isinstance(observer, Metrics)


def test_a_byte_now_and_then_holds_no_place_for_ever(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.metrics.http.SECONDS_MAX", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert slow.recv(1) == b""


def test_server_that_ended_leaves_neither_socket_nor_thread(metrics: Metrics) -> None:
    threads = threading.active_count()
    with MetricsServer("127.0.0.1:0", metrics, Silent()) as server:
        port = server.port
        assert get(server, "/metrics")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)
    assert threading.active_count() <= threads
