"""The libraries of compiled kernels, one for each CPU level, and the choice among them.

``storage.compiler`` makes them when the package is built, and writes ``compiled/build.py`` beside them. Each process
chooses by the CPU's own answer (CPUID), not by ``/proc/cpuinfo``, which a container or a unit may hide.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from storage.errors import INSTALL_AGAIN, InvalidConfig, LogCleanerError, if_unloadable

COMPILED: Final = Path(__file__).with_name("compiled")
BUILD_ID_SYMBOL: Final = "logcleaner_build_id"
"""A constant that each library exports: the ``BUILD_ID`` of ``build.py``. People read it; the program does not."""
CPU_LEVEL_SYMBOL: Final = "storage.kernels.cpu_level.cpu_level"
LEVEL_VARIABLE: Final = "LOGCLEANER_CPU_LEVEL"
"""An environment variable. It names the level to load; without it the highest level of the CPU is loaded."""
LEVELS: Final = {"x86_64": ("x86-64", "x86-64-v2", "x86-64-v3"), "aarch64": ("aarch64",)}
"""By ``uname -m``: levels of the psABI, lowest first. The kernels begin at the second, if there are several.

x86-64-v3 is 3 to 7 % faster than v2; v4 (AVX-512) was not 2 % faster than v3, and took a third of the compiling.
The library of the first level then holds ``cpu_level`` alone, which runs on any CPU and tells its level.
"""
_BUILD_MODULE: Final = "storage.machine.compiled.build"
_BUILD_COMMAND: Final = "run: python -m storage.compiler"
_STORAGE: Final = Path(__file__).parents[1]
_SOURCES: Final = ("arrays.py", "compiler/*.py", "machine/*.py", "kernels/*.py", "codecs/*.py", "printing/*.py")


class KernelsUnusable(LogCleanerError):
    """The compiled kernels are missing, belong to other sources, or do not run on this machine."""

    path: Path
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}; {self.remedy}"


def entry(symbol: str) -> Any:
    """Return the C function of an entry point, of the highest level that this CPU has. Raises: KernelsUnusable."""
    return _library()[symbol]


def check() -> None:
    """Load the library of this CPU. Raises: KernelsUnusable, InvalidConfig."""
    _library()


def sources_hash(storage: Path = _STORAGE) -> str:
    """Return 16 hex digits that change with any source file of machine code."""
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in storage.glob(pattern)):
        content = source.read_bytes()
        digest.update(f"{source.relative_to(storage)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def has_compiler() -> bool:
    """Return whether this is a source tree. A wheel carries no compiler, and its sources cannot be newer."""
    return (_STORAGE / "compiler").is_dir()


@functools.cache
def _library() -> ctypes.CDLL:
    return _opened(level_name())


def _remedy() -> str:
    return _BUILD_COMMAND if has_compiler() else INSTALL_AGAIN


@functools.cache
def _digests() -> Mapping[str, str]:
    """Return the SHA-256 of each library, as its build noted it. Raises: KernelsUnusable."""
    try:
        build = importlib.import_module(_BUILD_MODULE)
        sources, digests = str(build.SOURCES), dict(build.LIBRARIES)
    except ModuleNotFoundError:
        raise KernelsUnusable(COMPILED, "the kernels are not compiled", _remedy()) from None
    except (ImportError, SyntaxError, OSError, AttributeError, ValueError, TypeError) as error:
        raise KernelsUnusable(COMPILED, f"build.py cannot be read: {error}", _remedy()) from error
    if has_compiler() and sources != sources_hash():
        raise KernelsUnusable(COMPILED, "the kernels are of other sources than these", _BUILD_COMMAND)
    return digests


def level_name() -> str:
    """Return the level whose library this process loads.

    Raises:
        KernelsUnusable: there is no library for this machine, or none that can be loaded.
        InvalidConfig: the environment asks for a level that this CPU does not have.
    """
    machine = os.uname().machine
    levels = LEVELS.get(machine, ())
    if not levels:
        known = ", ".join(LEVELS)
        raise KernelsUnusable(COMPILED, f"no kernels for {machine}", f"use a machine of: {known}")
    usable = levels[1 : _cpu_level(levels[0])] if len(levels) > 1 else levels
    if not usable:
        raise KernelsUnusable(COMPILED, f"this CPU has less than {levels[1]} (SSE4.2, POPCNT)", "use a newer one")
    asked = os.environ.get(LEVEL_VARIABLE, usable[-1])
    if asked not in usable:
        raise InvalidConfig(LEVEL_VARIABLE, asked, f"unset it, or name one of: {', '.join(usable)}", "environment")
    return asked


def _cpu_level(baseline: str) -> int:
    result, error = ctypes.c_int64(), ctypes.c_void_p()
    _opened(baseline)[CPU_LEVEL_SYMBOL](ctypes.byref(result), ctypes.byref(error))
    return result.value


def _opened(level: str) -> ctypes.CDLL:
    path, digests = COMPILED / f"{level}.so", _digests()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise KernelsUnusable(path, f"cannot be read: {error.strerror}", _remedy()) from error
    if digest != digests.get(path.name):  # a file cut short would end the process by SIGBUS while it is loaded
        raise KernelsUnusable(path, "is damaged, or of another build than build.py beside it", _remedy())
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelsUnusable(path, f"cannot be loaded: {error}", if_unloadable(_remedy())) from error
