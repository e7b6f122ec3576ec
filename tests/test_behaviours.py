"""``behaviours.md`` names tests that exist, and counts right."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

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


def test_rows_name_tests_that_exist_or_say_why_there_is_none() -> None:
    assert [row for row in ROWS if not is_explained(row)] == []


def is_explained(row: tuple[str, ...]) -> bool:
    kafka, here = row
    if not applies(row):
        return bool(kafka) and len(here) > len(NOT_APPLICABLE)
    named = NAMED.findall(here)
    are_all = [f"`{path}::{name}`" for path, name in named] == here.split("<br>")
    return bool(kafka) and are_all and all(name in functions_in(path) for path, name in named)


def test_every_behaviour_written_for_kafkas_sake_is_listed() -> None:
    files = sorted((HERE / "behaviours").glob("test_*.py"))
    assert len(files) > 4
    listed = {(file, name) for row in ROWS for file, name in NAMED.findall(row[1])}
    written = {(f"behaviours/{f.name}", name) for f in files for name in functions_in(f"behaviours/{f.name}")}
    assert {(file, name) for file, name in written if name.startswith("test_")} == {
        (file, name) for file, name in listed if file.startswith("behaviours/")
    }
