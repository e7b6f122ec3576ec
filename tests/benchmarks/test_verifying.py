"""The benchmark of ``verify`` measures healthy logs, and leaves nothing behind."""

from __future__ import annotations

from tests.benchmarks.verifying import main


def test_both_sizes_are_measured(tmp_path, capsys):
    assert main([str(tmp_path), "--gib", "0.004"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["batches of 1 KiB", "batches of 16 KiB"]
    assert list(tmp_path.iterdir()) == []
