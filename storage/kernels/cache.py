"""The directory where compiled kernels last from run to run.

Its name holds a hash of all sources of this package: an edited callee changes the code of its callers. What lies there
is executed, so a directory that another user could change is not used (``private_directory``).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from storage.kernels.private_directory import PrivateDirectory


def cache_root() -> Path:
    """``$CACHE_DIRECTORY`` (systemd), else ``logcleaner`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        RuntimeError: the user has no home directory.
    """
    by_systemd = os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    if by_systemd:
        return Path(by_systemd)
    by_user = os.environ.get("XDG_CACHE_HOME")
    return (Path(by_user) if by_user else Path.home() / ".cache") / "logcleaner"


def sources_hash(package: Path) -> str:
    """12 hex digits that change with any source file of the package."""
    digest = hashlib.sha256()
    for source in sorted(package.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


@cache
def directory() -> Path | None:
    """This version's directory on this kind of CPU; where that cannot be had, say so, once, and give None."""
    try:
        name = f"{_version()}-{sources_hash(Path(__file__).parent)}-{_machine_hash()}"
        with PrivateDirectory.open(cache_root(), name) as made, made.temporary():
            return made.path
    except (OSError, RuntimeError) as error:
        print(f"logcleaner: kernels are compiled anew each run, no cache: {error}", file=sys.stderr)  # noqa: T201
        return None


def _machine_hash() -> str:
    """Changes with whatever the same sources would compile differently for."""
    parts = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvmlite.__version__)
    numba_version = importlib.metadata.version("numba")
    return hashlib.sha256(" ".join((*parts, numba_version, sys.version)).encode()).hexdigest()[:12]


def _version() -> str:
    try:
        return importlib.metadata.version("logcleaner")
    except importlib.metadata.PackageNotFoundError:
        return "unpackaged"
