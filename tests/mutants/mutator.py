"""Small wrong changes of a source file: the mutants that the tests must notice.

What carries no decision is left alone: texts, annotations, decorators, docstrings, what an ``assert`` says cannot
happen, and the constants at the top of a module, most of which are bounds that could be others.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_CONDITIONS: Final = (ast.If, ast.IfExp)
_UNREAD: Final = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
_DROPPED: Final = (ast.Raise, ast.AugAssign, ast.Delete)


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of one file: the bytes from ``start`` to ``end`` become ``replacement``."""

    path: str
    start: int
    end: int
    replacement: str
    lines: tuple[int, int]
    """The first and the last line of what runs there."""

    def applied(self, source: bytes) -> bytes:
        """Return the changed file."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def diff(self, source: bytes) -> tuple[str, str]:
        """Return the lines that go and those that come, without indentation."""
        before, after = (data.decode().splitlines() for data in (source, self.applied(source)))
        lines = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        gone, come = (" ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")
        return gone, come


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of the file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, replacement, statement in _changes(ast.parse(source), None):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, start, end, replacement, _lines(node, statement)))
    return sorted(found)


def _lines(node: ast.stmt | ast.expr, statement: ast.stmt) -> tuple[int, int]:
    """Return the lines that run where a change shows: for the default of a parameter, its function."""
    last = (statement if isinstance(statement, ast.FunctionDef) else node).end_lineno
    return min(statement.lineno, node.lineno), last or node.lineno


Change = tuple[ast.stmt | ast.expr, str]


def _changes(node: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.stmt | ast.expr, str, ast.stmt]]:
    """Yield what can be changed below a node, each with its replacement and the statement around it."""
    for child in _read_children(node):
        around = child if isinstance(child, ast.stmt) else statement
        if around is not None:
            for changed, replacement in changes_of(child):
                yield changed, replacement, around
        yield from _changes(child, around)


def _read_children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children that decide something."""
    if isinstance(node, ast.Module):
        children: list[ast.AST] = [one for one in node.body if not isinstance(one, ast.Assign | ast.AnnAssign)]
    elif isinstance(node, ast.ClassDef):
        children = list(node.body)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default]
        children = [*defaults, *node.body]
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value else []
    else:
        children = list(ast.iter_child_nodes(node))
    return (child for child in children if not isinstance(child, _UNREAD) and not _is_for_types(child))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@singledispatch
def changes_of(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node itself: what is replaced, and by what."""
    if isinstance(node, _DROPPED) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    if isinstance(node, _CONDITIONS):
        yield from _negated(node.test)
    if isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield from _negated(condition)


def _negated(test: ast.expr) -> Iterator[Change]:
    """Negate a condition, unless it has a change of its own that does."""
    if not isinstance(test, ast.Compare | ast.UnaryOp):
        yield test, f"(not {ast.unparse(test)})" if isinstance(test, ast.Name) else f"(not ({ast.unparse(test)}))"


@changes_of.register
def _(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        changed = copy.deepcopy(node)
        changed.ops[place] = _COMPARISONS[type(operator)]()
        yield node, f"({ast.unparse(changed)})"


@changes_of.register
def _(node: ast.BoolOp) -> Iterator[Change]:
    changed = copy.deepcopy(node)
    changed.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    yield node, f"({ast.unparse(changed)})"


@changes_of.register
def _(node: ast.BinOp) -> Iterator[Change]:
    is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str | bytes)
    if type(node.op) in _OPERATORS and not is_text:
        changed = copy.deepcopy(node)
        changed.op = _OPERATORS[type(node.op)]()
        yield node, f"({ast.unparse(changed)})"


@changes_of.register
def _(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node, f"({ast.unparse(node.operand)})"


@changes_of.register
def _(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield node.func, _CALLS[node.func.id]


@changes_of.register
def _(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node.value, int):
        yield node, str(node.value + 1)


@changes_of.register
def _(node: ast.Break) -> Iterator[Change]:
    yield node, "continue"


@changes_of.register
def _(node: ast.Continue) -> Iterator[Change]:
    yield node, "break"
