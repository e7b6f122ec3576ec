"""All libraries of this architecture, and the module that says what they were made of."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from storage.compiler.linker import link
from storage.machine.library import COMPILED, LEVELS, sources_hash

_ROOT: Final = Path(__file__).parents[2]
_TOOLS: Final = ("numba", "llvmlite", "ziglang")
BUILD: Final = '''"""Written by storage.compiler: what the libraries beside this file were made of."""

BUILD_ID = "{build_id}"
SOURCES = "{sources}"
'''


def levels() -> tuple[str, ...]:
    """Return the levels of this architecture. Raises: KeyError if it has none."""
    return LEVELS[platform.machine()]


def build_id(sources: str) -> str:
    """Return 16 hex digits for these sources, compiled by the tools that are installed."""
    tools = [f"{tool} {importlib.metadata.version(tool)}" for tool in _TOOLS]
    return hashlib.sha256("\n".join([sources, *tools]).encode()).hexdigest()[:16]


def is_built(directory: Path = COMPILED) -> bool:
    """Return whether the directory holds what these tools would make of these sources."""
    module = directory / "build.py"
    wanted = BUILD.format(build_id=build_id(sources_hash()), sources=sources_hash())
    has_all = all((directory / f"{level}.so").is_file() for level in levels())
    return has_all and module.is_file() and module.read_text("utf-8") == wanted


def build(directory: Path = COMPILED, wanted: Iterable[str] | None = None) -> None:
    """Compile and link the levels, as many at a time as there are CPUs, and replace those in the directory.

    Raises:
        subprocess.CalledProcessError: a compiler or the linker failed. What it printed says why.
    """
    sources = sources_hash()
    identity = build_id(sources)
    names = tuple(wanted or levels())
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda level: _library(level, identity, Path(scratch)), names))
        module = Path(scratch) / "build.py"
        module.write_text(BUILD.format(build_id=identity, sources=sources), "utf-8")
        # the module comes last: until then the old one refuses the new libraries
        for path in (*made, module):
            path.replace(directory / path.name)
        # two builds within a second give modules of one size and time, which Python takes for one
        Path(importlib.util.cache_from_source(str(directory / module.name))).unlink(missing_ok=True)


def _library(level: str, identity: str, scratch: Path) -> Path:
    from storage.compiler.level import environment  # noqa: PLC0415  (imports llvmlite)

    object_file, library = scratch / f"{level}.o", scratch / f"{level}.so"
    variables = {**os.environ, **environment(level)}
    command = [sys.executable, "-m", "storage.compiler.level", level, str(object_file), identity]
    subprocess.run(command, cwd=_ROOT, env=variables, check=True)  # noqa: S603
    link(object_file, library)
    return library
