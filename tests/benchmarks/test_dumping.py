"""The benchmark of ``dump`` compares it with Kafka's own tool, and leaves nothing behind."""

from __future__ import annotations

import pytest

from tests.benchmarks.dumping import main, ratio
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import judging_version, tools_classpath


@pytest.mark.kafka
def test_both_sizes_are_compared_with_kafka(tmp_path, capsys):
    classpath_or_skip(judging_version(), tools_classpath)
    assert main([str(tmp_path), "--mib", "0.5", "--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "values of 100 bytes" in printed
    assert "values of 1024 bytes" in printed
    assert printed.count("against Kafka's tool: ") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_interval_holds_the_median():
    assert ratio([2.0, 2.0, 2.0]) == "2.0 times as fast [2.0, 2.0]"
