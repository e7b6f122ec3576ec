"""Imports go one way (docs/architecture.md): storage <- policies <- cleaner, each part of it where it belongs."""

from __future__ import annotations

import ast
from pathlib import Path

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
    "storage/log": {"storage.log", "storage.records", "storage.codecs", *FILES},
    "storage/log/writing": {"storage.log", "storage.records", "storage.codecs", "storage.kernels", *FILES},
    "storage/scan": {"storage.scan", "storage.log", "storage.records", "storage.codecs", "storage.kernels", *FILES},
    "storage/__init__.py": {"storage"},
    "storage": FILES,
    "policies": {"policies", "storage.names", "storage.errors", "storage.anomalies", "storage.kernels.status"},
    "cleaner/errors.py": {"storage"},
    "cleaner/config": {"cleaner.config", "policies", "storage"},
    "cleaner/engine": {"cleaner.engine", "cleaner.errors", "policies", "storage"},
    "cleaner/report": {"cleaner.report", "cleaner.printable", "cleaner.engine", "policies", "storage"},
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
    "pyspark": "cleaner/spark",
    "pydantic": "cleaner/config/settings.py",
    "pygal": "cleaner/report/html/charts.py",
}
CLOCK = ROOT / "cleaner/engine/clock.py"
"""The one module that asks what time it is. All others are handed a clock, or ask ``SystemClock``."""
ASKS_THE_TIME = {
    *("time.time", "time.time_ns", "time.ctime", "time.localtime", "time.gmtime", "time.CLOCK_REALTIME"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
}
ONLY_COMPILED_ROOMS = ("storage/compiler", "storage/machine", "storage/kernels", "storage/codecs", "storage/printing")
"""Alone import ``storage.machine``: whoever calls a kernel needs to know nothing of how it was compiled."""
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


def test_only_compiled_rooms_know_how_a_kernel_is_compiled() -> None:
    outside = [path for path in modules() if not path.relative_to(ROOT).as_posix().startswith(ONLY_COMPILED_ROOMS)]
    assert [path for path in outside if any(is_within(name, "storage.machine") for name in imported(path))] == []


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


def test_no_file_imports_a_file_that_imports_it() -> None:
    files = {module_of(path): path for path in modules()}
    imports = {name: imported_modules(path, files) for name, path in files.items()}
    assert [circle for name in imports if (circle := circle_through(name, imports))] == []


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path, files: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a file imports at any time, but not what only a type checker sees."""
    tree = ast.parse(path.read_text())
    unseen = {node for block in ast.walk(tree) if is_for_types(block) for node in ast.walk(block)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in unseen:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & files.keys() or {node.module or ""}
    return (found & files.keys()) - {module_of(path)}


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def circle_through(name: str, imports: dict[str, set[str]]) -> list[str] | None:
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
    names = [
        node.name for path in modules() for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    public = [name for name in names if not name.startswith("_")]
    assert sorted({name for name in public if public.count(name) > 1}) == []


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_one_module_asks_the_wall_clock(path: Path) -> None:
    assert path == CLOCK or questions_of_time(path.read_text()) == set()


@pytest.mark.parametrize("text", ["import time\ntime.time_ns()", "from time import time", "datetime.now(UTC)"])
def test_question_of_the_time_is_found(text: str) -> None:
    assert questions_of_time(text)


def questions_of_time(text: str) -> set[str]:
    """Return what asks for the time of day; a stopwatch, which tells no time, is no such question."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found & ASKS_THE_TIME
