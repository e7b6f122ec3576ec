"""The linker: an object file of one level becomes a shared library.

The linker is that of ``ziglang`` from PyPI: it needs neither ``ld`` nor ``cc`` on the machine, and makes the same bytes
on all. The library names no C library to load: ``memcpy`` and ``memset`` are those of the process, glibc's or musl's.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path


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
