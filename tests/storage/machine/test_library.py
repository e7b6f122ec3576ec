"""The choice of a library of kernels, and that it is the one of these sources."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.compiler.build import BuildRefused, build, is_built
from storage.errors import InvalidConfig
from storage.machine import library
from storage.machine.library import LEVELS, KernelsUnusable, sources_hash

STORAGE = Path(library.__file__).parents[1]
OUTPUT = {"capture_output": True, "text": True}
COUNT = "import numpy; from storage.kernels.bitmap import count_bits as n; print(n(numpy.ones(3, 'u8'), 0, 9))"
WITHOUT_COMPILER = (
    "import sys; sys.modules.update(dict.fromkeys(['numba', 'llvmlite', 'ziglang', 'storage.compiler']));"
)
MACHINE = os.uname().machine


def hashed(storage: Path) -> set[Path]:
    return {path for pattern in library._SOURCES for path in storage.glob(pattern)}


def test_any_edited_source_that_is_compiled_gives_another_hash(tmp_path: Path) -> None:
    seen = {sources_hash(tmp_path)}
    for name in ("arrays.py", "compiler/level.py", "machine/kernel.py", "kernels/scan.py", "codecs/lz4.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        for content in ("x = 1", "x = 2"):
            (tmp_path / name).write_text(content)
            seen.add(sources_hash(tmp_path))
    assert len(seen) == 11
    for name in ("names.py", "kernels/notes.txt"):
        (tmp_path / name).write_text("not compiled")
    assert sources_hash(tmp_path) in seen


def test_each_folder_with_kernels_is_part_of_the_hash() -> None:
    kernels = {path for path in STORAGE.rglob("*.py") if "@kernel" in path.read_text()}
    assert kernels
    assert kernels <= hashed(STORAGE)


def test_what_a_kernel_takes_from_our_other_files_is_part_of_the_hash() -> None:
    known = {path.relative_to(STORAGE.parent) for path in hashed(STORAGE)}
    kernels = [path for path in STORAGE.rglob("*.py") if "@kernel" in path.read_text()]
    taken = {
        Path(*(node.module or "").split(".")).with_suffix(".py")
        for path in kernels
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("storage")
    }
    assert taken
    assert taken <= known


def test_kernels_need_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_COMPILER + COUNT], check=True, **OUTPUT)
    assert done.stdout == "1\n"


def test_the_rules_of_records_load_no_array() -> None:
    code = "import sys, policies.retain; print([n for n in ('numpy', 'numba', 'llvmlite') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, **OUTPUT)
    assert done.stdout == "[]\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy ``storage`` with its libraries, as a source tree."""
    shutil.copytree(STORAGE, tmp_path / "storage", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "storage"


def counted(tree: Path, **variables: str) -> str:
    """Run a kernel in a tree; return what it printed, or the last line of its error."""
    environment = {**os.environ, "PYTHONPATH": str(tree.parent), **variables}
    done = subprocess.run([sys.executable, "-c", COUNT], cwd=tree.parent, env=environment, check=False, **OUTPUT)
    return (done.stdout or done.stderr).splitlines()[-1]


def as_installed(tree: Path) -> None:
    shutil.rmtree(tree / "compiler")


def test_a_changed_source_is_an_error_that_names_the_command(tree: Path) -> None:
    assert counted(tree) == "1"
    source = tree / "kernels" / "bitmap.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert counted(tree).endswith("the kernels are of other sources than these; run: python -m storage.compiler")


def test_an_installed_package_hashes_no_sources(tree: Path) -> None:
    as_installed(tree)
    source = tree / "kernels" / "bitmap.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert counted(tree) == "1"


@pytest.mark.parametrize("installed", [False, True])
def test_missing_kernels_are_an_error_that_says_what_to_do(tree: Path, installed: bool) -> None:
    shutil.rmtree(tree / "machine" / "compiled")
    if installed:
        as_installed(tree)
    remedy = "install logcleaner again" if installed else "run: python -m storage.compiler"
    assert counted(tree).endswith(f"{tree}/machine/compiled: the kernels are not compiled; {remedy}")


def test_a_library_of_another_build_is_not_run(tree: Path) -> None:
    module = tree / "machine" / "compiled" / "build.py"
    text = module.read_text()
    module.write_text(re.sub(r"[0-9a-f]{64}(?=.[,}])", lambda digest: digest[0][::-1], text))
    assert counted(tree).endswith("or of another build than build.py beside it; run: python -m storage.compiler")


@pytest.mark.parametrize("content", ["", "SOURCES = ", "SOURCES = 1"], ids=["empty", "cut short", "no libraries"])
def test_a_damaged_note_of_the_build_is_an_error(tree: Path, content: str) -> None:
    (tree / "machine" / "compiled" / "build.py").write_text(content)
    assert "KernelsUnusable" in counted(tree)
    assert "build.py cannot be read" in counted(tree)


@pytest.mark.parametrize("size", [0, 4, 60_000, -1, None], ids=["empty", "header", "half", "all but a byte", "gone"])
def test_a_damaged_library_is_an_error(tree: Path, size: int | None) -> None:
    as_installed(tree)
    for path in (tree / "machine" / "compiled").glob("*.so"):
        data = path.read_bytes()
        path.unlink()
        if size is not None:
            path.write_bytes(data[:size])
    told = counted(tree)
    if size is None:
        assert told.endswith(".so: cannot be read: No such file or directory; install logcleaner again")
    elif size == 60_000:  # the baseline is smaller than that, and whole
        assert f"{library.level_name()}.so: is damaged" in told
    else:
        assert "is damaged, or of another build than build.py beside it; install logcleaner again" in told


def test_a_damaged_library_is_no_build(tmp_path: Path) -> None:
    made = tmp_path / "compiled"
    shutil.copytree(library.COMPILED, made)
    assert is_built(made)
    for path in made.glob("*.so"):
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert not is_built(made)
        path.write_bytes(data)
    (made / "build.py").write_text("")
    assert not is_built(made)


def test_a_build_where_nothing_can_be_written_says_so_before_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.compiler.build.os.access", lambda *_: False)
    with pytest.raises(BuildRefused, match="cannot be written, it belongs to user"):
        build(tmp_path / "compiled")


def test_sources_that_change_while_they_are_compiled_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = iter(["before", "after"])
    monkeypatch.setattr("storage.compiler.build.sources_hash", lambda: next(hashes))
    monkeypatch.setattr("storage.compiler.build._bitcode", lambda *_: tmp_path / "none")
    monkeypatch.setattr("storage.compiler.build._library", lambda *_: tmp_path / "none")
    with pytest.raises(BuildRefused, match="the sources changed while they were compiled; run it again"):
        build(tmp_path / "compiled")
    assert list(tmp_path.iterdir()) == []


def test_a_build_sweeps_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".compiling-killed").mkdir()
    monkeypatch.setattr("storage.compiler.build._bitcode", lambda *_: tmp_path / "none")
    monkeypatch.setattr("storage.compiler.build._library", lambda level, _, __, to: made(to / f"{level}.so"))
    build(tmp_path / "compiled", ["x86-64"])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["build.py", "compiled", "x86-64.so"]


def test_a_build_removes_the_library_of_a_level_that_there_was_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel carries all that lies there."""
    (tmp_path / "compiled").mkdir()
    made(tmp_path / "compiled/x86-64-v4.so")
    monkeypatch.setattr("storage.compiler.build._bitcode", lambda *_: tmp_path / "none")
    monkeypatch.setattr("storage.compiler.build._library", lambda level, _, __, to: made(to / f"{level}.so"))
    build(tmp_path / "compiled")
    left = {path.name for path in (tmp_path / "compiled").iterdir()}
    assert left == {"build.py", *(f"{level}.so" for level in LEVELS[MACHINE])}


def made(path: Path) -> Path:
    path.write_bytes(b"made")
    return path


def test_an_architecture_without_kernels_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.compiler.build.os.uname", lambda: SimpleNamespace(machine="riscv64"))
    with pytest.raises(BuildRefused, match="no kernels for riscv64; known: x86_64, aarch64"):
        build(tmp_path / "compiled")


def test_an_edited_source_and_nothing_that_a_build_makes_has_an_editable_install_built_anew() -> None:
    project = tomllib.loads((STORAGE.parent / "pyproject.toml").read_text())
    keys = {key.get("file") for key in project["tool"]["uv"]["cache-keys"]}
    rooms = {Path(pattern).parent.name for pattern in library._SOURCES if "*" in pattern}
    assert {"pyproject.toml", "hatch_build.py", "storage/arrays.py"} < keys
    assert not any("compiled" in pattern for key in project["tool"]["uv"]["cache-keys"] for pattern in key.values())
    assert any(rooms == set(key[len("storage/{") : -len("}/*.py")].split(",")) for key in keys if "{" in key)


def test_the_package_is_built_by_the_tools_of_the_working_copy() -> None:
    project = tomllib.loads((STORAGE.parent / "pyproject.toml").read_text())
    tools = set(project["dependency-groups"]["compiler"])
    assert all("==" in tool for tool in tools)
    assert tools < set(project["build-system"]["requires"])


def test_no_level_is_chosen_that_the_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.LEVEL_VARIABLE, raising=False)
    monkeypatch.setattr(library.os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    for number, chosen in ((2, "x86-64-v2"), (3, "x86-64-v3"), (4, "x86-64-v3")):
        monkeypatch.setattr(library, "_cpu_level", lambda _, number=number: number)
        assert library.level_name() == chosen
    monkeypatch.setattr(library, "_cpu_level", lambda _: 1)
    with pytest.raises(KernelsUnusable, match=r"this CPU has less than x86-64-v2 .*; use a newer one"):
        library.level_name()


def test_a_lower_level_can_be_asked_for_and_no_higher_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    monkeypatch.setattr(library, "_cpu_level", lambda _: 3)
    monkeypatch.setenv(library.LEVEL_VARIABLE, "x86-64-v2")
    assert library.level_name() == "x86-64-v2"
    for asked in ("x86-64-v4", "x86-64", "v2", ""):
        monkeypatch.setenv(library.LEVEL_VARIABLE, asked)
        with pytest.raises(InvalidConfig, match="unset it, or name one of: x86-64-v2, x86-64-v3"):
            library.level_name()


def test_a_machine_without_kernels_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    with pytest.raises(KernelsUnusable, match="no kernels for riscv64; use a machine of: x86_64, aarch64"):
        library.level_name()


QEMU = shutil.which("qemu-x86_64")


@pytest.mark.skipif(not QEMU, reason="NOT RUN: qemu-user is not installed, which can be any CPU")
@pytest.mark.parametrize(("cpu", "level"), [("core2duo", ""), ("Nehalem", "x86-64-v2"), ("Haswell", "x86-64-v3")])
def test_each_cpu_gets_its_level_or_one_line(cpu: str, level: str) -> None:
    """To ask imports no numpy, which a CPU below v2 cannot even import."""
    code = "from storage.machine import library; library.check(); print(library.level_name())"
    ran = subprocess.run(
        [str(QEMU), "-cpu", cpu, os.path.realpath(sys.executable), "-c", code],
        cwd=STORAGE.parent,
        check=False,
        **OUTPUT,
    )
    told = (ran.stdout or ran.stderr).splitlines()[-1]
    assert told.endswith(level or "this CPU has less than x86-64-v2 (SSE4.2, POPCNT); use a newer one")


@pytest.mark.skipif(MACHINE != "x86_64", reason="levels of x86-64")
def test_the_level_is_what_the_system_says_of_the_cpu() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    wanted = [
        {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
        {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
        {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    ]
    met = [needed <= flags for needed in wanted]
    assert library._cpu_level("x86-64") == 1 + [*met, False].index(False)


@pytest.mark.parametrize("level", LEVELS[MACHINE])
def test_a_library_needs_nothing_but_copying_of_libc(level: str) -> None:
    """The library loads with glibc and musl alike, and exports the entry points alone."""
    data = (library.COMPILED / f"{level}.so").read_bytes()
    assert b"libc." not in data
    assert b"GLIBC" not in data
    assert data.count(b"numba") == 0
    for unwanted in (b"malloc", b"printf", b"abort", b"pthread", b"Py_"):
        assert unwanted not in data
    assert len(data) < 600_000
