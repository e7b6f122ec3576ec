"""Imports go one way (docs/architecture.md): storage <- policies <- cleaner, each part of it where it belongs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "storage/kernels": {"storage.kernels"},
    "storage": {"storage"},
    "policies": {"policies", "storage.names", "storage.errors"},
    "cleaner/engine": {"cleaner.engine", "policies", "storage"},
    "cleaner/report": {"cleaner.report", "cleaner.engine", "policies", "storage"},
    "cleaner/service": {"cleaner.service", "cleaner.engine", "cleaner.report.printable", "policies", "storage"},
    "cleaner/export": {"cleaner.export", "cleaner.spark", "storage"},
    "cleaner/demo": {"cleaner.demo", "policies", "storage"},
    "cleaner": {"cleaner", "policies", "storage"},
}
"""By the longest prefix of a module's path: which of our own modules it may import."""
OURS = ("cleaner", "policies", "storage")
ONLY_IN = {"numba": "storage/kernels", "pyspark": "cleaner/spark", "pydantic": "cleaner/service/settings.py"}
FUNCTION_LINES_MAX = 60


def modules() -> list[Path]:
    return [path for package in OURS for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Absolute names of every import, also of those within functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(node.module or "")
    return names


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    prefix = max((prefix for prefix in MAY_IMPORT if place.startswith(prefix)), key=len)
    ours = {name for name in imported(path) if any(is_within(name, package) for package in OURS)}
    outside = {name for name in ours if not any(is_within(name, package) for package in MAY_IMPORT[prefix])}
    assert outside == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_packages_are_imported_in_one_place(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    heavy = {name.split(".")[0] for name in imported(path)} & set(ONLY_IN)
    assert {name for name in heavy if not place.startswith(ONLY_IN[name])} == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_grows_beyond_a_screen(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = {function.name: (function.end_lineno or 0) - body_start(function) + 1 for function in functions}
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def body_start(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """First line behind signature and docstring: neither makes a function hard to follow."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    return statements[0].lineno if statements else function.lineno


@pytest.mark.parametrize("package", OURS)
def test_every_package_opens_with_its_nouns(package: str) -> None:
    inits = (ROOT / package).rglob("__init__.py")
    assert [path for path in inits if not ast.get_docstring(ast.parse(path.read_text()))] == []
