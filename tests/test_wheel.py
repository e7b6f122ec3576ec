"""The wheel: what it carries, and that it works where nothing can be compiled."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cleaner.documents.schemas import file_name
from storage.machine.library import LEVELS
from tests.schemas import names, schema

ROOT = Path(__file__).parent.parent
UV = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
SITE_PACKAGES_BYTES_MAX = 150 << 20
"""Without numba and LLVM, which take as much again; nine tenths of it are the packages that we depend on."""


def done(*command: str | Path, **variables: str) -> str:
    ran = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    done(UV, "build", "--quiet", "--wheel", "--out-dir", directory, ROOT)
    (made,) = directory.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel where there is neither a compiler nor a linker."""
    made = tmp_path_factory.mktemp("venv") / "venv"
    done(UV, "venv", "--quiet", "--python", sys.executable, made)
    done(UV, "pip", "install", "--quiet", "--python", made / "bin/python", wheel, PATH=str(made / "bin"))
    return made


def test_a_wheel_is_for_any_python_and_either_libc(wheel: Path) -> None:
    machine = platform.machine()
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl")


OTHER_CPU = """
try:
    import llvmlite.binding as llvm
except ImportError:
    pass
else:
    import os, pathlib, shutil
    llvm.get_host_cpu_name = lambda: 'nehalem'
    llvm.get_host_cpu_features = lambda: llvm.FeatureMap({'sse4.2': True, 'avx2': False})
    linkers = [name for name in ('ld', 'cc', 'gcc') if shutil.which(name)]
    pathlib.Path(__file__).with_name('seen').write_text(repr(linkers))
"""


@pytest.mark.slow
def test_two_builds_of_one_commit_give_the_same_wheel_bit_for_bit(wheel: Path, tmp_path: Path) -> None:
    """The second one lies elsewhere, compiles all anew, and has another umask, time zone, language and hash seed.

    It sees another CPU than the first one, and neither ``ld`` nor ``cc``.
    """
    copy = tmp_path / "elsewhere with a longer name"
    for name in done("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")[
        :-1
    ]:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy(ROOT / name, copy / name)
            (copy / name).chmod(0o700 if os.access(ROOT / name, os.X_OK) else 0o600)
    (tmp_path / "sitecustomize.py").write_text(OTHER_CPU)
    other = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "COLUMNS": "40", "HOME": str(tmp_path)}
    other |= {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    kept = {"UV_CACHE_DIR": done(UV, "cache", "dir").strip()}
    command = (UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "out", copy)
    done("/bin/sh", "-c", 'umask 077; exec "$@"', "sh", *command, **other, **kept)
    assert (tmp_path / "seen").read_text() == "[]"
    (again,) = (tmp_path / "out").glob("*.whl")
    assert again.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        members = [[(member.filename, member.CRC, member.external_attr) for member in z.infolist()] for z in (one, two)]
    assert members[0] == members[1]
    assert again.read_bytes() == wheel.read_bytes()


def test_a_wheel_carries_the_kernels_and_not_what_only_builds_need(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    libraries = {Path(name).name for name in names if name.startswith("storage/machine/compiled/")}
    assert libraries == {"build.py", *(f"{level}.so" for level in LEVELS[platform.machine()])}
    assert [name for name in names if name.startswith(("storage/compiler", "cleaner/documents", "tests"))] == []
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert required
    assert [line for line in required if any(tool in line for tool in ("numba", "llvmlite", "ziglang"))] == []


def test_a_wheel_carries_the_schema_of_every_document(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = {Path(name).name for name in archive.namelist() if name.startswith("cleaner/report/schemas/")}
    assert carried == {*map(file_name, names())}


def test_a_user_reads_a_schema_out_of_the_installed_package(venv: Path) -> None:
    command = 'import importlib.resources as r; print((r.files("cleaner.report") / "schemas/plan-1.json").read_text())'
    assert json.loads(done(venv / "bin/python", "-c", command)) == schema("logcleaner.plan/1")


def test_an_installation_compacts_without_numba(venv: Path, tmp_path: Path) -> None:
    python, logs = venv / "bin/python", tmp_path / "logs"
    alone = {"PATH": str(tmp_path), "HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    for name in ("numba", "llvmlite", "storage.compiler"):
        command = [python, "-c", f"import {name}"]
        ran = subprocess.run(command, env=alone, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "ModuleNotFoundError" in ran.stderr
    done(venv / "bin/logcleaner", "demo", logs, **alone)
    told = done(venv / "bin/logcleaner", "clean", "--log-dir", logs, "--delete-delay", "0", "--yes", **alone)
    assert "\nCompacted      4 partitions" in told
    sizes = [path.stat().st_size for path in (venv / "lib").rglob("*") if not path.is_symlink()]
    assert sum(sizes) < SITE_PACKAGES_BYTES_MAX
