"""The whole command on small logs: real Kafka on one side, our process on the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.__main__ import main
from tests.benchmarks.results import load
from tests.interop.conftest import classpath_or_skip

pytestmark = pytest.mark.kafka

KEYS = 20_000
ONLY = ["lz4-100", "second-round-newest", "many-keys"]


def test_workloads_are_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classpath_or_skip("4.3.1")
    file, scratch = tmp_path / "results.json", tmp_path / "scratch"
    words = ["--scratch", scratch, "--json", file, "--gib", "0.002", "--rounds", "1", "--many-keys", KEYS, "--kafka"]
    words += ["--only", *ONLY]
    assert main([str(word) for word in words]) == 0
    first = capsys.readouterr()
    assert "lz4, 100 B" in first.out
    report = load(file)
    assert list(report.comparisons) == ONLY[:2]
    assert all(len(one.kafka) == len(one.ours[1]) == len(one.ours[2]) == 1 for one in report.comparisons.values())
    assert report.comparisons["lz4-100"].codec_bound is not None
    assert report.many_keys is not None
    assert (report.many_keys.records_left, len(report.many_keys.kafka)) == (KEYS, 1)
    assert not list(scratch.glob("lz4-100-1*")), "the generated log stayed"

    assert main([str(word) for word in words]) == 0
    assert capsys.readouterr() == (first.out, "")
