"""All libraries of this architecture, and the module that names their sources and tools."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage.errors import LogCleanerError
from storage.machine.library import COMPILED, LEVELS, sources_hash

_ROOT: Final = Path(__file__).parents[2]
_CPU_NAMES: Final = {"aarch64": "generic"}
_TOOLS: Final = ("numba", "llvmlite", "ziglang")
ROOMS: Final = ("kernels", "codecs", "printing")
"""The rooms of ``storage`` that have kernels, the slowest first. A process lowers each room."""
_SCRATCH: Final = ".compiling-"
BUILD: Final = '''"""Written by storage.compiler: the libraries beside this file, and what they were made of."""

BUILD_ID = "{build_id}"
SOURCES = "{sources}"
LIBRARIES = {libraries}
'''


class BuildRefused(LogCleanerError):
    """The kernels cannot be compiled here, or not now."""

    path: Path
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}"


def levels() -> tuple[str, ...]:
    """Return the levels of this architecture. Raises: BuildRefused if it has none."""
    machine = os.uname().machine
    if machine not in LEVELS:
        raise BuildRefused(_ROOT, f"no kernels for {machine}; known: {', '.join(LEVELS)}")
    return LEVELS[machine]


def environment() -> dict[str, str]:
    """Return the variables with which a process compiles, always to the same bytes."""
    baseline, *_ = levels()
    return {
        "NUMBA_CPU_NAME": cpu_name(baseline),
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_OPT": "3",
        "PYTHONHASHSEED": "0",
    }


def cpu_name(level: str) -> str:
    """Return LLVM's name of the CPU of a level."""
    return _CPU_NAMES.get(level, level)


def build_id(sources: str) -> str:
    """Return 16 hex digits for these sources, compiled by the tools that are installed."""
    tools = [f"{tool} {importlib.metadata.version(tool)}" for tool in _TOOLS]
    return hashlib.sha256("\n".join([sources, *tools]).encode()).hexdigest()[:16]


def is_built(directory: Path = COMPILED) -> bool:
    """Return whether the directory holds, undamaged, the libraries that these tools would make of these sources."""
    libraries = [directory / f"{level}.so" for level in levels()]
    module = directory / "build.py"
    if not all(path.is_file() for path in (*libraries, module)):
        return False
    return module.read_text("utf-8") == _module(sources_hash(), libraries)


def _module(sources: str, libraries: Iterable[Path]) -> str:
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in libraries}
    return BUILD.format(build_id=build_id(sources), sources=sources, libraries=digests)


def build(directory: Path = COMPILED, wanted: Iterable[str] | None = None, *, if_needed: bool = False) -> None:
    """Compile and link the levels, with as many processes as there are CPUs, and replace those in the directory.

    A second build in the same place waits for the first.

    Args:
        directory: made if it is missing.
        wanted: some levels; all of this architecture without it.
        if_needed: do nothing if the directory holds the libraries already.

    Raises:
        BuildRefused: the directory cannot be written, or the sources changed meanwhile.
        subprocess.CalledProcessError: a compiler or the linker failed. What it printed says why.
    """
    if if_needed and is_built(directory):
        return
    for place in (directory.parent, directory):
        if place.exists() and not os.access(place, os.W_OK):
            owner = place.stat().st_uid
            raise BuildRefused(place, f"cannot be written, it belongs to user {owner}; remove it, or be that user")
    with _alone(directory.parent):
        if not (if_needed and is_built(directory)):
            _build(directory, tuple(wanted or levels()))


def _build(directory: Path, names: Iterable[str]) -> None:
    for left in directory.parent.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    sources = sources_hash()
    scratch_of = tempfile.TemporaryDirectory(dir=directory.parent, prefix=_SCRATCH)
    with scratch_of as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(lambda room: _bitcode(room, Path(scratch)), ROOMS))
        made = list(pool.map(lambda level: _library(level, build_id(sources), parts, Path(scratch)), names))
        if sources_hash() != sources:
            raise BuildRefused(directory, "the sources changed while they were compiled; run it again")
        module = Path(scratch) / "build.py"
        module.write_text(_module(sources, made), "utf-8")
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
        # the module comes last: until then the old one refuses the new libraries
        for path in (*made, module):
            path.chmod(0o644)
            path.replace(directory / path.name)
        for other in {*directory.glob("*.so")} - {directory / f"{level}.so" for level in levels()}:
            other.unlink()  # of a level that there was once: a wheel would carry it
        # two builds within a second give modules of one size and time, which Python takes for one
        Path(importlib.util.cache_from_source(str(directory / module.name))).unlink(missing_ok=True)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _bitcode(room: str, scratch: Path) -> Path:
    made = scratch / f"{room}.bc"
    _run("storage.compiler.ahead", room, str(made))
    return made


def _library(level: str, identity: str, parts: Iterable[Path], scratch: Path) -> Path:
    object_file, library = scratch / f"{level}.o", scratch / f"{level}.so"
    _run("storage.compiler.level", level, str(object_file), identity, *map(str, parts))
    link(object_file, library)
    return library


def _run(module: str, *arguments: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, cwd=_ROOT, env=own | environment(), check=True)  # noqa: S603


def link(object_file: Path, library: Path) -> None:
    """Write a shared library of one object. Raises: subprocess.CalledProcessError."""
    target = f"{platform.machine()}-linux-musl"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-nostdlib", "-s"]
    with tempfile.TemporaryDirectory() as cache:
        caches = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        made = Path(cache) / library.name
        subprocess.run(  # noqa: S603
            [*command, "-Wl,--build-id=none", f"-Wl,-soname,{library.name}", "-o", str(made), str(object_file)],
            env={**os.environ, **caches},
            check=True,
        )
        library.write_bytes(made.read_bytes())
        library.chmod(0o755)
