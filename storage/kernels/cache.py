"""The ``kernel`` decorator, and the directory where compiled kernels last from run to run.

numba checks only the file that a cached function was written in: an edited callee elsewhere would leave it
stale. So the directory's name holds a hash of all sources of this package, set before the first kernel is
defined. What lies there is executed, so a directory that another user could write is not used.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


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


def prepare_cache() -> Path | None:
    """Make this version's directory and point numba at it; where that cannot be, say so and give None."""
    try:
        directory = cache_root() / f"{_version()}-{sources_hash(Path(__file__).parent)}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(directory)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (OSError, RuntimeError) as error:
        print(f"logcleaner: kernels are compiled anew each run, no cache: {error}", file=sys.stderr)  # noqa: T201
        return None
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    return directory


def _version() -> str:
    try:
        return importlib.metadata.version("logcleaner")
    except importlib.metadata.PackageNotFoundError:
        return "unpackaged"


def _check_private(directory: Path) -> None:
    status = directory.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"{directory} can be written by another user")


_cached: Final = prepare_cache() is not None

import numba  # noqa: E402  (reads NUMBA_CACHE_DIR when imported)

numba.core.config.reload_config()  # type: ignore[no-untyped-call]  # somebody may have imported it before us


def kernel(*signature: object, inline: bool = False) -> Callable[[Function], Function]:
    """Compile to machine code that holds no GIL and checks no bounds: the code itself must.

    Args:
        signature: numba's, for entry points: compiled when the module is imported, and never for other types.
            Without one, the function is compiled with its callers.
        inline: leave no call: for what runs once or more a record.
    """
    options: dict[str, Any] = {
        "cache": _cached,
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": False,
        "forceinline": inline,
        # no reference counts: their atomic updates at each call cost more than the kernels' own work, and a
        # kernel allocates nothing and keeps no array
        "_nrt": False,
    }
    njit: Any = numba.njit
    decorate: Callable[[Function], Function] = njit(*signature, **options)
    return decorate
