from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.outcome import Outcome
from cleaner.errors import UnwritableFile
from cleaner.metrics.textfile import metrics_since, write_textfile
from policies.plan import Plan
from tests.cleaner.report.plans import NOW_MS, a_partition, a_plan, a_run

HOUR_MS = 3_600_000
PLAN = a_plan(a_partition("clicks-0", 9, 1))
FAILED = Outcome(False, {}, errors=("x",))


def write(path: Path, outcome: Outcome, at_ms: int = NOW_MS, plan: Plan = PLAN) -> dict[str, str]:
    metrics = metrics_since(path, "few")
    metrics.planned(plan, at_ms)
    metrics.ran(plan, outcome, at_ms, at_ms + 1000)
    write_textfile(path, metrics)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_metrics_of_a_run_are_written_for_others_to_read(tmp_path: Path) -> None:
    path = tmp_path / "logcleaner.prom"
    found = write(path, a_run(PLAN))
    assert float(found['logcleaner_last_run_deleted_segments{log_dir="/data"}']) == 1
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_that_ended_has_no_series(tmp_path: Path) -> None:
    """The node exporter has its own ``process_*`` series, with other help texts."""
    assert not [name for name in write(tmp_path / "logcleaner.prom", FAILED) if name.startswith("process_")]


def test_last_success_outlives_a_failed_run(tmp_path: Path) -> None:
    path, name = tmp_path / "logcleaner.prom", "logcleaner_last_success_timestamp_seconds"
    succeeded = write(path, a_run(PLAN))[name]
    assert write(path, FAILED, NOW_MS + HOUR_MS)[name] == succeeded
    assert float(write(path, a_run(PLAN), NOW_MS + 2 * HOUR_MS)[name]) > float(succeeded)


def test_growth_goes_on_from_run_to_run(tmp_path: Path) -> None:
    path, name = tmp_path / "logcleaner.prom", 'logcleaner_log_dir_growth_observed_seconds{log_dir="/data"}'
    assert float(write(path, FAILED)[name]) == 0
    assert float(write(path, FAILED, NOW_MS + HOUR_MS)[name]) == 3600
    found = write(path, FAILED, NOW_MS + 2 * HOUR_MS)
    assert float(found[name]) == 7200
    assert found['logcleaner_log_dir_runway_seconds{log_dir="/data"}'] == "+Inf"


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b"logcleaner_plan_timestamp_seconds abc\n", b"{", b""])
def test_what_is_no_textfile_is_replaced(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "logcleaner.prom"
    path.write_bytes(garbage)
    assert "logcleaner_plan_timestamp_seconds" in write(path, a_run(PLAN))


def test_missing_directory_is_told_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "logcleaner.prom"
    with pytest.raises(UnwritableFile, match=r"missing/logcleaner\.prom: cannot be written: No such file"):
        write(path, a_run(PLAN))


def test_nothing_is_left_where_it_cannot_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "logcleaner.prom").mkdir()
    with pytest.raises(UnwritableFile):
        write(tmp_path / "logcleaner.prom", a_run(PLAN))
    assert [path.name for path in tmp_path.iterdir()] == ["logcleaner.prom"]


def test_a_path_that_means_no_file_is_refused_and_not_read() -> None:
    with pytest.raises(UnwritableFile, match=r"/dev/stdout: cannot be written: it is no regular file"):
        metrics_since(Path("/dev/stdout"), "few")
