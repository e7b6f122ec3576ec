"""The benchmark of the second peer: what it says without cargo, and its table."""

from __future__ import annotations

import tomllib

from tests.benchmarks.krabka import SOURCE, Rounds, main, row
from tests.benchmarks.processes import Cost


def test_without_cargo_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--scratch", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "cargo is not here: install Rust\n"


def test_a_line_has_medians_and_the_ratio_of_the_pairs():
    krabka = [Cost(4.0, 0, 2_000_000), Cost(9.0, 0, 1_000_000), Cost(6.0, 0, 1_000_000)]
    ours = [Cost(1.0, 0, 3_000_000), Cost(3.0, 0, 3_000_000), Cost(3.0, 0, 3_000_000)]
    kafka = [Cost(8.0, 0, 5_000_000)] * 3
    expected = "| none, 100 B | 8.00 s | 6.00 s | 3.00 s | 3.0x | 5 MB, 2 MB, 3 MB |"
    assert row("none, 100 B", Rounds(kafka, krabka, ours)) == expected


def test_the_lock_file_pins_the_peer():
    pinned = {one["name"]: one for one in tomllib.loads((SOURCE / "Cargo.lock").read_text())["package"]}
    assert "checksum" in pinned["krabka-log"]
    assert "krabka-peer" in pinned
