"""A textfile of which an earlier run did not write the growth of a log dir, or that another process takes away."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cleaner.errors import UnwritableFile
from tests.cleaner.metrics.test_textfile import FAILED, HOUR_MS, write
from tests.cleaner.report.plans import NOW_MS

OBSERVED = "logcleaner_log_dir_growth_observed_seconds"


def test_growth_begins_anew_if_no_earlier_run_observed_it(tmp_path: Path) -> None:
    path = tmp_path / "logcleaner.prom"
    write(path, FAILED)
    kept = [line for line in path.read_text().splitlines(keepends=True) if OBSERVED not in line]
    path.write_text("".join(kept))
    assert any('log_dir="/data"' in line for line in kept)
    assert float(write(path, FAILED, NOW_MS + HOUR_MS)[f'{OBSERVED}{{log_dir="/data"}}']) == 0
    assert float(write(path, FAILED, NOW_MS + 2 * HOUR_MS)[f'{OBSERVED}{{log_dir="/data"}}']) == 3600


def test_error_that_took_the_new_file_along_is_told_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(temporary: Path, target: Path) -> None:
        temporary.unlink()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(UnwritableFile, match="Input/output error"):
        write(tmp_path / "logcleaner.prom", FAILED)
