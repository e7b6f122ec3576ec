"""The benchmark of growth, with small logs: each table has its lines, and a line its figures."""

from __future__ import annotations

import pytest

from tests.benchmarks.growth import HEAD, KEYS, SEGMENTS, SIZES_GIB, growing, main, row
from tests.benchmarks.logs import log_dir_of
from tests.benchmarks.processes import Cost
from tests.benchmarks.workloads import many_keys


@pytest.mark.parametrize(("table", "lines"), [("size", SIZES_GIB), ("keys", KEYS), ("segments", SEGMENTS)])
def test_a_table_has_a_log_a_line_that_costs_more(table, lines, tmp_path):
    logs = list(growing(table, 1.0))
    costs = [log.records / log.segment_bytes if table == "segments" else log.records for log in logs]
    assert costs == sorted(set(costs))
    assert len({log_dir_of(log, tmp_path) for log in logs}) == len(lines)


def test_a_line_has_medians_and_the_processor_time_of_a_million_records():
    costs = [Cost(2.0, 0, 5_000_000, 1.0), Cost(9.0, 0, 7_000_000, 4.0), Cost(3.0, 0, 6_000_000, 2.5)]
    assert row(many_keys(1_600_000), costs) == "| 1,600,000 distinct keys | 3.00 s | 2.50 s | 1.250 s | 7 MB |"


@pytest.mark.kafka
def test_each_log_is_compacted(tmp_path, capsys):
    assert main(["--scratch", str(tmp_path), "--rounds", "1", "--only", "segments", "--most", "0.004"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(HEAD)
    assert printed.count(" MB |") == len(SEGMENTS)
