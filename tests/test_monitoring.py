"""Alert rules and dashboard: every rule with promtool, every query of a panel by a real Prometheus that scrapes us.

Both are Debian's package prometheus, fetched where it is not installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleaner.daemon.observer import DaemonState, JobDone, JobKind
from cleaner.engine.means import Silent
from cleaner.metrics import families as names
from cleaner.metrics.http import MetricsServer
from cleaner.metrics.registry import Metrics
from policies.forecast.runway import Growth
from tests.cleaner.report.plans import DAY_MS, NOW_MS, a_partition, a_plan, a_run
from tests.debian_packages import program
from tests.ports import free_port

MONITORING = Path(__file__).parent.parent / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
QUERIES = [(p["title"], target["expr"]) for p in DASHBOARD["panels"] for target in p["targets"]]
SCRAPES_SECONDS = 1
START_SECONDS_MAX = 240
NAMES_OF_OTHERS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = program("promtool", "prometheus")
    return subprocess.run([command, *arguments], check=False, capture_output=True, text=True)


def test_alert_rules_are_valid_and_fire_when_they_should() -> None:
    for done in (
        promtool("check", "rules", MONITORING / "alerts.yml"),
        promtool("test", "rules", MONITORING / "alerts_test.yml"),
    ):
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_to_fire_and_to_be_silent() -> None:
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    tests = (MONITORING / "alerts_test.yml").read_text()
    assert re.findall(r"alertname: (\w+)", tests) == alerts
    assert set(re.findall(r"labels: '{alertname=\"(\w+)\"}'", tests)) == set(alerts)


@pytest.mark.parametrize("name", ["alerts.yml", "alerts_test.yml", "dashboard.json"])
def test_only_metrics_that_there_are_are_asked_for(name: str) -> None:
    asked = set(re.findall(r"\b(logcleaner_\w+|process_\w+)", (MONITORING / name).read_text()))
    assert asked - NAMES_OF_OTHERS <= {family.name for family in names.ALL}
    assert len(asked) > 5


def busy() -> Metrics:
    """Of a daemon that has something of everything to tell."""
    plan = a_plan(a_partition("clicks-0", 9, 1), a_partition("orders-0", 3, 2, 0))
    metrics = Metrics(growths={"/data": Growth(NOW_MS - DAY_MS, 1 << 35, 100.0, 86_400.0)})
    metrics.planned(plan, NOW_MS)
    metrics.ran(plan, a_run(plan), NOW_MS, NOW_MS + 1500)
    metrics.failed(JobKind.SURVEY, "its lock")
    metrics.configured(NOW_MS, succeeded=True)
    metrics.did(JobDone(JobKind.RETENTION, NOW_MS, NOW_MS + 1500, True, True))
    metrics.state(DaemonState(True, "idle"))
    return metrics


class Prometheus:
    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(url, timeout=5) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found

    def wait_for(self, expression: str) -> None:
        """Until it gives something."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                if self.query(expression):
                    return
            except OSError:
                pass  # it is still starting
            time.sleep(0.1)
        raise AssertionError(f"nothing for {expression}")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a real endpoint, and has seen it a few times."""
    directory, port = tmp_path_factory.mktemp("prometheus"), free_port()
    with MetricsServer("127.0.0.1:0", busy(), Silent()) as server:
        config = directory / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {SCRAPES_SECONDS}s}}\n"
            f'scrape_configs: [{{job_name: logcleaner, static_configs: [{{targets: ["127.0.0.1:{server.port}"]}}]}}]\n'
        )
        command = [
            program("prometheus", "prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                started = Prometheus(port)
                started.wait_for("count_over_time(up[1m]) >= 3")
                yield started
            finally:
                process.terminate()


def filled_in(expression: str) -> str:
    """As Grafana asks it."""
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_every_query_of_the_dashboard_gives_something(prometheus: Prometheus, title: str, expression: str) -> None:
    assert prometheus.query(filled_in(expression)), title


def test_what_is_scraped_is_what_is_told(prometheus: Prometheus) -> None:
    (up,) = prometheus.query("up")
    assert up["value"][1] == "1"
    (segments,) = prometheus.query('logcleaner_partition_segments{topic="orders",partition="0",log_dir="/data"}')
    assert segments["value"][1] == "3"
    types = {family.name for family in names.ALL if prometheus.query(family.name)}
    few = {family.name for family in names.ALL if family.is_few}
    assert types == few
