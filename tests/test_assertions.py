"""Every test asserts something: one that only raises nothing passes over code that does nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
FINDINGS = ("AssertionError", "Finding")
CHECKING_METHODS = ("check", "finishes")
"""Beginnings of the names of methods that assert, in whatever file their class is."""


class Function(NamedTuple):
    """A function of the tests, looked at once. Its tree is not kept: all of them take a lot of memory."""

    name: str
    judges: bool
    """Whether an ``assert``, the raise of a finding, or ``pytest.raises`` is in the function itself."""
    called: frozenset[str]
    called_methods: frozenset[str]


Functions = dict[str, list[Function]]


def functions_in(tree: ast.AST) -> list[Function]:
    return [looked_at(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def looked_at(function: ast.FunctionDef) -> Function:
    nodes = list(ast.walk(function))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return Function(
        function.name,
        any(judges(node) for node in nodes),
        frozenset(func.id for func in called if isinstance(func, ast.Name)),
        frozenset(func.attr for func in called if isinstance(func, ast.Attribute)),
    )


def by_name(functions: Iterable[Function]) -> Functions:
    found: Functions = {}
    for function in functions:
        found.setdefault(function.name, []).append(function)
    return found


def judges(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Raise) and is_call_of(node.exc, FINDINGS))
        or (isinstance(node, ast.Attribute) and node.attr == "raises" and is_name(node.value, ("pytest",)))
    )


def is_call_of(node: ast.expr | None, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Call) and is_name(node.func, names)


def is_name(node: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def called_by(function: Function, own: Functions, helpers: Functions) -> Iterator[Function]:
    """Yield what a function of the tests may call: functions of any file, methods of its own."""
    for name in function.called:
        yield from own.get(name) or helpers.get(name, [])
    for name in function.called_methods:
        yield from (helpers if name.startswith(CHECKING_METHODS) else own).get(name, [])


def asserts(function: Function, own: Functions, helpers: Functions, seen: set[Function]) -> bool:
    if function in seen:
        return False
    seen.add(function)
    return function.judges or any(asserts(one, own, helpers, seen) for one in called_by(function, own, helpers))


def silent(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return the tests of some files that assert nothing, neither themselves nor by what they call."""
    functions = {name: functions_in(ast.parse(source)) for name, source in sources}
    helpers = by_name(one for ones in functions.values() for one in ones)
    found = []
    for name, ones in functions.items():
        own = by_name(ones)
        tests = [function for function in ones if function.name.startswith("test_")]
        found += [f"{name}::{test.name}" for test in tests if not asserts(test, own, helpers, set())]
    return found


def test_every_test_asserts_something() -> None:
    paths = sorted(TESTS.rglob("test_*.py"))
    others = [path for path in TESTS.rglob("*.py") if path not in paths]
    assert len(paths) > 100
    assert silent((str(path.relative_to(TESTS)), path.read_text()) for path in [*paths, *others]) == []


def test_a_test_that_asserts_nothing_is_found() -> None:
    source = """
def test_runs(): work()
def test_asserts(): assert work()
def test_asserts_by_a_helper(): differing()
def differing(): raise AssertionError(work())
def work(): return 1
"""
    assert silent([("here.py", source)]) == ["here.py::test_runs"]
