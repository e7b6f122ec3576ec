from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.machine import cache

OUTPUT = {"capture_output": True, "text": True}


def test_any_edited_source_that_is_compiled_gives_another_hash(tmp_path: Path) -> None:
    seen = {cache.sources_hash(tmp_path)}
    for name in ("arrays.py", "machine/kernel.py", "kernels/scan.py", "codecs/lz4.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        for content in ("x = 1", "x = 2"):
            (tmp_path / name).write_text(content)
            seen.add(cache.sources_hash(tmp_path))
    assert len(seen) == 9
    for name in ("names.py", "kernels/notes.txt"):
        (tmp_path / name).write_text("not compiled")
    assert cache.sources_hash(tmp_path) in seen


def test_each_folder_with_kernels_is_part_of_the_hash(tmp_path: Path) -> None:
    storage = Path(cache.__file__).parents[1]
    kernels = {path for path in storage.rglob("*.py") if "@kernel" in path.read_text()}
    hashed = {path for pattern in cache._COMPILED for path in storage.glob(pattern)}
    assert kernels
    assert kernels <= hashed


def test_what_a_kernel_takes_from_our_other_files_is_part_of_the_hash() -> None:
    storage = Path(cache.__file__).parents[1]
    hashed = {path.relative_to(storage.parent) for pattern in cache._COMPILED for path in storage.glob(pattern)}
    kernels = [path for path in storage.rglob("*.py") if "@kernel" in path.read_text()]
    taken = {
        Path(*(node.module or "").split(".")).with_suffix(".py")
        for path in kernels
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("storage")
    }
    assert taken
    assert taken <= hashed


@pytest.fixture
def as_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CACHE_DIRECTORY", str(tmp_path / "cache"))
    return tmp_path / "cache"


def directory() -> Path | None:
    return cache.directory.__wrapped__()


def test_a_private_directory_is_made(as_systemd: Path) -> None:
    made = directory()
    assert made is not None
    assert made.parent == as_systemd
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_directory_others_can_write_is_not_used(as_systemd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = directory()
    assert made is not None
    made.chmod(0o777)
    assert directory() is None
    assert "can be written by another user" in capsys.readouterr().err


def test_a_cache_that_cannot_be_made_is_said_once(as_systemd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_systemd.write_text("a file where the directory should be")
    assert directory() is None
    assert capsys.readouterr().err.count("\n") == 1


def test_kernels_compile_and_work_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "import numpy; from storage.kernels.bitmap import count_bits as n; print(n(numpy.ones(3, 'u8'), 0, 9))"
    environment = {**os.environ, "CACHE_DIRECTORY": str(tmp_path / "file")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert done.stderr.count("compiled anew each run") == 1


def test_the_package_and_its_plain_modules_do_not_import_numba() -> None:
    code = "import sys, storage.kernels.status, storage.kernels.layout; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, **OUTPUT)
    assert done.stdout == "False\n"


def test_the_rules_of_records_load_no_array_and_no_compiler() -> None:
    code = "import sys, policies.retain; print([n for n in ('numpy', 'numba', 'llvmlite') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, **OUTPUT)
    assert done.stdout == "[]\n"


COUNT = (
    "import sys, numpy; from storage.kernels.bitmap import count_bits as n;"
    "print(n(numpy.ones(3, 'u8'), 0, 9), 'numba' in sys.modules)"
)


def counted(directory: Path) -> str:
    environment = {**os.environ, "CACHE_DIRECTORY": str(directory)}
    return subprocess.run([sys.executable, "-c", COUNT], env=environment, check=True, **OUTPUT).stdout


def test_a_kernel_of_an_earlier_run_needs_no_numba(tmp_path: Path) -> None:
    assert [counted(tmp_path), counted(tmp_path)] == ["1 True\n", "1 False\n"]


def test_a_damaged_kernel_in_the_cache_is_compiled_anew(tmp_path: Path) -> None:
    counted(tmp_path)
    (file,) = tmp_path.glob("*/storage.kernels.bitmap.count_bits")
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        assert counted(tmp_path) == "1 True\n"
        assert file.read_bytes().split(b"\n")[1] == whole.split(b"\n")[1]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("spoil", ["symlink", "writable"])
def test_machine_code_that_another_user_could_have_put_there_is_not_run(tmp_path: Path, spoil: str) -> None:
    counted(tmp_path)
    (file,) = tmp_path.glob("*/storage.kernels.bitmap.count_bits")
    if spoil == "symlink":
        elsewhere = file.rename(tmp_path / "elsewhere")
        file.symlink_to(elsewhere)
    else:
        file.chmod(0o622)
    assert counted(tmp_path) == "1 True\n"
    assert counted(tmp_path) == "1 False\n"


def test_a_directory_that_was_swapped_for_a_symlink_is_not_used(tmp_path: Path) -> None:
    counted(tmp_path)
    (made,) = tmp_path.iterdir()
    made.symlink_to(made.rename(tmp_path / "elsewhere"))
    environment = {**os.environ, "CACHE_DIRECTORY": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"
    assert "compiled anew each run" in done.stderr
