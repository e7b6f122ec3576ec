"""What metrics and health checks say while something keeps the daemon from its work, and when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.daemon import worker as round_module
from cleaner.daemon.messages import Done
from cleaner.daemon.observer import JobKind
from cleaner.daemon.telling import Teller
from cleaner.metrics.registry import Metrics
from policies.config.config_layers import ConfigLayers
from storage.errors import NotALogDir
from tests.cleaner.daemon.test_worker import (
    EXPIRING_SOON,
    FIVE_MINUTES_MS,
    NoJournal,
    SameProcess,
    World,
    failed_jobs,
    in_this_process,
    log_dir,
    use,
)
from tests.partition_dirs import COMPACT, NOW_MS, configured

__all__ = ["in_this_process", "log_dir"]


@pytest.fixture
def world(log_dir):
    return World(log_dir, orders=EXPIRING_SOON, state=COMPACT)


@pytest.fixture
def measured(world):
    """The world's worker is listened to by the metrics."""
    metrics = Metrics()
    world.teller = Teller(world.log, metrics)
    world.teller.begin_round = lambda _number: None  # type: ignore[method-assign]
    world.teller.configured(NOW_MS, world.configuration.loaded.log_dirs)
    world.start()
    return world, metrics


def value(metrics: Metrics, series: str) -> float:
    (line,) = [line for line in metrics.text().decode().splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_a_journal_without_space_is_told_as_a_log_dir_that_fails_until_it_is_over(world, monkeypatch):
    use(NoJournal(), monkeypatch)
    monkeypatch.setattr(NoJournal, "is_full", True)
    path = str(world.log_dir)
    world.after(30_000)
    assert world.observer.failing == {path: True}
    assert "no space for the journal" in world.teller.failing[0]
    for span_ms in (15_000, FIVE_MINUTES_MS, FIVE_MINUTES_MS):
        world.after(span_ms)
        assert world.observer.failing == {path: True}
    assert len(failed_jobs(world)) == 3
    assert world.log.names().count("log_dir_failed") == 1
    assert world.log.fields("log_dir_failed")["log_dir"] == path
    assert not any(
        job.is_whole
        for job in world.observer.jobs
        if job.kind is JobKind.RETENTION and job.started_ms > NOW_MS + 30_000
    )
    NoJournal.is_full = False
    world.after(FIVE_MINUTES_MS)
    assert world.observer.failing == {path: False}
    assert "log_dir_back" in world.log.names()


def test_a_full_log_dir_in_which_nothing_is_left_to_do_fails_no_more(world, monkeypatch):
    world.after(30_000)
    use(NoJournal(), monkeypatch)
    monkeypatch.setattr(NoJournal, "is_full", True)
    world.teller.full(world.log_dir, JobKind.RETENTION, "no space")
    world.after(FIVE_MINUTES_MS)
    assert world.observer.failing == {str(world.log_dir): False}


def want_reload(world: World, layers: ConfigLayers | Exception) -> None:
    world.layers = layers
    world.worker.want(lambda schedule: schedule.asked_for(JobKind.RELOAD))
    world.after(0)


def test_while_the_configuration_cannot_be_read_no_log_dir_is_served_and_no_job_succeeds(world):
    world.after(30_000)
    want_reload(world, NotALogDir(Path("/gone"), "does not exist"))
    assert world.observer.failing == {str(world.log_dir): True}
    assert "nothing is changed until it can be read" in world.teller.failing[0]
    before = len(world.observer.jobs)
    world.after(FIVE_MINUTES_MS)
    (retention,) = [job for job in world.observer.jobs[before:] if job.kind is JobKind.RETENTION]
    assert (retention.succeeded, retention.is_whole) == (False, False)
    want_reload(world, configured(orders=EXPIRING_SOON, state=COMPACT))
    assert (world.observer.failing, world.teller.failing) == ({str(world.log_dir): False}, ())


class Scraped(SameProcess):
    """A child during whose work everything is surveyed and scraped."""

    def compact(self, task, listener, meanwhile, is_wanted=lambda: True) -> Done:
        Scraped.world.worker.want(lambda schedule: schedule.asked_for(JobKind.SURVEY))
        Scraped.world.clock.sleep(3.0)
        meanwhile()
        Scraped.seen = Scraped.metrics.text().decode()
        return super().compact(task, listener, meanwhile, is_wanted)


def test_our_own_lock_is_nobody_s_and_counts_while_it_is_held(measured, monkeypatch):
    Scraped.world, Scraped.metrics = measured
    monkeypatch.setattr(round_module, "CompactingChild", Scraped)
    Scraped.world.after(0)
    assert f'logcleaner_log_dir_locked{{log_dir="{Scraped.world.log_dir}"}} 0.0' in Scraped.seen
    (held,) = [line for line in Scraped.seen.splitlines() if line.startswith("logcleaner_lock_held_seconds_total ")]
    assert float(held.split()[1]) >= 3.0
    assert value(Scraped.metrics, "logcleaner_lock_held_seconds_total") == pytest.approx(3.0, abs=0.5)


def test_a_child_that_dies_is_a_failed_run_of_compaction(measured):
    world, metrics = measured
    SameProcess.dies = 1
    world.after(0)
    assert value(metrics, 'logcleaner_failures_total{where="compaction"}') == 1
    assert value(metrics, 'logcleaner_runs_total{result="failed"}') == 1
    assert value(metrics, "logcleaner_dead_threads_total") == 1
