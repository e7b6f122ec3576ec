"""``[metrics] textfile`` of the one-shot commands."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.outcome import Outcome
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.cleaner.cli.conftest import FakeCleaner, a_log_dir
from tests.small_disks import a_small_disk


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


def test_the_hold_of_the_run_counts(engine: FakeCleaner, config: Path) -> None:
    engine.done_outcome = lambda _: Outcome(False, {}, seconds=7.5)
    assert clean(config) == 0
    assert "lock_held_seconds_total 7.5" in (config.parent / "metrics/logcleaner.prom").read_text()


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


def values(config: Path, name: str) -> dict[str, float]:
    """Labels -> value, of one family."""
    written = (config.parent / "metrics/logcleaner.prom").read_text()
    return {labels: float(value) for labels, value in re.findall(rf"^{name}{{(.*)}} (\S+)$", written, re.MULTILINE)}


@pytest.mark.parametrize("command", [("clean", "--delete-delay", "0"), ("clean",), ("free", "--target", "100%")])
def test_figures_are_those_behind_the_run(command: tuple[str, ...], demo: Path, config: Path) -> None:
    with a_small_disk("tmpfs", config.parent, 256 << 20) as disk:
        _gives_figures_behind_the_run(command, shutil.copytree(demo, disk / "data"), config)


def _gives_figures_behind_the_run(command: tuple[str, ...], log_dir: Path, config: Path) -> None:
    assert main([*command, "--config", str(config), "--log-dir", str(log_dir)]) in (0, 1)
    logs = [path for path in log_dir.glob("*/*.log") if not path.parent.name.startswith("__")]
    (segments,) = values(config, "logcleaner_segments").values()
    assert segments == len(logs)
    reclaimable = values(config, "logcleaner_reclaimable_bytes")
    by_time = [value for labels, value in reclaimable.items() if "RETENTION" in labels]
    assert by_time
    assert not any(by_time)


def test_a_run_that_found_the_lock_held_says_so_and_keeps_the_last_success(demo: Path, config: Path) -> None:
    log_dir = shutil.copytree(demo, config.parent / "data")
    clean_it = ["clean", "--config", str(config), "--log-dir", str(log_dir)]
    assert main(clean_it) in (0, 5)
    path = config.parent / "metrics/logcleaner.prom"
    (success,) = re.findall(r"^logcleaner_last_success\S* \S+$", path.read_text(), re.MULTILINE)
    with LogDir(log_dir).lock(FileSystem()):
        assert main(clean_it) == 3
    assert list(values(config, "logcleaner_log_dir_locked").values()) == [1]
    assert success in path.read_text()


def test_figures_are_of_all_topics(demo: Path, config: Path) -> None:
    log_dir = shutil.copytree(demo, config.parent / "data")
    assert main(["clean", "--topic", "empty", "--config", str(config), "--log-dir", str(log_dir)]) == 0
    assert len(values(config, "logcleaner_partition_size_bytes")) == 8


@pytest.mark.parametrize("command", ["clean", "free"])
def test_own_lock_is_nobody_elses(command: str, demo: Path, config: Path, capsys) -> None:
    log_dir = shutil.copytree(demo, config.parent / "data")
    options = ("--target", "100%") if command == "free" else ()
    main([command, *options, "--config", str(config), "--log-dir", str(log_dir), "--json"])
    assert json.loads(capsys.readouterr().out)["log_dirs"][0]["locked_by"] is None
    assert list(values(config, "logcleaner_log_dir_locked").values()) == [0]


def test_lock_of_another_is_told_by_a_dry_run(demo: Path, config: Path, capsys) -> None:
    log_dir = shutil.copytree(demo, config.parent / "data")
    with LogDir.open(log_dir).lock(FileSystem()):
        assert main(["clean", "--dry-run", "--log-dir", str(log_dir), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_dirs"][0]["locked_by"]
