"""``behaviours.md`` names tests that exist, and counts right."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = (HERE / "behaviours.md").read_text()
NOT_APPLICABLE = "does not apply: "
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in TEXT.splitlines()
    if line.startswith("|") and line not in ("| Kafka | here |", "|---|---|")
]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
COUNTS = re.compile(r"\*\*(\d+) covered, (\d+) not applicable, (\d+) in all\.\*\*")


@cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((HERE / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def applies(row: tuple[str, ...]) -> bool:
    return not row[1].startswith(NOT_APPLICABLE)


def test_counts_are_those_of_the_rows() -> None:
    found = COUNTS.search(TEXT)
    assert found is not None
    covered = sum(map(applies, ROWS))
    assert tuple(map(int, found.groups())) == (covered, len(ROWS) - covered, len(ROWS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_names_a_test_that_exists_or_says_why_there_is_none(row: tuple[str, ...]) -> None:
    kafka, here = row
    assert kafka
    if not applies(row):
        assert len(here) > len(NOT_APPLICABLE)
        return
    named = NAMED.findall(here)
    assert [f"`{path}::{name}`" for path, name in named] == here.split("<br>")
    assert [(path, name) for path, name in named if name not in functions_in(path)] == []


@pytest.mark.parametrize("path", sorted((HERE / "behaviours").glob("test_*.py")), ids=lambda path: path.name)
def test_every_behaviour_written_for_kafkas_sake_is_listed(path: Path) -> None:
    listed = {name for row in ROWS for file, name in NAMED.findall(row[1]) if file == f"behaviours/{path.name}"}
    assert {name for name in functions_in(f"behaviours/{path.name}") if name.startswith("test_")} == listed
