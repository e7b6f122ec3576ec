"""Each promise of a command is told from one that was not kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lives.promises import of_promises, untrue_of_dry_run, untrue_of_second_run, untrue_of_source
from tests.lives.running import Told
from tests.lives.seen import Look, Piece, SeenLog


def told(*words: str, **document: Any) -> Told:
    return Told(words, 0, json.dumps(document), "")


def test_run_that_does_more_than_its_dry_run_is_named() -> None:
    said = told("erase", "k1", "-n", dry_run=True, partitions=[{"records": 1, "stays": None}])
    assert not list(
        untrue_of_dry_run(said, told("erase", "k1", dry_run=False, partitions=[{"records": 1, "stays": 3}]))
    )
    (untrue,) = untrue_of_dry_run(said, told("erase", "k1", dry_run=False, partitions=[{"records": 2, "stays": 3}]))
    assert untrue == "erase k1 does what its dry run said: .partitions[0].records 1, and did 2"


@pytest.mark.parametrize(
    ("again", "is_settled"),
    [
        (told("erase", records=0), True),
        (told("erase", records=2), False),
        (told("verify", repairs=[]), True),
        (told("verify", repairs=[{"path": "x"}]), False),
        (told("restore", partitions=[{"segments": [{"code": "KEPT"}]}]), True),
        (told("restore", partitions=[{"segments": [{"code": "RESTORABLE"}]}]), False),
        (told("free", partitions=[{"segments": [{"action": "keep"}]}]), True),
        (told("free", partitions=[{"segments": [{"action": "delete"}]}]), False),
    ],
)
def test_second_run_has_nothing_to_do(again: Told, is_settled: bool) -> None:
    assert (not list(untrue_of_second_run(again))) == is_settled


def test_source_that_changed_is_named() -> None:
    assert not list(untrue_of_source({"a": b"1"}, {"a": b"1"}))
    assert list(untrue_of_source({"a": b"1"}, {"a": b"2"})) == ["a source stays as it is: ['a']"]
    assert list(untrue_of_source({"a": b"1"}, {}))


def test_restore_that_brings_back_less_than_it_says_is_named() -> None:
    segments = [{"base_offset": base, "restored": True} for base in (0, 4)]
    said = told("restore", partitions=[{"topic": "orders", "partition": 0, "segments": segments}])
    pieces = tuple(Piece(Path(f"{base}.log"), base, 1, base + 4, 0) for base in (0, 4))
    whole, less = (Look({"orders-0": SeenLog("orders-0", there, 0, 8)}) for there in (pieces, pieces[:1]))
    assert not list(of_promises(said, less, whole))
    assert list(of_promises(said, less, less)) == ["orders-0 has [4] again"]


def test_sweep_takes_what_was_named_and_nothing_else() -> None:
    swept = told("doctor", "--sweep", "a.deleted", "--log-dir", "d")
    before, named, more = (Look({}, {}, dict.fromkeys(names, (1, 1, 0))) for names in (("a.deleted", "b"), ("b",), ()))
    assert not list(of_promises(swept, before, named))
    assert len(list(of_promises(swept, before, before))) == 1
    assert list(of_promises(swept, before, more)) == ["only what was named is swept: ['b']"]
