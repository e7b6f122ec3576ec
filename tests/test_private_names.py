"""No test uses a private name of ours where the public one shows the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
OURS: Final = ("cleaner", "policies", "storage")
NEED_ONE: Final = {
    "crash/test_twins.py": "a twin breaks a step within a function",
    "storage/stores/conftest.py": "between two tests a process is one that opened no store",
    "storage/machine/test_library.py": "this CPU is another one, and nothing is compiled",
}
"""Files whose fault only a private name can put in its place."""
OF_NAMED_TUPLES: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})
OF_OTHERS: Final = {
    "_ExtendAction": "argparse",
    "_StoreAction": "argparse",
    "_xoptions": "sys",
    "_base_executable": "sys",
    "_exit": "os",
    "_PARTITION_EOF": "confluent_kafka",
    "_jdf": "pyspark",
    "_jsc": "pyspark",
    "_corrupt_batch": "the column of the source",
}
"""Names that begin so and are not ours to make public, and whose they are."""
PATCHES: Final = ("delattr", "setattr", "object", "patch")


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names of ours that a file imports, takes from another object or puts something else for."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in OURS:
                yield from (alias.name for alias in names if is_private(alias.name))
            case ast.Attribute(value=value, attr=attr) if is_private(attr) and not is_own(value):
                yield attr
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in PATCHES:
                texts = [arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                yield from (name for text in texts for name in text.split(".") if is_private(name))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {*OF_NAMED_TUPLES, *OF_OTHERS}


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def test_no_test_uses_a_private_name() -> None:
    paths = [path for path in sorted(TESTS.rglob("*.py")) if str(path.relative_to(TESTS)) not in NEED_ONE]
    assert len(paths) > 300
    found = {path: [*private_names(ast.parse(path.read_text()))] for path in paths}
    assert {str(path.relative_to(TESTS)): names for path, names in found.items() if names} == {}


def test_each_way_to_use_one_is_found() -> None:
    source = """
from cleaner.engine.journal import _held, read
found = journal._lines
fixture.setattr("cleaner.engine.journal._LINES", 1)
fixture.setattr(journal, "_limit", 1)
shorter = named._replace(field=self._own)
"""
    assert sorted(private_names(ast.parse(source))) == ["_LINES", "_held", "_limit", "_lines"]
