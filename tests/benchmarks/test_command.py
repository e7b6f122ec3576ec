"""The whole command on small logs: real Kafka on one side, our process on the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import main
from tests.benchmarks.results import load
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import OLD, judging_version

pytestmark = pytest.mark.kafka

KEYS = 20_000
ONLY = ["v0-lz4-100", "cold-lz4-1024", "second-round-newest", "many-keys", "many-16-100", "many-2000"]


def test_workloads_are_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classpath_or_skip(judging_version())
    classpath_or_skip(OLD)
    cache = os.environ.get("CACHE_DIRECTORY")
    file, scratch = tmp_path / "results.json", tmp_path / "scratch"
    words = ["--scratch", scratch, "--json", file, "--gib", "0.002", "--rounds", "1", "--many-keys", KEYS, "--kafka"]
    words += ["--only", *ONLY]
    assert main([str(word) for word in words]) == 0
    first = capsys.readouterr()
    report = load(file)
    assert [*report.comparisons, *report.cold, "many-keys"] == [
        "v0-lz4-100",
        "second-round-newest",
        "cold-lz4-1024",
        "many-keys",
    ]
    cold = report.cold["cold-lz4-1024"]
    assert (len(cold.kafka), len(cold.ours), len(cold.ours_warm)) == (1, 1, 1)
    measured = report.comparisons["second-round-newest"]
    assert (len(measured.kafka), {threads: len(costs) for threads, costs in measured.ours.items()}) == (1, {1: 1, 2: 1})
    assert measured.title in first.out
    assert measured.records_left < measured.records
    assert report.many_keys is not None
    assert (report.many_keys.records_left, len(report.many_keys.kafka)) == (KEYS, 1)
    assert {name: (one.partitions, len(one.kafka), list(one.ours)) for name, one in report.many.items()} == {
        "many-16-100": (16, 1, [1, 2]),
        "many-2000": (2, 1, [1, 2]),
    }
    assert not list(scratch.glob("second-round-*")), "the generated log stayed"
    assert os.environ.get("CACHE_DIRECTORY") == cache, "the tests behind this one would compile their kernels anew"

    assert main([str(word) for word in words]) == 0
    assert capsys.readouterr() == (first.out, "")
