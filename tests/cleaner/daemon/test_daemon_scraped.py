"""The daemon as Prometheus and a load balancer see it: a real process, asked over HTTP."""

from __future__ import annotations

import platform
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cleaner import __version__
from tests.daemons import RunningDaemon, running
from tests.partition_dirs import PartitionDir, committed, keyed
from tests.ports import free_port

TOP = "log.retention.check.interval.ms = 1000\nlog.initial.task.delay.ms = 0\nlog.cleaner.backoff.ms = 1000\n"
TOPICS = "[topics.orders]\ncleanup.policy = 'delete'\n"


class Scraped:
    """A configuration whose daemon is asked at one port."""

    def __init__(self, place: Path, *log_dirs: str) -> None:
        self.place, self.port = place, free_port()
        self.log_dirs = [place / name for name in log_dirs]
        for number, path in enumerate(self.log_dirs):
            committed(path, PartitionDir(path, f"orders-{number}").segment(0, keyed(0, "a=1")))
        self.configure()

    def configure(self, topics: str = TOPICS, top: str = "") -> None:
        """Write the configuration, in one step as editors do."""
        dirs = ", ".join(f'"{path}"' for path in self.log_dirs)
        new = self.place / "new.toml"
        listen = f'[metrics]\nlisten = "127.0.0.1:{self.port}"\n'
        new.write_text(f'log.dirs = [{dirs}]\nclock.jump.max = "100000d"\n{top}{TOP}{listen}{topics}')
        new.rename(self.config)

    @property
    def config(self) -> Path:
        return self.place / "logcleaner.toml"

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float | None:
        """Return the value of a series as written in the text; None without such a series."""
        found = re.search(rf"^logcleaner_{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else None


@pytest.fixture
def scraped(tmp_path: Path) -> Scraped:
    return Scraped(tmp_path, "a", "b")


def until(daemon: RunningDaemon, scraped: Scraped, name: str, value: float) -> None:
    daemon.wait_until(lambda: scraped.metric(name) == value, 20)


def test_a_healthy_daemon_with_nothing_to_do_succeeds_again_and_again(tmp_path: Path, scraped: Scraped) -> None:
    with running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        name = "last_success_timestamp_seconds"
        daemon.wait_until(lambda: scraped.metric(name), 20)
        first = scraped.metric(name)
        assert first
        daemon.wait_until(lambda: (scraped.metric(name) or 0) > first, 20)
        assert not daemon.events("segment_deleted")


def test_a_log_dir_that_vanishes_stays_visible(tmp_path: Path, scraped: Scraped) -> None:
    gone, other = scraped.log_dirs
    with running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        until(daemon, scraped, f'log_dir_failed{{log_dir="{gone}"}}', 0)
        assert scraped.get("/readyz")[0] == 200

        gone.rename(tmp_path / "away")
        until(daemon, scraped, f'log_dir_failed{{log_dir="{gone}"}}', 1)
        daemon.wait_until(lambda: scraped.get("/readyz")[0] == 503, 20)
        assert f"{gone}: does not exist" in scraped.get("/readyz")[1]
        assert scraped.metric("ready") == 0
        assert scraped.metric(f'log_dir_failed{{log_dir="{other}"}}') == 0
        assert scraped.metric(f'partitions{{log_dir="{other}"}}') == 1

        (tmp_path / "away").rename(gone)
        until(daemon, scraped, f'log_dir_failed{{log_dir="{gone}"}}', 0)
        daemon.wait_until(lambda: scraped.get("/readyz")[0] == 200, 20)
        assert len(daemon.events("log_dir_failed")) == len(daemon.events("log_dir_back")) == 1
        assert scraped.metric("config_last_reload_successful") == 1
        assert not daemon.events("config_rejected")


def test_a_log_dir_that_is_mounted_after_the_start_is_served_then(tmp_path: Path, scraped: Scraped) -> None:
    late, other = scraped.log_dirs
    late.rename(tmp_path / "away")
    scraped.configure(top="cluster.metadata = false\n")
    with running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        until(daemon, scraped, f'log_dir_failed{{log_dir="{late}"}}', 1)
        assert scraped.metric(f'partitions{{log_dir="{other}"}}') == 1
        (tmp_path / "away").rename(late)
        until(daemon, scraped, f'partitions{{log_dir="{late}"}}', 1)


def test_a_rejected_reload_is_seen_until_one_is_taken(tmp_path: Path, scraped: Scraped) -> None:
    with running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        until(daemon, scraped, "config_last_reload_successful", 1)
        started = scraped.metric("config_last_reload_success_timestamp_seconds")
        scraped.configure("[topics.orders]\nretention.ms = 'soon'\n")
        until(daemon, scraped, "config_last_reload_successful", 0)
        assert scraped.metric("config_last_reload_success_timestamp_seconds") == started
        assert scraped.metric('failures_total{where="reload"}')
        scraped.configure(TOPICS + "retention.ms = '9d'\n")
        until(daemon, scraped, "config_last_reload_successful", 1)
        assert (scraped.metric("config_last_reload_success_timestamp_seconds") or 0) > (started or 0)


def test_a_metrics_port_that_is_taken_stops_nothing(tmp_path: Path, scraped: Scraped) -> None:
    taken = socket.create_server(("127.0.0.1", scraped.port))
    with taken, running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        (event,) = daemon.events("metrics_unavailable")
        assert event["listen"] == f"127.0.0.1:{scraped.port}"
        taken.close()
        daemon.wait_until(lambda: daemon.events("metrics_served"), 30)
        assert scraped.get("/readyz")[0] == 200


def test_every_counter_is_there_before_anything_is_counted(tmp_path: Path, scraped: Scraped) -> None:
    scraped.config.write_text(scraped.config.read_text().replace("delay.ms = 0", "delay.ms = 3600000"))
    with running(tmp_path, "--config", str(scraped.config)) as daemon:
        daemon.wait_for_ready()
        path = scraped.log_dirs[0]
        assert scraped.metric(f'deleted_bytes_total{{log_dir="{path}"}}') == 0
        assert scraped.metric('runs_total{result="failed"}') == 0
        for job in ("reload", "survey", "retention", "removal", "checkpoint", "compaction"):
            assert scraped.metric(f'failures_total{{where="{job}"}}') == 0
        build = f'logcleaner_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1'
        assert build in scraped.get("/metrics")[1]
