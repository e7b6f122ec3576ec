"""Every test asserts something: one that only raises nothing passes over code that does nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
FINDINGS = ("AssertionError", "Finding")
CHECKING_METHODS = ("check", "finishes")
"""Beginnings of the names of methods that assert, in whatever file their class is."""
Functions = dict[str, list[ast.FunctionDef]]


def functions_in(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def by_name(functions: Iterable[ast.FunctionDef]) -> Functions:
    found: Functions = {}
    for function in functions:
        found.setdefault(function.name, []).append(function)
    return found


def judges(function: ast.FunctionDef) -> bool:
    """Return whether an ``assert``, the raise of a finding, or ``pytest.raises`` is in the function itself."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Raise) and is_call_of(node.exc, FINDINGS))
        or (isinstance(node, ast.Attribute) and node.attr == "raises" and is_name(node.value, ("pytest",)))
        for node in ast.walk(function)
    )


def is_call_of(node: ast.expr | None, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Call) and is_name(node.func, names)


def is_name(node: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def called_by(function: ast.FunctionDef, own: Functions, helpers: Functions) -> Iterator[ast.FunctionDef]:
    """Yield what a function of the tests may call: functions of any file, methods of its own."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from own.get(node.func.id) or helpers.get(node.func.id, [])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_known = node.func.attr.startswith(CHECKING_METHODS)
            yield from (helpers if is_known else own).get(node.func.attr, [])


def asserts(function: ast.FunctionDef, own: Functions, helpers: Functions, seen: set[ast.FunctionDef]) -> bool:
    if function in seen:
        return False
    seen.add(function)
    return judges(function) or any(asserts(one, own, helpers, seen) for one in called_by(function, own, helpers))


def silent(trees: dict[str, ast.Module]) -> list[str]:
    """Return the tests of some files that assert nothing, neither themselves nor by what they call."""
    helpers = by_name(function for tree in trees.values() for function in functions_in(tree))
    found = []
    for name, tree in trees.items():
        own = by_name(functions_in(tree))
        tests = [function for function in functions_in(tree) if function.name.startswith("test_")]
        found += [f"{name}::{test.name}" for test in tests if not asserts(test, own, helpers, set())]
    return found


def test_every_test_asserts_something() -> None:
    paths = sorted(TESTS.rglob("test_*.py"))
    others = [path for path in TESTS.rglob("*.py") if path not in paths]
    trees = {str(path.relative_to(TESTS)): ast.parse(path.read_text()) for path in [*paths, *others]}
    assert len(paths) > 100
    assert silent(trees) == []


def test_a_test_that_asserts_nothing_is_found() -> None:
    source = """
def test_runs(): work()
def test_asserts(): assert work()
def test_asserts_by_a_helper(): differing()
def differing(): raise AssertionError(work())
def work(): return 1
"""
    assert silent({"here.py": ast.parse(source)}) == ["here.py::test_runs"]
