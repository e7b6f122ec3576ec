"""Results outlive the run that measured them, and do not mix with the results of another run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.results import OtherRun, load, resumed
from tests.benchmarks.samples import SETTINGS, a_comparison, a_report


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    report = a_report()
    report.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == report
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_run_goes_on_with_what_its_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert resumed(file, SETTINGS, "4.3.1").comparisons == {}
    a_report().save(file)
    assert resumed(file, SETTINGS, "4.3.1") == a_report()


def test_a_run_of_other_sizes_is_refused(tmp_path: Path) -> None:
    a_report().save(tmp_path / "results.json")
    with pytest.raises(OtherRun, match="gib=4"):
        resumed(tmp_path / "results.json", replace(SETTINGS, gib=1), "4.3.1")


def test_ratios_are_those_of_medians() -> None:
    comparison = a_comparison(kafka=(30, 40, 90), one=(5, 4, 9), two=(2, 2.5, 4), startup=1)
    assert comparison.ratio == 8
    assert comparison.ratio_at_work == 10
    assert comparison.threads_ratio == 2
    assert comparison.codec_percent == 40
    assert comparison.least_percent == 75


def test_a_cold_round_is_held_against_the_slower_of_disk_and_warm_round() -> None:
    cold = a_report().cold["cold-none-100"]
    assert cold.times_the_least == 6 / 4.5
    assert replace(cold, direct_seconds=()).times_the_least == 6 / 4
