"""The directory where compiled kernels last from run to run.

Its name holds a hash of all sources that are compiled, since an edited function changes the code of those that call it.
The files in it are executed, so a directory that another user could change is not used (``private_directory``).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from functools import cache
from pathlib import Path
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from storage.private_directory import PrivateDirectory, cache_root

_COMPILED: Final = ("arrays.py", "machine/*.py", "kernels/*.py", "codecs/*.py")


def sources_hash(storage: Path) -> str:
    """Return 12 hex digits that change with any source file that machine code is made of."""
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _COMPILED for path in storage.glob(pattern)):
        content = source.read_bytes()
        digest.update(f"{source.relative_to(storage)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


@cache
def directory() -> Path | None:
    """Return the directory for these sources on this kind of CPU. If it cannot be used, warn once and return None."""
    try:
        name = f"{_version()}-{sources_hash(Path(__file__).parents[1])}-{_machine_hash()}"
        with PrivateDirectory.open(cache_root(), name) as made, made.temporary():
            return made.path
    except (OSError, RuntimeError) as error:
        print(f"logcleaner: kernels are compiled anew each run, no cache: {error}", file=sys.stderr)  # noqa: T201
        return None


def _machine_hash() -> str:
    """Return 12 hex digits that change with the CPU, LLVM, numba and Python, all of which change the machine code."""
    parts = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvmlite.__version__)
    numba_version = importlib.metadata.version("numba")
    return hashlib.sha256(" ".join((*parts, numba_version, sys.version)).encode()).hexdigest()[:12]


def _version() -> str:
    try:
        return importlib.metadata.version("logcleaner")
    except importlib.metadata.PackageNotFoundError:
        return "unpackaged"
