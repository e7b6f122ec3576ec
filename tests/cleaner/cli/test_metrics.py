"""``[metrics] textfile`` of the one-shot commands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.outcome import Outcome
from tests.cleaner.cli.conftest import FakeCleaner, a_log_dir


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "metrics").mkdir()
    path = tmp_path / "logcleaner.toml"
    path.write_text('[metrics]\ntextfile = "metrics/logcleaner.prom"\nper.partition = "all"\n')
    return path


def clean(config: Path, *options: str) -> int:
    return main(["clean", "--config", str(config), "--log-dir", str(a_log_dir(config.parent)), *options])


def test_clean_leaves_its_metrics(engine: FakeCleaner, config: Path) -> None:
    assert clean(config) == 0
    assert 'runs_total{result="done"} 1.0' in (config.parent / "metrics/logcleaner.prom").read_text()


def test_dry_run_writes_nothing(engine: FakeCleaner, config: Path) -> None:
    assert clean(config, "--dry-run") == 0
    assert not (config.parent / "metrics/logcleaner.prom").exists()


def test_what_cannot_be_written_is_told_and_no_more(engine: FakeCleaner, config: Path, capsys) -> None:
    (config.parent / "metrics").rmdir()
    assert clean(config) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"logcleaner: {config.parent}/metrics/logcleaner.prom: cannot be written: ")


def test_a_failed_run_tells_that_too(engine: FakeCleaner, config: Path) -> None:
    engine.done_outcome = lambda _: Outcome(False, {}, errors=("x",))
    assert clean(config) == 1
    assert 'runs_total{result="failed"} 1.0' in (config.parent / "metrics/logcleaner.prom").read_text()


def test_free_leaves_its_metrics(demo: Path, config: Path) -> None:
    log_dir = shutil.copytree(demo, config.parent / "data")
    assert main(["free", "--target", "100%", "--config", str(config), "--log-dir", str(log_dir)]) == 1
    written = (config.parent / "metrics/logcleaner.prom").read_text()
    assert int(float(re.search(r"^logcleaner_last_run_freed_bytes.* (\S+)$", written, re.MULTILINE)[1])) > 0
