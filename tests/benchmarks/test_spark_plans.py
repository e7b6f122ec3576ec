"""The benchmark of plans measures what it says, on a few partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.spark_plans import main


def test_each_segment_is_an_extent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--partitions", "60", "--segments", "3", "--scratch", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("180 extents in ")
    assert [line.split("  ")[0] for line in (lines[0], *lines[2:])] == [
        "a plan",
        "a plan of one topic",
        "a stream begins",
        "its first trigger",
        "an idle trigger",
    ]
    assert not list(tmp_path.iterdir())
