"""``python -m storage.compiler``: compile the kernels anew. ``--if-needed``: only if they are not of these sources."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

from storage.compiler.build import build
from storage.errors import LogCleanerError

if __name__ == "__main__":
    try:
        build(if_needed="--if-needed" in sys.argv[1:])
    except PackageNotFoundError as missing:
        sys.exit(f"storage.compiler: {missing.name} is not installed; run: uv sync --group compiler")
    except LogCleanerError as refused:
        sys.exit(f"storage.compiler: {refused}")
