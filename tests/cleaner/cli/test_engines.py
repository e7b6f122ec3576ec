"""``--engine``: what is opened, and what is said where it cannot be."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from cleaner.cli.exit_status import ExitStatus


@pytest.fixture
def spark(monkeypatch):
    """A session and a compactor that only remember."""
    seen = SimpleNamespace(masters=[], stopped=0)

    def start_session(master, config):
        seen.masters.append(master)
        return SimpleNamespace(master=master, stop=lambda: setattr(seen, "stopped", seen.stopped + 1))

    monkeypatch.setattr("cleaner.spark.session.start_session", start_session)
    bulk = SimpleNamespace(Bulk=lambda start: ("the cluster", start().master))
    monkeypatch.setitem(sys.modules, "cleaner.spark.bulk.bulk", bulk)
    return seen


@pytest.mark.parametrize(
    ("options", "master"), [([], "local[*]"), (["--master", "spark://head:7077"], "spark://head:7077")]
)
def test_spark_is_stopped_at_the_end_if_the_engine_started_it(run, engine, spark, options, master):
    assert run("clean", "--engine", "spark", *options) == ExitStatus.DONE
    assert (spark.masters, spark.stopped, engine.compactor) == ([master], 1, ("the cluster", master))


def test_spark_does_not_start_where_nothing_is_compacted(run, engine, spark, monkeypatch):
    monkeypatch.setattr(sys.modules["cleaner.spark.bulk.bulk"], "Bulk", lambda start: "the cluster")
    assert run("clean", "--engine", "spark") == ExitStatus.DONE
    assert (spark.masters, spark.stopped, engine.compactor) == ([], 0, "the cluster")


@pytest.mark.parametrize("options", [[], ["--engine", "spark", "--dry-run"]])
def test_spark_is_not_started_for_nothing(run, engine, spark, options):
    assert run("clean", *options) == ExitStatus.DONE
    assert (spark.masters, engine.compactor) == ([], None)


def test_master_goes_with_spark_only(run, engine, capsys):
    assert run("clean", "--master", "local[2]") == ExitStatus.USAGE
    assert "needs --engine spark" in capsys.readouterr().err


def test_spark_that_is_not_installed_is_told_with_its_remedy(run, engine, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cleaner.spark.bulk.bulk", None)
    assert run("clean", "--engine", "spark") == ExitStatus.FAILED
    assert "pip install '.[spark]'" in capsys.readouterr().err
    assert engine.asked == []
