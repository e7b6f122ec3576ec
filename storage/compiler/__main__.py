"""``python -m storage.compiler``: compile the kernels anew. ``--if-needed``: only if they are not of these sources."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

from storage.compiler.build import build, is_built

if __name__ == "__main__":
    try:
        if "--if-needed" not in sys.argv[1:] or not is_built():
            build()
    except PackageNotFoundError as missing:
        sys.exit(f"storage.compiler: {missing.name} is not installed; run: uv sync --group compiler")
