"""The samples of a plain run, and the command that tries all: each case is drawn some day, and what passed stays so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import whole
from tests.mutants.suite import ROOT
from tests.sampled import DAY, WHOLE, one_of_each, some
from tests.whole import PARTS, Part

CASES = range(30)
OTHERS = {f"LOGCLEANER_{name}" for name in ("START_SEED", "START_TABLE", "FIRST_LIFE", "DEBOOTSTRAP")}
"""Variables that choose other cases, or where; they try no more of them."""


@pytest.fixture
def on_day(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    monkeypatch.delenv(WHOLE, raising=False)

    def drawn(day: int) -> list[int]:
        monkeypatch.setenv(DAY, str(day))
        return some(CASES, 5, always=(7, 29))

    return drawn


def test_a_day_draws_one_sample_in_order_and_with_what_is_in_each(on_day: Callable[[int], list[int]]) -> None:
    drawn = on_day(20_780)
    assert drawn == on_day(20_780) == sorted(drawn)
    assert (len(drawn), {7, 29} <= {*drawn}) == (5, True)
    assert drawn != on_day(20_781)


def test_every_case_is_drawn_some_day(on_day: Callable[[int], list[int]]) -> None:
    assert {case for day in range(100) for case in on_day(day)} == {*CASES}


def test_one_of_each_kind_is_drawn_and_each_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHOLE, raising=False)
    cases, seen = [(kind, seed) for kind in "ab" for seed in range(3)], set()
    for one in range(50):
        monkeypatch.setenv(DAY, str(one))
        drawn = one_of_each(cases, lambda case: case[0])
        assert [kind for kind, _ in drawn] == ["a", "b"]
        seen |= {*drawn}
    monkeypatch.setenv(WHOLE, "1")
    assert one_of_each(cases, lambda case: case[0]) == cases == sorted(seen)


def test_whole_is_all(on_day: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHOLE, "1")
    assert on_day(1) == [*CASES]


def test_every_variable_that_tries_more_has_its_part() -> None:
    asked = re.compile(r"environ(?:\.get\(|\[)\"(LOGCLEANER_[A-Z_]+)\"")
    names = {name for path in (ROOT / "tests").rglob("test_*.py") for name in asked.findall(path.read_text())}
    assert {name for part in PARTS.values() for name in part.environment} == names - OTHERS


def test_what_is_sampled_has_its_part() -> None:
    imports = "from tests.sampled import "
    sampling = {path for path in (ROOT / "tests").glob("*/**/test_*.py") if imports in path.read_text()}
    run = {ROOT / word for part in PARTS.values() for word in part.command if word.endswith(".py")}
    assert sampling - run == set()


def test_it_goes_on_where_it_ended_until_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, ran = tmp_path / "notes.json", tmp_path / "ran"
    (tmp_path / "spoken.py").write_text(
        f"import sys; open({str(ran)!r}, 'a').write(sys.argv[1]); sys.exit(sys.argv[2] or 0)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sources = iter(["one", "one", "two"])
    monkeypatch.setattr(whole, "fingerprint", lambda root: next(sources))
    monkeypatch.setattr(whole, "PARTS", {"a": Part(("spoken", "a", "")), "b": Part(("spoken", "b", "no"))})
    assert whole.main(["--notes", str(notes)]) == 1
    assert "b: FAILED" in capsys.readouterr().out
    monkeypatch.setattr(whole, "PARTS", {"a": Part(("spoken", "a", "")), "b": Part(("spoken", "B", ""))})
    assert [whole.main(["--notes", str(notes)]) for _ in range(2)] == [0, 0]
    assert ran.read_text() == "abBaB"
