"""The facts of an error: its fields, in order, by name or by default, and behind a pickle."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from storage.errors import CorruptBatch, InvalidConfig, LogCleanerError

LOG = Path("/data/x.log")


def test_facts_are_taken_in_order_by_name_and_from_the_classes_above() -> None:
    for error in (CorruptBatch(LOG, 7, "no"), CorruptBatch(LOG, position=7, cause="no")):
        assert (error.path, error.position, error.cause) == (LOG, 7, "no")
        assert error.args == (LOG, 7, "no")


def test_a_fact_with_a_default_may_be_left_out() -> None:
    assert InvalidConfig("key", 1, "is wrong").where == ""
    assert str(InvalidConfig("key", 1, "is wrong", "file.toml")) == "file.toml: key = 1: is wrong"


@pytest.mark.parametrize("error", [CorruptBatch(LOG, 7, "no"), InvalidConfig("key", None, "is wrong", where="here")])
def test_an_error_survives_pickling(error: LogCleanerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, vars(again), str(again)) == (type(error), error.args, vars(error), str(error))


@pytest.mark.parametrize(
    ("facts", "named"), [((LOG, 7, "no", 1), {}), ((LOG,), {"path": LOG}), ((LOG, 7, "no"), {"why": 1}), ((LOG, 7), {})]
)
def test_other_facts_than_those_of_the_class_are_refused(facts: tuple[object, ...], named: dict[str, object]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        CorruptBatch(*facts, **named)
