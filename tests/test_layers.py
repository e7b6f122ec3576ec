"""Imports go one way (docs/architecture.md): storage <- policies <- cleaner, each part of it where it belongs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    f"storage.{name}"
    for name in (
        *(
            "anomalies",
            "arrays",
            "checkpoints",
            "directory",
            "errors",
            "filesystem",
            "guarded",
            "holes",
            "indexes",
            "lock",
            "log_dir",
        ),
        *("mounts", "names", "private_directory", "properties", "segment", "txn_index"),
    )
}
"""The files of a log dir: the root of storage, which imports none of its folders."""
MAY_IMPORT = {
    "storage/machine": {"storage.machine", "storage.arrays", "storage.errors"},
    "storage/compiler": {"storage.compiler", "storage.machine", "storage.errors"},
    "storage/kernels": {"storage.kernels", "storage.machine", "storage.arrays"},
    "storage/kernels/__init__.py": {"storage.machine"},
    "storage/kernels/status.py": set(),
    "storage/codecs": {"storage.codecs", "storage.kernels", "storage.machine", "storage.arrays", "storage.errors"},
    "storage/printing": {"storage.printing", "storage.kernels", "storage.machine", "storage.arrays"},
    "storage/records": {"storage.records", "storage.codecs", *FILES},
    "storage/schemas": {"storage.schemas", "storage.errors"},
    "storage/metadata": {"storage.metadata", "storage.records", "storage.schemas", *FILES},
    "storage/log": {"storage.log", "storage.records", "storage.codecs", "storage.stores", *FILES},
    "storage/log/writing": {"storage.log", "storage.records", "storage.codecs", "storage.kernels", *FILES},
    "storage/scan": {
        *("storage.scan", "storage.log", "storage.records", "storage.codecs", "storage.kernels", "storage.stores"),
        *FILES,
    },
    "storage/tiers": {
        *("storage.tiers", "storage.stores", "storage.log", "storage.records", "storage.schemas"),
        *FILES,
    },
    "storage/stores": {"storage.stores", "storage.errors"},
    "storage/__init__.py": {"storage"},
    "storage": {*FILES, "storage.stores"},
    "policies": {
        "policies",
        "storage.names",
        "storage.errors",
        "storage.anomalies",
        "storage.txn_index",
        "storage.kernels.status",
    },
    "cleaner/errors.py": {"storage"},
    "cleaner/config": {"cleaner.config", "policies", "storage"},
    "cleaner/documents": {"cleaner.documents", "cleaner.engine", "policies", "storage"},
    "cleaner/engine": {"cleaner.engine", "cleaner.documents", "cleaner.errors", "policies", "storage"},
    "cleaner/report": {
        "cleaner.report",
        "cleaner.documents",
        "cleaner.printable",
        "cleaner.export.fields",
        "cleaner.engine",
        "policies",
        "storage",
    },
    "cleaner/daemon": {
        *("cleaner.daemon", "cleaner.config", "cleaner.events", "cleaner.errors", "cleaner.engine"),
        *("policies", "storage"),
    },
    "cleaner/metrics": {
        *("cleaner.metrics", "cleaner.config", "cleaner.errors", "cleaner.engine", "cleaner.daemon.observer"),
        *("cleaner.replacing", "policies", "storage"),
    },
    "cleaner/arrow": {"cleaner.arrow", "storage"},
    "cleaner/dump": {"cleaner.dump", "cleaner.export.fields", "storage"},
    "cleaner/export": {"cleaner.export", "cleaner.arrow", "cleaner.errors", "storage"},
    "cleaner/importing": {
        *("cleaner.importing", "cleaner.arrow", "cleaner.engine", "cleaner.errors", "policies", "storage"),
    },
    "cleaner/spark": {
        *("cleaner.spark", "cleaner.arrow", "cleaner.errors", "cleaner.engine", "cleaner.report.findings"),
        *("policies", "storage"),
    },
    "cleaner/demo": {"cleaner.demo", "policies", "storage"},
    "cleaner": {"cleaner", "policies", "storage"},
}
"""By the longest prefix of a module's path: which of our own modules it may import."""
OURS = ("cleaner", "policies", "storage")
ONLY_IN = {
    "numba": "storage/compiler",
    "llvmlite": "storage/compiler",
    "obstore": "storage/stores/objects.py",
    "hdfs_native": "storage/stores/hdfs.py",
    "cryptography": "storage/tiers/aiven.py",
    "pyspark": "cleaner/spark",
    "pydantic": ("cleaner/config/settings.py", "cleaner/documents"),
    "pygal": "cleaner/report/html/charts.py",
}
VERSION = ("cleaner", "__version__")
"""The package and the one name in it that every room of ``cleaner`` may import."""
CLOCK = "cleaner/engine/clock.py"
"""The one module that asks what time it is. All others are handed a clock, or ask ``SystemClock``."""
ASKS_THE_TIME = {
    *("time.time", "time.time_ns", "time.ctime", "time.localtime", "time.gmtime", "time.CLOCK_REALTIME"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
}
ONLY_COMPILED_ROOMS = ("storage/compiler", "storage/machine", "storage/kernels", "storage/codecs", "storage/printing")
"""Alone import ``storage.machine``: whoever calls a kernel needs to know nothing of how it was compiled."""
FUNCTION_LINES_MAX = 60


class Module(NamedTuple):
    """What the tests ask of a file of ours. Its tree is not kept: all of them take 300 MiB."""

    place: str
    """Its path below the root."""
    name: str
    imported: frozenset[str]
    """Absolute names of every import, also of those within functions."""
    imported_names: frozenset[tuple[str, str]]
    """``A`` and ``B`` of each ``from A import B``, also where only a type checker sees it."""
    function_lines: tuple[tuple[str, int], ...]
    classes: tuple[str, ...]
    is_explained: bool
    """Whether it begins with a docstring."""
    questions_of_time: frozenset[str]


@cache
def modules() -> tuple[Module, ...]:
    """Parse all files of ours, once."""
    paths = [path for package in OURS for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(paths) > 100
    return tuple(looked_at(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths)


def looked_at(place: str, text: str) -> Module:
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return Module(
        place,
        place.removesuffix(".py").replace("/", ".").removesuffix(".__init__"),
        frozenset(imported(nodes, place)),
        frozenset((n.module or "", a.name) for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names),
        tuple(
            (node.name, lines_of(node)) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        bool(ast.get_docstring(tree)),
        frozenset(questions_of_time(nodes)),
    )


def imported(nodes: list[ast.AST], place: str) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place}: a relative import"
            names.add(node.module or "")
    return names


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def outside(module: Module) -> set[str]:
    """Return what a module of ours imports from where it may not."""
    prefix = max((prefix for prefix in MAY_IMPORT if module.place.startswith(prefix)), key=len)
    ours = {name for name in module.imported if any(is_within(name, package) for package in OURS)}
    from_root = {(package, name) for package, name in module.imported_names if package == VERSION[0]}
    if module.place.startswith("cleaner/") and from_root == {VERSION}:
        ours.discard(VERSION[0])
    return {name for name in ours if not any(is_within(name, package) for package in MAY_IMPORT[prefix])}


def misplaced(module: Module) -> set[str]:
    """Return the heavy packages that a module imports where they do not belong."""
    heavy = {name.split(".")[0] for name in module.imported} & set(ONLY_IN)
    return {name for name in heavy if not module.place.startswith(ONLY_IN[name])}


def test_imports_go_one_way() -> None:
    assert {module.place: found for module in modules() if (found := outside(module))} == {}


def test_heavy_packages_are_imported_in_one_place() -> None:
    assert {module.place: found for module in modules() if (found := misplaced(module))} == {}


def test_no_file_loads_the_types_of_documents_when_it_runs() -> None:
    """The types are for mypy and for the schemas, and stand below ``if TYPE_CHECKING``, because pydantic comes with
    them.
    """
    texts = {m.place: (ROOT / m.place).read_text() for m in modules() if not m.place.startswith("cleaner/documents")}
    importing = {place: text for place, text in texts.items() if "from cleaner.documents" in text}
    assert importing
    for text in importing.values():
        before, _, guarded = text.partition("\nif TYPE_CHECKING:\n")
        assert "from cleaner.documents" not in before
        assert "\nfrom cleaner.documents" not in guarded


def test_only_compiled_rooms_know_how_a_kernel_is_compiled() -> None:
    others = [module for module in modules() if not module.place.startswith(ONLY_COMPILED_ROOMS)]
    assert [m.place for m in others if any(is_within(name, "storage.machine") for name in m.imported)] == []


def test_no_function_grows_beyond_a_screen() -> None:
    functions = ((module.place, *function) for module in modules() for function in module.function_lines)
    assert [function for function in functions if function[-1] > FUNCTION_LINES_MAX] == []


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - body_start(function) + 1


def body_start(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """First line behind signature and docstring: neither makes a function hard to follow."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    return statements[0].lineno if statements else function.lineno


def test_every_package_opens_with_its_nouns() -> None:
    assert {m.place.split("/")[0] for m in modules() if m.place.endswith("__init__.py")} == set(OURS)
    assert [m.place for m in modules() if m.place.endswith("__init__.py") and not m.is_explained] == []


def test_no_file_imports_a_file_that_imports_it() -> None:
    files = {module.name for module in modules()}
    imports = {module.name: imported_files(module, files) for module in modules()}
    assert [circle for name in imports if (circle := circle_through(name, imports))] == []


def imported_files(module: Module, files: set[str]) -> set[str]:
    """Return the files that a file imports: of a package, the file that is named, or else its own."""
    pairs = module.imported_names
    return {name if (name := f"{package}.{alias}") in files else package for package, alias in pairs} & files - {
        module.name
    }


def circle_through(name: str, imports: Mapping[str, set[str]]) -> list[str] | None:
    """Return the shortest way from a module back to itself."""
    ways = [[name]]
    seen = {name}
    for way in ways:
        for next_ in sorted(imports[way[-1]]):
            if next_ == name:
                return way
            if next_ not in seen:
                seen.add(next_)
                ways.append([*way, next_])
    return None


def test_no_two_public_classes_share_a_name() -> None:
    public = Counter(name for module in modules() for name in module.classes if not name.startswith("_"))
    assert sorted(name for name, count in public.items() if count > 1) == []


def test_one_module_asks_the_wall_clock() -> None:
    asking = {module.place: module.questions_of_time for module in modules() if module.questions_of_time}
    assert asking.keys() == {CLOCK}, asking


@pytest.mark.parametrize("text", ["import time\ntime.time_ns()", "from time import time", "datetime.now(UTC)"])
def test_question_of_the_time_is_found(text: str) -> None:
    assert looked_at("here.py", text).questions_of_time


def questions_of_time(nodes: list[ast.AST]) -> set[str]:
    """Return what asks for the time of day; a stopwatch, which tells no time, is no such question."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found & ASKS_THE_TIME
