from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from cleaner.engine.outcome import Silent
from cleaner.service.layers import Settings
from cleaner.service.metrics import Metrics
from cleaner.service.metrics_http import MetricsServer, observer_of
from cleaner.service.observer import DaemonState, Unobserved
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
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.getheader("Content-Type", ""), body


def test_metrics_are_served(server: MetricsServer) -> None:
    status, content_type, body = get(server, "/metrics?x=1")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'logcleaner_partition_segments{log_dir="/data",topic="clicks",partition="0"} 2\n' in body


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


def test_port_in_use_is_one_line(server: MetricsServer, metrics: Metrics) -> None:
    with pytest.raises(InvalidConfig, match="in use by another process") as raised:
        MetricsServer(f"127.0.0.1:{server.port}", metrics, Silent())
    assert "metrics.listen" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("listen", ["nowhere.invalid:1", "127.0.0.1:70000", "192.0.2.1:9308"])
def test_address_that_cannot_be_had(metrics: Metrics, listen: str) -> None:
    with pytest.raises(InvalidConfig, match=r"metrics\.listen"):
        MetricsServer(listen, metrics, Silent())


@pytest.mark.parametrize(("listen", "warned"), [("127.0.0.1:0", False), ("[::1]:0", False), ("0.0.0.0:0", True)])
def test_what_others_can_reach_is_warned_of(metrics: Metrics, listen: str, warned: bool) -> None:
    class Hears(Silent):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def event(self, name: str, **fields: object) -> None:
            self.heard.append(name)

    listener = Hears()
    with MetricsServer(listen, metrics, listener):
        assert listener.heard == (["metrics_exposed"] if warned else [])


def test_silent_connections_take_a_few_places_only(server: MetricsServer) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(8)]
    turned_away = socket.create_connection(("127.0.0.1", server.port), timeout=5)
    assert turned_away.recv(1) == b""
    for connection in (*idle, turned_away):
        connection.close()
    for _ in range(50):
        try:
            assert get(server, "/healthz")[0] == 200
        except (ConnectionError, http.client.RemoteDisconnected):
            continue
        break
    else:
        pytest.fail("the places were not given back")


def test_silent_connection_is_closed_after_a_while(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.service.metrics_http._Handler.timeout", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as idle:
        idle.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert idle.recv(1) == b""


def test_the_daemon_is_observed_only_where_somebody_listens() -> None:
    with observer_of(Settings(), Silent()) as observer:
        assert isinstance(observer, Unobserved)
    with observer_of(Settings(metrics_listen="127.0.0.1:0"), Silent()) as observer:
        assert isinstance(observer, Metrics)


def test_a_byte_now_and_then_holds_no_place_for_ever(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleaner.service.metrics_http._SECONDS_MAX", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert slow.recv(1) == b""
