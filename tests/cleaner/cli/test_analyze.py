"""What ``analyze`` makes of an analysis; the analysis itself: tests/spark/test_analysis.py."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cleaner.report.findings import Analysis
from cleaner.spark.errors import SparkUnavailable
from tests.cleaner.report.analyses import an_analysis
from tests.partition_dirs import committed


class FakeSpark:
    """A context that has nothing to do."""

    def __init__(self) -> None:
        self.masters: list[str] = []
        self.stopped = False

    def statusTracker(self) -> FakeSpark:  # noqa: N802
        return self

    @contextmanager
    def open(self, master: str) -> Iterator[FakeSpark]:
        self.masters.append(master)
        try:
            yield self
        finally:
            self.stopped = True


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark()
    monkeypatch.setattr("cleaner.spark.open_context", fake.open)
    return fake


@pytest.fixture(autouse=True)
def log_dir(tmp_path: Path) -> Path:
    return committed(tmp_path)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, spark: FakeSpark) -> Callable[[Analysis], None]:
    """Sets what Spark finds."""
    return lambda analysis: monkeypatch.setattr("cleaner.spark.analysis.analyzing.analyze", lambda *given: analysis)


def test_topic_that_no_log_dir_has_is_wrong_usage(spark: FakeSpark, run: Any, log_dir: Path, capsys: Any) -> None:
    (log_dir / "orders-0").mkdir()
    assert run("analyze", "--topic", "ordres") == 2
    assert "did you mean orders?" in capsys.readouterr().err
    assert spark.masters == []


def test_tables_go_to_stdout(found: Any, spark: FakeSpark, run: Any, log_dir: Path, capsys: Any) -> None:
    found(an_analysis())
    (log_dir / "orders-0").mkdir()
    assert run("analyze", "--topic", "orders") == 0
    assert "Hottest and largest keys" in capsys.readouterr().out
    assert (spark.masters, spark.stopped) == (["local[*]"], True)


def test_json_is_one_document(found: Any, spark: FakeSpark, run: Any, capsys: Any) -> None:
    found(an_analysis())
    assert run("analyze", "--json", "--master", "spark://host:7077") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "logcleaner.analysis/1"
    assert spark.masters == ["spark://host:7077"]


def test_what_could_not_be_read_fails_with_a_line_each(found: Any, run: Any, capsys: Any) -> None:
    found(an_analysis(problems=("a.log: gone", "b.log at byte 0: CRC-32C mismatch")))
    assert run("analyze") == 1
    err = capsys.readouterr().err
    assert err == "logcleaner: a.log: gone\nlogcleaner: b.log at byte 0: CRC-32C mismatch\n"


def test_files_are_written_beside(found: Any, run: Any, tmp_path: Path) -> None:
    found(an_analysis())
    assert run("analyze", "--output", str(tmp_path / "out"), "--html", str(tmp_path.parent / "a.html")) == 0
    assert (tmp_path.parent / "a.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "out" / "sizes" / "20270115T080000Z.parquet").exists()


def test_a_page_that_cannot_be_written_is_told(found: Any, run: Any, tmp_path: Path, capsys: Any) -> None:
    found(an_analysis())
    assert run("analyze", "--html", str(tmp_path / "nowhere" / "a.html")) == 2
    said = capsys.readouterr()
    assert "nowhere/a.html" in said.err
    assert said.out == ""


def test_without_spark_it_is_one_line(monkeypatch: pytest.MonkeyPatch, run: Any, capsys: Any) -> None:
    def missing(master: str) -> None:
        raise SparkUnavailable("pyspark is not installed", "pip install '.[spark]'")

    monkeypatch.setattr("cleaner.spark.open_context", missing)
    assert run("analyze") == 1
    expected = "logcleaner: Spark cannot be started: pyspark is not installed; pip install '.[spark]'\n"
    assert capsys.readouterr().err == expected


def test_a_stage_has_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from cleaner.spark.stage_lines import StageLines

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Tracker:
        """Has stages once the step was told, as Spark does, and says when they were looked at often enough."""

        def __init__(self) -> None:
            self.is_at_work, self.looks, self.was_seen = False, 0, Event()

        def getActiveStageIds(self) -> list[int]:  # noqa: N802
            self.looks += self.is_at_work
            if self.looks > 4:
                self.was_seen.set()
            return [7, 8] if self.is_at_work else []

        def getStageInfo(self, stage: int) -> Any:  # noqa: N802
            return type("Info", (), {"numTasks": 4, "numCompletedTasks": 3}) if stage == 7 else None

    terminal, tracker = Terminal(), Tracker()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("cleaner.spark.stage_lines.LOOK_SECONDS", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with StageLines(tracker) as lines:
        lines.tell("reading keys")
        tracker.is_at_work = True
        assert tracker.was_seen.wait(60)
    shown = terminal.getvalue()
    assert "reading keys (stage 7)" in shown
    assert "3/4" in shown
    assert "stage 8" not in shown
